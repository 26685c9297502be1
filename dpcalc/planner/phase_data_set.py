"""The data sets of one phase as independent observations, from which lower bounds are composed.

Source: docs/theory.md, Theorem 10.1.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from dpcalc.amplification.data_sets import Mixture, data_set_pair
from dpcalc.amplification.schedule import PhaseBound
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.co_sampled import CoSampled, co_sampled_with
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import AllocatedPass, BallsInBins, RandomAllocation

Pair = tuple[Mixture, Mixture]
"""(P, Q): distributions of a sum without its noise in D and D'."""


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Independent releases of a phase that have the same pair of distributions.

    Attributes:
        pair: (P, Q) of one release for a sign pattern.
        factor: noise deviation of a release over that of a step: 1 / sqrt(k) for k steps under one draw, sqrt(n) for
            the sum of the n steps of a pass.
        number: number of such releases, >= 1.
        allocated: the pass in whose bins a release happens, if the unit, or one above it, chooses its steps.
    """

    pair: Callable[[tuple[int, ...]], Pair]
    factor: float
    number: int
    allocated: AllocatedPass | None = None


@dataclass(frozen=True, kw_only=True)
class PhaseDataSet:
    """The data sets of one phase as independent Gaussian observations; k steps under one draw count as one.

    Attributes:
        phase_bound: the upper bound of the phase, for comparison.
        repetitions: the observations, independent of one another. Gradients do not change under one draw, so only the
            sum of a pass, or of all steps under one outermost draw, is observed. A sum of other than Gaussian noise has
            no distribution of the same kind: then one step under each outermost draw is observed.
        is_complete: False if steps of the bound were left out, so that the lower bound is valid but not tight.
    """

    phase_bound: PhaseBound
    repetitions: tuple[Repetition, ...]
    is_complete: bool = True


def drawn_pair(co_sampled: CoSampled, plan: Plan, repeats: tuple[int, ...], signs: tuple[int, ...]) -> Pair:
    """Return (P, Q) of the sum, without noise, under one draw of the outermost level; see `data_set_pair`.

    Args:
        co_sampled: the protected unit and the units drawn with it.
        plan: what is protected.
        repeats: draws of a level that are summed under one draw above it, see `data_set_pair`.
        signs: of the contributions, by level.
    """
    return data_set_pair(co_sampled, adjacency=plan.adjacency, signs=signs, members=plan.group_size, repeats=repeats)


def zero_neighbours_pair(co_sampled: CoSampled, plan: Plan, repeats: tuple[int, ...], signs: tuple[int, ...]) -> Pair:
    """Return (P, Q) of one draw of a data set in which all other units contribute zero; arguments as `drawn_pair`.

    Args:
        co_sampled: the protected unit and the units drawn with it.
        plan: what is protected.
        repeats: draws of a level that are summed under one draw above it.
        signs: by level; only their number counts.
    """
    return drawn_pair(co_sampled, plan, repeats, tuple(0 for _ in signs))


def allocated_data_set(plan: Plan, phase: Phase, path: Path, phase_bound: PhaseBound) -> PhaseDataSet | None:
    """Return an allocated phase's data sets, all but one unit zero; None: `times` > 1 and no Gaussian whole phase.

    A unit that is replaced by one of zeros is as good as removed.

    Args:
        plan: what is protected.
        phase: one of its phases, with an allocation.
        path: the path to the protected unit in a step that is chosen.
        phase_bound: the upper bound of the phase.

    Returns:
        None where several steps of all are chosen and their sum is no Gaussian pair.

    Raises:
        LookupError: the phase has no allocation.
    """
    hierarchy, allocation = phase.hierarchy.given_allocation(), phase.hierarchy.allocation
    if allocation is None:
        raise LookupError(f"{phase.name}: expected units that choose their steps")
    co_sampled = co_sampled_with(hierarchy, path, clip=phase.clip, members=1)
    adjacency = Adjacency.ZERO_OUT if plan.adjacency is Adjacency.REPLACE_ONE else plan.adjacency
    single = replace(plan, group_size=1, adjacency=adjacency)
    pair = cache(partial(zero_neighbours_pair, co_sampled, single, ()))
    is_gaussian = isinstance(phase.mechanism, Gaussian) and all(len(side) == 1 for side in pair((0,) * plan.unit))
    if isinstance(allocation, RandomAllocation) and allocation.times > 1:
        if not is_gaussian or phase.steps < allocation.steps:
            return None

        def sum_of_all(signs: tuple[int, ...]) -> Pair:
            p, q = ({center * allocation.times: weight for center, weight in side.items()} for side in pair(signs))
            return p, q

        of_all = Repetition(pair=sum_of_all, factor=math.sqrt(allocation.steps), number=1)
        return PhaseDataSet(phase_bound=phase_bound, repetitions=(of_all,), is_complete=False)
    # Steps under a choice that is held depend on each other; only a sum of Gaussians is again of the same kind.
    is_cut = isinstance(allocation, BallsInBins) and allocation.is_held and not is_gaussian
    steps = min(phase.steps, allocation.bins) if is_cut and isinstance(allocation, BallsInBins) else phase.steps
    passes = allocation.passes(steps)
    repetitions = tuple(
        Repetition(pair=pair, factor=1.0, number=each_pass.number, allocated=each_pass) for each_pass in passes
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=repetitions, is_complete=not is_cut)
