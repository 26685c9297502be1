"""Tests of draws that are independent of each other and, given their sizes, uniform; laws of sizes.

Every tested statistic is a count of events that are independent or negatively associated under the declared law, given
the sizes of draws where it says so. Source: docs/theory.md, Theorem 17.2.
"""

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, hypergeom

from dpcalc.arrays import Array, IntArray
from dpcalc.audit.draws import CERTAIN, OCCURRENCES, DeclaredLevel, Draws, LoggedLevel
from dpcalc.audit.p_values import Count, Kind, Statistic, certain_test, count_test, log_tail
from dpcalc.records import dataclass

_TAILS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3)
"""Where a distribution is compared: another tail costs nothing, and below 1e-3 there are too few events."""
JOINT_TAILS = (0.1, 1e-2, 1e-4)  # of the overlap of two draws
_MAX_OVERLAPS = 4096  # pairs of draws whose distribution is computed, .1 to 1 ms each; spread evenly over the log
_MAX_PARTS = 64  # of a frame whose indices are compared; of smaller frames every place
_UNITS_AT_ONCE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class SizeLaw:
    """Law of the number of units that one draw takes: binomial, some trials a frame, cut to a maximum.

    Attributes:
        trials: function of the size of a frame (any shape) that returns the number of trials.
        probability: of each trial.
        needs_frame: False if the trials are the same whatever the size of the frame.
        max_size: largest draw; larger ones are cut to it; None without a maximum.
    """

    trials: Callable[[IntArray], IntArray]
    probability: float = 1.0
    needs_frame: bool = True
    max_size: int | None = None

    def of_shown(self, level: DeclaredLevel) -> "ShownSizes":
        """Return the law of the number of units that the log shows of one draw."""
        return ShownSizes(law=self, probability=self.probability * (level.shown or 0.0), is_nonempty=not level.is_every)


class DrawSizes(NamedTuple):
    """Sizes of draws, equal ones together.

    Attributes:
        frames: size of the frame, shape (n,).
        sizes: units that the log shows of a draw from it, shape (n,).
        number: of such draws, shape (n,).
    """

    frames: IntArray
    sizes: IntArray
    number: IntArray


@dataclass(frozen=True, kw_only=True)
class ShownSizes:
    """Law of the number of units that the log shows of one draw.

    Attributes:
        law: of the units that are drawn.
        probability: that a trial of that law succeeds and the unit has entries.
        is_nonempty: True if only draws with entries are in the log.
    """

    law: SizeLaw
    probability: float
    is_nonempty: bool

    def tail(self, size: IntArray, frame: IntArray) -> Array:
        """Return Pr[a draw, cut to the maximum, shows at least `size` units], given that it shows any if `is_nonempty`.

        Args:
            size: number of units.
            frame: size of the frame of each, the same shape.
        """
        trials = self.law.trials(frame)
        # Where a draw without entries leaves no trace the law is conditioned on at least one unit.
        above = binom.sf(size - 1, trials, self.probability)
        if self.is_nonempty:
            above = np.where(size <= 1, 1.0, above / binom.sf(0, trials, self.probability))
        return above if self.law.max_size is None else np.where(size > self.law.max_size, 0.0, above)

    def head(self, size: IntArray, frame: IntArray) -> Array:
        """Return Pr[a draw, cut to the maximum, shows at most `size` units], given that it shows any if `is_nonempty`.

        Args:
            size: number of units.
            frame: size of the frame of each, the same shape.
        """
        trials = self.law.trials(frame)
        below = binom.cdf(size, trials, self.probability)
        if self.is_nonempty:
            empty = binom.pmf(0, trials, self.probability)
            below = (below - empty) / (1 - empty)
        return below if self.law.max_size is None else np.where(size >= self.law.max_size, 1.0, below)


def as_is(frame: IntArray) -> IntArray:
    """Return the sizes of frames: as many trials as units."""
    return frame


def wrong_size_test(logged: LoggedLevel, expected: IntArray, missing: int) -> Statistic:
    """Return the certain test that the number of draws of unexpected size, and of missing draws, is 0.

    Args:
        logged: the level.
        expected: size of each draw that the log shows.
        missing: number of draws that show nothing, though they should.
    """
    draws, level = logged.draws, logged.level
    wrong = np.flatnonzero(draws.sizes != expected)
    sentence = ""
    if wrong.size:
        at = int(wrong[np.argmin(draws.times[wrong])])
        step = logged.step(int(draws.times[at]))
        sentence = f"step {step}: expected {expected[at]} units of level {level.name}, got {draws.sizes[at]}"
    elif missing:
        sentence = f"{missing:,} draws of level {level.name} are empty"
    return certain_test(
        Kind.SIZES, "draws of another size than declared", observed=wrong.size + missing, sentence=sentence
    )


# Sizes of draws.


def size_tests(logged: LoggedLevel, law: SizeLaw) -> Iterator[Statistic]:
    """Yield tests of the sizes of draws: exact, or total, quantiles and extremes; none if the log hides sizes.

    Args:
        logged: the level.
        law: of the sizes, which are independent or negatively associated.
    """
    level, shown = logged.level, law.of_shown(logged.level)
    is_hidden = level.shown is None or (law.needs_frame and not level.has_sizes)
    # Of a batch that was cut, the log must show all units: those that are cut off are not known.
    if is_hidden or (law.max_size is not None and not level.is_shown):
        return
    draws = all_draws(logged)
    if shown.probability >= CERTAIN and law.max_size is None:
        yield wrong_size_test(logged, law.trials(logged.draws.frames), int(draws.number[draws.sizes == 0].sum()))
        return
    if level.is_every and law.max_size is None:
        yield _total_test(shown, draws)
    yield _size_distribution_test(shown, draws)
    yield _extreme_size_test(Kind.LARGEST, shown.tail, shown, draws)
    yield _extreme_size_test(Kind.SMALLEST, shown.head, shown, draws)


def _total_test(shown: ShownSizes, draws: DrawSizes) -> Statistic:
    """Return the test of how many units all draws show together."""
    trials = float((shown.law.trials(draws.frames) * draws.number).sum())
    total = float((draws.sizes * draws.number).sum())
    count = Count(observed=total, expected=trials * shown.probability, trials=trials)
    return count_test(Kind.TOTAL, "units drawn in all", [count])


def _size_distribution_test(shown: ShownSizes, draws: DrawSizes) -> Statistic:
    """Return the test of how many draws reach each of several quantiles of the declared distribution of sizes."""
    counts = []
    for tail in chain.from_iterable((each, 1 - each) for each in _TAILS):
        threshold = binom.isf(tail, shown.law.trials(draws.frames), shown.probability).astype(np.int64) + 1
        expected = float((shown.tail(threshold, draws.frames) * draws.number).sum())
        observed = float(draws.number[draws.sizes >= threshold].sum())
        counts.append(Count(observed=observed, expected=expected, trials=float(draws.number.sum())))
    return count_test(Kind.SIZES, "draws by size", counts)


def _extreme_size_test(
    kind: Kind, tail: Callable[[IntArray, IntArray], Array], shown: ShownSizes, draws: DrawSizes
) -> Statistic:
    """Return the test of the draw whose size has the smallest tail probability, by a union bound over all draws."""
    if not draws.sizes.size:
        return count_test(kind, f"{kind} draw", [])
    probability = tail(draws.sizes, draws.frames)
    place = int(np.argmin(probability))
    value = float(draws.number.sum()) * float(probability[place])  # union bound over all draws
    return Statistic(
        kind=kind,
        quantity=f"{kind} draw",
        observed=float(draws.sizes[place]),
        expected=float(shown.law.trials(draws.frames)[place] * shown.probability),
        log_p_value=min(0.0, math.log(value)) if value > 0 else -math.inf,
    )


def all_draws(logged: LoggedLevel) -> DrawSizes:
    """Return the sizes of all draws, also of empty ones where every parent draws at every time."""
    level, draws = logged.level, logged.draws
    scale = int(draws.sizes.max(initial=0)) + 1
    keys, number = np.unique(draws.frames * scale + draws.sizes, return_counts=True)
    shown = DrawSizes(frames=keys // scale, sizes=keys % scale, number=number)
    if not level.is_every:
        return shown
    frames, parents = np.unique(np.broadcast_to(level.sizes, (level.parents,)), return_counts=True)
    nonempty = np.array([number[shown.frames == frame].sum() for frame in frames])
    empty = DrawSizes(frames=frames, sizes=np.zeros_like(frames), number=parents * level.times - nonempty)
    every = DrawSizes(*(np.concatenate(columns) for columns in zip(shown, empty, strict=True)))
    return DrawSizes(*(column[every.number > 0] for column in every))


# Draws that are independent of each other and, given their size, uniform.


def subset_tests(logged: LoggedLevel, rate: Callable[[IntArray], Array] | None) -> Iterator[Statistic]:
    """Yield tests of which units are drawn, given the sizes of draws; none without a known law.

    Args:
        logged: the level.
        rate: function of the sizes of frames that returns the probability that a draw holds a given unit; None if the
            units of a draw are not negatively associated before its size is known.
    """
    level, draws = logged.level, logged.draws
    if not level.has_known_law:
        return
    yield _overlap_test(draws)
    yield count_test(Kind.JOINT, "draws with many units of the previous one", _joint_counts(draws))
    yield _neighbours_test(logged)
    yield count_test(Kind.PASSES, f"units repeated within a pass of {level.window} draws", window_counts(logged))
    yield from _unit_tests(logged)
    if level.is_every and rate is not None:
        yield spread_test(logged, rate, level.times)
    if isinstance(level.sizes, int):
        yield _part_test(logged, level.sizes)


def _overlap_test(draws: Draws) -> Statistic:
    """Return the test of how many units all draws together share with their previous ones, given the sizes of both."""
    # Given the sizes of two draws, their overlap is hypergeometric; it can be no larger than the smaller of them.
    smaller = np.minimum(draws.sizes, draws.previous)
    frames = draws.frames.astype(float)
    expected = draws.sizes * (draws.previous / frames)
    observed = int(draws.repeated[draws.previous > 0].sum())
    return count_test(
        Kind.OVERLAP,
        "units that the previous draw has too",
        [Count(observed=observed, expected=float(expected.sum()), trials=float(smaller.sum()))],
    )


def _joint_counts(draws: Draws) -> Iterator[Count]:
    """Yield, for each tail in JOINT_TAILS, the count of draws that share so many units with the draw before."""
    # Two units that come together more often than by chance, such as those of two workers with the same seed, leave the
    # mean overlap of two draws as it is and widen its distribution.
    places = np.flatnonzero(draws.previous > 0)
    places = places[:: max(1, -(-places.size // _MAX_OVERLAPS))]
    frames, previous, sizes = draws.frames[places], draws.previous[places], draws.sizes[places]
    kinds, kind = np.unique(np.column_stack([frames, previous, sizes]), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    for tail in JOINT_TAILS:
        threshold = binom.isf(tail, kinds[:, 1], kinds[:, 2] / kinds[:, 0]).astype(np.int64) + 1
        probability = hypergeom.sf(threshold - 1, kinds[:, 0], kinds[:, 1], kinds[:, 2])
        observed = int((draws.repeated[places] >= threshold[kind]).sum())
        yield Count(observed=observed, expected=float(np.nansum(probability[kind])), trials=places.size)


def _neighbours_test(logged: LoggedLevel) -> Statistic:
    """Return the test of how often neighbouring units are in the same draw, given the sizes of draws."""
    draws, frames = logged.draws, logged.draws.frames.astype(float)
    pairs = draws.frames // 2
    expected = pairs * (draws.sizes * (draws.sizes - 1.0)) / np.maximum(frames * (frames - 1), 1.0)
    count = Count(observed=int(draws.pairs.sum()), expected=float(expected.sum()), trials=float(pairs.sum()))
    return count_test(Kind.NEIGHBOURS, "neighbouring units in a draw", [count])


def window_counts(logged: LoggedLevel) -> list[Count]:
    """Return counts of units' second and third draws in a pass, given sizes; [] for no draws or a pass of one."""
    level, draws = logged.level, logged.draws
    if level.window < 2 or not draws.sizes.size:
        return []
    starts = np.diff(draws.parents, prepend=-1) != 0
    starts |= np.diff(draws.numbers // level.window, prepend=-1) != 0
    begins = np.flatnonzero(starts)
    units = draws.frames[begins].astype(float)
    observed = logged.counts.by_occurrence[2:]
    return [
        Count(observed=number, expected=float((units * reached).sum()), trials=float(units.sum()))
        for number, reached in zip(observed, _reach_probabilities(draws, begins), strict=True)
    ]


def _reach_probabilities(draws: Draws, begins: IntArray) -> Iterator[Array]:
    """Yield Pr[a unit is drawn at least twice], then three times, in each of the windows that begin at `begins`."""
    # The number of draws in a window that hold a unit is a sum of independent coins. Its probabilities of 0, 1 and 2
    # follow from the sums of odds and of their squares; draws of a whole frame hold every unit.
    is_whole = draws.sizes == draws.frames
    shares = np.where(is_whole, 0.0, draws.sizes / draws.frames)
    odds = shares / (1 - shares)
    none = np.exp(np.add.reduceat(np.log1p(-shares), begins))
    first, second = np.add.reduceat(odds, begins), np.add.reduceat(odds**2, begins)
    whole = np.add.reduceat(is_whole.astype(np.int64), begins)
    exactly = (none, none * first, none * (first**2 - second) / 2)
    for times in range(2, OCCURRENCES + 1):
        below = sum(np.where(whole + other < times, exactly[other], 0.0) for other in range(times))
        yield np.clip(1 - below, 0.0, 1.0)


def _unit_tests(logged: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of the units drawn furthest above and below their means, given sizes, by a union bound over units."""
    level, draws, counts = logged.level, logged.draws, logged.counts.counts
    number = np.bincount(draws.parents, minlength=level.parents).astype(float)
    mean = np.bincount(draws.parents, weights=draws.sizes / draws.frames, minlength=level.parents).astype(float)
    for kind, (tail, unit) in _extreme_units(logged, number, mean).items():
        parent = int(level.parents_of(np.array([unit]))[0])
        # The vectorised logarithms lose digits where trials are many; the one that counts is computed again.
        count = Count(observed=float(counts[unit]), expected=float(mean[parent]), trials=float(number[parent]))
        yield Statistic(
            kind=kind,
            quantity=f"draws of the unit drawn {'most' if kind is Kind.OFTENEST else 'least'} often",
            observed=count.observed,
            expected=count.expected,
            log_p_value=min(0.0, log_tail(count) + math.log(level.units)) if tail < 0 else 0.0,
            sentence=f"{logged.place(-1, unit)} is drawn {int(counts[unit]):,} times, expected {mean[parent]:,.1f}",
        )


def _extreme_units(logged: LoggedLevel, draws_of_parent: Array, mean: Array) -> dict[Kind, tuple[float, int]]:
    """Return (log tail, unit) of the unit least likely so far above (OFTENEST) and below (RAREST) its mean.

    Args:
        logged: the level.
        draws_of_parent: number of draws of each parent.
        mean: expected draws of each unit of that parent, given sizes.
    """
    level, counts = logged.level, logged.counts.counts
    extremes = dict.fromkeys((Kind.OFTENEST, Kind.RAREST), (0.0, 0))
    for begin in range(0, counts.size, _UNITS_AT_ONCE):
        observed = counts[begin : begin + _UNITS_AT_ONCE].astype(float)
        parents = level.parents_of(np.arange(begin, begin + observed.size))
        expected = np.minimum(mean, draws_of_parent)[parents]
        tails = _log_tails(observed, expected, draws_of_parent[parents])
        for kind in extremes:
            is_on_side = observed > expected if kind is Kind.OFTENEST else observed < expected
            tails_on_side = np.where(is_on_side, tails, 0.0)
            place = int(np.argmin(tails_on_side))
            if tails_on_side[place] < extremes[kind][0]:
                extremes[kind] = float(tails_on_side[place]), begin + place
    return extremes


def _log_tails(observed: Array, expected: Array, trials: Array) -> Array:
    """Return `log_tail` of many counts at once, which loses digits where trials are many."""
    failures = trials - observed
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.where(observed > 0, observed * np.log(observed / expected), 0.0)
        exponent += np.where(failures > 0, failures * np.log(failures / (trials - expected)), 0.0)
    tails: Array = -exponent
    return tails


def spread_test(logged: LoggedLevel, rate: Callable[[IntArray], Array], draws: int) -> Statistic:
    """Return the test of how many units reach several quantiles of the number of draws of a unit.

    Args:
        logged: the level.
        rate: function of the sizes of frames that returns the probability that a draw holds a given unit.
        draws: number of draws that can hold a unit.
    """
    level = logged.level
    frames, parents = np.unique(np.broadcast_to(level.sizes, (level.parents,)), return_counts=True)
    # A drawn unit without an entry looks like one that was not drawn: both chances are multiplied.
    probability = rate(frames) * (level.shown or 0.0)
    tests = []
    for tail in chain.from_iterable((each, 1 - each) for each in _TAILS):
        threshold = binom.isf(tail, draws, probability) + 1
        expected = float((binom.sf(threshold - 1, draws, probability) * frames * parents).sum())
        observed = _units_reaching(logged, frames, threshold)
        tests.append(Count(observed=observed, expected=expected, trials=level.units))
    return count_test(Kind.SPREAD, "units by number of draws", tests)


def _units_reaching(logged: LoggedLevel, frames: IntArray, threshold: Array) -> int:
    """Return the number of units that are drawn at least as often as the threshold of the size of their frame."""
    counts, sizes = logged.counts.counts, logged.level.sizes
    if isinstance(sizes, int):
        return int((counts >= threshold[0]).sum())
    return int((counts >= np.repeat(threshold[np.searchsorted(frames, sizes)], sizes)).sum())


def _part_test(logged: LoggedLevel, size: int) -> Statistic:
    """Return the test that equal parts of frames of `size` units each are drawn equally often, given sizes of draws."""
    # A loader that never reaches some part of each parent, its end for example, shows here before it does in any unit.
    parts = min(size, _MAX_PARTS)
    part = np.arange(size) * parts // size
    observed = np.bincount(part, weights=logged.counts.counts.reshape(-1, size).sum(axis=0))
    counts = []
    for units, number in zip(np.bincount(part), observed, strict=True):
        expected = float(logged.draws.sizes.sum() * (units / size))
        trials = float(np.minimum(logged.draws.sizes, units).sum())
        counts.append(Count(observed=float(number), expected=expected, trials=trials))
    return count_test(Kind.PARTS, "draws of one part of a frame", counts)


# Repeated entries.


def multiplicity_tests(logged: LoggedLevel, size: int) -> Iterator[Statistic]:
    """Yield tests of entries and repeats of draws with replacement; none above the records or for mixed draws.

    Args:
        logged: the level.
        size: draws of one unit each, from each frame.
    """
    if logged.level.is_last and not logged.level.is_mixed:
        yield _entries_test(logged, size)
        if logged.level.has_sizes:
            yield _multiplicity_test(logged, size)


def _entries_test(logged: LoggedLevel, size: int) -> Statistic:
    """Return the certain test that the log has `size` entries for each draw in all, repetitions included."""
    level, entries = logged.level, logged.counts.entries
    draws = level.parents * level.times if level.is_every else logged.draws.sizes.size
    got = f"got {entries / max(draws, 1):.5g} on average"
    return certain_test(
        Kind.TOTAL,
        "units drawn in all, repetitions included",
        observed=entries,
        expected=draws * size,
        sentence=f"expected {size} units of level {level.name} in each draw, repetitions included, {got}",
    )


def _multiplicity_test(logged: LoggedLevel, size: int) -> Statistic:
    """Return the test of how many units have several entries in one draw of `size` entries."""
    frames, _, draws = all_draws(logged)
    # Each unit of a frame is hit Binomial(size, 1 / frame) times; a repeat is a unit that is hit twice or more.
    expected, trials = float((binom.sf(1, size, 1 / frames) * frames * draws).sum()), float((frames * draws).sum())
    count = Count(observed=logged.counts.repeats.number, expected=expected, trials=trials)
    return count_test(Kind.REPEATS, "units repeated within a draw", [count])
