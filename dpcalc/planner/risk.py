"""What an attacker can gain who must tell two neighbouring data sets apart, from the composed bound.

Every test with false positive rate a has, for every epsilon >= 0 with its delta, a true positive rate of at most

    e^epsilon a + delta    and    1 - e^-epsilon (1 - a - delta)

(Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh, Viswanath 2015, 1311.0776v4, Theorem 2.1). The pair is chosen well,
and certified; whichever is chosen, the bound holds.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from dpcalc.accountants.conversion import best_delta
from dpcalc.accountants.costliest import Counts, costliest
from dpcalc.accountants.pld import UPPER, delta_interval
from dpcalc.errors import ConvergenceError, InputError
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import is_noiseless, releases
from dpcalc.planner.search import estimate
from dpcalc.release.tree import step_counts

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
_GOLDEN = (math.sqrt(5) - 1) / 2
_ROUNDS = 14  # of golden section: the place of the minimum to a part in 800
_BELOW_ONE = 1 - 2.0**-20  # the largest delta that is asked about
_REACH = 12.0  # log of how far below delta(0) the best delta is looked for, beyond the false positive rate


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Upper bounds for every attacker, who may know all other units and see every step.

    Attributes:
        advantage: true minus false positive rate, at most; in [0, 1].
        detection: (false positive rate, true positive rate at most).
    """

    advantage: float
    detection: tuple[tuple[float, float], ...]


def attack(plan: Plan, *, false_positive_rates: tuple[float, ...] = FALSE_POSITIVE_RATES) -> Attack:
    """How well any attacker can tell whether the unit was in the data.

    Args:
        plan: a training run.
        false_positive_rates: in (0, 1).

    Returns:
        Upper bounds; 1 without noise.
    """
    rates = tuple((rate, true_positive_rate(plan, rate)) for rate in false_positive_rates)
    return Attack(advantage=advantage(plan), detection=rates)


@lru_cache(maxsize=32)
def advantage(plan: Plan) -> float:
    """The largest difference of true and false positive rate of any attacker: delta(0), an upper bound in [0, 1]."""
    if is_noiseless(plan):
        return 1.0
    trees = {name: step_counts(tree) for name, tree in releases(plan).releases.items()}
    return costliest(trees, answer=_delta_at_zero, cost=float, ceiling=_moment_delta_at_zero)[0]


def true_positive_rate(plan: Plan, false_positive_rate: float) -> float:
    """The largest true positive rate of any attacker with a false positive rate.

    Args:
        plan: a training run.
        false_positive_rate: in (0, 1).

    Returns:
        An upper bound in [false_positive_rate, 1], whichever of the two data sets the attacker wants to detect.

    Raises:
        InputError: for a rate outside (0, 1).
    """
    if not 0 < false_positive_rate < 1:
        expected = "expected a number between 0 and 1, both excluded"
        raise InputError(f"false positive rate: {expected}, got {false_positive_rate!r}")
    if is_noiseless(plan):
        return 1.0
    largest = advantage(plan)
    if largest <= 0:
        return false_positive_rate

    def asked(place: float) -> Plan:
        return replace(plan, delta=min(largest * math.exp(-abs(place)), _BELOW_ONE), method="auto")

    def bound(place: float, epsilon: float) -> float:
        delta = asked(place).delta
        if place >= 0:
            return math.exp(min(epsilon, 700.0)) * false_positive_rate + delta
        return 1 - math.exp(-epsilon) * max(0.0, 1 - false_positive_rate - delta)

    reach = _REACH - math.log(false_positive_rate)
    best = _least_at(lambda place: bound(place, estimate(asked(place))), -reach, reach)
    certified = bound(best, guarantee(asked(best)).epsilon)
    return min(1.0, certified, false_positive_rate + largest)


def _delta_at_zero(counts: Counts) -> float:
    """Certified delta at epsilon 0, by moments where there is no certified answer."""
    try:
        return delta_interval(counts, epsilon=0.0, sides=(UPPER,))[0]
    except ConvergenceError:
        return _moment_delta_at_zero(counts)


def _moment_delta_at_zero(counts: Counts) -> float:
    """An upper bound on delta at epsilon 0 that is cheap."""
    return min(1.0, best_delta(counts, epsilon=0.0).value) if counts else 0.0


def _least_at(function: Callable[[float], float], low: float, high: float) -> float:
    """About where a function that first falls and then rises is least, by golden section."""
    near, far = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_near, at_far = function(near), function(far)
    for _ in range(_ROUNDS):
        if at_near <= at_far:
            high, far, at_far = far, near, at_near
            near = high - _GOLDEN * (high - low)
            at_near = function(near)
        else:
            low, near, at_near = near, far, at_far
            far = low + _GOLDEN * (high - low)
            at_far = function(far)
    return near if at_near <= at_far else far
