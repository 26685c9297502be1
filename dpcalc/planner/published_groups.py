"""The published pair of a group under one draw, and its quick variant, whether or not they are a guarantee here."""

from fractions import Fraction

from dpcalc.adjacency import Adjacency
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.published import Pair, both_directions
from dpcalc.planner.releases import releasing_phases
from dpcalc.sampling.laws import Law, at_least_one, binomial, hypergeometric
from dpcalc.sampling.schemes import Fixed, Poisson

GROUP_MIXTURE = "group mixture"
GROUP_AS_ONE = "group as one"


def group_rows(plan: Plan) -> tuple[Row, ...]:
    """What is published for k examples of one flat draw.

    The mixture is N(0) against sum_j Pr[j of the k in the batch] N(j); the quick variant takes every batch with any of
    them for one with all of them, so that tools for one example can be used with k times the sensitivity.

    Args:
        plan: one that is not noiseless.

    Returns:
        Two rows; none for single units, several levels or other draws. For batches of a fixed size neither is a
        bound: what is drawn in place of a missing example is left out.

    References:
        Sommer 2021, "Group Privacy for Deep Learning with Differential Privacy", sections "the privacy analysis" and
        "over-approximation"; for Poisson draws the mixture is that of Schuchardt et al. 2024 (2403.04867).
    """
    phases = releasing_phases(plan)
    laws = [_law(phase, plan.group_size) for phase in phases]
    flat = plan.unit == 1 and all(phase.hierarchy.depth == 1 and phase.clip == 1 for phase in phases)
    if not plan.is_gaussian or plan.group_size == 1 or not flat or None in laws:
        return ()
    poisson = all(isinstance(phase.hierarchy.level(1).scheme, Poisson) for phase in phases)
    valid = poisson and plan.adjacency is not Adjacency.REPLACE_ONE
    pairs = zip(laws, phases, strict=True)
    told = [(law, phase.gaussian.noise_multiplier, phase.steps) for law, phase in pairs if law]
    mixtures = [(_mixture(law), noise, steps) for law, noise, steps in told]
    ones = [(_mixture(_as_one(law, plan.group_size)), noise, steps) for law, noise, steps in told]
    why = "as published, not valid here: leaves out whoever is drawn in place of a missing example"
    if poisson and not valid:
        why = "as published, not valid here: knows examples that are removed, not exchanged"
    rows = (
        (GROUP_MIXTURE, mixtures, "the same as the one-step bound here"),
        (GROUP_AS_ONE, ones, "any example of the group counts as all of them"),
    )
    return tuple(
        Row(
            method="pld",
            bound=bound,
            epsilon=both_directions([steps], plan.delta),
            kind=Kind.UPPER if valid else Kind.AS_PUBLISHED,
            valid=valid,
            note=note if valid else why,
        )
        for bound, steps, note in rows
    )


def _law(phase: Phase, members: int) -> Law | None:
    """How many members a batch holds; None where that is not published."""
    level = phase.hierarchy.level(1)
    match level.scheme:
        case Fixed(size=size) if level.redraw_every == 1:
            return hypergeometric(level.count, members, size)
        case Poisson(probability=rate) if level.redraw_every == 1:
            return binomial(members, rate)
        case _:
            return None


def _as_one(law: Law, members: int) -> Law:
    """All members whenever there is any."""
    any_drawn = at_least_one(law)
    return {0: 1 - any_drawn, members: any_drawn}


def _mixture(law: Law) -> Pair:
    """The mixture over the number of members against N(0)."""
    return {count: chance for count, chance in law.items() if chance}, {0: Fraction(1)}
