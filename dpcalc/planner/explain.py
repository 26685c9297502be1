"""What each choice of a run costs: epsilon with that choice alone made otherwise, computed like the run's own."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from dpcalc.amplification.counts import Average, Bound, CountPair, ExchangedPair, unamplified
from dpcalc.amplification.mates import MatesAverage
from dpcalc.errors import counted
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.advice import changes
from dpcalc.planner.composition import Composition
from dpcalc.planner.evaluate import EVALUATION_WORK, guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.statement import unsampled_epsilon
from dpcalc.planner.vary import with_scaled_noise
from dpcalc.planner.words import MAX_DENOMINATOR
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import CheckIn
from dpcalc.work import optional


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
        hits = max(
            -(-unamplified(each).max_shift // max(shift, 1)) for each, shift in zip(changes, shifts, strict=True)
        )
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
