"""What published formulas and other tools print for a plan, whether or not it is a guarantee here."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

from dpcalc.accountants import worst
from dpcalc.accountants.advanced import best_fraction
from dpcalc.accountants.auto import auto
from dpcalc.adjacency import Adjacency
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.releases import Alternative, alternatives, inclusion, is_plain, releasing_phases
from dpcalc.release.bounds import StepBound
from dpcalc.release.step import bound_mixtures
from dpcalc.release.tree import Release, Repeat, Sequence, Single, WorstOf

Pair = tuple[dict[int, Fraction], dict[int, Fraction]]

THEOREM_3 = "Theorem 3"
FLAT_POISSON = "flat Poisson"
GAUSSIAN_ONLY = "does not apply: for Gaussian noise only"


def theorem_3(plan: Plan, *, known: float | None = None) -> Row | None:
    """Theorem 3 of Tombs, Kotevska, Young 2022: as if the record came from one flat draw of rate eta.

    Args:
        plan: a training run.
        known: epsilon of the one-step bound, if it is at hand: it is the row's where the formula is that bound.

    Returns:
        The row, marked valid only where the formula is the one-step bound itself; None under relations the
        theorem does not speak of.

    References:
        CEUR Vol-3318 short 3, Theorem 3. Its proof needs a coupling that does not exist for two or more random
        levels: when the record's unit is not drawn, another unit's records are in the batch and can tell.
    """
    if plan.adjacency is not Adjacency.ADD_REMOVE or not is_plain(plan):
        return None
    runs = [_releasing(plan, one) for one in alternatives(plan)]
    valid = all(
        bound_mixtures(bound, bound.distances) == flat_pair(bound.inclusion, bound.shift, at=bound.shift)
        and bound_mixtures(bound, bound.distances_swapped) == flat_pair(bound.inclusion, bound.shift, at=0)
        for run in runs
        for _, bound in run
    )
    steps = []
    for run in runs:
        flat = [
            (flat_pair(bound.inclusion, bound.shift, at=bound.shift), phase.gaussian.noise_multiplier, phase.steps)
            for phase, bound in run
        ]
        if flat not in steps:
            steps.append(flat)
    return Row(
        method="pld",
        bound=THEOREM_3,
        epsilon=both_directions(steps, plan.delta) if known is None or not valid else known,
        kind=Kind.UPPER if valid else Kind.AS_PUBLISHED,
        valid=valid,
        note="the same as the one-step bound here"
        if valid
        else "as published, not valid here: a batch without the unit's parent holds other units and can tell "
        "that it was missed",
    )


def poisson_tools(plan: Plan, *, known: float | None = None) -> Row:
    """What tools print that know only flat Poisson sampling of single examples: Opacus, TF-Privacy, JAX-Privacy.

    Args:
        plan: a training run.
        known: as for `theorem_3`.
    """
    if not plan.is_gaussian:
        return Row(
            method="pld", bound=FLAT_POISSON, epsilon=None, kind=Kind.AS_PUBLISHED, valid=False, note=GAUSSIAN_ONLY
        )
    steps = [
        (flat_pair(inclusion(plan, phase), 1, at=1), phase.gaussian.noise_multiplier, phase.steps)
        for phase in releasing_phases(plan)
    ]
    valid = is_plain(plan) and all(
        bound_mixtures(bound, bound.distances) == mixtures
        for one in alternatives(plan)
        for (mixtures, _, _), (_, bound) in zip(steps, _releasing(plan, one), strict=True)
    )
    return Row(
        method="pld",
        bound=FLAT_POISSON,
        epsilon=both_directions([steps], plan.delta) if known is None or not valid else known,
        kind=Kind.UPPER if valid else Kind.AS_PUBLISHED,
        valid=valid,
        note="what Opacus and TF-Privacy print"
        if valid
        else "what Opacus and TF-Privacy would print: they assume Poisson sampling of single examples, add-remove",
    )


def strong_composition(plan: Plan) -> Row:
    """The strong composition theorem as Abadi et al. 2016 print it beside their moments accountant.

    A Gaussian step is (e, d)-DP with e = sqrt(2 ln(1.25 / d)) / sigma, a sampled one is called (q e, q d)-DP, and k of
    them (q e sqrt(2 k ln(1 / d')) + k (q e)^2, k q d + d')-DP, the split of delta optimised.

    Returns:
        The row, never valid: e^(q e) - 1 is put where q (e^e - 1) is due, and the first line needs e < 1. Only for
        equal steps, since only those are published.

    References:
        Abadi et al. 2016 (1607.00133v2), section 3.1 with theorem A.1 and 3.20 of Dwork, Roth 2014; 9.34 at q = .01,
        sigma = 4, k = 10000, delta = 1e-5, where the last term with e^(q e) - 1 for q e would give 9.353.
    """
    row = Row(method="strong-composition", bound=FLAT_POISSON, epsilon=None, kind=Kind.AS_PUBLISHED, valid=False)
    if not plan.is_gaussian:
        return replace(row, note=GAUSSIAN_ONLY)
    steps: Counter[tuple[Fraction, float]] = Counter()
    for phase in releasing_phases(plan):
        steps[inclusion(plan, phase), phase.gaussian.noise_multiplier] += phase.steps
    if len(steps) != 1:
        return replace(row, note="does not apply: published for equal steps only")
    (((rate, noise_multiplier), count),) = steps.items()
    q, sigma, k = float(rate), noise_multiplier, count  # paper: q, sigma, T

    def composed(fraction: float) -> float:
        share = min(1.0, plan.delta * (1 - fraction) / (k * q))
        step = q * math.sqrt(2 * math.log(1.25 / share)) / sigma
        return math.sqrt(2 * k * math.log(1 / (plan.delta * fraction))) * step + k * step**2

    return replace(
        row,
        epsilon=composed(best_fraction(composed)),
        note="as published by Abadi et al. 2016, no bound: scales epsilon by the rate, which holds to first order only",
    )


def flat_pair(rate: Fraction, shift: int, *, at: int) -> Pair:
    """The classical pair of one flat draw; the batch without the unit has its mean at `at`, in clip norms."""
    p: dict[int, Fraction] = {0: rate}
    q: dict[int, Fraction] = {shift: rate}
    if rate < 1:
        p[at] = p.get(at, Fraction(0)) + 1 - rate
        q[at] = q.get(at, Fraction(0)) + 1 - rate
    return p, q


def _releasing(plan: Plan, protected: Alternative) -> list[tuple[Phase, StepBound]]:
    """The phases that can draw the protected unit, with (K) for it."""
    releasing = releasing_phases(plan)
    pairs = zip(plan.phases, protected.bounds, strict=True)
    return [(phase, bound) for phase, bound in pairs if phase in releasing and isinstance(bound, StepBound)]


def both_directions(runs: list[list[tuple[Pair, float, int]]], delta: float) -> float:
    """Epsilon of composed pairs, the larger of the two directions of the costliest run."""
    trees: dict[str, Release] = {}
    for number, steps in enumerate(runs):
        ahead, back = (
            [
                Repeat(node=Single(curve=MixturePair.of(*pair[::turn], deviation=deviation)), count=count)
                for pair, deviation, count in steps
            ]
            for turn in (1, -1)
        )
        trees[f"{number} ahead"] = Sequence(nodes=tuple(ahead))
        trees[f"{number} back"] = Sequence(nodes=tuple(back))
    return worst(WorstOf(releases=trees), auto, delta=delta)[0].epsilon
