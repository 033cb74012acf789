"""A keyed permutation of [0, n) that is computed place by place: no array of n, no state, the same for ever.

A Feistel network over the smallest even number of bits that holds n; a result outside [0, n) is put through again
until it falls inside (cycle walking), which takes less than four rounds on average. numpy's own generators may change
their streams between versions; this one is arithmetic that cannot.
"""

import numpy as np
import numpy.typing as npt

_ROUNDS = 6
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def shuffled(places: npt.NDArray[np.int64], n: int, *, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """What stands at each of `places` in the permutation of [0, n) that `seed` and `epoch` name."""
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    keys = _keys(seed, epoch)
    values = _feistel(places.astype(np.uint64), half, keys)
    outside = values >= n
    while outside.any():
        values[outside] = _feistel(values[outside], half, keys)
        outside = values >= n
    return values.astype(np.int64)


def _keys(seed: int, epoch: int) -> list[np.uint64]:
    key = _mix_one((seed & _MASK) ^ _mix_one(epoch + 1))
    return [np.uint64(_mix_one(key + round_ * _GOLDEN)) for round_ in range(_ROUNDS)]


def _feistel(values: npt.NDArray[np.uint64], half: int, keys: list[np.uint64]) -> npt.NDArray[np.uint64]:
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return (left << shift) | right


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _mix_one(value: int) -> int:
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
