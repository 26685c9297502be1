"""The statistics by which the logged draws of one level are tested, for each scheme.

Draws that are independent of each other are tested by `dpcalc.audit.subsets`, passes here.
"""

from collections.abc import Iterator

import numpy as np

from dpcalc.audit.draws import LoggedLevel
from dpcalc.audit.subsets import (
    SizeLaw,
    as_is,
    multiplicity_tests,
    size_tests,
    subset_tests,
    wrong_size_test,
)
from dpcalc.audit.tails import Kind, Statistic, certain
from dpcalc.sampling.schemes import (
    All,
    CappedPoisson,
    Fixed,
    Poisson,
    Shuffle,
    WithReplacement,
)


def statistics_of(logged: LoggedLevel) -> Iterator[Statistic]:
    """Yield the statistics of one level; which they are depends on what is declared, not on the log.

    Args:
        logged: the level and what the log shows of it.
    """
    level, scheme = logged.level, logged.level.scheme
    if level.period > 1 and level.is_shown:
        yield _held_test(logged)
    if level.is_last and not level.is_mixed and not isinstance(scheme, WithReplacement):
        yield _repeats_test(logged)
    match scheme:
        case All():
            yield from size_tests(logged, SizeLaw(trials=as_is))
        case Fixed():
            law = SizeLaw(trials=lambda frame: np.minimum(frame, scheme.size), needs_frame=scheme.at_most)
            yield from size_tests(logged, law)
            yield from subset_tests(logged, lambda frame: law.trials(frame) / frame)
        case Poisson(probability=rate):
            yield from size_tests(logged, SizeLaw(trials=as_is, probability=float(rate)))
            yield from subset_tests(logged, lambda frame: np.full(frame.shape, float(rate)))
        case CappedPoisson(probability=rate, max_batch_size=most):
            yield from size_tests(logged, SizeLaw(trials=as_is, probability=float(rate), max_size=most))
            yield from subset_tests(logged, None)
        case WithReplacement(size=size):
            yield from multiplicity_tests(logged, size)
            yield from subset_tests(logged, lambda frame: -np.expm1(size * np.log1p(-1 / frame)))
        case Shuffle():
            yield from _shuffle_tests(logged, scheme)


# What is certain.


def _repeats_test(logged: LoggedLevel) -> Statistic:
    """Return the test that no unit stands twice in one step."""
    first = logged.counts.first_repeat
    sentence = (
        "" if first is None else f"{logged.place(first.step, first.unit)} stands {first.entries} times in its batch"
    )
    return certain(
        Kind.REPEATS,
        "repeats within a step",
        observed=logged.counts.repeats,
        expected=0,
        sentence=sentence,
    )


def _held_test(logged: LoggedLevel) -> Statistic:
    """Return the test that all steps of a redraw period have the same units."""
    first, level = logged.counts.unheld, logged.level
    sentence = (
        "" if first is None else f"{logged.place(*first)} is not in all {level.period} steps of its redraw period"
    )
    return certain(
        Kind.HELD,
        "changes within a redraw period",
        observed=0 if first is None else 1,
        expected=0,
        sentence=sentence,
    )


# Passes.


def _shuffle_tests(logged: LoggedLevel, shuffle: Shuffle) -> Iterator[Statistic]:
    """Yield tests of passes over all units: no unit twice in a pass, and batches of the declared sizes."""
    level, draws = logged.level, logged.draws
    yield _pass_test(logged)
    if not level.is_shown:
        return
    place = draws.numbers % level.window
    left = draws.frames - place * shuffle.size
    expected = np.minimum(left, shuffle.size)
    missing = level.parents * level.times - draws.sizes.size if level.is_every else 0
    yield wrong_size_test(logged, expected, missing)


def _pass_test(logged: LoggedLevel) -> Statistic:
    """Return the test that no unit is drawn twice in a pass."""
    level, repeats = logged.level, logged.counts.by_occurrence[2]
    return certain(
        Kind.PASSES,
        f"units repeated within a pass of {level.window} draws",
        observed=repeats,
        expected=0,
        sentence=f"{repeats:,} times one {level.name} is drawn again within a pass of {level.window} batches",
    )
