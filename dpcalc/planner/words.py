"""Plans in words: sampling, mechanisms, assumptions, and the facts that a chart must state."""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcalc.amplification.schedule import PhaseBound
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import RELATIONS, AdditiveNoise, Mechanism, PairOnly, Promise, RdpOnly
from dpcalc.planner.composition import Composition
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import (
    All,
    Allocation,
    AnyOrder,
    BallsInBins,
    CappedPoisson,
    CheckIn,
    CyclicPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Shuffle,
    WithReplacement,
)

if TYPE_CHECKING:  # few plans need them
    from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
    from dpcalc.mechanisms.strategies import Sensitivity

_COUNT = re.compile(
    r"`[^`]*`|(?<![\w.,/:+=-])(?<!et al\. )\d{4,}(?!\w|[.,/:-]\w)"
)  # no part of a number or name, no year


def with_thousands_separators(text: str) -> str:
    """Return a text with thousands separators in its whole numbers, except in `code` and in years of papers.

    Example:
        >>> with_thousands_separators("10000 of 10000000, noise 1.12345, v1.20000")
        '10,000 of 10,000,000, noise 1.12345, v1.20000'
    """
    return _COUNT.sub(lambda match: f"{int(match[0]):,}" if match[0].isdigit() else match[0], text)


def sampling_text(phase: Phase) -> str:
    """Return a description of a step's draws, level by level with redraw periods, or of how its tasks are built."""
    levels, built = phase.hierarchy.levels, phase.hierarchy.episodes
    if built is not None:
        classes, records = levels
        return (
            f"{built.tasks} tasks built of {built.ways} of {_count_text(classes)} ({classes.name}), "
            f"each {built.records} of {_count_text(records)} ({records.name})"
        )
    periods = (f", held for {level.redraw_every} steps" if level.redraw_every > 1 else "" for level in levels)
    texts = [_level_text(level) + period for level, period in zip(levels, periods, strict=True)]
    return "; then ".join((texts[0] + _participation_text(phase), *texts[1:]))


def _correlated(mechanism: Mechanism) -> "MatrixFactorization | None":
    """Return the mechanism if its noise is correlated over the steps, else None."""
    if not mechanism.is_correlated:
        return None
    from dpcalc.mechanisms.matrix_factorization import MatrixFactorization

    return mechanism if isinstance(mechanism, MatrixFactorization) else None


def _participation_text(phase: Phase) -> str:
    """Return words on how often a unit takes part in a run with correlated noise under `any-order`; else ""."""
    mechanism = _correlated(phase.mechanism)
    if mechanism is None or not isinstance(phase.hierarchy.level(1).scheme, AnyOrder):
        return ""
    times, apart = mechanism.limits.times(phase.steps), mechanism.limits.separation
    if times <= 1:
        return ", a unit in at most 1 step"
    if mechanism.limits.fixed_epochs:
        return f", a unit in {times} steps, at the same place in every epoch of {apart} steps"
    return f", a unit in at most {times} steps, at least {apart} apart"


def mechanism_text(phase: Phase) -> str:
    """Return a mechanism's name and its words or, without any, its finite numbers; a Gaussian's with its other sums."""
    mechanism = phase.mechanism
    if isinstance(mechanism, Gaussian):
        return f"gaussian, noise multiplier {mechanism.noise_multiplier:g}{other_sums_text(mechanism)}"
    stated = {key: value for key, value in asdict(mechanism).items() if key not in {"max_grad_norm", "relation"}}
    # A mechanism has words of its own where its parameters are no numbers.
    words = mechanism.words or ", ".join(
        f"{key.replace('_', ' ')} {value:g}" for key, value in stated.items() if value != math.inf
    )
    relation = mechanism.relation if isinstance(mechanism, Promise) else None
    return f"{mechanism.name}, {words}{f', stated for {relation}' if relation else ''}"


def other_sums_text(mechanism: Mechanism) -> str | None:
    """Return " (with sums at ...)" for a Gaussian step's other sums, "" for none; None for any other mechanism."""
    if not isinstance(mechanism, Gaussian):
        return None
    if not mechanism.also:
        return ""
    others = ", ".join(f"{noise:g}" for noise in mechanism.also)
    return f" (with sums at {others} on the same sample: together {mechanism.joint.noise_multiplier:.6g})"


def _level_text(level: Level) -> str:
    """Return the draw of one level in words, such as "4 of 10 (user) expected, Poisson"."""
    match level.scheme:
        case Fixed(size=size, at_most=at_most):
            return f"{'up to ' if at_most else ''}{size} of {_count_text(level)} ({level.name}), fixed size"
        case Poisson(probability=rate) | CappedPoisson(probability=rate) as scheme:
            cut = f", cut at random to {scheme.max_batch_size}" if isinstance(scheme, CappedPoisson) else ""
            if level.is_assumed:
                return f"each {level.name}, with probability {_number_text(rate)}, Poisson (their number is not stated)"
            if level.is_equal:
                return f"{_number_text(rate * level.count)} of {level.count} ({level.name}) expected, Poisson{cut}"
            return f"each of {_count_text(level)} ({level.name}) with probability {_number_text(rate)}, Poisson{cut}"
        case WithReplacement(size=size) | Shuffle(size=size) as scheme:
            way = "with replacement" if isinstance(scheme, WithReplacement) else "shuffled"
            turn = " in turn" if isinstance(scheme, Shuffle) else ""
            is_cut = isinstance(scheme, Shuffle) and scheme.drop_last
            left_out = ", dropping the last incomplete batch of a pass" if is_cut else ""
            return f"{size} of {_count_text(level)} ({level.name}){turn}, {way}{left_out}"
        case RandomAllocation(times=times, steps=steps):
            return f"each of {_count_text(level)} ({level.name}) in {times} of all {steps} steps, chosen at random"
        case BallsInBins(bins=bins, is_held=is_held):
            chosen = f"one of {bins} steps of a pass, chosen {'once' if is_held else 'anew in each pass'}"
            return f"each of {_count_text(level)} ({level.name}) in {chosen}"
        case CyclicPoisson(probability=rate, max_group_size=most) as cyclic:
            groups = f"{cyclic.groups} groups{f' of at most {most}' if most is not None else ''}"
            cap = f", cut at random to {cyclic.max_batch_size}" if cyclic.max_batch_size is not None else ""
            drawn = f"each with probability {_number_text(rate)}, Poisson{cap}"
            return f"{_count_text(level)} ({level.name}) in {groups}, one of them a step, {drawn}"
        case AnyOrder():
            return f"batches of {_count_text(level)} ({level.name}) in any order"
        case All() if level.is_assumed:
            return f"everything ({level.name})"
        case All():
            return f"all {_count_text(level)} ({level.name})"


def _count_text(level: Level) -> str:
    """Return the number of units under one parent: "5", or "3 to 5" where it differs."""
    if level.is_assumed:
        return "an unknown number"
    return str(level.count) if level.is_equal else f"{level.min_count} to {level.count}"


def _number_text(value: Fraction) -> str:
    """Return a whole number as such, other fractions with four digits."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.4g}"


def _redraw_text(plan: Plan) -> str:
    """Return in words when units are drawn anew: every pass if any are shuffled or allocated, else every redraw."""
    levels = [level for phase in plan.phases for level in phase.hierarchy.levels]
    if any(isinstance(level.scheme, Shuffle) for level in levels):
        return "in every pass, and nothing is claimed for not knowing the order of a shuffle"
    if any(isinstance(level.scheme, Allocation) for level in levels):
        return "in every pass or phase; no unit's steps depend on another's, and they stay secret"
    return "whenever a level is redrawn" if any(level.redraw_every > 1 for level in levels) else "in every step"


def _other_uses_text(plan: Plan) -> str:
    """Return the assumption on other uses of the data: how the run is repeated, or that this is not covered."""
    if plan.tuning is None:
        return "tuning and other runs on the same data are not covered"
    return (
        f"how often the run is repeated is drawn at random and stays secret ({plan.tuning.words}), no run costs more "
        "than this one, the best is told by the results alone, and only it is released"
    )


FIXED = "noise, sampling, clipping and lengths are fixed before the first output, not chosen after seeing any output"
"""Assumption of composition without adaptively chosen settings: docs/theory.md, Theorem 13.1."""
_CAPPED = (
    "the rate and the largest size of cut batches are constants, the same for both data sets: neither is computed from "
    "the data or their number; the counts of units that are cut are exact"
)
_EMPTY = "a drawn unit of which no record is drawn contributes exactly zero"
_ALSO = (
    "other sums are over the same sample, and the owner of one clipped vector adds to each at most the norm that its "
    "noise multiplier refers to"
)
_ZEROED = "to a step of which only a guarantee is known, a zeroed unit in its batch is as if it were not drawn"
_REPLACED = "to a step of which only a guarantee is known, a zeroed unit is one that may be in the place of another"
_NESTED = "a pass under a shuffled unit goes on whenever that unit has its turn, and a new one begins when it is over"
_EXACT_COUNTS = (
    "the counts of shuffled units are exact and those of the larger data set: a pass of the other one has as many steps"
)


def _partition_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumption on disjoint parts of the data, if phases draw from parts."""
    if plan.partition is not None and plan.parts:
        name = plan.phases[0].hierarchy.level(1).name
        disjoint = f"each {name} is in at most one part, found from the {name} alone ({plan.partition.rule})"
        yield f"{disjoint}; a run on a part draws from no other part"


def _promises(plan: Plan, phase: Phase) -> Iterator[str]:
    """Yield for which two batches the promise of a phase's steps is stated, if nothing else is known of them."""
    if isinstance(phase.mechanism, Promise):
        relation = phase.mechanism.relation or plan.adjacency
        yield f"{phase.mechanism.statement} holds for any two batches {RELATIONS[relation]}"


def _zeroed_units(plan: Plan, phase: Phase) -> Iterator[str]:
    """Yield what a zeroed unit is to a step of which only a promise is known, where the run or the promise zeroes."""
    if isinstance(phase.mechanism, Promise):
        relation = phase.mechanism.relation or plan.adjacency
        if Adjacency.ZERO_OUT in {relation, plan.adjacency}:
            yield _REPLACED if relation == Adjacency.REPLACE_ONE else _ZEROED


def _exchange_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumption that a black box covers batches that mix parents, for one unit below a sampled level."""
    counting = [phase for phase in plan.phases if isinstance(phase.mechanism, PairOnly | RdpOnly)]
    above = [level for phase in counting for level in phase.hierarchy.levels[: plan.unit - 1] if not level.is_whole]
    if above and plan.group_size == 1:
        name, unit = above[-1].name, plan.phases[0].hierarchy.level(plan.unit).name
        yield (
            f"to a step that counts units a batch is each drawn {unit}, of whichever {name}: its guarantee covers "
            f"batches that mix them, and a drawn {name} without any leaves no trace"
        )


def _any_order_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumption on the steps in which units take part under `any-order`."""
    if any(isinstance(phase.hierarchy.level(1).scheme, AnyOrder) for phase in plan.phases):
        adds_or_removes = plan.adjacency is Adjacency.ADD_REMOVE
        cut = " (not so where batches are cut from one order: state zero-out for them)" if adds_or_removes else ""
        yield (
            "a protected unit takes part in no other steps than stated, and all other units in the same steps with it "
            f"and without it{cut}"
        )


def _cyclic_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumption on how the groups of `cyclic-poisson` are formed."""
    schemes = [phase.hierarchy.level(1).scheme for phase in plan.phases]
    if any(isinstance(scheme, CyclicPoisson) for scheme in schemes):
        alone = ", for each unit by itself such as by a hash" if plan.adjacency is Adjacency.ADD_REMOVE else ""
        replaced = ", and a unit that takes the place of another is in its group"
        limited = ", and none ever holds more units than `max_group_size`"
        yield (
            f"the groups of cyclic draws are fixed beforehand{alone}"
            f"{replaced if plan.adjacency is Adjacency.REPLACE_ONE else ''}"
            f"{limited if any(getattr(scheme, 'max_group_size', None) for scheme in schemes) else ''}"
        )


def _keeps_passes(plan: Plan, hierarchy: Hierarchy) -> bool:
    """Return True if the protected level is shuffled and its passes keep their steps without the protected units."""
    scheme = hierarchy.level(plan.unit).scheme
    return isinstance(scheme, Shuffle) and not hierarchy.loses_steps(plan.unit, scheme, plan.group_size)


def _may_be_empty(plan: Plan, phase: Phase) -> bool:
    """Return True if noise is added to sums and a drawn unit may be empty, by a Poisson draw below it or a removal."""
    adds_noise = isinstance(phase.mechanism, Gaussian | AdditiveNoise) or phase.is_correlated
    if not adds_noise or phase.hierarchy.episodes is not None:
        return False
    below = phase.hierarchy.levels[max(phase.clip, plan.unit) :]
    is_cut_below = any(isinstance(level.scheme, Poisson | CappedPoisson) for level in below)
    return is_cut_below or _may_be_empty_by_removal(plan, phase)


def _may_be_empty_by_removal(plan: Plan, phase: Phase) -> bool:
    """Return True if a clipped unit above the protected one may be left empty by its removal: no other is drawn."""
    without_stand_in = Poisson | CappedPoisson | CyclicPoisson | All
    nobody_stands_in = isinstance(phase.hierarchy.level(plan.unit).scheme, without_stand_in)
    return phase.clip < plan.unit and plan.adjacency is Adjacency.ADD_REMOVE and nobody_stands_in


def _may_lack_units(plan: Plan, phase: Phase) -> bool:
    """Return True if removing a group can leave too few units for a fixed draw, or none to draw with replacement."""
    level = phase.hierarchy.level(plan.unit)
    if plan.group_size == 1 or plan.adjacency is not Adjacency.ADD_REMOVE or phase.hierarchy.episodes is not None:
        return False
    match level.scheme:
        case Fixed(size=size):
            return level.min_count - plan.group_size < size
        case WithReplacement():
            return level.min_count <= plan.group_size
        case _:
            return False


def assumptions(plan: Plan) -> tuple[str, ...]:
    """Return the assumptions of the guarantee, one sentence each."""
    is_sampled = any(not isinstance(phase.hierarchy.level(1).scheme, AnyOrder) for phase in plan.phases)
    drawn = "the sampler draws exactly as stated, afresh and independently " + _redraw_text(plan)
    lines = [
        *([drawn] if is_sampled else []),
        *_partition_assumptions(plan),
        *_any_order_assumptions(plan),
        *_cyclic_assumptions(plan),
        *dict.fromkeys(
            line for phase in plan.phases for line in (*phase.mechanism.assumptions, *_promises(plan, phase))
        ),
        *([_ALSO] if any(getattr(phase.mechanism, "also", ()) for phase in plan.phases) else []),
        *_exchange_assumptions(plan),
        "counts, rates and sizes are public and do not depend on the data",
        FIXED,
        _other_uses_text(plan),
        *dict.fromkeys(line for phase in plan.phases for line in _zeroed_units(plan, phase)),
    ]
    return (lines[0], *_count_assumptions(plan), *lines[1:])  # what concerns sampling stands together


def _count_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumptions on counts: of passes and batches, and where units are missing or empty."""
    yield from _pass_assumptions(plan)
    yield from _batch_assumptions(plan)
    if any(_may_lack_units(plan, phase) for phase in plan.phases):
        yield "where fewer units are left than a draw takes, it takes all that are left"
    if any(_may_be_empty(plan, phase) for phase in plan.phases):
        yield _EMPTY
    if plan.phases[0].hierarchy.depth > 1:
        yield "removing a unit leaves the units above it in place: a parent does not vanish with its last child"


def _pass_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumptions on passes: how nested ones go on, and that counts are exact for add-remove."""
    if any(sum(isinstance(level.scheme, Shuffle) for level in phase.hierarchy.levels) > 1 for phase in plan.phases):
        yield _NESTED
    if plan.adjacency is Adjacency.ADD_REMOVE and any(_keeps_passes(plan, phase.hierarchy) for phase in plan.phases):
        yield _EXACT_COUNTS


def _batch_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumption on caps if batches are cut, and on counts if they are cut or of a fixed size."""
    schemes = [level.scheme for phase in plan.phases for level in phase.hierarchy.levels]
    is_cut = any(getattr(scheme, "max_batch_size", None) is not None for scheme in schemes)
    if is_cut:
        yield _CAPPED
    if is_cut or any(isinstance(scheme, Fixed) for scheme in schemes):
        yield "counts are those of the larger of the two data sets"


# Summary of each phase for the protected unit.


@dataclass(frozen=True, kw_only=True)
class PhaseSummary:
    """Mechanism and sampling of one phase, from the point of view of the protected unit.

    Attributes:
        name: the user's word for the phase.
        steps: noisy releases.
        mechanism: its type and parameters in words.
        noise_multiplier: as configured; None where the mechanism has none.
        clip: name of the clipping level, "batch" for the whole batch.
        clips: whether anything is clipped.
        sampling: one line in words.
        inclusion: exact probability that a step draws the protected unit.
        shift: s of the one-step bound, in clip norms; None but for Gaussian noise.
        distances: d_1..d_p of the one-step bound, in clip norms (direction D||D'); () but for Gaussian noise.
        distances_swapped: d'_1..d'_p (direction D'||D).
        hold: steps for which one draw of the protected level is held.
        revealed: (rate, steps) of draws above it that are held for longer.
        steps_of_a_pass: steps in which the protected unit takes part once; 1 without a shuffle.
        also: noise multipliers of the other Gaussian sums that a step releases.
        joint_noise_multiplier: of all of them as one; None but for Gaussian noise.
        other_sums: these sums in words, "" for none; None but for Gaussian noise.
        sensitivity: of the strategy by which noise is correlated, where units take part within limits; else None.
        strategy: a config's `mechanism.strategy` where noise is correlated; else "".
    """

    name: str
    steps: int
    mechanism: str
    noise_multiplier: float | None
    clip: str
    sampling: str
    inclusion: Fraction
    shift: int | None
    distances: tuple[int, ...]
    distances_swapped: tuple[int, ...]
    hold: int = 1
    revealed: tuple[tuple[Fraction, int], ...] = ()
    steps_of_a_pass: int = 1
    also: tuple[float, ...] = ()
    joint_noise_multiplier: float | None = None
    other_sums: str | None = None
    clips: bool = True
    sensitivity: "Sensitivity | None" = None
    strategy: str = ""


def phase_summaries(composition: Composition, direction: str) -> tuple[PhaseSummary, ...]:
    """Return a summary of each phase for the unit that a direction names, else for the likeliest unit."""
    protected = composition.by_direction.get(direction) or composition.likeliest
    where = f"; costliest: {protected.place}" if protected.place else ""
    bounds = composition.bounds[composition.units.index(protected)]
    stated = zip(composition.stated.phases, composition.plan.phases, bounds, strict=True)
    return tuple(_summary(phase, composed, phase_bound, where) for phase, composed, phase_bound in stated)


def _chain_text(phase_bound: PhaseBound) -> str:
    """Return words on the bound of an allocation: if steps count as known, and how long its chain is; else ""."""
    if phase_bound.allocation is None:
        return ""
    known = "; the chosen steps count as known" if phase_bound.is_revealed else ""
    known += "; all members count in each" if phase_bound.units_together else ""
    removed, added = phase_bound.links.count("-"), phase_bound.links.count("+")
    steps = f"{removed} {'removals' if removed > 1 else 'removal'}"
    steps += f" and {added} {'additions' if added > 1 else 'addition'}" if added else ""
    return f"{known}; bounded by a chain of {steps}" if removed + added > 1 else known


def _hidden_bins_text(phase: Phase, composed: Phase) -> str:
    """Return words on the number of bins among which the bound hides the unit, if it is not the stated one; else ""."""
    stated, hidden = phase.hierarchy.allocation, composed.hierarchy.allocation
    if not isinstance(stated, BallsInBins) or not isinstance(hidden, BallsInBins) or stated.bins == hidden.bins:
        return ""
    return f"; bounded as one of {hidden.bins}, so many bins as the bands keep apart"


def _summary(phase: Phase, composed: Phase, phase_bound: PhaseBound, where: str) -> PhaseSummary:
    """Return the summary of a phase; `composed` is the phase of independent steps that bounds it."""
    bound, mechanism = phase_bound.bound, phase.mechanism
    is_gaussian = isinstance(composed.mechanism, Gaussian)  # distances are those of Gaussian mixtures
    chosen = phase_bound.allocation.rate if isinstance(phase_bound.allocation, CheckIn) else phase.hierarchy.chosen_rate
    correlated = _correlated(mechanism)
    return PhaseSummary(
        name=phase.name,
        steps=phase.steps,
        mechanism=mechanism_text(phase),
        noise_multiplier=phase.noise_multiplier,
        clip=phase.clip_names[phase.clip],
        sampling=sampling_text(phase) + _hidden_bins_text(phase, composed) + _chain_text(phase_bound) + where,
        inclusion=bound.inclusion * chosen,
        shift=bound.shift if is_gaussian else None,
        distances=bound.distances if is_gaussian else (),
        distances_swapped=bound.distances_swapped if is_gaussian else (),
        hold=phase_bound.hold,
        revealed=phase_bound.revealed,
        steps_of_a_pass=phase_bound.steps_of_a_pass,
        also=getattr(mechanism, "also", ()),
        joint_noise_multiplier=_joint_noise_multiplier(mechanism),
        other_sums=other_sums_text(mechanism),
        clips=phase.clips,
        sensitivity=_sensitivity(phase),
        strategy="" if correlated is None else correlated.strategy.text,
    )


def _joint_noise_multiplier(mechanism: Mechanism) -> float | None:
    """Return the noise multiplier of all sums of a step as one; None unless noise is Gaussian or correlated."""
    if isinstance(mechanism, Gaussian):
        return mechanism.joint.noise_multiplier
    correlated = _correlated(mechanism)
    return None if correlated is None else correlated.joint_noise_multiplier


def _sensitivity(phase: Phase) -> "Sensitivity | None":
    """Return the sensitivity of a phase's strategy under `any-order`; None for others, and without steps."""
    correlated = _correlated(phase.mechanism)
    if correlated is None or not phase.steps or not isinstance(phase.hierarchy.level(1).scheme, AnyOrder):
        return None
    return correlated.sensitivity(phase.steps)


# Facts that a chart must state: those that its runs share, and those in which they differ.


CLAIM = ("unit", "adjacency", "delta")
"""What an epsilon is about: where it differs between lines, each line says its own."""


def facts(plan: Plan) -> dict[str, str]:
    """Return short words on a run by fact; for several phases, sampling is their number and noise is empty."""
    first, *others = plan.phases
    together = "" if plan.group_size == 1 else f", {plan.group_size} together"
    return {
        "unit": f"unit {plan.unit_name}{together}",
        "adjacency": str(plan.adjacency),
        "delta": f"delta {plan.delta!r}",
        "sampling": f"{len(plan.phases)} phases" if others else with_thousands_separators(sampling_text(first)),
        "noise": "" if others else mechanism_text(first),
        "length": f"{plan.steps:,} {'step' if plan.steps == 1 else 'steps'}",
    }


def shared_facts(plans: Sequence[Plan], *, without: Collection[str] = ()) -> str:
    """Return the `facts` that all plans share, joined by "; ", without the named and the empty ones."""
    first, *others = map(facts, plans)
    same = (
        text for name, text in first.items() if name not in without and all(text == other[name] for other in others)
    )
    return "; ".join(filter(None, same))


def differing_facts(plan: Plan, plans: Sequence[Plan], *, without: Collection[str] = ()) -> str:
    """Return the unit, adjacency and delta of a plan, each only if another plan differs in it, joined by ", "."""
    mine, all_facts = facts(plan), [facts(other) for other in plans]
    names = (name for name in CLAIM if name not in without)
    return ", ".join(mine[name] for name in names if any(other[name] != mine[name] for other in all_facts))
