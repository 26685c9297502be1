"""The statistics by which the logged draws of one level are tested, for each scheme.

Draws that are independent of each other are tested by `dpcalc.audit.subsets`, passes here.
Source: docs/theory.md, Theorem 17.3.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

from dpcalc.arrays import Array, IntArray
from dpcalc.audit.draws import OCCURRENCES, LoggedLevel
from dpcalc.audit.p_values import Count, Kind, Statistic, certain_test, count_test
from dpcalc.audit.subsets import (
    JOINT_TAILS,
    SizeLaw,
    as_is,
    multiplicity_tests,
    size_tests,
    spread_test,
    subset_tests,
    wrong_size_test,
)
from dpcalc.errors import UnsupportedError
from dpcalc.sampling.schemes import (
    All,
    AnyOrder,
    BallsInBins,
    CappedPoisson,
    CyclicPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Shuffle,
    WithReplacement,
)


def statistics_of(logged: LoggedLevel) -> Iterator[Statistic]:
    """Yield the tests of one level, chosen by its declared scheme; UnsupportedError if that cannot be tested."""
    level, scheme = logged.level, logged.level.scheme
    # Tests are chosen by the declaration: were they chosen by the log, their number, among which the false alarm is
    # shared, would depend on chance, and honest logs would be contradicted more often than promised.
    if level.period > 1 and level.is_shown:
        yield _held_test(logged)
    if level.is_last and not level.is_mixed and not isinstance(scheme, WithReplacement):
        yield _repeats_test(logged)
    match scheme:
        case Shuffle():
            yield from _shuffle_tests(logged, scheme)
        case BallsInBins():
            yield from _balls_in_bins_tests(logged, scheme)
        case RandomAllocation():
            yield from _random_allocation_tests(logged, scheme)
        case AnyOrder():
            yield from _any_order_tests(logged)
        case CyclicPoisson():
            yield from _cyclic_tests(logged, scheme)
        case _:
            yield from _independent_draws_tests(logged)


def _independent_draws_tests(logged: LoggedLevel) -> Iterator[Statistic]:
    """Yield the tests of sizes and of drawn units for a scheme whose draws are independent of each other."""
    match logged.level.scheme:
        case All():
            yield from size_tests(logged, SizeLaw(trials=as_is))
        case Fixed(size=size, at_most=at_most):
            law = SizeLaw(trials=lambda frame: np.minimum(frame, size), needs_frame=at_most)
            yield from size_tests(logged, law)
            yield from subset_tests(logged, lambda frame: law.trials(frame) / frame)
        case Poisson(probability=rate):
            yield from size_tests(logged, SizeLaw(trials=as_is, probability=float(rate)))
            yield from subset_tests(logged, lambda frame: np.full(frame.shape, float(rate)))
        case CappedPoisson(probability=rate, max_batch_size=max_size):
            yield from size_tests(logged, SizeLaw(trials=as_is, probability=float(rate), max_size=max_size))
            yield from subset_tests(logged, None)
        case WithReplacement(size=entries):
            yield from multiplicity_tests(logged, entries)
            yield from subset_tests(logged, lambda frame: 1 - (1 - 1 / frame) ** entries)
        case scheme:
            raise UnsupportedError(f"audit-sampler: expected another scheme than {scheme.name}, which it cannot test")


# What is certain.


def _repeats_test(logged: LoggedLevel) -> Statistic:
    """Return the certain test that no unit stands twice in one step."""
    repeats = logged.counts.repeats
    sentence = f"{logged.first_place(repeats)} stands {logged.counts.first_repeat} times in its batch"
    return certain_test(Kind.REPEATS, "repeats within a step", observed=repeats.number, sentence=sentence)


def _held_test(logged: LoggedLevel) -> Statistic:
    """Return the certain test that each redraw period has the same units in all of its steps; it observes 0 or 1."""
    first = logged.first_place(logged.counts.unheld)
    sentence = f"{first} is not in all {logged.level.period} steps of its redraw period"
    return certain_test(Kind.HELD, "changes within a redraw period", observed=int(first != ""), sentence=sentence)


# Passes, and other draws that depend on the step.


def _shuffle_tests(logged: LoggedLevel, shuffle: Shuffle) -> Iterator[Statistic]:
    """Yield tests of shuffled passes: no unit twice and, if every drawn unit is in the log, the sizes of batches."""
    level, draws = logged.level, logged.draws
    yield _no_repeats_in_a_pass_test(logged)
    if not level.is_shown:
        return
    # The last batch of a pass holds what is left of the frame, unless `drop_last` leaves it out.
    left = draws.frames - (draws.numbers % level.window) * shuffle.size
    missing = level.parents * level.times - draws.sizes.size if level.is_every else 0
    yield wrong_size_test(logged, np.minimum(left, shuffle.size), missing)


def _no_repeats_in_a_pass_test(logged: LoggedLevel) -> Statistic:
    """Return the certain test that units are never drawn a second time within a pass of `window` draws."""
    level, repeats = logged.level, logged.counts.by_occurrence[2]
    return certain_test(
        Kind.PASSES,
        f"units repeated within a pass of {level.window} draws",
        observed=repeats,
        sentence=f"{repeats:,} times one {level.name} is drawn again within a pass of {level.window} batches",
    )


def _any_order_tests(logged: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests that each unit keeps to declared limits: number of steps, separation, epochs; none without limits."""
    limits = logged.level.limits
    if limits is None:
        return
    yield _max_times_test(logged, limits.times(logged.level.times))
    yield _separation_test(logged, limits.separation)
    if limits.fixed_epochs:
        yield _moved_test(logged, "is not at its place of the epoch before")


def _max_times_test(logged: LoggedLevel, max_times: int) -> Statistic:
    """Return the certain test that no unit is drawn more than `max_times` times."""
    counts = logged.counts.counts
    unit = int(counts.argmax())
    return certain_test(
        Kind.SPREAD,
        "units in more steps than declared",
        observed=int((counts > max_times).sum()),
        sentence=f"{logged.place(-1, unit)} is in {counts[unit]} steps, at most {max_times} are declared",
    )


def _separation_test(logged: LoggedLevel, separation: int) -> Statistic:
    """Return the certain test that no unit is drawn again after fewer than `separation` steps."""
    close = logged.counts.close
    return certain_test(
        Kind.SEPARATION,
        "draws too soon after the one before",
        observed=close.number,
        sentence=f"{logged.first_place(close)} is fewer than {separation} steps after its step before",
    )


def _cyclic_tests(logged: LoggedLevel, scheme: CyclicPoisson) -> Iterator[Statistic]:
    """Yield tests of cyclic draws: that units keep their groups, then `max_batch_size` or else the rate."""
    yield _moved_test(logged, f"is drawn in steps of several of the {scheme.groups} groups")
    if scheme.max_batch_size is not None:
        # How often a batch is cut depends on the sizes of groups, which the log does not tell.
        yield _max_batch_size_test(logged, scheme.max_batch_size)
    else:
        yield from _cyclic_rate_tests(logged, scheme.groups, float(scheme.probability))


def _cyclic_rate_tests(logged: LoggedLevel, groups: int, rate: float) -> Iterator[Statistic]:
    """Yield tests that each unit is drawn once a cycle with probability `rate`; none without a known law or a cycle."""
    level, cycles = logged.level, logged.level.times // groups
    if not level.has_known_law or not cycles:
        return
    shown_rate = rate * (level.shown or 0.0)
    # Each unit is drawn in each cycle with one probability, whatever its group.
    every = level.units * cycles
    drawn = Count(observed=int(logged.draws.sizes.sum()), expected=every * shown_rate, trials=every)
    yield count_test(Kind.TOTAL, "units drawn in all", [drawn])
    yield spread_test(logged, lambda frame: np.full(frame.shape, rate), cycles)
    # Windows of whole cycles; the last one may be shorter, and is expected to have fewer repeats.
    lengths = _window_lengths(cycles, level.window // groups)
    yield _repeats_in_windows_test(logged, lengths, lambda number: binom.sf(number - 1, lengths, shown_rate))


def _max_batch_size_test(logged: LoggedLevel, max_batch_size: int) -> Statistic:
    """Return the certain test that the number of draws of more than `max_batch_size` units is 0."""
    above = logged.draws.sizes[logged.draws.sizes > max_batch_size]
    return certain_test(
        Kind.LARGEST,
        "draws of more than max_batch_size",
        observed=above.size,
        sentence=f"{above.size:,} draws hold more than `max_batch_size: {max_batch_size}`",
    )


def _window_lengths(draws: int, window: int) -> IntArray:
    """Return the lengths of windows of `window` draws that cover all `draws`, the last one maybe shorter."""
    return np.diff([*range(0, draws, window), draws])


def _repeats_in_windows_test(logged: LoggedLevel, lengths: IntArray, chance: Callable[[int], Array]) -> Statistic:
    """Return the test of second and third draws of units in windows; `chance(n)` is, by window, Pr[n draws or more]."""
    level = logged.level
    repeats = [
        Count(
            observed=logged.counts.by_occurrence[number],
            expected=level.units * float(chance(number).sum()),
            trials=level.units * lengths.size,
        )
        for number in range(2, OCCURRENCES + 1)
    ]
    return count_test(Kind.PASSES, f"units repeated within {level.window} draws", repeats)


def _moved_test(logged: LoggedLevel, sentence: str) -> Statistic:
    """Return the certain test that the draws of each unit lie multiples of `lag` draws apart."""
    moved = logged.counts.moved
    return certain_test(
        Kind.HELD,
        "units at another place than in their pass before",
        observed=moved.number,
        sentence=f"{logged.first_place(moved)} {sentence}",
    )


def _balls_in_bins_tests(logged: LoggedLevel, scheme: BallsInBins) -> Iterator[Statistic]:
    """Yield tests of balls-in-bins: no repeats in a pass, held steps, and choices of bins if the law is known."""
    level = logged.level
    yield _no_repeats_in_a_pass_test(logged)
    if scheme.is_held:
        yield _moved_test(logged, "is not at its step of the pass before")
    if level.is_shown and level.has_known_law:
        yield _whole_passes_test(logged, scheme.bins)
    if level.has_known_law:
        yield from _bin_choice_tests(logged, scheme)


def _bin_choice_tests(logged: LoggedLevel, scheme: BallsInBins) -> Iterator[Statistic]:
    """Yield tests that units choose bins at random: sizes, neighbours and, unless held, anew in each pass."""
    # Held choices repeat the first pass: its draws alone are independent of each other.
    independent = _first_draws(logged, scheme.bins) if scheme.is_held else logged
    yield from size_tests(independent, SizeLaw(trials=as_is, probability=1 / scheme.bins))
    chance, times = (logged.level.shown or 0.0) / scheme.bins, independent.level.times
    pairs, passes = _neighbouring_pairs(logged), -(-times // scheme.bins)
    yield _neighbours_test(independent, expected=pairs * times * chance**2, trials=pairs * passes)
    if not scheme.is_held:
        yield _same_step_test(logged, scheme.bins, chance)
        yield _same_step_quantiles_test(logged, scheme.bins, chance)


def _whole_passes_test(logged: LoggedLevel, bins: int) -> Statistic:
    """Return the certain test that whole passes draw (number of passes) x (number of units) units in all."""
    level, draws = logged.level, logged.draws
    whole = level.times - level.times % bins
    return certain_test(
        Kind.TOTAL,
        "units drawn in whole passes",
        observed=int(draws.sizes[draws.numbers < whole].sum()),
        expected=level.units * (whole // bins),
        sentence=f"not every unit of level {level.name} is drawn in each pass of {bins} batches",
    )


def _same_step_test(logged: LoggedLevel, bins: int, chance: float) -> Statistic:
    """Return the test of how many units stay at their step from the first to the second pass of each pair of passes."""
    trials, is_second = int(_followed_sizes(logged, bins).sum()), _is_of_second_pass(logged, bins)
    same = Count(observed=int(logged.draws.repeated[is_second].sum()), expected=trials * chance, trials=trials)
    return count_test(Kind.OVERLAP, "units at the same step of the next pass", [same])


def _same_step_quantiles_test(logged: LoggedLevel, bins: int, chance: float) -> Statistic:
    """Return the test of how many draws share unusually many units with the same step of the pass before."""
    followed, is_second = _followed_sizes(logged, bins), _is_of_second_pass(logged, bins)
    repeated, previous = logged.draws.repeated[is_second], logged.draws.previous[is_second]
    counts = []
    for tail in JOINT_TAILS:
        expected = binom.sf(binom.isf(tail, followed, chance), followed, chance).sum()
        observed = (repeated > binom.isf(tail, previous, chance)).sum()
        counts.append(Count(observed=int(observed), expected=float(expected), trials=followed.size))
    return count_test(Kind.JOINT, "draws with many units of that of the pass before", counts)


def _is_of_second_pass(logged: LoggedLevel, bins: int) -> NDArray[np.bool_]:
    """Return True for each draw of the second, fourth, ... pass of `bins` draws."""
    # Passes are taken in pairs: given the first of a pair, units choose its steps again independently.
    is_second: NDArray[np.bool_] = logged.draws.numbers // bins % 2 == 1
    return is_second


def _followed_sizes(logged: LoggedLevel, bins: int) -> IntArray:
    """Return the sizes of draws of first, third, ... passes whose step comes again in the next pass of the phase."""
    is_followed = ~_is_of_second_pass(logged, bins) & (logged.draws.numbers < logged.level.times - bins)
    return logged.draws.sizes[is_followed]


def _random_allocation_tests(logged: LoggedLevel, scheme: RandomAllocation) -> Iterator[Statistic]:
    """Yield tests of random allocation: draws of each unit; sizes if the law is known; overlaps if all is shown."""
    level = logged.level
    yield _declared_times_test(logged, scheme.times)
    if not level.has_known_law:
        return
    yield from size_tests(logged, SizeLaw(trials=as_is, probability=scheme.times / level.times))
    if level.is_shown:
        yield from _allocated_steps_tests(logged, scheme.times)


def _allocated_steps_tests(logged: LoggedLevel, times: int) -> Iterator[Statistic]:
    """Yield tests that the `times` steps of each unit are random: successive ones, neighbours, repeats in windows."""
    level, steps = logged.level, logged.level.times
    units, pairs, chance = level.units, _neighbouring_pairs(logged), times / steps
    successive = Count(
        observed=int(logged.draws.repeated.sum()), expected=units * chance * (times - 1), trials=units * (times - 1)
    )
    yield count_test(Kind.OVERLAP, "units that the previous draw has too", [successive])
    yield _neighbours_test(logged, expected=pairs * chance * times, trials=pairs * times)
    if level.window <= 1:
        yield count_test(Kind.PASSES, f"units repeated within {level.window} draws", [])
        return
    # Of `times` places among all steps a window of some length holds a hypergeometric number.
    lengths = _window_lengths(steps, level.window)
    yield _repeats_in_windows_test(logged, lengths, lambda number: hypergeom.sf(number - 1, steps, times, lengths))


def _declared_times_test(logged: LoggedLevel, times: int) -> Statistic:
    """Return the certain test that units are drawn exactly `times` times, or at most if the log can hide draws."""
    counts = logged.counts.counts
    wrong = counts != times if logged.level.is_shown else counts > times
    unit = int(np.argmax(wrong))
    return certain_test(
        Kind.SPREAD,
        "units drawn another number of times than declared",
        observed=int(wrong.sum()),
        sentence=f"{logged.place(-1, unit)} is drawn {counts[unit]} times, declared {times}",
    )


def _first_draws(logged: LoggedLevel, times: int) -> LoggedLevel:
    """Return the level with only the draws numbered below `times`; its counts stay those of all draws."""
    draws = logged.draws
    kept = draws.numbers < times
    columns = {name: values[kept] for name, values in vars(draws).items()}
    level = replace(logged.level, times=min(times, logged.level.times))
    return replace(logged, level=level, draws=replace(draws, **columns))


def _neighbouring_pairs(logged: LoggedLevel) -> int:
    """Return the number of pairs of units 2 i and 2 i + 1 of one parent."""
    level = logged.level
    return int((np.broadcast_to(level.sizes, (level.parents,)) // 2).sum())


def _neighbours_test(logged: LoggedLevel, *, expected: float, trials: int) -> Statistic:
    """Return the test of how often both units of a neighbouring pair are in one draw, given its law."""
    together = Count(observed=int(logged.draws.pairs.sum()), expected=expected, trials=trials)
    return count_test(Kind.NEIGHBOURS, "neighbouring units in a draw", [together])
