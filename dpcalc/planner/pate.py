"""Privacy cost of PATE: by the number of answers alone, and by the votes of the teachers.

`aggregation` has its noise, `votes` are those of the teachers, in the order of the queries; delta is in (0, 1).
Source: docs/theory.md, Theorem 12.1 and Theorem 12.2.
"""

import math
from collections import Counter

import numpy as np

from dpcalc.accountants.basic import equal_steps
from dpcalc.accountants.gaussian import gaussian_epsilon
from dpcalc.accountants.rdp import log_peak
from dpcalc.arrays import Array
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency, Guarantee, Kind
from dpcalc.mechanisms.pate import ConfidentGNMax, LNMax, PateMechanism, Votes, louder, other_wins_bound
from dpcalc.numerics.roots import bracket_root, zoomed_minimum
from dpcalc.records import dataclass

UNIT = "teacher"
MAX_QUERIES = 10**9
_FIRST_ORDERS = np.geomspace(0.05, 5e3, 16)
_ORDERS_A_ROUND, _ROUNDS = 7, 3  # orders tried at once, and how often the interval around the best is cut again
_PREFIX_ORDERS = 24
_NOISE_TOLERANCE = 1e-9  # relative distance of the smallest noise from what fails


@dataclass(frozen=True, kw_only=True)
class DataDependentResult:
    """Privacy cost given the votes at hand; the numbers are themselves private.

    The guarantee holds between the data with these votes and every neighbour, in both directions.
    """

    guarantee: Guarantee
    order: float  # the Renyi order of the bound, > 1
    chances: Array  # by query, bounds on the probability that another than the most frequent label wins
    costs: Array  # by query, Renyi divergences at that order


def data_independent_guarantee(aggregation: PateMechanism, queries: int, *, delta: float) -> Guarantee:
    """Return the guarantee for any votes, with an upper bound on epsilon that is 0 for no queries.

    A query of LNMax is (2 gamma, 0)-DP, and the optimal composition of such steps is known. GNMax comes from a Gaussian
    release of the counts, of which one falls by one and another one rises; the check of Confident-GNMax from one of the
    largest count, which changes by one. Many Gaussian releases are one: epsilon comes from its profile where floats can
    hold it, else it is rho + 2 sqrt(rho log(1/delta)) of rho-zCDP (Bun, Steinke 2016, 1605.02065v1, Proposition 1.3).
    """
    _refuse_out_of_range(queries, delta)
    if isinstance(aggregation, LNMax):
        epsilon = equal_steps(2 * aggregation.gamma, queries, delta=delta) if queries else 0.0
        return _guarantee(epsilon, delta, "optimal", "data-independent", "")
    counts = {curve: count * queries for curve, count in Counter(aggregation.dominating_curves(1)).items()}
    exact = gaussian_epsilon(counts, delta=delta, is_upper=True) if queries else 0.0
    if exact is not None:
        return _guarantee(exact, delta, "closed-form", "data-independent", "")
    rho = queries / aggregation.noise_multiplier**2
    if isinstance(aggregation, ConfidentGNMax):
        rho += queries / (2 * aggregation.threshold_noise_multiplier**2)
    return _guarantee(rho + 2 * math.sqrt(rho * -math.log(delta)), delta, "rdp", "data-independent", "")


def data_dependent_guarantee(aggregation: PateMechanism, votes: Votes, *, delta: float) -> DataDependentResult:
    """Return the cost given the votes, which is itself private; it is at most the cost for any votes."""
    _refuse_out_of_range(len(votes.counts), delta)
    chances = other_wins_bound(aggregation, votes)

    def cumulants(orders: Array) -> tuple[Array, Array]:
        ahead, back = aggregation.log_moments(chances, votes.top, orders)
        return ahead.sum(axis=0), back.sum(axis=0)

    smallest, order, _ = zoomed_minimum(
        lambda z: epsilon_by_order(np.maximum(*cumulants(z)), z, delta=delta),
        _FIRST_ORDERS,
        rounds=_ROUNDS,
        count=_ORDERS_A_ROUND,
    )
    best = np.array([order])
    ahead, back = cumulants(best)
    direction = "D||D'" if ahead >= back else "D'||D"
    costs = np.maximum(*aggregation.log_moments(chances, votes.top, best))[:, 0] / order
    whatever = data_independent_guarantee(aggregation, len(votes.counts), delta=delta)
    if whatever.epsilon < smallest:
        guarantee = whatever
    else:
        guarantee = _guarantee(max(0.0, smallest), delta, "rdp", "data-dependent", direction)
    return DataDependentResult(guarantee=guarantee, order=order + 1, chances=chances, costs=costs)


def epsilon_by_order(cumulants: Array, orders: Array, *, delta: float) -> Array:
    """Return the epsilon that each order z proves, (K(z) + log w(z) - log delta) / z; a negative one proves 0.

    `cumulants` are K(z) >= 0, their last axis is that of the orders.
    """
    return np.asarray((cumulants + log_peak(orders) - math.log(delta)) / orders)


def max_queries(aggregation: PateMechanism, *, target: float, delta: float) -> int:
    """Return the largest number of queries, up to 1e9, whose epsilon for any votes is within a target; 0 if none."""
    _refuse_target(target)

    def keeps(queries: int) -> bool:
        return data_independent_guarantee(aggregation, queries, delta=delta).epsilon <= target

    # Epsilon rises with the queries: doubling and bisection find the last number that fits.
    low, high = 0, 1
    while high <= MAX_QUERIES and keeps(high):
        low, high = high, 2 * high
    high = min(high, MAX_QUERIES + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def max_queries_by_votes(aggregation: PateMechanism, votes: Votes, *, target: float, delta: float) -> int:
    """Return how many of the first queries fit a target given the votes, no fewer than for any votes; it is private."""
    _refuse_target(target)
    chances = other_wins_bound(aggregation, votes)
    log_delta = -math.log(delta)
    # The best order of what costs `target` lies near log(1/delta) / target; cumulative sums price every prefix at once.
    orders = np.geomspace(0.25 * log_delta / target, 6 * log_delta / target, _PREFIX_ORDERS)
    moments = aggregation.log_moments(chances, votes.top, orders)
    sums = np.maximum(*(np.cumsum(each, axis=0) for each in moments))
    fitting = int((epsilon_by_order(sums, orders, delta=delta).min(axis=1) <= target).sum())
    return max(fitting, min(len(votes.counts), max_queries(aggregation, target=target, delta=delta)))


def min_noise(aggregation: PateMechanism, queries: int, *, target: float, delta: float) -> PateMechanism:
    """Return the aggregation with the least noise that meets a target for any votes; InputError if none does.

    Chosen without the votes: noise that was chosen by looking at them would reveal something about them. The two noises
    of Confident-GNMax keep their ratio. A billionth less noise exceeds the target.
    """
    _refuse_target(target)

    def excess(log_factor: float) -> float:
        return (
            data_independent_guarantee(louder(aggregation, math.exp(log_factor)), queries, delta=delta).epsilon - target
        )

    # Epsilon falls as noise grows. With e^50 times the noise no vote counts, with e^-50 there is none.
    low, high = -1.0, 1.0
    while excess(low) <= 0:
        low *= 2
        if low < -50:
            raise InputError("target: expected one that needs noise, but almost none meets it")
    while excess(high) > 0:
        high *= 2
        if high > 50:
            raise InputError(f"target: expected an epsilon that noise can reach, got {target!r}")
    # Only an end that meets the target is returned, so that the bracket may end on either side of the root.
    root = bracket_root(lambda x: -excess(x), low, high, tolerance=_NOISE_TOLERANCE)
    return louder(aggregation, math.exp(next(x for x in (*root, high) if excess(x) <= 0)))


def _guarantee(epsilon: float, delta: float, method: str, bound: str, direction: str) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        kind=Kind.UPPER,
        unit=UNIT,
        adjacency=Adjacency.REPLACE_ONE,
        method=method,
        bound=bound,
        direction=direction,
    )


def _refuse_out_of_range(queries: int, delta: float) -> None:
    if not 0 <= queries <= MAX_QUERIES:
        raise InputError(f"queries: expected a whole number from 0 to {MAX_QUERIES:.0e}, got {queries}")
    if not 0 < delta < 1:
        raise InputError(f"delta: expected a number between 0 and 1, both excluded, got {delta!r}")


def _refuse_target(target: float) -> None:
    if not (math.isfinite(target) and target > 0):
        raise InputError(f"target epsilon: expected a finite number > 0, got {target!r}")
