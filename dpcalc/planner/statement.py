"""Group privacy from the bound of one unit (valid for every mechanism, rarely tight), and the privacy statement.

Change the units one after the other: D = D_0, D_1, ..., D_k = D'. With delta(e) of one unit, for every e,

    H_{e^{k e}}(D || D') <= delta(e) (1 + e^e + ... + e^{(k-1) e})

(group privacy; Vadhan 2017, "The Complexity of Differential Privacy", Lemma 2.2, bounds the sum by k e^{k e}). Every
link must keep to the bound of one unit. Replacing and zeroing leave all sizes alone. Removing lets the later links
begin with fewer units: if those are drawn each by itself, or all, rates stay and distances shrink; if a fixed number is
drawn, distances stay and the rate is at most size / (count - k + 1), with which all links are computed: (K) grows with
each of them (amplification/bound). Other draws of the unit, fixed draws that last several steps, and tasks constructed
from classes are not covered.

Source: docs/theory.md, Theorem 11.3.
"""

import contextlib
import math
from dataclasses import replace
from functools import partial

from dpcalc.amplification.any_mechanism import unamplified_releases
from dpcalc.amplification.schedule import unamplified_phase
from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import Steps, together
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.pate import PateMechanism
from dpcalc.numerics.roots import bracket_root
from dpcalc.planner.composition import Composition, ProtectedUnit, composed, is_noiseless, releasing_phases
from dpcalc.planner.evaluate import Evaluation, evaluate, guarantee, within_work
from dpcalc.planner.gdp import GaussianSummary, gaussian_summary
from dpcalc.planner.phase_releases import black_box_steps, ensemble_release, gaussian_releases, valid_bounds
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.risk import FALSE_POSITIVE_RATES, ROUGH_NOTE, AttackBounds, attack_bounds
from dpcalc.planner.search import estimate_epsilon
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import All, Fixed, Poisson
from dpcalc.work import FAILURES, SECOND, allowance, optional

_LOG_DELTA_TOLERANCE = 1e-3  # how near the whole delta is used up, in its log
_GROUPS_WORK, _ATTACK_WORK = 3.0 * SECOND, 1.5 * SECOND  # for all groups, and for the bounds on attacks
_ESTIMATE_ERROR = 1e-6  # what the estimate may be too low by


def chain_epsilon(plan: Plan | Composition, size: int) -> float | None:
    """Return a bound on a group's epsilon by a chain of `size` units; inf if none was found, None if not proved.

    An upper bound; None where the chain proves nothing: fewer units than the group removes, removal from frames of
    unequal sizes, or draws of the unit that are not all fixed or all not.
    """
    composition = composed(plan)
    single = composition if composition.plan.group_size == 1 else composed(replace(composition.plan, group_size=1))
    if size == 1:
        return guarantee(single, method="auto").epsilon
    plan_of_link = _link(single.plan, size)
    if plan_of_link is None:
        return None
    link = single.changed(plan_of_link)
    log_delta = _log_delta_of_link(link, size, single.plan.delta)
    return math.inf if log_delta is None else _certified(link, log_delta, size, single.plan.delta)


def _log_delta_of_link(link: Composition, size: int, delta: float) -> float | None:
    """Return the log of the largest delta per link at which the chain keeps to `delta`, by estimate; or None."""

    def spent(log_delta: float) -> float:
        """Log of the delta that the chain needs when each link has its own, by the estimate."""
        return log_delta + _log_links(size, estimate_epsilon(_with_delta(link, log_delta)).value)

    goal = math.log(delta) - _ESTIMATE_ERROR
    low, high = goal - 1.0, goal
    while spent(low) > goal:
        low, high = low - 2 * (high - low), low
        if low < -600:
            return None
    low, _ = bracket_root(lambda x: spent(x) - goal, low, high, tolerance=_LOG_DELTA_TOLERANCE / abs(low))
    return low


def _certified(link: Composition, log_delta: float, size: int, delta: float) -> float:
    """Return `size` times the certified epsilon of a link, its delta lowered until the chain fits; else inf."""
    # The estimate may be a little low: a smaller delta for each link then leaves room.
    for less in (0.0, 0.01, 0.1, 1.0):
        epsilon = guarantee(_with_delta(link, log_delta - less), method="auto").epsilon
        if log_delta - less + _log_links(size, epsilon) <= math.log(delta):
            return size * epsilon
    return math.inf


def _with_delta(link: Composition, log_delta: float) -> Composition:
    """Return a link of the chain with a delta of its own, given by its log, and method auto."""
    return link.changed(replace(link.plan, delta=math.exp(log_delta), method="auto"))


def _log_links(size: int, epsilon: float) -> float:
    """Return log(1 + e^epsilon + ... + e^{(size - 1) epsilon}), rounded up."""
    # Relative to the largest term, so that nothing overflows.
    terms = [number * epsilon for number in range(size)]
    return terms[-1] + math.log(math.fsum(math.exp(term - terms[-1]) for term in terms)) + 1e-12


def _link(plan: Plan, size: int) -> Plan | None:
    """Return the plan that bounds each link: itself if no removal changes draws, else over fewer units; or None."""
    if plan.adjacency is not Adjacency.ADD_REMOVE:
        return plan
    hierarchies = [phase.hierarchy for phase in plan.phases]
    schemes = [hierarchy.level(plan.unit).scheme for hierarchy in hierarchies]
    if any(hierarchy.episodes is not None for hierarchy in hierarchies):
        return None
    if all(isinstance(scheme, Poisson | All) for scheme in schemes):
        return plan
    return _over_fewer_units(plan, size)


def _over_fewer_units(plan: Plan, size: int) -> Plan | None:
    """Return the plan over `size` - 1 fewer units; None unless counts are equal and fixed draws spare a group."""
    hierarchy = plan.phases[0].hierarchy
    level = hierarchy.level(plan.unit)
    largest_draw = _largest_fixed_draw(plan)
    if not level.is_equal or hierarchy.tree is not None or largest_draw is None or largest_draw > level.count - size:
        return None
    return replace(plan, phases=tuple(_smaller(phase, plan.unit, size - 1) for phase in plan.phases))


def _largest_fixed_draw(plan: Plan) -> int | None:
    """Return the largest fixed size of a draw of the unit; None if a phase draws otherwise or holds any draw."""
    levels = [level for phase in plan.phases for level in phase.hierarchy.levels]
    schemes = [phase.hierarchy.level(plan.unit).scheme for phase in plan.phases]
    sizes = [scheme.size for scheme in schemes if isinstance(scheme, Fixed)]
    is_held = any(level.redraw_every > 1 for level in levels)
    return None if is_held or len(sizes) < len(schemes) else max(sizes)


def _smaller(phase: Phase, unit: int, fewer: int) -> Phase:
    """Return a phase over data with `fewer` units less under each parent at the protected level."""
    levels = list(phase.hierarchy.levels)
    level = levels[unit - 1]
    levels[unit - 1] = replace(level, count=level.count - fewer, min_count=level.count - fewer)
    return replace(phase, hierarchy=replace(phase.hierarchy, levels=tuple(levels)))


# The privacy statement: the guarantee, its meaning for an attacker, and the contribution of sampling.


GROUP_SIZES = (2, 5, 10)
MOST_PLACED = 5  # members of a group whose placements below drawn parents are gone through; more take minutes


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The numbers of a privacy statement about a run.

    Attributes:
        evaluation: the guarantee and what it rests on.
        unsampled: epsilon if every step were known to hold the unit, an upper bound; `inf` without noise.
        groups: (units together, epsilon at the same delta): upper bounds, `inf` for none, None where none is known.
        attack: what an attacker can gain, upper bounds.
        gdp: the Gaussian mechanism that hides no more; None where it could not be computed.
    """

    evaluation: Evaluation
    unsampled: float
    groups: tuple[tuple[int, float | None], ...]
    attack: AttackBounds
    gdp: GaussianSummary | None = None


def statement(plan: Plan) -> Statement:
    """Return the numbers of a privacy statement; those that fail are missing, with a note; few for repeated runs.

    Numbers, unrounded; every one of them an upper bound but the guarantee's own lower end. For the best of several
    runs they follow from epsilon and delta alone; groups and the cost without sampling are left out.
    """
    composition = composed(plan)
    evaluation = evaluate(composition)
    main = evaluation.guarantee
    if plan.tuning is not None:
        return _tuned_statement(evaluation, plan.delta)
    groups, notes = _group_bounds(composition) if main.finite else ([(size, math.inf) for size in GROUP_SIZES], [])
    with allowance(_ATTACK_WORK):
        attack = attack_bounds(composition)
    gdp, missing = optional("mu-GDP", lambda: gaussian_summary(composition), None)
    notes = [*main.notes, *notes, ROUGH_NOTE if attack.is_rough else "", missing]
    return Statement(
        evaluation=replace(evaluation, guarantee=replace(main, notes=tuple(filter(None, notes)))),
        unsampled=unsampled_epsilon(composition),
        groups=tuple(groups),
        attack=attack,
        gdp=gdp,
    )


def _tuned_statement(evaluation: Evaluation, delta: float) -> Statement:
    """Return the statement of the best of several runs: attacks by (epsilon, delta), `unsampled` epsilon, no groups."""
    epsilon = evaluation.guarantee.epsilon
    return Statement(evaluation=evaluation, unsampled=epsilon, groups=(), attack=_attack_bounds_from(epsilon, delta))


def _group_bounds(composition: Composition) -> tuple[list[tuple[int, float | None]], list[str]]:
    """Return ([(group size, upper bound on its epsilon)], notes on failures); a bound that failed is None."""
    groups: list[tuple[int, float | None]] = []
    notes: list[str] = []
    with allowance(_GROUPS_WORK):
        for size in GROUP_SIZES:
            bound, missing = optional(
                f"epsilon of {size} together", partial(group_epsilon, composition, size), None, units=_GROUPS_WORK
            )
            groups.append((size, bound))
            notes += [missing] if missing else []
    return groups, notes


def _attack_bounds_from(epsilon: float, delta: float) -> AttackBounds:
    """Return upper bounds on advantage and true positive rates from (epsilon, delta) alone; 1 for an infinite epsilon.

    Source: docs/theory.md, Theorem 11.1; the advantage is that of both lines where they meet.
    """
    shrink = math.exp(-epsilon)

    def detected(rate: float) -> float:
        ahead = rate / shrink + delta if shrink > rate else 1.0
        return min(1.0, ahead, 1 - shrink * (1 - rate - delta))

    return AttackBounds(
        advantage=min(1.0, (1 - shrink + 2 * delta * shrink) / (1 + shrink)),
        detection=tuple((rate, detected(rate)) for rate in FALSE_POSITIVE_RATES),
    )


def group_epsilon(plan: Plan | Composition, size: int) -> float | None:
    """Return the smaller of two bounds on a group's epsilon, by a chain of units and as one; None if neither
    is known."""
    composition = composed(plan)
    bounds = (chain_epsilon(composition, size), _placed_epsilon(composition, size))
    return min((bound for bound in bounds if bound is not None), default=None)


def _placed_epsilon(composition: Composition, size: int) -> float | None:
    """Return the epsilon of the run with the group as protected unit; None if that fails or would take minutes."""
    if composition.plan.unit > 1 and size > MOST_PLACED:
        return None
    with contextlib.suppress(*FAILURES):  # a group that does not fit, or no certified answer
        return guarantee(replace(composition.stated, group_size=size), method="auto").epsilon
    return None


def unsampled_epsilon(plan: Plan | Composition) -> float:
    """Return an upper bound on epsilon without amplification by sampling; infinite without noise.

    A draw is that of a step, or of a whole pass of a shuffle.

    An upper bound: every step is the mechanism with the shift s of the one-step bound.
    """
    composition = composed(plan)
    run = composition.plan
    if is_noiseless(run):
        return math.inf
    releasing = releasing_phases(run)
    steps = {}
    for unit in composition.units:
        pairs = [_unsampled_phase(run, unit, place) for place, phase in enumerate(run.phases) if phase in releasing]
        for at, name in enumerate(unit.direction_names):
            steps[name] = together(pair[at] for pair in pairs)
    return within_work(steps, "auto", delta=run.delta).result.epsilon


def _unsampled_phase(plan: Plan, protected: ProtectedUnit, place: int) -> tuple[Steps, Steps]:
    """Return the releases (forward, backward) of a Gaussian, PATE or black-box phase as if every step drew the unit."""
    phase = plan.phases[place]
    own = valid_bounds(plan, phase, protected.choices[place])[0]
    if isinstance(phase.mechanism, Gaussian):
        return gaussian_releases(phase, unamplified_phase(own))
    if isinstance(phase.mechanism, PateMechanism):
        return ensemble_release(plan, phase)
    return unamplified_releases(black_box_steps(plan, protected, place, own))
