"""One sampler for each scheme: which units are drawn from each of many frames."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme, Shuffle, WithReplacement

Whole = NDArray[np.int64]
Rows = tuple[Whole, Whole]

AT_ONCE = 2_000_000  # units looked at together
_CROWDED = 64  # a smaller part of a frame is picked unit by unit


def draw(scheme: Scheme, sizes: Whole, rng: Generator) -> Rows:
    """What is drawn.

    Args:
        scheme: the same for all frames; none is smaller than a draw without replacement.
        sizes: units in each frame.
        rng: where chance comes from.

    Returns:
        (the frame of each drawn unit, ascending; its index in the frame); of a shuffle in the order of the pass.
    """
    match scheme:
        case Fixed():
            return _fixed(scheme, sizes, rng)
        case Poisson():
            return _poisson(scheme, sizes, rng)
        case WithReplacement():
            return _with_replacement(scheme, sizes, rng)
        case Shuffle():
            return _shuffle(sizes, rng)
        case All():
            return _all(sizes)


def is_crowded(scheme: Fixed, count: int) -> bool:
    """Whether a draw takes so large a part of a frame that it is cheaper to put all of it in random order."""
    return count <= _CROWDED * scheme.size


def place_in_frame(parents: Whole, sizes: Whole) -> Whole:
    """The place of each row among those of its parent, where all units under all parents are rows."""
    return np.arange(parents.size) - (np.cumsum(sizes) - sizes)[parents]


def _fixed(scheme: Fixed, sizes: Whole, rng: Generator) -> Rows:
    """Without replacement: small frames are put in random order, of large ones a few units are picked."""
    taken = np.minimum(scheme.size, sizes)
    parents = np.repeat(np.arange(sizes.size), taken)
    most = int(sizes.max(initial=0))
    if not is_crowded(scheme, most):
        frames = zip(sizes.tolist(), taken.tolist(), strict=True)
        picked = [rng.choice(size, number, replace=False, shuffle=False) for size, number in frames]
        return parents, np.concatenate([np.zeros(0, dtype=np.int64), *picked])
    pieces = [np.zeros(0, dtype=np.int64)]
    step = max(1, AT_ONCE // max(most, 1))
    for start in range(0, sizes.size, step):
        some = sizes[start : start + step, None]
        keys = np.where(np.arange(most) < some, rng.random((some.size, most)), 2.0)
        chosen = np.argpartition(keys, min(scheme.size, most) - 1, axis=1)[:, : scheme.size]
        pieces.append(chosen[chosen < some])  # of a small frame less than the size: what lies beyond it is no unit
    return parents, np.concatenate(pieces)


def _poisson(scheme: Poisson, sizes: Whole, rng: Generator) -> Rows:
    """A coin for each unit, all in one line; the distance from one success to the next is geometric."""
    total, rate = int(sizes.sum()), float(scheme.probability)
    if not total or not rate:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    found, last = [], -1
    while last < total:
        some = int(1.1 * (total - last) * rate) + 20
        places = last + np.cumsum(np.minimum(rng.geometric(rate, some), total + 1))
        found.append(places)
        last = int(places[-1])
    line = np.concatenate(found)
    line = line[line < total]
    ends = np.cumsum(sizes)
    parents = np.searchsorted(ends, line, side="right")
    return parents, line - (ends - sizes)[parents]


def _with_replacement(scheme: WithReplacement, sizes: Whole, rng: Generator) -> Rows:
    """One unit at a time, each time from all of them."""
    parents = np.repeat(np.arange(sizes.size), scheme.size)
    return parents, rng.integers(0, sizes[parents])


def _shuffle(sizes: Whole, rng: Generator) -> Rows:
    """Everything, in random order: a pass, which is cut into steps."""
    parents, children = _all(sizes)
    return parents, children[np.lexsort((rng.random(parents.size), parents))]


def _all(sizes: Whole) -> Rows:
    """Everything, in order."""
    parents = np.repeat(np.arange(sizes.size), sizes)
    return parents, place_in_frame(parents, sizes)
