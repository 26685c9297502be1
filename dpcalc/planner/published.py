"""What published formulas and other tools print for a plan, whether or not it is a guarantee here."""

from collections import Counter
from fractions import Fraction

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.adjacency import Adjacency
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.loss_moments import LossCurve
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import phase_bound, releasing_phases
from dpcalc.release.step import bound_mixtures

THEOREM_3 = "Theorem 3"


def theorem_3(plan: Plan) -> Row | None:
    """Theorem 3 of Tombs, Kotevska, Young 2022: as if the record came from one flat draw of rate eta.

    Returns:
        The row, marked valid only where the formula is the one-step bound itself; None under relations the
        theorem does not speak of.

    References:
        CEUR Vol-3318 short 3, Theorem 3. Its proof needs a coupling that does not exist for two or more random
        levels: when the record's unit is not drawn, another unit's records are in the batch and can tell.
    """
    if plan.adjacency is not Adjacency.ADD_REMOVE:
        return None
    bounds = [(phase, phase_bound(plan, phase)) for phase in releasing_phases(plan)]
    valid = all(
        bound_mixtures(bound, bound.distances) == _flat(bound.inclusion, bound.shift, at=bound.shift)
        and bound_mixtures(bound, bound.distances_swapped) == _flat(bound.inclusion, bound.shift, at=0)
        for _, bound in bounds
    )
    steps = [
        (_flat(bound.inclusion, bound.shift, at=bound.shift), phase.mechanism.noise_multiplier, phase.steps)
        for phase, bound in bounds
    ]
    return Row(
        method="pld",
        bound=THEOREM_3,
        epsilon=_both_directions(steps, plan.delta),
        kind=Kind.UPPER if valid else Kind.AS_PUBLISHED,
        valid=valid,
        note="the same as the one-step bound here"
        if valid
        else "as published, not valid here: a batch without the unit's parent holds other units and can tell "
        "that it was missed",
    )


def poisson_tools(plan: Plan) -> Row:
    """What tools print that know only flat Poisson sampling of single examples: Opacus, TF-Privacy, JAX-Privacy."""
    steps = [
        (_flat(phase.hierarchy.inclusion(plan.unit), 1, at=1), phase.mechanism.noise_multiplier, phase.steps)
        for phase in releasing_phases(plan)
    ]
    valid = all(
        bound_mixtures(bound, bound.distances) == mixtures
        for (mixtures, _, _), bound in zip(steps, (phase_bound(plan, p) for p in releasing_phases(plan)), strict=True)
    )
    return Row(
        method="pld",
        bound="flat Poisson",
        epsilon=_both_directions(steps, plan.delta),
        kind=Kind.UPPER if valid else Kind.AS_PUBLISHED,
        valid=valid,
        note="what Opacus and TF-Privacy print"
        if valid
        else "what Opacus and TF-Privacy would print: they assume Poisson sampling of single examples, add-remove",
    )


def _flat(rate: Fraction, shift: int, *, at: int) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """The classical pair of one flat draw; the batch without the unit has its mean at `at`."""
    p: dict[int, Fraction] = {0: rate}
    q: dict[int, Fraction] = {shift: rate}
    if rate < 1:
        p[at] = p.get(at, Fraction(0)) + 1 - rate
        q[at] = q.get(at, Fraction(0)) + 1 - rate
    return p, q


def _both_directions(
    steps: list[tuple[tuple[dict[int, Fraction], dict[int, Fraction]], float, int]], delta: float
) -> float:
    """Epsilon of composed pairs, the larger of the two directions."""
    ahead: Counter[LossCurve] = Counter()
    back: Counter[LossCurve] = Counter()
    for (p, q), deviation, count in steps:
        ahead[MixturePair.of(p, q, deviation=deviation)] += count
        back[MixturePair.of(q, p, deviation=deviation)] += count
    if not ahead:
        return 0.0
    return max(ACCOUNTANTS["pld"](dict(counts), delta=delta).epsilon for counts in (ahead, back))
