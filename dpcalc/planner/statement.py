"""Group privacy, the privacy statement, and what each choice of a run costs.

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
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

from dpcalc.amplification.any_mechanism import unamplified_releases
from dpcalc.amplification.bound import Average, Bound, CountPair, ExchangedPair
from dpcalc.amplification.mates import MatesAverage
from dpcalc.amplification.schedule import unamplified_phase
from dpcalc.errors import counted
from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import Steps
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.mechanisms.black_box import PateMechanism
from dpcalc.numerics import bracket_root
from dpcalc.planner.advice import changes
from dpcalc.planner.composition import (
    Composition,
    black_box_steps,
    composed,
    ensemble_release,
    gaussian_releases,
    is_noiseless,
    valid_bounds,
)
from dpcalc.planner.evaluate import EVALUATION_WORK, Evaluation, evaluate, guarantee, within_work
from dpcalc.planner.plan import Plan
from dpcalc.planner.risk import (
    FALSE_POSITIVE_RATES,
    RISK_WORK,
    ROUGH_NOTE,
    AttackBounds,
    GaussianSummary,
    attack_bounds,
    gaussian_summary,
)
from dpcalc.planner.solve import estimate_epsilon
from dpcalc.planner.vary import with_levels, with_scaled_noise
from dpcalc.planner.words import MAX_DENOMINATOR
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import CheckIn
from dpcalc.work import FAILURES, SECOND, allowance, optional

_LOG_DELTA_TOLERANCE = 1e-3  # how near the whole delta is used up, in its log
_GROUPS_WORK = 3.0 * SECOND  # for all groups
_ESTIMATE_ERROR = 1e-6  # what the estimate may be too low by


def chain_epsilon(plan: Plan | Composition, size: int) -> float | None:
    """Return an upper bound on a group's epsilon by a chain of units; inf if none was found, None if not proved."""
    # Not proved: fewer units than the group removes, removal from frames of unequal sizes, or draws of the unit that
    # are not all fixed or all not.
    composition = composed(plan)
    single = composition if composition.plan.group_size == 1 else composed(replace(composition.plan, group_size=1))
    if size == 1:
        return guarantee(single, method="auto").epsilon
    run, link = single.plan, single
    delta = run.delta

    # The plan that bounds each link: the run itself if no removal changes draws, else over `size` - 1 fewer units.
    hierarchies = [phase.hierarchy for phase in run.phases]
    schemes = [hierarchy.level(run.unit).scheme for hierarchy in hierarchies]
    if run.adjacency is Adjacency.ADD_REMOVE:
        if any(hierarchy.episodes is not None for hierarchy in hierarchies):
            return None
        if not all(scheme.is_independent or scheme.is_whole for scheme in schemes):
            sizes = [scheme.size for scheme in schemes if scheme.has_stand_in]
            is_held = any(level.redraw_every > 1 for hierarchy in hierarchies for level in hierarchy.levels)
            level = hierarchies[0].level(run.unit)
            if not level.is_equal or hierarchies[0].tree is not None or is_held or len(sizes) < len(schemes):
                return None
            if max(sizes) > level.count - size:
                return None
            phases = []
            for phase in run.phases:
                levels = list(phase.hierarchy.levels)
                level, fewer = levels[run.unit - 1], levels[run.unit - 1].count - (size - 1)
                levels[run.unit - 1] = replace(level, count=fewer, min_count=fewer)
                phases.append(with_levels(phase, levels))
            link = single.changed(replace(run, phases=tuple(phases)))

    def with_delta(log_delta: float) -> Composition:
        return link.changed(replace(link.plan, delta=math.exp(log_delta), method="auto"))

    def log_links(epsilon: float) -> float:
        """Log of 1 + e^epsilon + ... + e^{(size - 1) epsilon}, rounded up."""
        # Relative to the largest term, so that nothing overflows.
        terms = [number * epsilon for number in range(size)]
        return terms[-1] + math.log(math.fsum(math.exp(term - terms[-1]) for term in terms)) + 1e-12

    def spent(log_delta: float) -> float:
        """Log of the delta that the chain needs when each link has its own, by the estimate."""
        return log_delta + log_links(estimate_epsilon(with_delta(log_delta)).value)

    if has_secret_order(run):  # of which each delta is a pass of its own: no search, but from the whole delta down
        log_delta = math.log(delta)
        for less in (0.1, 0.2, 0.4, 0.8):
            epsilon = guarantee(with_delta(log_delta), method="auto").epsilon
            if log_delta + log_links(epsilon) <= math.log(delta):
                return size * epsilon
            log_delta = math.log(delta) - log_links(epsilon) - less
        return math.inf

    # The largest delta per link at which the chain keeps to delta, by the estimate.
    goal = math.log(delta) - _ESTIMATE_ERROR
    low, high = goal - 1.0, goal
    while spent(low) > goal:
        low, high = low - 2 * (high - low), low
        if low < -600:
            return math.inf
    log_delta, _ = bracket_root(lambda x: spent(x) - goal, low, high, tolerance=_LOG_DELTA_TOLERANCE / abs(low))
    # The estimate may be a little low: a smaller delta for each link then leaves room.
    for less in (0.0, 0.01, 0.1, 1.0):
        epsilon = guarantee(with_delta(log_delta - less), method="auto").epsilon
        if log_delta - less + log_links(epsilon) <= math.log(delta):
            return size * epsilon
    return math.inf


# The privacy statement: the guarantee, its meaning for an attacker, and the contribution of sampling.


GROUP_SIZES = (2, 5, 10)
MOST_PLACED = 5  # members of a group whose placements below drawn parents are gone through; more take minutes


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The numbers of a privacy statement about a run, upper bounds."""

    evaluation: Evaluation
    unsampled: float  # epsilon if every step were known to hold the unit; `inf` without noise
    groups: tuple[tuple[int, float | None], ...]  # (units together, epsilon): `inf` for no bound, None for not known
    attack: AttackBounds
    gdp: GaussianSummary | None = None  # None where it could not be computed


def statement(plan: Plan) -> Statement:
    """Return the numbers of a privacy statement; those that fail are missing, with a note; few for repeated runs."""
    # For the best of several runs they follow from epsilon and delta alone, without groups.
    composition = composed(plan)
    evaluation = evaluate(composition)
    main = evaluation.guarantee
    if plan.tuning is not None:
        # From epsilon and delta alone (Theorem 11.1 of docs/theory.md), with the advantage where both lines meet.
        shrink, delta = math.exp(-main.epsilon), plan.delta
        ahead = [(rate, rate / shrink + delta if shrink > rate else 1.0) for rate in FALSE_POSITIVE_RATES]
        attack = AttackBounds(
            advantage=min(1.0, (1 - shrink + 2 * delta * shrink) / (1 + shrink)),
            detection=tuple((rate, min(1.0, tpr, 1 - shrink * (1 - rate - delta))) for rate, tpr in ahead),
        )
        return Statement(evaluation=evaluation, unsampled=main.epsilon, groups=(), attack=attack)
    notes = [*main.notes]
    groups: list[tuple[int, float | None]] = [] if main.finite else [(size, math.inf) for size in GROUP_SIZES]
    with allowance(_GROUPS_WORK):
        for size in GROUP_SIZES if main.finite else ():
            bound, missing = optional(
                f"epsilon of {size} together", partial(group_epsilon, composition, size), None, units=_GROUPS_WORK
            )
            groups.append((size, bound))
            notes.append(missing)
    with allowance(RISK_WORK):  # as `risk` may take, so that both say the same
        attack = attack_bounds(composition)
    gdp, missing = optional("mu-GDP", lambda: gaussian_summary(composition), None)
    notes += [ROUGH_NOTE if attack.is_rough else "", missing]
    return Statement(
        evaluation=replace(evaluation, guarantee=replace(main, notes=tuple(filter(None, notes)))),
        unsampled=unsampled_epsilon(composition),
        groups=tuple(groups),
        attack=attack,
        gdp=gdp,
    )


def group_epsilon(plan: Plan | Composition, size: int) -> float | None:
    """Return the smaller of two bounds on a group's epsilon, by a chain and as one unit; None if neither is known."""
    composition = composed(plan)
    bounds: list[float | None] = []
    # Passes in secret order are chained one by one for a group as it is: the chain of whole runs is no better.
    has_passes = has_secret_order(composition.plan) and (composition.plan.unit == 1 or size <= MOST_PLACED)
    if not has_passes:
        bounds.append(chain_epsilon(composition, size))
    if composition.plan.unit == 1 or size <= MOST_PLACED:
        with contextlib.suppress(*FAILURES):  # a group that does not fit, or no certified answer
            bounds.append(guarantee(replace(composition.stated, group_size=size), method="auto").epsilon)
    if not bounds:
        bounds.append(chain_epsilon(composition, size))
    return min((bound for bound in bounds if bound is not None), default=None)


def has_secret_order(plan: Plan) -> bool:
    """Return True if some phase has passes over units of the outermost level in secret order."""
    return any(phase.hierarchy.level(1).scheme.is_secret for phase in plan.phases)


def unsampled_epsilon(plan: Plan | Composition) -> float:
    """Return an upper bound on epsilon without amplification by sampling; infinite without noise."""
    # Every step, or a whole pass of a shuffle, is the mechanism with the shift s of the one-step bound.
    composition = composed(plan)
    run = composition.plan
    if is_noiseless(run):
        return math.inf

    def releases(number: int, place: int) -> tuple[Steps, Steps]:
        phase, unit = run.phases[place], composition.units[number]
        own = valid_bounds(run, phase, unit.choices[place])[0]
        if isinstance(phase.mechanism, Gaussian):
            return gaussian_releases(phase, unamplified_phase(own))
        if isinstance(phase.mechanism, PateMechanism):
            return ensemble_release(run, phase)
        return unamplified_releases(black_box_steps(run, unit, place, own))

    return within_work(composition.steps_of_units(releases), "auto", delta=run.delta).result.epsilon


# What each choice of a run costs: epsilon with that choice alone made otherwise, computed like the run's own.


@dataclass(frozen=True, kw_only=True)
class Reason:
    """What adds up in a phase, as its bound has it: `number` equal steps, held draws, passes or visits."""

    words: str  # of one of them
    adds_up: str  # how many of them, such as "20 such passes"
    number: int
    probability: Fraction  # that one of them holds what is protected, in any of its bins
    bins: int  # of which one holds it, unknown which; 1 where nothing is hidden
    distance: float | None  # by which a hit moves its sums at most, in clip norms; None but for Gaussian noise
    farthest: float | None  # the same, or that to what is drawn in its place if it is larger
    noise_multiplier: float | None  # of the steps that are composed; None but for Gaussian noise


def reasons(composition: Composition, direction: str) -> tuple[Reason, ...]:
    """Return what adds up in each phase, read off the bounds of the unit that a direction names."""
    if composition.plan.parts:
        return ()
    composition = composition.one_run
    protected = composition.by_direction.get(direction) or composition.likeliest
    bounds = composition.bounds[composition.units.index(protected)]
    run, found = composition.stated, []
    for phase, bound in zip(composition.plan.phases, bounds, strict=True):
        # The links of a chain change one unit after the other: their shifts add up at most.
        chain = (bound.bound, *bound.later) if bound.later else (bound.bound,) * len(bound.links)
        changes = [each.largest if isinstance(each, MatesAverage) else each for each in chain]
        shifts = [_one_hit(each) for each in changes]
        far = max(distance for each in changes for distance in (*each.distances, *each.distances_swapped, 0))
        hits = max(-(-each.max_shift // max(shift, 1)) for each, shift in zip(changes, shifts, strict=True))
        moved = f"at most {counted(max(shifts), 'clip norm')}"
        if len(changes) > 1:
            kind = "a removal, then an addition" if bound.links == "-+" else "one after the other"
            moved += f" in each of {len(changes)} changes ({kind})"

        unit = f"one {run.unit_name}" if run.group_size == 1 else f"a group of {run.group_size} ({run.unit_name})"
        length, passes = bound.steps_of_a_pass, -(-phase.steps // bound.steps_of_a_pass)
        allocation, probability, bins, held = bound.allocation, bound.bound.inclusion, 1, 1
        if allocation is not None and not bound.is_revealed:
            noun, rounds = "period" if isinstance(allocation, CheckIn) else "pass", allocation.passes(phase.steps)
            number, probability = sum(each.number for each in rounds), probability * max(each.share for each in rounds)
            bins = max(sum(bins for bins, _ in each.bins) for each in rounds)
            held = max(steps for each in rounds for _, steps in each.bins)
        elif allocation is not None:
            noun, number = "visit", allocation.visits(phase.steps) * max(1, bound.units_together)
        elif length > 1 or bound.secret or bound.moves != (1,):
            noun, number, bins = "pass", passes, length if bound.secret else 1
        else:
            held = min(bound.hold, passes)
            noun, number = "step" if held == 1 else "draw", -(-passes // bound.hold)
        words = f"a {noun}"
        if noun == "visit":
            words += ", a step that counts as known,"
        elif length > 1:
            words += f" of {counted(length, 'step')}"
        words += f" holds {unit}{'' if probability == 1 else f' with probability {_fraction(probability)}'}"
        if bins > 1:
            each = f"of {bins} bins of {held} steps" if held > 1 else f"of {bins} steps"
            words += f" in one {each}, unknown which"
        elif probability == 1:
            words += " for sure"
        if bound.moves != (1,):
            first, *others = bound.moves
            moved = f"at most {counted(first, 'clip norm')}"
            if others and run.adjacency is Adjacency.ADD_REMOVE:
                lacks = "which then lacks one" if run.group_size == 1 else "which then lacks as many"
                last = counted(others[0], "clip norm")
                moved += f" where others take its place, and the last sum, {lacks}, by at most {last}"
            elif others:
                moved += f", and {counted(len(others), 'other sum')} likewise"
            moved += f": together the root of {bound.squared}" if others else ""
        if is_gaussian := isinstance(phase.mechanism, Gaussian):
            which = "the sum" if noun in {"step", "draw"} else "its sum" if noun == "visit" else "one sum"
            words += f", and moves {which} by {moved} for {f'each of up to {hits} hits' if hits > 1 else 'it'}"
            words += f" in each of {held} steps" if held > 1 else ""
            if far > max(shifts) and hits == 1:
                words += f"; what is drawn in its place lies up to {counted(far, 'clip norm')} away"
        for rate, steps in reversed(bound.revealed):
            probability *= rate
            words = f"given a public draw of rate {_fraction(rate)} that lasts {counted(steps, 'step')}, {words}"
        root = math.sqrt(bound.squared * held)
        found.append(
            Reason(
                words=words,
                adds_up=f"{number} such {noun}{'' if number == 1 else 'es' if noun == 'pass' else 's'}",
                number=number,
                probability=probability,
                bins=bins,
                distance=sum(shifts) * root if is_gaussian else None,
                farthest=max(sum(shifts), far) * root if is_gaussian else None,
                noise_multiplier=phase.gaussian.noise_multiplier if is_gaussian else None,
            )
        )
    return tuple(found)


def _one_hit(bound: Bound) -> int:
    """Return how far the sum moves at most, in clip norms, where it holds the fewest that it can hold of them."""
    if isinstance(bound, Average):
        return min(_one_hit(part) for _, part in bound.parts)
    if isinstance(bound, ExchangedPair):
        return (1 if bound.adjacency is Adjacency.ZERO_OUT else 2) * min(place for place, _ in bound.own if place)
    return (
        bound.shift * min((number for number, _ in bound.law if number), default=1)
        if isinstance(bound, CountPair)
        else bound.shift
    )


def _fraction(probability: Fraction) -> str:
    is_short = probability.denominator <= MAX_DENOMINATOR
    return str(probability) if is_short else f"about {float(probability):.3g}"


def other_choices(composition: Composition) -> tuple[tuple[str, float], ...]:
    """Return (one choice made otherwise, upper bound on epsilon then) for each that the run allows."""
    # Those that leave epsilon as it is are left out.
    run, own, found = composition.stated, guarantee(composition).epsilon, []
    if run.tuning is None:
        epsilon, _ = optional("", lambda: unsampled_epsilon(composition), own, units=EVALUATION_WORK)
        found.append((f"if every draw held the {run.unit_name}: no amplification", epsilon))
    for text, changed in _changed(composition, run):
        epsilon, _ = optional("", lambda changed=changed: guarantee(changed).epsilon, own, units=EVALUATION_WORK)  # type: ignore[misc]  # a default of a lambda
        found.append((text, epsilon))
    return tuple((text, epsilon) for text, epsilon in found if epsilon != own)


def _changed(composition: Composition, run: Plan) -> Iterator[tuple[str, Plan | Composition]]:
    if run.is_gaussian and not composition.has_correlated_noise:
        yield from ((f"if you {text}", changed) for text, changed in changes(composition))
    if any(phase.noise_multiplier for phase in run.phases):
        yield "with twice the noise", with_scaled_noise(run, 2.0)
    yield "with half as many steps", replace(run, phases=tuple(replace(x, steps=x.steps // 2) for x in run.phases))
    for phase in run.phases if run.phases[1:] else ():
        yield f"without {phase.name}", replace(run, phases=tuple(each for each in run.phases if each is not phase))
    for adjacency in Adjacency:
        if adjacency is not run.adjacency:
            yield f"against {adjacency}", replace(run, adjacency=adjacency)
    for place, level in enumerate(run.phases[0].hierarchy.levels, start=1):
        if place != run.unit:
            yield f"for one {level.name}", replace(run, unit=place)
    delta = f"{run.delta / 10:.3g}"
    yield f"at delta = {delta}", replace(run, delta=float(delta))
