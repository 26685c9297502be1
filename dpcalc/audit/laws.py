"""The statistics by which the logged draws of one level are tested, for each scheme.

Draws that are independent of each other are tested by `dpcalc.audit.subsets`, passes here.
Source: docs/theory.md, Theorem 17.3.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
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
    """Yield the tests of one level, chosen by its declared scheme; UnsupportedError if that cannot be tested.

    Args:
        logged: the level and what the log shows of it.

    Raises:
        UnsupportedError: the scheme cannot be tested.
    """
    level, scheme = logged.level, logged.level.scheme
    # Tests are chosen by the declaration: were they chosen by the log, their number, among which the false alarm is
    # shared, would depend on chance, and honest logs would be contradicted more often than promised.
    if level.period > 1 and level.is_shown:
        yield _held_test(logged)
    if level.is_last and not level.is_mixed and not isinstance(scheme, WithReplacement):
        yield _repeats_test(logged)
    match scheme:
        case Shuffle() | BallsInBins() | RandomAllocation() | AnyOrder() | CyclicPoisson():
            yield from _pass_tests(logged, scheme)
        case All():
            yield from size_tests(logged, SizeLaw(trials=as_is))
        case Fixed():
            law = SizeLaw(trials=lambda frame: np.minimum(frame, scheme.size), needs_frame=scheme.at_most)
            yield from size_tests(logged, law)
            yield from subset_tests(logged, lambda frame: law.trials(frame) / frame)
        case Poisson(probability=rate):
            yield from size_tests(logged, SizeLaw(trials=as_is, probability=float(rate)))
            yield from subset_tests(logged, lambda frame: np.full(frame.shape, float(rate)))
        case CappedPoisson(probability=rate, max_batch_size=max_size):
            yield from size_tests(logged, SizeLaw(trials=as_is, probability=float(rate), max_size=max_size))
            yield from subset_tests(logged, None)
        case WithReplacement(size=size):
            yield from multiplicity_tests(logged, size)
            yield from subset_tests(logged, lambda frame: 1 - (1 - 1 / frame) ** size)
        case _:
            raise UnsupportedError(f"audit-sampler: expected another scheme than {scheme.name}, which it cannot test")


# What is certain.


def _repeats_test(logged: LoggedLevel) -> Statistic:
    """Return the test that no unit stands twice in one step; a single repeat contradicts it with certainty."""
    first = logged.counts.first_repeat
    sentence = (
        "" if first is None else f"{logged.place(first.step, first.unit)} stands {first.entries} times in its batch"
    )
    return certain_test(Kind.REPEATS, "repeats within a step", observed=logged.counts.repeats, sentence=sentence)


def _held_test(logged: LoggedLevel) -> Statistic:
    """Return the test that a redraw period has the same units in all steps; a single change contradicts it."""
    first, level = logged.counts.unheld, logged.level
    sentence = (
        "" if first is None else f"{logged.place(*first)} is not in all {level.period} steps of its redraw period"
    )
    return certain_test(
        Kind.HELD, "changes within a redraw period", observed=0 if first is None else 1, sentence=sentence
    )


# Passes, and other draws that depend on the step.


def _pass_tests(
    logged: LoggedLevel, scheme: Shuffle | BallsInBins | RandomAllocation | AnyOrder | CyclicPoisson
) -> Iterator[Statistic]:
    """Yield the tests of a scheme whose draws depend on each other, each scheme by its own function."""
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


def _shuffle_tests(logged: LoggedLevel, shuffle: Shuffle) -> Iterator[Statistic]:
    """Yield tests of shuffled passes: no unit twice and, if every drawn unit is in the log, the sizes of batches."""
    level, draws = logged.level, logged.draws
    yield _no_repeats_in_a_pass_test(logged)
    if not level.is_shown:
        return
    # The last batch of a pass holds what is left of the frame, unless `drop_last` leaves it out.
    place = draws.numbers % level.window
    left = draws.frames - place * shuffle.size
    expected = np.minimum(left, shuffle.size)
    missing = level.parents * level.times - draws.sizes.size if level.is_every else 0
    yield wrong_size_test(logged, expected, missing)


def _no_repeats_in_a_pass_test(logged: LoggedLevel) -> Statistic:
    """Return the test that no unit is drawn twice in a pass; a single repeat contradicts it with certainty."""
    level, repeats = logged.level, logged.counts.by_occurrence[2]
    return certain_test(
        Kind.PASSES,
        f"units repeated within a pass of {level.window} draws",
        observed=repeats,
        sentence=f"{repeats:,} times one {level.name} is drawn again within a pass of {level.window} batches",
    )


def _any_order_tests(logged: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of the steps of each unit under `any-order`, their number and distance; none without limits."""
    level, counts = logged.level, logged.counts
    if level.limits is None:
        return
    max_times = level.limits.times(level.times)
    unit = int(counts.counts.argmax())
    yield certain_test(
        Kind.SPREAD,
        "units in more steps than declared",
        observed=int((counts.counts > max_times).sum()),
        sentence=f"{logged.place(-1, unit)} is in {counts.counts[unit]} steps, at most {max_times} are declared",
    )
    where = "" if counts.first_close is None else logged.place(*counts.first_close)
    yield certain_test(
        Kind.SEPARATION,
        "draws too soon after the one before",
        observed=counts.close,
        sentence=f"{where} is fewer than {level.limits.separation} steps after its step before",
    )
    if level.limits.fixed_epochs:
        yield _moved_test(logged, "is not at its place of the epoch before")


def _cyclic_tests(logged: LoggedLevel, scheme: CyclicPoisson) -> Iterator[Statistic]:
    """Yield tests of cyclic draws: that groups are kept and, by `max_batch_size` or the rate, how many are drawn.

    The last three only where the sizes of frames are known and every unit has an entry with the same probability.
    """
    level, cycles = logged.level, logged.level.times // scheme.groups
    yield _moved_test(logged, f"is drawn in steps of several of the {scheme.groups} groups")
    if scheme.max_batch_size is not None:
        # How often a batch is cut depends on the sizes of groups, which the log does not tell.
        yield _max_batch_size_test(logged, scheme.max_batch_size)
        return
    if level.shown is None or not level.has_sizes or not cycles:
        return
    rate = float(scheme.probability) * level.shown
    # Each unit is drawn in each cycle with one probability, whatever its group.
    drawn = Count(
        observed=int(logged.draws.sizes.sum()), expected=level.units * cycles * rate, trials=level.units * cycles
    )
    yield count_test(Kind.TOTAL, "units drawn in all", [drawn])
    yield spread_test(logged, lambda frame: np.full(frame.shape, float(scheme.probability)), cycles)
    # Windows of whole cycles; the last one may be shorter, and is expected to have fewer repeats.
    lengths = _window_lengths(cycles, level.window // scheme.groups)
    yield _repeats_in_windows_test(logged, lengths, lambda number: binom.sf(number - 1, lengths, rate))


def _max_batch_size_test(logged: LoggedLevel, max_batch_size: int) -> Statistic:
    """Return the certain test that no draw holds more than `max_batch_size` units."""
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
    """Return the test of how often units are drawn a second and a third time within a window."""
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
    """Return the certain test that the draws of each unit are multiples of `lag` draws apart."""
    first = logged.counts.first_moved
    return certain_test(
        Kind.HELD,
        "units at another place than in their pass before",
        observed=logged.counts.moved,
        sentence="" if first is None else f"{logged.place(*first)} {sentence}",
    )


def _balls_in_bins_tests(logged: LoggedLevel, scheme: BallsInBins) -> Iterator[Statistic]:
    """Yield tests of balls-in-bins: repeats, held steps and, where sizes are known, how units spread over bins."""
    level, shown = logged.level, logged.level.shown
    yield _no_repeats_in_a_pass_test(logged)
    if scheme.is_held:
        yield _moved_test(logged, "is not at its step of the pass before")
    if shown is None or not level.has_sizes:
        return
    if level.is_shown:
        yield _whole_passes_test(logged, scheme.bins)
    # Held choices repeat the first pass: its draws alone are independent of each other.
    independent = _first_draws(logged, scheme.bins) if scheme.is_held else logged
    chance = shown / scheme.bins
    yield from size_tests(independent, SizeLaw(trials=as_is, probability=1 / scheme.bins))
    pairs, passes = _neighbouring_pairs(independent), -(-independent.level.times // scheme.bins)
    together = Count(
        observed=int(independent.draws.pairs.sum()),
        expected=pairs * independent.level.times * chance**2,
        trials=pairs * passes,
    )
    yield count_test(Kind.NEIGHBOURS, "neighbouring units in a draw", [together])
    if not scheme.is_held:
        yield from _fresh_choice_tests(logged, scheme, chance)


def _whole_passes_test(logged: LoggedLevel, bins: int) -> Statistic:
    """Return the certain test that whole passes draw as many units in all as if each drew every unit once."""
    level, draws = logged.level, logged.draws
    whole = level.times - level.times % bins
    return certain_test(
        Kind.TOTAL,
        "units drawn in whole passes",
        observed=int(draws.sizes[draws.numbers < whole].sum()),
        expected=level.units * (whole // bins),
        sentence=f"not every unit of level {level.name} is drawn in each pass of {bins} batches",
    )


def _fresh_choice_tests(logged: LoggedLevel, scheme: BallsInBins, chance: float) -> Iterator[Statistic]:
    """Yield tests that units choose their step anew in each pass, by how many are at the same step twice."""
    level, draws = logged.level, logged.draws
    # Passes are taken in pairs: given the first of a pair, units choose its steps again independently.
    is_second = draws.numbers // scheme.bins % 2 == 1
    followed = draws.sizes[~is_second & (draws.numbers < level.times - scheme.bins)]  # maybe by an empty draw
    repeated, previous = draws.repeated[is_second], draws.previous[is_second]
    trials = int(followed.sum())
    same = Count(observed=int(repeated.sum()), expected=trials * chance, trials=trials)
    yield count_test(Kind.OVERLAP, "units at the same step of the next pass", [same])
    counts = []
    for tail in JOINT_TAILS:
        expected = binom.sf(binom.isf(tail, followed, chance), followed, chance).sum()
        observed = (repeated > binom.isf(tail, previous, chance)).sum()
        counts.append(Count(observed=int(observed), expected=float(expected), trials=followed.size))
    yield count_test(Kind.JOINT, "draws with many units of that of the pass before", counts)


def _random_allocation_tests(logged: LoggedLevel, scheme: RandomAllocation) -> Iterator[Statistic]:
    """Yield tests of random allocation: draws of each unit and, as far as the log shows them, sizes and overlaps."""
    level, draws, times, steps = logged.level, logged.draws, scheme.times, logged.level.times
    yield _declared_times_test(logged, times)
    if level.shown is None or not level.has_sizes:
        return
    yield from size_tests(logged, SizeLaw(trials=as_is, probability=times / steps))
    if not level.is_shown:
        return
    units, pairs = level.units, _neighbouring_pairs(logged)
    chance = times / steps
    successive = Count(
        observed=int(draws.repeated.sum()), expected=units * chance * (times - 1), trials=units * (times - 1)
    )
    yield count_test(Kind.OVERLAP, "units that the previous draw has too", [successive])
    together = Count(observed=int(draws.pairs.sum()), expected=pairs * chance * times, trials=pairs * times)
    yield count_test(Kind.NEIGHBOURS, "neighbouring units in a draw", [together])
    if level.window <= 1:
        yield count_test(Kind.PASSES, f"units repeated within {level.window} draws", [])
        return
    # Of `times` places among all steps a window of some length holds a hypergeometric number.
    lengths = _window_lengths(steps, level.window)
    yield _repeats_in_windows_test(logged, lengths, lambda number: hypergeom.sf(number - 1, steps, times, lengths))


def _declared_times_test(logged: LoggedLevel, times: int) -> Statistic:
    """Return the certain test that each unit is drawn `times` times, or no more if not all drawn units are shown."""
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
