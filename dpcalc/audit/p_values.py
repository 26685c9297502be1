"""Rigorous p-values: of counts in a log, by Chernoff's bound for negatively associated events; of guesses and alarms.

Source: docs/theory.md, Theorem 17.1.
"""

import math
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, gammaln

from dpcalc.arrays import Array
from dpcalc.planner.risk import Profiles
from dpcalc.records import dataclass

FALSE_ALARM = 1e-6
"""Largest probability that an honest log is contradicted by any test of an audit; they share it equally."""


class Count(NamedTuple):
    """A number of events beside its law: events that are independent or negatively associated."""

    observed: float  # number of events that the log shows
    expected: float  # its expectation under the declared law
    trials: float  # number of events that could have occurred, >= expected


class Kind(StrEnum):
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


OF_NUMBERS = frozenset({Kind.TOTAL, Kind.SIZES, Kind.LARGEST, Kind.SMALLEST, Kind.SPREAD, Kind.OFTENEST, Kind.RAREST})
"""Statistics that change if more or fewer units are seen, whichever they are."""
EXTREMES = frozenset({Kind.LARGEST, Kind.SMALLEST, Kind.OFTENEST, Kind.RAREST, Kind.PARTS})
"""Statistics of the most extreme of many counts, whose `expected` is the mean of any single one."""


@dataclass(frozen=True)
class Statistic:
    """One tested statistic of one level of one phase."""

    kind: Kind  # the statistic
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


def count_test(kind: Kind, quantity: str, *counts: Count) -> Statistic:
    """Return the test of the least likely of several counts, by a union bound; its p-value is 1 for no counts."""
    observed, expected, _ = least = min(counts, key=log_tail, default=Count(0, 0, 0))
    # A union bound over the counts; twice, because the tail is chosen by the side that the log is on.
    log_p_value = log_tail(least) + math.log(2 * max(len(counts), 1))
    return Statistic(kind, quantity, observed, expected, min(0.0, log_p_value))


def certain_test(kind: Kind, quantity: str, observed: float, sentence: str, expected: float = 0) -> Statistic:
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
