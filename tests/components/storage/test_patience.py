"""How often and how long is asked again."""

from dataclasses import replace

from components.storage.patience import Patience


class Watch:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(round(seconds, 3))


def patience(watch: Watch, *, chance: float = 1.0, **changes: float) -> Patience:
    return replace(Patience(), clock=lambda: watch.now, pause=watch.pause, chance=lambda: chance, **changes)


def test_pauses_double_up_to_a_limit_and_end_in_time() -> None:
    watch = Watch()
    tries = patience(watch, total_seconds=30, max_pause_seconds=8).begin()
    while tries.wait():
        pass

    assert watch.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8.0, 8.0]
    assert tries.num_failed == 10


def test_chance_draws_from_the_whole_pause() -> None:
    watch = Watch()
    tries = patience(watch, chance=0.25, first_pause_seconds=1).begin()
    tries.wait()

    assert watch.pauses == [0.25]


def test_a_store_that_asks_to_be_spared_is_never_asked_at_once() -> None:
    watch = Watch()
    tries = patience(watch, chance=0.0).begin()
    tries.wait(slow_down=True)
    tries.wait(slow_down=True)

    assert watch.pauses == [0.5, 1.0]


def test_what_the_server_asks_for_is_kept() -> None:
    watch = Watch()
    tries = patience(watch, chance=0.0).begin()
    tries.wait(at_least_seconds=7)
    tries.wait(at_least_seconds=3600)

    assert watch.pauses == [7.0, 30.0]


def test_a_try_that_takes_long_is_followed_by_others_all_the_same() -> None:
    watch = Watch()
    tries = patience(watch, total_seconds=10, min_tries=3).begin()
    answers = []
    for _ in range(3):
        watch.now += 300
        answers.append(tries.wait())

    assert answers == [True, True, False]
