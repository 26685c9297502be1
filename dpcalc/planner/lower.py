"""What an actual data set costs: the lower end printed beside the guarantee."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from dpcalc.accountants.conversion import composed_moments
from dpcalc.accountants.pld import LOWER, delta_interval, interval
from dpcalc.adjacency import Adjacency
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.loss_moments import Curve
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import Shifted
from dpcalc.planner.deciding import deciding
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.releases import Alternative, alternatives, releasing_phases
from dpcalc.release.bounds import StepBound
from dpcalc.release.counted import CountPair
from dpcalc.release.data_sets import Mixture, data_set_pair, episode_pair, sign_patterns
from dpcalc.release.noisy_data_sets import data_set_atoms
from dpcalc.release.step import bound_mixtures, count_mixtures
from dpcalc.release.timed import Timed
from dpcalc.sampling.company import Company, company_of
from dpcalc.sampling.laws import without_rare
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Fixed

Pair = tuple[Mixture, Mixture]

_MOST_SUMMED = 32  # draws under one draw above them; more are not looked at


def epsilon_lower(plan: Plan, *, direction: str = "") -> tuple[float, bool] | None:
    """Cost of the worst data set that is known for a plan.

    The candidates are ranked by their log moment at the order that decides the bound; the first is composed.

    Args:
        plan: one that is not noiseless.
        direction: which of `releases` decides the bound, for units that differ; "" takes the one that the moment bound
            finds costliest.

    Returns:
        (a certified lower end of its epsilon: never above what that data set costs; whether its pair is the
        bound's own in every phase, so that the bound is tight); None where no data set can be written down.
    """
    if not releasing_phases(plan):
        return 0.0, True
    worst = _worst_data_set(plan, direction) if _is_noise(plan) else None
    if worst is None:
        return None
    counts, tight = worst
    (value,) = interval(counts, delta=plan.delta, sides=(LOWER,))
    return value, tight


def delta_lower(plan: Plan, *, epsilon: float, direction: str = "") -> float:
    """A certified lower end of delta at an epsilon for the worst data set that is known; the plan is not noiseless."""
    worst = _worst_data_set(plan, direction) if _is_noise(plan) and releasing_phases(plan) else None
    return 0.0 if worst is None else delta_interval(worst[0], epsilon=epsilon, sides=(LOWER,))[0]


def _is_noise(plan: Plan) -> bool:
    """Whether every phase adds noise to a sum; of others it is not known what they make of the worst data set."""
    return all(isinstance(phase.mechanism, Gaussian | Shifted) for phase in plan.phases)


def _worst_data_set(plan: Plan, direction: str) -> tuple[dict[Curve, int], bool] | None:
    """Steps of the costliest candidate, and whether it attains the bound; None if there is none."""
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
    worlds = [world for phase in phases if (world := _world(plan, phase, protected)) is not None]
    if len(worlds) < len(phases):
        return []
    for signs in sign_patterns(plan.unit):
        pairs = [world.pair(signs) for world in worlds]
        tight = all(world.whole and _attains(world.timed, pair) for world, pair in zip(worlds, pairs, strict=True))
        for direction in (pairs, [(q, p) for p, q in pairs]):
            counts: Counter[Curve] = Counter()
            for world, phase, (p, q) in zip(worlds, phases, direction, strict=True):
                for stretch, number in world.stretches if p != q else ():
                    counts[_curve(phase, p, q, stretch)] += number
            found.setdefault(frozenset(counts.items()), (dict(counts), tight))
    return [one for steps, one in found.items() if steps]


def _curve(phase: Phase, p: Mixture, q: Mixture, stretch: float) -> Curve:
    """One look at the sum of a data set, with noise that is larger by a factor where it is Gaussian."""
    if isinstance(phase.mechanism, Shifted):
        return data_set_atoms(phase.mechanism, p, q)
    return MixturePair.of(p, q, deviation=phase.gaussian.noise_multiplier * stretch)


@dataclass(frozen=True, kw_only=True)
class _World:
    """The data sets of one phase.

    Attributes:
        timed: the bound they are held against.
        pair: (P, Q) of one draw for a sign pattern.
        stretches: (factor on the noise, how often): gradients do not change while a draw is held, and of a pass and
            of all that happens under one outermost draw only the sum is looked at. Sums of other noise are not of its
            kind: of each outermost draw one step is looked at.
        whole: whether these are all steps of the bound, or as good as they.
    """

    timed: Timed
    pair: Callable[[tuple[int, ...]], Pair]
    stretches: tuple[tuple[float, int], ...]
    whole: bool = True


def _world(plan: Plan, phase: Phase, protected: Alternative) -> _World | None:
    """The data sets of one phase; None where what a unit adds changes under one draw, or a group has several places."""
    place = plan.phases.index(phase)
    hierarchy, path, clip = phase.hierarchy, protected.paths[place], phase.clip
    timed = protected.choices[place][0]
    if hierarchy.episodes is not None:
        return _World(timed=timed, pair=partial(_episode_pair, plan, phase), stretches=((1.0, phase.steps),))
    rhythms = [level.redraw_every for level in hierarchy.levels]
    company = company_of(hierarchy, path, clip=clip)
    if isinstance(phase.mechanism, Shifted):
        return _single_steps(plan, phase, company, timed)
    parts = (
        rhythms[clip : plan.unit] if clip < plan.unit else rhythms[plan.unit - 1 : plan.unit if company.own else clip]
    )
    if {*parts} != {timed.hold} or _room(path, plan.adjacency) < plan.group_size:
        return None
    repeats = tuple(min(above // below, _MOST_SUMMED) for above, below in pairwise(rhythms[: plan.unit]))
    pair = partial(_drawn_pair, company, plan.adjacency, plan.group_size, repeats)
    if any(number > 1 for number in repeats):
        factor = math.sqrt(math.prod(repeats) / timed.hold)
        return _World(timed=timed, pair=pair, stretches=((factor, phase.steps // rhythms[0]),))
    if timed.steps_of_a_pass > 1:
        passes = phase.steps // timed.steps_of_a_pass
        whole_passes = ((math.sqrt(timed.steps_of_a_pass), passes),) if passes else ()
        return _World(timed=timed, pair=pair, stretches=whole_passes)
    whole, rest = divmod(phase.steps, timed.hold)
    held = (
        ((1 / math.sqrt(timed.hold), whole), (1 / math.sqrt(rest), 1))
        if rest
        else ((1 / math.sqrt(timed.hold), whole),)
    )
    return _World(timed=timed, pair=pair, stretches=tuple((factor, number) for factor, number in held if number))


def _single_steps(plan: Plan, phase: Phase, company: Company, timed: Timed) -> _World | None:
    """The data sets of a phase with other than Gaussian noise; None for passes, of which it takes sums to make use."""
    if timed.steps_of_a_pass > 1 or _room(company.path, plan.adjacency) < plan.group_size:
        return None
    period = max((level.redraw_every for level in phase.hierarchy.levels if level.rate < 1), default=1)
    pair = partial(_drawn_pair, company, plan.adjacency, plan.group_size, ())
    return _World(timed=timed, pair=pair, stretches=((1.0, -(-phase.steps // period)),), whole=timed.hold == 1)


def _room(path: Path, adjacency: Adjacency) -> int:
    """How many units of one frame can be protected together."""
    scheme = path.schemes[-1]
    left = scheme.size if adjacency is Adjacency.ADD_REMOVE and isinstance(scheme, Fixed) else 0
    return path.counts[-1] - left


def _episode_pair(plan: Plan, phase: Phase, signs: tuple[int, ...]) -> Pair:
    """(P, Q) of a step that builds its tasks."""
    draw, adjacency = (plan.unit, phase.clip), plan.adjacency
    return episode_pair(phase.hierarchy, signs[-1], draw=draw, adjacency=adjacency, members=plan.group_size)


def _drawn_pair(
    company: Company, adjacency: Adjacency, members: int, repeats: tuple[int, ...], signs: tuple[int, ...]
) -> Pair:
    """(P, Q) of one draw of the outermost level."""
    return data_set_pair(company, adjacency=adjacency, signs=signs, members=members, repeats=repeats)


def _attains(timed: Timed, pair: Pair) -> bool:
    """Whether a data set's pair is that of the bound in both directions, in every step."""
    bound, (p, q) = timed.bound, pair
    if timed.squared > 1 or timed.revealed or timed.steps_of_a_pass > 1:
        return False
    match bound:
        case StepBound():
            own = bound_mixtures(bound, bound.distances)
            other = bound_mixtures(bound, bound.distances_swapped)
            return _canonical((p, q)) == _canonical(own) and _canonical((q, p)) == _canonical(other)
        case CountPair():
            exact = replace(bound, law=tuple(without_rare(dict(bound.law)).items()))
            return _canonical((p, q)) == _canonical(count_mixtures(exact))
        case _:
            return False


def _canonical(pair: Pair) -> tuple[tuple[int, Fraction, Fraction], ...]:
    """A pair of mixtures up to moving and turning around the line."""
    p, q = pair
    centers = sorted(c for c in {*p, *q} if p.get(c) or q.get(c))
    zero = Fraction(0)
    ahead = tuple((c - centers[0], p.get(c, zero), q.get(c, zero)) for c in centers)
    back = tuple((centers[-1] - c, p.get(c, zero), q.get(c, zero)) for c in reversed(centers))
    return min(ahead, back)
