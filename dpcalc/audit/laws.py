"""The statistics by which the logged draws of one level are tested, and their rigorous p-values.

Source: docs/theory.md, Theorem 17.1.
"""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, gammaln, logsumexp
from scipy.stats import binom, hypergeom

from dpcalc.audit.log import CERTAIN, MAX_UNITS, OCCURRENCES, LoggedLevel
from dpcalc.errors import UnsupportedError
from dpcalc.numerics import Array, IntArray
from dpcalc.planner.risk import Profiles
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import BallsInBins, CyclicPoisson, RandomAllocation, SummedPoisson

FALSE_ALARM = 1e-6
"""Largest probability that an honest log is contradicted by any test of an audit; they share it equally."""


class Count(NamedTuple):
    """A number of events beside its law: events that are independent or negatively associated."""

    observed: float  # number of events that the log shows
    expected: float  # its expectation under the declared law
    trials: float  # number of events that could have occurred, >= expected


class StatisticKind(StrEnum):
    """Statistics that are tested, as JSON names them."""

    TOTAL = "total"
    SIZES = "sizes"
    LARGEST = "largest"
    SMALLEST = "smallest"
    REPEATS = "repeats"
    HELD = "held"
    SEPARATION = "separation"
    ORDER = "order"
    PASSES = "passes"
    OVERLAP = "overlap"
    JOINT = "joint"
    NEIGHBOURS = "neighbours"
    SPREAD = "spread"
    OFTENEST = "oftenest"
    RAREST = "rarest"
    PARTS = "parts"


OF_NUMBERS = frozenset(
    {
        StatisticKind.TOTAL,
        StatisticKind.SIZES,
        StatisticKind.LARGEST,
        StatisticKind.SMALLEST,
        StatisticKind.SPREAD,
        StatisticKind.OFTENEST,
        StatisticKind.RAREST,
    }
)
"""Statistics that change if more or fewer units are seen, whichever they are."""
EXTREMES = frozenset(
    {StatisticKind.LARGEST, StatisticKind.SMALLEST, StatisticKind.OFTENEST, StatisticKind.RAREST, StatisticKind.PARTS}
)
"""Statistics of the most extreme of many counts, whose `expected` is the mean of any single one."""


@dataclass(frozen=True)
class Statistic:
    """One tested statistic of one level of one phase."""

    kind: StatisticKind  # the statistic
    quantity: str  # what is counted, for people
    observed: float  # the number in the log
    expected: float  # the number that the declared law expects; of several counts that with the smallest p-value
    log_p_value: float  # natural logarithm of a bound on the p-value; -inf for what the declared law excludes
    sentence: str = ""  # what the log shows, for one that contradicts; "" if the numbers say it

    def contradicts(self, tests: int) -> bool:
        return self.log_p_value <= math.log(FALSE_ALARM / tests)


def log_tail(count: Count) -> float:
    """Return the log of Chernoff's bound on the tail beyond an observed count; -inf if the count is impossible."""
    observed, expected, trials = count
    expected = min(max(expected, 0.0), trials)
    failures = trials - observed
    expected_failures = trials - expected
    if failures < 0 or (observed > 0 and expected == 0) or (failures > 0 and expected_failures == 0):
        return -math.inf
    total = observed * math.log(observed / expected) if observed else 0.0
    if failures:
        total += failures * math.log1p((expected - observed) / expected_failures)
    return min(0.0, -total)


Ends = tuple[float, float]
"""(lower, upper) end of an interval."""


def mean_interval(mean: float, trials: int, *, miss_probability: float) -> Ends:
    """Return Hoeffding's confidence interval for the expectation of numbers in [0, 1], rounded outwards.

    All expectations m at which the mean is no less likely than miss_probability / 2 by the bound of `log_tail`, which
    holds for any independent numbers in [0, 1]: Hoeffding 1963 (J. Amer. Statist. Assoc. 58, 13-30), Theorem 1.

    Example:
        >>> mean_interval(0.0, 100, miss_probability=0.02)
        (0.0, 0.045007...)
    """
    mean = min(mean, 1.0)

    def is_inside(expectation: float) -> bool:
        return log_tail(Count(mean * trials, expectation * trials, trials)) >= math.log(miss_probability / 2)

    # 100 halvings leave two neighbouring floats, of which the one outside is taken.
    low, high = (limit if is_inside(limit) else _halved(is_inside, mean, limit, 100)[1] for limit in (0.0, 1.0))
    return low, high


def _halved(holds: Callable[[float], bool], inside: float, outside: float, times: int) -> tuple[float, float]:
    """Return both ends of an interval halved so often; `holds` is true at the first one and false at the other."""
    for _ in range(times):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside, outside


def count_test(kind: StatisticKind, quantity: str, *counts: Count) -> Statistic:
    """Return the test of the least likely of several counts, by a union bound; its p-value is 1 for no counts."""
    observed, expected, _ = least = min(counts, key=log_tail, default=Count(0, 0, 0))
    # A union bound over the counts; twice, because the tail is chosen by the side that the log is on.
    log_p_value = log_tail(least) + math.log(2 * max(len(counts), 1))
    return Statistic(kind, quantity, observed, expected, min(0.0, log_p_value))


def certain_test(kind: StatisticKind, quantity: str, observed: float, sentence: str, expected: float = 0) -> Statistic:
    """Return the test of a number that the declaration fixes; any other number contradicts it with certainty."""
    if observed == expected:
        return Statistic(kind, quantity, observed, expected, 0.0)
    return Statistic(kind, quantity, observed, expected, -math.inf, sentence)


# Statistics of membership inference scores of canaries: p-values against a privacy profile, lower bounds on epsilon.
#
# Source: docs/theory.md, Theorem 18.2, Theorem 18.3 and Theorem 18.4.

_MAX_EXPONENT = 700.0  # largest epsilon whose exponential is finite
_CURVE_SIZE = 400  # epsilons of a profile that are used: more change no p-value in its first three digits
_MIN_LOG_P_VALUE = -690.0  # logarithm of the smallest p-value that is told from 0
_BRACKETS, _ROUNDS = 16, 5  # a p-value is searched by splitting the range of its logarithm: to within a factor of 1.002
_ROUND_OFF = 1e-12  # relative, of the rates that a recursion over guesses adds up
_UNDERFLOW = 1e-280  # probabilities below it are not divided by: their last digits are gone
_MAX_EPSILON = 100.0  # a lower bound beyond it is no more telling
_HALVINGS = 45  # of a range of numbers: to within 1e-11


@dataclass(frozen=True, eq=False)
class PrivacyCurve:
    """A privacy profile that holds in both directions, and the trade-off curve that follows from it."""

    epsilons: Array  # increasing, the first is 0, shape (n,)
    deltas: Array  # upper bound on delta at each, shape (n,)

    @classmethod
    def of(cls, profiles: tuple[Profiles, ...]) -> "PrivacyCurve":
        """Return the curve of the largest delta of all profiles and directions, on a grid; delta 1 for no profiles."""
        if not profiles:
            return cls(np.zeros(1), np.ones(1))
        last = max(float(each.epsilons[-1]) for each in profiles)
        low = np.linspace(0.0, min(last, _MAX_EXPONENT), _CURVE_SIZE)
        # A profile falls: between its epsilons, the delta at the next smaller one is a bound.
        at = [np.searchsorted(each.epsilons, low, side="right") - 1 for each in profiles]
        deltas = [each.deltas.max(axis=0)[place] for each, place in zip(profiles, at, strict=True)]
        return cls(low, np.max(deltas, axis=0))

    @property
    def _lines(self) -> tuple[Array, Array]:
        """Return (e^epsilon, delta) as columns, shape (n, 1): slope and height of the lines that bound both rates."""
        return np.exp(self.epsilons)[:, None], self.deltas[:, None]

    def true_positive_rates(self, rates: Array) -> Array:
        """Return upper bounds in [0, 1] on any attacker's true positive rates at false positive `rates`, shape (k,)."""
        slopes, deltas = self._lines
        # Each line holds for an attack and for its complement, which calls "out" what the attack calls "in".
        bounds = np.minimum(slopes * rates + deltas, 1 - np.maximum(1 - rates - deltas, 0.0) / slopes)
        highest: Array = np.minimum(bounds.min(axis=0), 1.0)
        return highest

    def false_positive_rates(self, rates: Array) -> Array:
        """Return lower bounds in [0, 1] on any attacker's false positive rates at true positive `rates`, shape (k,)."""
        slopes, deltas = self._lines
        bounds = np.maximum((rates - deltas) / slopes, 1 - deltas - slopes * (1 - rates))
        lowest: Array = np.clip(bounds.max(axis=0), 0.0, 1.0)
        return lowest


# One run: m canaries, each in with probability 1/2, of which r are guessed and v guessed right.


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """Guesses about the canaries of one run, or of several runs together."""

    canaries: int  # their number, each in with probability 1/2 independently of all others
    guessed: int  # number of guesses, fixed before the scores were seen, at most `canaries`
    correct: int  # number of right guesses

    def p_value(self, curve: PrivacyCurve) -> float:
        if not self.correct:
            return 1.0
        return min(1.0, self._shifted_p_value(curve), self._recursive_p_value(curve))

    def _shifted_p_value(self, curve: PrivacyCurve) -> float:
        """Return the p-value by Theorem 18.2."""
        tails, masses = _binomial_tail_and_mass(self.guessed, self.correct, curve.epsilons)
        lost = tails * (1 - tails) / np.maximum(self.correct * masses, _UNDERFLOW)
        lost = np.where(masses > _UNDERFLOW, lost, np.inf)
        with np.errstate(invalid="ignore"):  # nothing is lost where delta is 0
            shifted = tails + np.where(curve.deltas > 0, self.canaries * curve.deltas * lost, 0.0)
        return float(shifted.min())

    def _recursive_p_value(self, curve: PrivacyCurve) -> float:
        """Return the p-value by Theorem 18.3."""
        low, high = _MIN_LOG_P_VALUE, 0.0
        if self._is_possible(np.zeros(1), curve)[0]:
            return 1.0
        # The p-value is the largest probability that is possible; its logarithm is bracketed, the upper end returned.
        for _ in range(_ROUNDS):
            ends = np.linspace(low, high, _BRACKETS + 1)
            possible = self._is_possible(ends, curve)
            if not possible[0]:  # less likely than the smallest p-value
                return math.exp(low)
            place = int(np.argmin(possible))  # the last end, at least, is impossible
            low = float(ends[place - 1])
            high = float(ends[place])
        return math.exp(high)

    def _is_possible(self, log_probabilities: Array, curve: PrivacyCurve) -> NDArray[np.bool_]:
        """Return True where the curve allows `correct` or more right guesses with a given log probability."""
        # `right` and `wrong` are expected numbers of right and wrong guesses, in shares of all canaries, over outcomes
        # with at least i right guesses; i falls. The smallest probability of exactly i that the curve allows is taken.
        right = self.correct / self.canaries * np.exp(log_probabilities)
        wrong = (self.guessed - self.correct) / self.canaries * np.exp(log_probabilities)
        limit = self.guessed / self.canaries * (1 + _ROUND_OFF)
        for number in range(self.correct - 1, -1, -1):
            added = np.maximum(curve.false_positive_rates(right) - wrong, 0.0)
            is_open = right + wrong <= limit
            if not np.any(is_open & (added > _ROUND_OFF * wrong)):
                break
            wrong = wrong + added
            right = right + number / (self.guessed - number) * added
        is_possible: NDArray[np.bool_] = right + wrong <= limit
        return is_possible

    def epsilon_lower(self, *, delta: float, error: float) -> float:
        """Return a lower bound on epsilon, the largest up to 100 that the guesses contradict; 0 if there is none."""

        def is_contradicted(epsilon: float) -> bool:
            return self._p_value_of_one_point(epsilon, delta) <= error

        return _halved(is_contradicted, 0.0, _MAX_EPSILON, _HALVINGS)[0] if is_contradicted(0.0) else 0.0

    def _p_value_of_one_point(self, epsilon: float, delta: float) -> float:
        """Return the p-value against (epsilon, delta) alone, of Steinke, Nasr and Jagielski 2023 (2305.08846)."""
        counts = np.arange(self.correct, -1.0, -1.0)
        tails, _ = _binomial_tail_and_mass(self.guessed, counts, np.full(self.correct + 1, epsilon))
        gains = (tails[1:] - tails[0]) / np.arange(1, self.correct + 1)
        return float(tails[0] + 2 * self.canaries * delta * gains.max(initial=0.0))


def _binomial_tail_and_mass(trials: int, count: int | Array, epsilons: Array) -> tuple[Array, Array]:
    """Return (Pr[B >= count], Pr[B = count]) for B binomial with success probability 1 / (1 + e^-epsilon)."""
    counts = np.broadcast_to(np.asarray(count, dtype=float), epsilons.shape)
    chance = 1 / (1 + np.exp(-epsilons))
    tails = np.where(counts > 0, betainc(np.maximum(counts, 1), trials - counts + 1, chance), 1.0)
    ways = gammaln(trials + 1) - gammaln(counts + 1) - gammaln(trials - counts + 1)
    # log(1 - chance) = -log(1 + e^epsilon), which does not cancel
    logs = -counts * np.log1p(np.exp(-epsilons)) - (trials - counts) * np.logaddexp(0.0, epsilons)
    return tails, np.exp(ways + logs)


# Many runs, each with one canary: alarms among runs with it and among runs without it.


@dataclass(frozen=True, kw_only=True)
class Alarms:
    """Alarms of a rule that was fixed before the scores were seen, over independent runs with one canary each."""

    included: int  # number of runs with the canary
    detected: int  # alarms among these
    excluded: int  # number of runs without it
    false: int  # alarms among these

    def rates(self, error: float) -> tuple[float, float]:
        """Return (lower bound on the true positive rate, upper bound on the false one), by Clopper and Pearson."""
        # A union bound: either rate may fail with half of the error.
        half = error / 2
        low = betaincinv(self.detected, self.included - self.detected + 1, half) if self.detected else 0.0
        is_all = self.false == self.excluded
        high = 1.0 if is_all else 1 - betaincinv(self.excluded - self.false, self.false + 1, half)
        return float(low), float(high)

    def p_value(self, curve: PrivacyCurve) -> float:
        """Return the p-value, the least error at which bounds on both rates contradict the curve; 1 if none does."""

        def contradicts(log_error: float) -> bool:
            low, high = self.rates(math.exp(log_error))
            return low > float(curve.true_positive_rates(np.array([high]))[0])

        if not contradicts(0.0):
            return 1.0
        return math.exp(_halved(contradicts, 0.0, _MIN_LOG_P_VALUE, _HALVINGS)[0])

    def epsilon_lower(self, *, delta: float, error: float) -> float:
        """Return a lower bound >= 0 on epsilon from bounds on both rates, of the attack or its complement."""
        low, high = self.rates(error)
        # The attack that raises the alarms, and its complement: either may show the larger epsilon.
        pairs = ((low - delta, high), (1 - high - delta, 1 - low))
        ratios = [above / below for above, below in pairs if above > 0 and below > 0]
        return max(0.0, math.log(max(ratios, default=1.0)))


# The statistics by which the logged draws of one level are tested, for each scheme; laws of sizes.
# Every tested statistic is certain, or a count of events that are independent or negatively associated under the
# declared law, given the sizes of draws where it says so. Source: docs/theory.md, Theorem 17.2 and Theorem 17.3.


_TAILS = [each for tail in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3) for each in (tail, 1 - tail)]
"""Where a distribution is compared: another tail costs nothing, and below 1e-3 there are too few events."""
_JOINT_TAILS = (0.1, 1e-2, 1e-4)  # of the overlap of two draws
_MAX_OVERLAPS = 4096  # pairs of draws whose distribution is computed, .1 to 1 ms each; spread evenly over the log
_MAX_PARTS = 64  # of a frame whose indices are compared; of smaller frames every place
_UNITS_AT_ONCE = 1_000_000


def statistics_of(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield the tests of one level, chosen by its declared scheme; UnsupportedError if that cannot be tested."""
    # Tests are chosen by the declaration: were they chosen by the log, their number, among which the false alarm is
    # shared, would depend on chance, and honest logs would be contradicted more often than promised.
    scheme = level.scheme
    if level.period > 1 and level.is_shown:
        first = level.first_place(level.unheld)
        sentence = f"{first} is not in all {level.period} steps of its redraw period"
        yield certain_test(StatisticKind.HELD, "changes within a redraw period", int(first != ""), sentence)
    if level.is_last and not level.is_mixed and not (scheme.can_repeat or scheme.is_summed):
        sentence = f"{level.first_place(level.repeats)} stands {level.first_repeat} times in its batch"
        yield certain_test(StatisticKind.REPEATS, "repeats within a step", level.repeats.number, sentence)
    # A schedule that draws belong to is tested as such; else each draw by itself.
    if isinstance(scheme, CyclicPoisson):  # units keep their groups, then `max_batch_size` or else the rate
        sizes = level.draws.sizes
        cycles = level.times // scheme.groups
        yield _moved_test(level, f"is drawn in steps of several of the {scheme.groups} groups")
        if scheme.max_batch_size is not None:
            # How often a batch is cut depends on the sizes of groups, which the log does not tell.
            above = int((sizes > scheme.max_batch_size).sum())
            sentence = f"{above:,} draws hold more than `max_batch_size: {scheme.max_batch_size}`"
            yield certain_test(StatisticKind.LARGEST, "draws of more than max_batch_size", above, sentence)
        elif level.has_known_law and cycles:
            # Each unit is drawn in each cycle with one probability, whatever its group.
            every = level.units * cycles
            rate = float(scheme.probability) * (level.shown or 0.0)
            yield count_test(StatisticKind.TOTAL, "units drawn in all", Count(int(sizes.sum()), every * rate, every))
            yield _spread_test(level, cycles)
            window = level.window // scheme.groups
            yield _repeats_in_windows_test(level, cycles, window, lambda number, of: binom.sf(number - 1, of, rate))
    elif scheme.spans_steps:
        limits = level.limits
        counts = level.counts
        close = level.close
        if limits is not None:  # each unit keeps to its number of steps, separation and epochs
            most = limits.times(level.times)
            unit = int(counts.argmax())
            sentence = f"{level.place(-1, unit)} is in {counts[unit]} steps, at most {most} are declared"
            yield certain_test(
                StatisticKind.SPREAD, "units in more steps than declared", int((counts > most).sum()), sentence
            )
            sentence = f"{level.first_place(close)} is fewer than {limits.separation} steps after its step before"
            yield certain_test(StatisticKind.SEPARATION, "draws too soon after the one before", close.number, sentence)
            if limits.fixed_epochs:
                yield _moved_test(level, "is not at its place of the epoch before")
    elif isinstance(scheme, BallsInBins):
        yield from _balls_in_bins_tests(level, scheme)
    elif isinstance(scheme, RandomAllocation):
        yield from _random_allocation_tests(level, scheme.times)
    elif scheme.is_shuffled:
        yield _no_repeats_in_a_pass_test(level)
        if level.is_shown:
            # The last batch of a pass holds what is left of the frame, unless `drop_last` leaves it out.
            left = level.draws.frames - (level.draws.numbers % level.window) * scheme.size
            missing = level.number_of_draws - level.draws.sizes.size
            yield _wrong_size_test(level, np.minimum(left, scheme.size), missing)
            if scheme.is_secret:
                yield from _order_tests(level)
    elif scheme.is_whole:
        yield from _size_tests(level)
    elif scheme.can_repeat:
        if level.is_last and not level.is_mixed:
            draws = level.number_of_draws
            sentence = f"expected {scheme.size} units of level {level.name} in each draw, repetitions included, "
            sentence += f"got {level.entries / max(draws, 1):.5g} on average"
            quantity = "units drawn in all, repetitions included"
            yield certain_test(StatisticKind.TOTAL, quantity, level.entries, sentence, draws * scheme.size)
            if level.has_sizes:
                # Each unit of a frame is hit Binomial(size, 1 / frame) times; a repeat is hit twice or more.
                frames, _, number = all_draws(level)
                expected = float((binom.sf(1, scheme.size, 1 / frames) * frames * number).sum())
                repeats = Count(level.repeats.number, expected, float((frames * number).sum()))
                yield count_test(StatisticKind.REPEATS, "units repeated within a draw", repeats)
        yield from _subset_tests(level)
    elif scheme.has_stand_in or scheme.is_independent or scheme.is_cut or isinstance(scheme, SummedPoisson):
        # Of a sum each unit is counted by itself, so that all its counts are sums of independent ones.
        is_certain = level.is_last and not level.is_mixed and level.has_sizes and level.is_every
        if isinstance(scheme, SummedPoisson) and is_certain:
            frames, _, number = all_draws(level)
            offered = float((frames * number).sum())
            several = float(binom.sf(1, scheme.draws, float(scheme.probability)))
            repeats = Count(level.repeats.number, several * offered, offered)
            yield count_test(StatisticKind.REPEATS, "units repeated within a step", repeats)
        yield from _size_tests(level)
        yield from _subset_tests(level)
    else:
        raise UnsupportedError(f"audit-sampler: expected another scheme than {scheme.name}, which it cannot test")


# Sizes of draws.


def _size_tests(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of the sizes of draws from whole frames, or of a fixed size; none if the log hides them."""
    scheme = level.scheme
    needs_frame = scheme.at_most or not scheme.has_stand_in
    if level.shown is None or (needs_frame and not level.has_sizes):
        return
    # Of a batch that was cut, the log must show all units: those that are cut off are not known.
    if scheme.is_cut and not level.is_shown:
        return
    shown = level.shown  # chance of a unit that is tried: to be drawn, and to have entries
    if not (scheme.has_stand_in or scheme.is_whole):
        shown *= float(scheme.probability if scheme.is_cut else scheme.rate(1))
    most = scheme.limit or MAX_UNITS
    frames, sizes, number = all_draws(level)
    if shown >= CERTAIN and not scheme.is_cut:
        yield _wrong_size_test(level, np.minimum(level.draws.frames, most), int(number[sizes == 0].sum()))
        return
    tried = frames if scheme.is_cut else np.minimum(frames, most)
    draws = float(number.sum())
    if level.is_every and not scheme.is_cut:
        every = float((tried * number).sum())
        total = Count(float((sizes * number).sum()), every * shown, every)
        yield count_test(StatisticKind.TOTAL, "units drawn in all", total)

    # The number that the log shows of one draw is binomial, some trials a frame, and cut to a maximum. Where only draws
    # with entries are in the log, its law is conditioned on one unit.
    def upper_tail(size: IntArray) -> Array:
        above = binom.sf(size - 1, tried, shown)
        if not level.is_every:
            above = np.where(size <= 1, 1.0, above / binom.sf(0, tried, shown))
        return np.where(size > most, 0.0, above)

    def lower_tail(size: IntArray) -> Array:
        below = binom.cdf(size, tried, shown)
        if not level.is_every:
            empty = binom.pmf(0, tried, shown)
            below = (below - empty) / (1 - empty)
        return np.where(size >= most, 1.0, below)

    reached = []
    for tail in _TAILS:
        threshold = binom.isf(tail, tried, shown).astype(np.int64) + 1
        expected = float((upper_tail(threshold) * number).sum())
        reached.append(Count(float(number[sizes >= threshold].sum()), expected, draws))
    yield count_test(StatisticKind.SIZES, "draws by size", *reached)
    for kind, tail_of in ((StatisticKind.LARGEST, upper_tail), (StatisticKind.SMALLEST, lower_tail)):
        if not sizes.size:
            yield count_test(kind, f"{kind} draw")
            continue
        chance = tail_of(sizes)
        place = int(np.argmin(chance))
        value = draws * float(chance[place])  # union bound over all draws
        log_p_value = min(0.0, math.log(value)) if value > 0 else -math.inf
        yield Statistic(kind, f"{kind} draw", float(sizes[place]), float(tried[place] * shown), log_p_value)


def _wrong_size_test(level: LoggedLevel, expected: IntArray, missing: int) -> Statistic:
    """Return the certain test that no draw has another size than expected, and that none is missing."""
    draws = level.draws
    wrong = np.flatnonzero(draws.sizes != expected)
    sentence = ""
    if wrong.size:
        at = int(wrong[np.argmin(draws.times[wrong])])
        step = level.first_step + int(draws.times[at]) * level.period
        sentence = f"step {step}: expected {expected[at]} units of level {level.name}, got {draws.sizes[at]}"
    elif missing:
        sentence = f"{missing:,} draws of level {level.name} are empty"
    return certain_test(StatisticKind.SIZES, "draws of another size than declared", wrong.size + missing, sentence)


def all_draws(level: LoggedLevel) -> tuple[IntArray, IntArray, IntArray]:
    """Return (size of the frame, units that the log shows of a draw from it, number of such draws), shape (n,) each.

    Empty draws are among them where every parent draws at every time.
    """
    draws = level.draws
    scale = int(draws.sizes.max(initial=0)) + 1
    keys, number = np.unique(draws.frames * scale + draws.sizes, return_counts=True)
    shown = keys // scale, keys % scale, number
    if not level.is_every:
        return shown
    frames, parents = level.frames
    nonempty = np.array([number[shown[0] == frame].sum() for frame in frames])
    empty = frames, np.zeros_like(frames), parents * level.times - nonempty
    sizes, drawn, times = (np.concatenate(columns) for columns in zip(shown, empty, strict=True))
    return sizes[times > 0], drawn[times > 0], times[times > 0]


# Draws that are independent of each other and, given their size, uniform.


def _subset_tests(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of which units are drawn, given the sizes of draws; none without a known law."""
    draws = level.draws
    counts = level.counts
    if not level.has_known_law:
        return
    frames = draws.frames.astype(float)

    # Given the sizes of two draws, their overlap is hypergeometric; it can be no larger than the smaller of them.
    overlap = Count(
        int(draws.repeated[draws.previous > 0].sum()),
        float((draws.sizes * (draws.previous / frames)).sum()),
        float(np.minimum(draws.sizes, draws.previous).sum()),
    )
    yield count_test(StatisticKind.OVERLAP, "units that the previous draw has too", overlap)

    # Two units that come together more often than by chance, such as those of two workers with the same seed, leave the
    # mean overlap of two draws as it is and widen its distribution.
    places = np.flatnonzero(draws.previous > 0)
    places = places[:: max(1, -(-places.size // _MAX_OVERLAPS))]
    columns = [draws.frames[places], draws.previous[places], draws.sizes[places]]
    kinds, kind = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    joint = []
    for tail in _JOINT_TAILS:
        threshold = binom.isf(tail, kinds[:, 1], kinds[:, 2] / kinds[:, 0]).astype(np.int64) + 1
        chance = hypergeom.sf(threshold - 1, kinds[:, 0], kinds[:, 1], kinds[:, 2])
        many = int((draws.repeated[places] >= threshold[kind]).sum())
        joint.append(Count(many, float(np.nansum(chance[kind])), places.size))
    yield count_test(StatisticKind.JOINT, "draws with many units of the previous one", *joint)

    pairs = draws.frames // 2
    together = pairs * (draws.sizes * (draws.sizes - 1.0)) / np.maximum(frames * (frames - 1), 1.0)
    yield _neighbours_test(level, expected=float(together.sum()), trials=float(pairs.sum()))
    yield count_test(
        StatisticKind.PASSES, f"units repeated within a pass of {level.window} draws", *window_counts(level)
    )

    # The units drawn furthest above and below their means, given sizes, by a union bound over units.
    trials = np.bincount(draws.parents, minlength=level.parents).astype(float)
    mean = np.bincount(draws.parents, weights=draws.sizes / draws.frames, minlength=level.parents).astype(float)
    extremes = dict.fromkeys((StatisticKind.OFTENEST, StatisticKind.RAREST), (0.0, 0))  # (log tail, unit)
    for begin in range(0, counts.size, _UNITS_AT_ONCE):
        observed = counts[begin : begin + _UNITS_AT_ONCE].astype(float)
        parents = level.parents_of(np.arange(begin, begin + observed.size))
        expected = np.minimum(mean, trials)[parents]
        tried = trials[parents]
        # `log_tail` of many counts at once, which loses digits where trials are many.
        failures = tried - observed
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.where(observed > 0, observed * np.log(observed / expected), 0.0)
            exponent += np.where(failures > 0, failures * np.log(failures / (tried - expected)), 0.0)
        for side in extremes:
            is_on_side = observed > expected if side is StatisticKind.OFTENEST else observed < expected
            tails = np.where(is_on_side, -exponent, 0.0)
            place = int(np.argmin(tails))
            if tails[place] < extremes[side][0]:
                extremes[side] = float(tails[place]), begin + place
    for side, (tail, unit) in extremes.items():
        parent = int(level.parents_of(np.array([unit]))[0])
        # The one that counts is computed again, with all digits.
        count = Count(float(counts[unit]), float(mean[parent]), float(trials[parent]))
        quantity = f"draws of the unit drawn {'most' if side is StatisticKind.OFTENEST else 'least'} often"
        log_p_value = min(0.0, log_tail(count) + math.log(level.units)) if tail < 0 else 0.0
        sentence = f"{level.place(-1, unit)} is drawn {int(counts[unit]):,} times, expected {mean[parent]:,.1f}"
        yield Statistic(side, quantity, count.observed, count.expected, log_p_value, sentence)
    if level.is_every and not level.scheme.is_cut:  # units of a cut draw depend on each other before its size is known
        yield _spread_test(level, level.times)

    # A loader that never reaches some part of each parent, its end for example, shows here before it does in any unit.
    if isinstance(level.sizes, int):
        size = level.sizes
        part = np.arange(size) * min(size, _MAX_PARTS) // size
        drawn = np.bincount(part, weights=counts.reshape(-1, size).sum(axis=0))
        of_parts = (
            Count(float(number), float(draws.sizes.sum() * (units / size)), float(np.minimum(draws.sizes, units).sum()))
            for units, number in zip(np.bincount(part), drawn, strict=True)
        )
        yield count_test(StatisticKind.PARTS, "draws of one part of a frame", *of_parts)


def window_counts(level: LoggedLevel) -> list[Count]:
    """Return counts of units' second and third draws in a pass, given sizes; [] for no draws or a pass of one."""
    draws = level.draws
    if level.window < 2 or not draws.sizes.size:
        return []
    starts = np.diff(draws.parents, prepend=-1) != 0
    starts |= np.diff(draws.numbers // level.window, prepend=-1) != 0
    begins = np.flatnonzero(starts)
    units = draws.frames[begins].astype(float)
    # The number of draws in a window that hold a unit is a sum of independent coins. Its probabilities of 0, 1 and 2
    # follow from the sums of odds and of their squares; draws of a whole frame hold every unit.
    is_whole = draws.sizes == draws.frames
    shares = np.where(is_whole, 0.0, draws.sizes / draws.frames)
    odds = shares / (1 - shares)
    none = np.exp(np.add.reduceat(np.log1p(-shares), begins))
    first = np.add.reduceat(odds, begins)
    second = np.add.reduceat(odds**2, begins)
    whole = np.add.reduceat(is_whole.astype(np.int64), begins)
    exactly = (none, none * first, none * (first**2 - second) / 2)
    counts = []
    for times in range(2, OCCURRENCES + 1):
        below = sum(np.where(whole + other < times, exactly[other], 0.0) for other in range(times))
        expected = float((units * np.clip(1 - below, 0.0, 1.0)).sum())
        counts.append(Count(level.by_occurrence[times], expected, float(units.sum())))
    return counts


def _spread_test(level: LoggedLevel, draws: int) -> Statistic:
    """Return the test of how many units reach several quantiles of how many of `draws` draws hold a unit."""
    scheme = level.scheme
    counts = level.counts
    frames, parents = level.frames
    # A drawn unit without an entry looks like one that was not drawn: both chances are multiplied.
    rates = [scheme.probability if isinstance(scheme, CyclicPoisson) else scheme.rate(int(frame)) for frame in frames]
    probability = np.array(rates, dtype=float) * (level.shown or 0.0)
    reached = []
    for tail in _TAILS:
        threshold = binom.isf(tail, draws, probability) + 1
        expected = float((binom.sf(threshold - 1, draws, probability) * frames * parents).sum())
        of_units = threshold[0]
        if not isinstance(level.sizes, int):
            of_units = np.repeat(threshold[np.searchsorted(frames, level.sizes)], level.sizes)
        reached.append(Count(int((counts >= of_units).sum()), expected, level.units))
    return count_test(StatisticKind.SPREAD, "units by number of draws", *reached)


def _neighbours_test(level: LoggedLevel, *, expected: float, trials: float) -> Statistic:
    together = Count(int(level.draws.pairs.sum()), expected, trials)
    return count_test(StatisticKind.NEIGHBOURS, "neighbouring units in a draw", together)


# Passes, and other draws that depend on the step.


def _no_repeats_in_a_pass_test(level: LoggedLevel) -> Statistic:
    """Return the certain test that units are never drawn a second time within a pass of `window` draws."""
    repeats = level.by_occurrence[2]
    sentence = f"{repeats:,} times one {level.name} is drawn again within a pass of {level.window} batches"
    return certain_test(
        StatisticKind.PASSES, f"units repeated within a pass of {level.window} draws", repeats, sentence
    )


def _order_tests(level: LoggedLevel) -> Iterator[Statistic]:
    """Yield tests of passes in secret order: no batch is that of the pass before, and none that of a public seed."""
    draws = level.draws
    known = level.public
    frames = draws.frames.astype(float)
    sizes = draws.sizes.astype(float)
    # The log of the chance that two batches of a size are equal.
    chances = gammaln(sizes + 1) + gammaln(frames - sizes + 1) - gammaln(frames + 1)
    first = draws.numbers % level.window == 0
    others = draws.previous == draws.sizes
    again = others & (draws.repeated == draws.sizes)
    public = chances[first & np.isin(sizes, [size for _, size in known])]

    def test(quantity: str, compared: Array, equal: Array, number: int, sentence: str) -> Statistic:
        # The statistic is the smallest chance of any batch that is equal: the chance that one of so small a chance is.
        log_p_value = min(0.0, float(logsumexp(compared[compared <= equal.min() + 1e-9]))) if number else 0.0
        expected = float(np.exp(compared).sum())
        return Statistic(StatisticKind.ORDER, quantity, number, expected, log_p_value, sentence if number else "")

    places = f"{int(again.sum()):,} of {int(others.sum()):,} batches hold the same {level.name}s"
    sentence = f"{places} as in the pass before: the order is not drawn anew for each pass"
    quantity = "batches that are those of the pass before"
    yield test(quantity, chances[others], chances[again], int(again.sum()), sentence)
    ways = " and ".join(sorted({words for words, _ in known}))
    sentence = f"{len(known)} passes begin as {ways} does, seeded by the number of the pass: the order is not secret"
    quantity = "passes that begin as those of a public seed"
    yield test(quantity, np.repeat(chances[first], 2), public, len(known), sentence)


def _moved_test(level: LoggedLevel, sentence: str) -> Statistic:
    """Return the certain test that the draws of each unit lie multiples of `lag` draws apart."""
    sentence = f"{level.first_place(level.moved)} {sentence}"
    return certain_test(
        StatisticKind.HELD, "units at another place than in their pass before", level.moved.number, sentence
    )


def _repeats_in_windows_test(
    level: LoggedLevel, draws: int, window: int, chance: Callable[[int, IntArray], Array]
) -> Statistic:
    """Return the test of repeats in windows, where `chance(n, lengths)` is Pr[n draws of a unit or more]."""
    lengths = np.diff([*range(0, draws, window), draws])
    repeats = []
    for number in range(2, OCCURRENCES + 1):
        expected = level.units * float(chance(number, lengths).sum())
        repeats.append(Count(level.by_occurrence[number], expected, level.units * lengths.size))
    return count_test(StatisticKind.PASSES, f"units repeated within {level.window} draws", *repeats)


def _balls_in_bins_tests(level: LoggedLevel, scheme: BallsInBins) -> Iterator[Statistic]:
    """Yield tests of balls-in-bins: no repeats in a pass, held steps, and choices of bins if the law is known."""
    draws = level.draws
    bins = scheme.bins
    yield _no_repeats_in_a_pass_test(level)
    if scheme.is_held:
        yield _moved_test(level, "is not at its step of the pass before")
    if not level.has_known_law:
        return
    if level.is_shown:
        whole = level.times - level.times % bins
        sentence = f"not every unit of level {level.name} is drawn in each pass of {bins} batches"
        drawn = int(draws.sizes[draws.numbers < whole].sum())
        every = level.units * (whole // bins)
        yield certain_test(StatisticKind.TOTAL, "units drawn in whole passes", drawn, sentence, every)
    independent, times = copy(level), level.times
    if scheme.is_held:  # held choices repeat the first pass: its draws alone are independent of each other
        times = min(bins, times)
        columns = {name: values[draws.numbers < bins] for name, values in vars(draws).items()}
        independent.times = times
        independent.draws = replace(draws, **columns)
    yield from _size_tests(independent)
    chance = (level.shown or 0.0) / bins
    pairs = level.neighbours
    yield _neighbours_test(independent, expected=pairs * times * chance**2, trials=pairs * -(-times // bins))
    if scheme.is_held:
        return
    # Passes are taken in pairs: given the first of a pair, units choose its steps again independently.
    is_second = draws.numbers // bins % 2 == 1
    followed = draws.sizes[~is_second & (draws.numbers < level.times - bins)]
    repeated = draws.repeated[is_second]
    previous = draws.previous[is_second]
    trials = int(followed.sum())
    same = Count(int(repeated.sum()), trials * chance, trials)
    yield count_test(StatisticKind.OVERLAP, "units at the same step of the next pass", same)
    joint = []
    for tail in _JOINT_TAILS:
        expected = binom.sf(binom.isf(tail, followed, chance), followed, chance).sum()
        observed = (repeated > binom.isf(tail, previous, chance)).sum()
        joint.append(Count(int(observed), float(expected), followed.size))
    yield count_test(StatisticKind.JOINT, "draws with many units of that of the pass before", *joint)


def _random_allocation_tests(level: LoggedLevel, times: int) -> Iterator[Statistic]:
    """Yield tests of random allocation: draws of each unit; sizes if the law is known; overlaps if all is shown."""
    counts = level.counts
    steps = level.times
    wrong = counts != times if level.is_shown else counts > times
    unit = int(np.argmax(wrong))
    sentence = f"{level.place(-1, unit)} is drawn {counts[unit]} times, declared {times}"
    yield certain_test(
        StatisticKind.SPREAD, "units drawn another number of times than declared", int(wrong.sum()), sentence
    )
    if not level.has_known_law:
        return
    yield from _size_tests(level)
    if not level.is_shown:
        return
    units = level.units
    pairs = level.neighbours
    chance = times / steps
    successive = Count(int(level.draws.repeated.sum()), units * chance * (times - 1), units * (times - 1))
    yield count_test(StatisticKind.OVERLAP, "units that the previous draw has too", successive)
    yield _neighbours_test(level, expected=pairs * chance * times, trials=pairs * times)
    if level.window <= 1:
        yield count_test(StatisticKind.PASSES, f"units repeated within {level.window} draws")
        return
    # Of `times` places among all steps a window of some length holds a hypergeometric number.
    yield _repeats_in_windows_test(
        level, steps, level.window, lambda number, lengths: hypergeom.sf(number - 1, steps, times, lengths)
    )
