"""Tests of counts with a rigorous p-value: Chernoff's bound for negatively associated events.

Source: docs/theory.md, Theorem 17.1.
"""

import math
from collections.abc import Iterable
from enum import StrEnum

from dpcalc.records import dataclass

FALSE_ALARM = 1e-6
"""Largest probability that an honest log is contradicted by any test of an audit; they share it equally."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number of events beside its law: events that are independent or negatively associated.

    Attributes:
        observed: number of events that the log shows.
        expected: its expectation under the declared law.
        trials: number of events that could have occurred, >= expected.
    """

    observed: float
    expected: float
    trials: float


class Kind(StrEnum):
    """Statistics that are tested, as JSON names them."""

    TOTAL = "total"
    SIZES = "sizes"
    LARGEST = "largest"
    SMALLEST = "smallest"
    REPEATS = "repeats"
    HELD = "held"
    SEPARATION = "separation"
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


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """One tested statistic of one level of one phase.

    Attributes:
        kind: the statistic.
        quantity: what is counted, for people.
        observed: the number in the log.
        expected: the number that the declared law expects; of several counts that with the smallest p-value.
        log_p_value: natural logarithm of a bound on the p-value; -inf for what the declared law excludes.
        sentence: what the log shows, for one that contradicts; "" if the numbers say it.
    """

    kind: Kind
    quantity: str
    observed: float
    expected: float
    log_p_value: float
    sentence: str = ""

    def contradicts(self, tests: int) -> bool:
        """Return True if the p-value is at most FALSE_ALARM / tests.

        Args:
            tests: their number in the whole audit, which the log must not decide.
        """
        return self.log_p_value <= math.log(FALSE_ALARM / tests)


def log_tail(count: Count) -> float:
    """Return the log (<= 0; -inf: impossible) of a bound on the probability of a count so far from its expectation.

    Args:
        count: the number of events; the bound is on the tail, upper or lower, on whose side the observed number lies.

    Returns:
        - trials * KL(observed / trials || expected / trials), Theorem 17.1 of docs/theory.md; -inf for an impossible
        count.
    """
    observed, trials = count.observed, count.trials
    expected = min(max(count.expected, 0.0), trials)
    failures, expected_failures = trials - observed, trials - expected
    if (observed > 0 and expected == 0) or (failures > 0 and expected_failures == 0):
        return -math.inf
    total = observed * math.log(observed / expected) if observed else 0.0
    if failures:
        total += failures * math.log1p((expected - observed) / expected_failures)
    return min(0.0, -total)


def counted(kind: Kind, quantity: str, counts: Iterable[Count]) -> Statistic:
    """Return the statistic of the most surprising count, its p-value times both tails of all; p-value 1 for none.

    Args:
        kind: the statistic.
        quantity: what is counted.
        counts: their number must not depend on the log, given the sizes of the draws.
    """
    every = list(counts)
    tails = [log_tail(count) for count in every]
    if not tails:
        return Statistic(kind=kind, quantity=quantity, observed=0, expected=0, log_p_value=0.0)
    place = tails.index(min(tails))
    return Statistic(
        kind=kind,
        quantity=quantity,
        observed=every[place].observed,
        expected=every[place].expected,
        log_p_value=min(0.0, tails[place] + math.log(2 * len(every))),
    )


def certain(kind: Kind, quantity: str, *, observed: float, expected: float, sentence: str) -> Statistic:
    """Return the statistic of a number that the law fixes: log p-value 0 if it is the observed one, else -inf.

    Args:
        kind: the statistic.
        quantity: what is counted.
        observed: the number in the log.
        expected: the only number that is possible.
        sentence: what the log shows if it is another one.
    """
    holds = observed == expected
    return Statistic(
        kind=kind,
        quantity=quantity,
        observed=observed,
        expected=expected,
        log_p_value=0.0 if holds else -math.inf,
        sentence="" if holds else sentence,
    )
