"""What an actual data set costs: the lower end printed beside the guarantee."""

from collections import Counter
from fractions import Fraction

import numpy as np

from dpcalc.accountants.conversion import composed_moments
from dpcalc.accountants.pld import LOWER, delta_interval, interval
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.loss_moments import Curve
from dpcalc.planner.deciding import deciding
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import Alternative, alternatives, releasing_phases
from dpcalc.release.bounds import StepBound
from dpcalc.release.data_sets import Mixture, data_set_pair, sign_patterns
from dpcalc.release.step import bound_mixtures
from dpcalc.sampling.company import company_of

Pair = tuple[Mixture, Mixture]


def epsilon_lower(plan: Plan, *, direction: str = "") -> tuple[float, bool]:
    """Cost of the worst data set that is known for a plan.

    The candidates are ranked by their log moment at the order that decides the bound; the first is composed.

    Args:
        plan: one that is not noiseless.
        direction: which of `releases` decides the bound, for units that differ; "" takes the one that the moment bound
            finds costliest.

    Returns:
        (a certified lower end of its epsilon: never above what that data set costs; whether its pair is the
        bound's own in every phase, so that the bound is tight).
    """
    worst = _worst_data_set(plan, direction)
    if worst is None:
        return 0.0, True
    counts, tight = worst
    (value,) = interval(counts, delta=plan.delta, sides=(LOWER,))
    return value, tight


def delta_lower(plan: Plan, *, epsilon: float, direction: str = "") -> float:
    """A certified lower end of delta at an epsilon for the worst data set that is known; the plan is not noiseless."""
    worst = _worst_data_set(plan, direction)
    return 0.0 if worst is None else delta_interval(worst[0], epsilon=epsilon, sides=(LOWER,))[0]


def _worst_data_set(plan: Plan, direction: str) -> tuple[dict[Curve, int], bool] | None:
    """Steps of the costliest candidate, and whether it attains the bound; None if nothing is released."""
    if not releasing_phases(plan):
        return None
    protected, bound = deciding(plan, direction)
    order = bound.order
    best: tuple[float, bool, dict[Curve, int]] | None = None
    for counts, attained in _candidates(plan, protected):
        score = float(composed_moments(counts, max_order=order).cumulants(np.array([order]))[0][0])
        tight = attained and (bool(direction) or len(alternatives(plan)) == 1)
        if best is None or (score, tight) > best[:2]:
            best = (score, tight, counts)
    return None if best is None else (best[2], best[1])


def _candidates(plan: Plan, protected: Alternative) -> list[tuple[dict[Curve, int], bool]]:
    """Steps of each different data set in each direction, and whether it attains the bound of the protected unit."""
    found: dict[frozenset[tuple[Curve, int]], tuple[dict[Curve, int], bool]] = {}
    phases = releasing_phases(plan)
    places = [plan.phases.index(phase) for phase in phases]
    bounds = [protected.bounds[place] for place in places]
    companies = [
        company_of(phase.hierarchy, protected.paths[place], clip=phase.clip)
        for phase, place in zip(phases, places, strict=True)
    ]
    for signs in sign_patterns(plan.unit):
        pairs = [data_set_pair(company, adjacency=plan.adjacency, signs=signs) for company in companies]
        tight = all(map(_attains, bounds, pairs))
        for direction in (pairs, [(q, p) for p, q in pairs]):
            counts: Counter[Curve] = Counter()
            for phase, (p, q) in zip(phases, direction, strict=True):
                counts[MixturePair.of(p, q, deviation=phase.mechanism.noise_multiplier)] += phase.steps
            found.setdefault(frozenset(counts.items()), (dict(counts), tight))
    return list(found.values())


def _attains(bound: StepBound, pair: Pair) -> bool:
    """Whether a data set's pair is that of the one-step bound in both directions."""
    p, q = pair
    own = bound_mixtures(bound, bound.distances)
    other = bound_mixtures(bound, bound.distances_swapped)
    return _canonical((p, q)) == _canonical(own) and _canonical((q, p)) == _canonical(other)


def _canonical(pair: Pair) -> tuple[tuple[int, Fraction, Fraction], ...]:
    """A pair of mixtures up to moving and turning around the line."""
    p, q = pair
    centers = sorted(c for c in {*p, *q} if p.get(c) or q.get(c))
    zero = Fraction(0)
    ahead = tuple((c - centers[0], p.get(c, zero), q.get(c, zero)) for c in centers)
    back = tuple((centers[-1] - c, p.get(c, zero), q.get(c, zero)) for c in reversed(centers))
    return min(ahead, back)
