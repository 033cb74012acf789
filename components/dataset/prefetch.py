"""Reads ahead, side by side, and hands over in order: bounded in number and in bytes."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    read: Callable[[Item], Result], items: Iterable[Item], *,
    in_flight: int, size_of: Callable[[Item], int] = lambda item: 0, max_bytes: int = 16 << 20,
    is_quick: Callable[[Item], bool] = lambda item: False,
) -> Iterator[Result]:  # fmt: skip
    """`map(read, items)` with up to `in_flight` calls running or waiting to be taken.

    Their sizes add up to at most `max_bytes`, unless one alone is larger. An exception comes where its result would.
    What `is_quick` is done here and now, without a thread.
    """
    if in_flight <= 1:
        yield from map(read, items)
        return
    waiting, num_bytes = deque[tuple[Future[Result], int]](), 0
    pool = ThreadPoolExecutor(in_flight, thread_name_prefix="read-ahead")
    try:
        for item in items:
            size = size_of(item)
            while waiting and (len(waiting) >= in_flight or num_bytes + size > max_bytes):
                done, released = waiting.popleft()
                num_bytes -= released
                yield done.result()
            waiting.append((_done(read, item) if is_quick(item) else pool.submit(read, item), size))
            num_bytes += size
        while waiting:
            yield waiting.popleft()[0].result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _done(read: Callable[[Item], Result], item: Item) -> Future[Result]:
    future = Future[Result]()
    try:
        future.set_result(read(item))
    except Exception as error:
        future.set_exception(error)
    return future
