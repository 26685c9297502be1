"""What an actual data set costs: the lower end printed beside the guarantee."""

from collections import Counter
from fractions import Fraction

import numpy as np

from dpcalc.accountants.conversion import best_epsilon, composed_moments
from dpcalc.accountants.pld import LOWER, delta_interval, interval
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.loss_moments import LossCurve
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.releases import phase_bound, releases, releasing_phases
from dpcalc.release.data_sets import Mixture, data_set_pair, sign_patterns
from dpcalc.release.step import bound_mixtures
from dpcalc.release.tree import step_counts

Pair = tuple[Mixture, Mixture]


def epsilon_lower(plan: Plan) -> tuple[float, bool]:
    """Cost of the worst data set that is known for a plan.

    The candidates are ranked by their log moment at the order that decides the bound; the first is composed.

    Args:
        plan: one that is not noiseless.

    Returns:
        (a certified lower end of its epsilon: never above what that data set costs; whether its pair is the
        bound's own in every phase, so that the bound is tight).
    """
    worst = _worst_data_set(plan)
    if worst is None:
        return 0.0, True
    counts, tight = worst
    (value,) = interval(counts, delta=plan.delta, sides=(LOWER,))
    return value, tight


def delta_lower(plan: Plan, *, epsilon: float) -> float:
    """A certified lower end of delta at an epsilon for the worst data set that is known; the plan is not noiseless."""
    worst = _worst_data_set(plan)
    return 0.0 if worst is None else delta_interval(worst[0], epsilon=epsilon, sides=(LOWER,))[0]


def _worst_data_set(plan: Plan) -> tuple[dict[LossCurve, int], bool] | None:
    """Steps of the costliest candidate, and whether it attains the bound; None if nothing is released."""
    phases = releasing_phases(plan)
    if not phases:
        return None
    order = _deciding_order(plan)
    best: tuple[float, bool, dict[LossCurve, int]] | None = None
    for counts, tight in _candidates(plan, phases):
        score = float(composed_moments(counts, max_order=order).cumulants(np.array([order]))[0][0])
        if best is None or (score, tight) > best[:2]:
            best = (score, tight, counts)
    return None if best is None else (best[2], best[1])


def _deciding_order(plan: Plan) -> float:
    """The order of the moment bound in the costlier direction."""
    trees = [step_counts(release) for release in releases(plan).releases.values()]
    bests = [best_epsilon(counts, delta=plan.delta) for counts in trees]
    return max(bests, key=lambda best: best.value).order


def _candidates(plan: Plan, phases: tuple[Phase, ...]) -> list[tuple[dict[LossCurve, int], bool]]:
    """Steps of each different data set in each direction, and whether it attains the bound."""
    found: dict[frozenset[tuple[LossCurve, int]], tuple[dict[LossCurve, int], bool]] = {}
    for signs in sign_patterns(plan.unit):
        pairs = [
            data_set_pair(p.hierarchy, unit=plan.unit, clip=p.clip, adjacency=plan.adjacency, signs=signs)
            for p in phases
        ]
        tight = all(_attains(plan, phase, pair) for phase, pair in zip(phases, pairs, strict=True))
        for direction in (pairs, [(q, p) for p, q in pairs]):
            counts: Counter[LossCurve] = Counter()
            for phase, (p, q) in zip(phases, direction, strict=True):
                counts[MixturePair.of(p, q, deviation=phase.mechanism.noise_multiplier)] += phase.steps
            found.setdefault(frozenset(counts.items()), (dict(counts), tight))
    return list(found.values())


def _attains(plan: Plan, phase: Phase, pair: Pair) -> bool:
    """Whether a data set's pair is that of the one-step bound in both directions."""
    bound = phase_bound(plan, phase)
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
