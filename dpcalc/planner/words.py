"""Plans in words: sampling, mechanisms, assumptions, and the facts that a chart must state."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict
from fractions import Fraction

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import AdditiveNoise, Gaussian, joint_noise_multiplier, sums_text
from dpcalc.mechanisms.kinds import RELATIONS, Mechanism, NoisySum, PairOnly, Promise, RdpOnly
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization, Sensitivity
from dpcalc.planner.composition import Composition
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import AnyOrder, BallsInBins, CheckIn, CyclicPoisson

MAX_DENOMINATOR = 10**7  # of a probability that is printed as a fraction; longer ones are rounded, to be readable
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
            f"{built.tasks} tasks built of {built.ways} of {classes.count_words} ({classes.name}), "
            f"each {built.records} of {records.count_words} ({records.name})"
        )
    texts = [
        level.scheme.words(level) + (f", held for {level.redraw_every} steps" if level.redraw_every > 1 else "")
        for level in levels
    ]
    mechanism = phase.mechanism
    if isinstance(mechanism, MatrixFactorization) and isinstance(levels[0].scheme, AnyOrder):
        times, apart = mechanism.limits.times(phase.steps), mechanism.limits.separation
        if times <= 1:
            texts[0] += ", a unit in at most 1 step"
        elif mechanism.limits.fixed_epochs:
            texts[0] += f", a unit in {times} steps, at the same place in every epoch of {apart} steps"
        else:
            texts[0] += f", a unit in at most {times} steps, at least {apart} apart"
    return "; then ".join(texts)


def mechanism_text(phase: Phase) -> str:
    """Return a mechanism's name and its words or, without any, its finite numbers."""
    mechanism = phase.mechanism
    if phase.calibration is not None:
        return f"gaussian, {phase.calibration.words}{other_sums_text(mechanism)}"
    stated = {key: value for key, value in asdict(mechanism).items() if key not in {"max_grad_norm", "relation"}}
    # A mechanism has words of its own where its parameters are no numbers.
    words = mechanism.words or ", ".join(
        f"{key.replace('_', ' ')} {value:g}" for key, value in stated.items() if value != math.inf
    )
    relation = mechanism.relation if isinstance(mechanism, Promise) else None
    return f"{mechanism.name}, {words}{f', stated for {relation}' if relation else ''}"


def other_sums_text(mechanism: Mechanism) -> str | None:
    """Return " (with sums at ...)" for a Gaussian step's other sums, "" for none; None for any other mechanism."""
    return sums_text(mechanism) if isinstance(mechanism, Gaussian) else None


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
_COUNTED = (
    "to a step of which only a guarantee for batches of one size is known, a drawn unit of which nothing is drawn "
    "counts as one of its batch"
)
_UNIFORM = (
    " but that all are equally likely (not so where everybody knows the seed, or batches are cut from one order: state "
    "zero-out)"
)
_ANY_ORDER = ", and nothing is claimed for not knowing the order of a shuffle"
UNKNOWN_ORDER = (
    "every pass over shuffled units has a uniform order of its own, from a seed that nobody else knows; each unit is "
    "in it once (nothing fills up batches with units again), no batch, that of all ranks together, goes across two "
    "passes, every step adds the same noise to a sum that is divided by a constant, and nothing else of a batch, such "
    "as batch statistics, is used"
)
_NESTED = "a pass under a shuffled unit goes on whenever that unit has its turn, and a new one begins when it is over"
_EXACT_COUNTS = (
    "the counts of shuffled units are exact and those of the larger data set: a pass of the other one has as many steps"
)


def assumptions(plan: Plan) -> tuple[str, ...]:
    """Return the assumptions of the guarantee, one sentence each."""
    phases, outermost = plan.phases, [phase.hierarchy.level(1).scheme for phase in plan.phases]
    levels = [level for phase in phases for level in phase.hierarchy.levels]
    unit = phases[0].hierarchy.level(plan.unit).name
    adds_or_removes, replaces = plan.adjacency is Adjacency.ADD_REMOVE, plan.adjacency is Adjacency.REPLACE_ONE

    # Draws, and parts of the data.
    lines = []
    if not all(isinstance(scheme, AnyOrder) for scheme in outermost):
        shuffles = [level.scheme for level in levels if level.scheme.is_shuffled]
        begins = ", and each phase begins with a new pass" if phases[1:] else ""
        if shuffles:
            is_used = all(scheme.is_secret for scheme in shuffles) and not adds_or_removes
            when = f"in every pass{begins}{'' if is_used else _ANY_ORDER}{_UNIFORM if adds_or_removes else ''}"
            if is_used:
                lines.append(UNKNOWN_ORDER)
        elif any(level.scheme.is_allocated for level in levels):
            when = f"in every pass or phase{begins}; no unit's steps depend on another's, and they stay secret"
        elif any(level.redraw_every > 1 for level in levels):
            when = "whenever a level is redrawn" + begins.replace("a new pass", "new draws")
        else:
            when = "in every step"
        lines.append(f"the sampler draws exactly as stated, afresh and independently {when}")
    if plan.partition is not None and plan.parts:
        name = phases[0].hierarchy.level(1).name
        lines.append(
            f"each {name} is in at most one part, found from the {name} alone ({plan.partition.rule}); a run on a part "
            "draws from no other part"
        )
    if any(isinstance(scheme, AnyOrder) for scheme in outermost):
        cut = " (not so where batches are cut from one order: state zero-out for them)" if adds_or_removes else ""
        lines.append(
            "a protected unit takes part in no other steps than stated, and all other units in the same steps with it "
            f"and without it{cut}"
        )
    if any(isinstance(scheme, CyclicPoisson) for scheme in outermost):
        alone = ", for each unit by itself such as by a hash" if adds_or_removes else ""
        replaced = ", and a unit that takes the place of another is in its group" if replaces else ""
        is_limited = any(getattr(scheme, "max_group_size", None) for scheme in outermost)
        limited = ", and none ever holds more units than `max_group_size`" if is_limited else ""
        lines.append(f"the groups of cyclic draws are fixed beforehand{alone}{replaced}{limited}")

    # Counts: of passes and batches, and where units are missing or empty. What concerns sampling stands together.
    units = [(phase.hierarchy, phase.hierarchy.level(plan.unit).scheme) for phase in phases]
    is_nested = any(sum(level.scheme.is_shuffled for level in phase.hierarchy.levels) > 1 for phase in phases)
    keeps_steps = any(
        scheme.is_shuffled and not hierarchy.loses_steps(plan.unit, scheme, plan.group_size)
        for hierarchy, scheme in units
    )
    is_cut = any(getattr(level.scheme, "max_batch_size", None) is not None for level in levels)
    may_lack_units = may_be_empty = False
    for phase in phases:
        if phase.hierarchy.episodes is not None:
            continue
        level = phase.hierarchy.level(plan.unit)
        scheme = level.scheme
        # A removed group can leave too few units for a fixed draw, or none to draw with replacement.
        if plan.group_size > 1 and adds_or_removes:
            left = level.min_count - plan.group_size
            may_lack_units |= (scheme.has_stand_in and left < scheme.size) or (scheme.can_repeat and left < 1)
        # Noise is added to sums, and a drawn unit may be empty: by a Poisson draw below it, or a clipped unit above the
        # protected one by its removal where no other is drawn in its place.
        if phase.mechanism.adds_noise or phase.is_correlated:
            below = phase.hierarchy.levels[max(phase.clip, plan.unit) :]
            nobody_stands_in = scheme.amount_key != "size" and not scheme.is_allocated
            may_be_empty |= any(each.scheme.is_independent or each.scheme.is_cut for each in below)
            may_be_empty |= phase.clip < plan.unit and adds_or_removes and nobody_stands_in
    counts = {
        _NESTED: is_nested,
        _EXACT_COUNTS: adds_or_removes and keeps_steps,
        _CAPPED: is_cut,
        "counts are those of the larger of the two data sets": is_cut or any(x.scheme.has_stand_in for x in levels),
        "where fewer units are left than a draw takes, it takes all that are left": may_lack_units,
        _EMPTY: may_be_empty,
        "removing a unit leaves the units above it in place: a parent does not vanish with its last child": (
            phases[0].hierarchy.depth > 1
        ),
    }
    lines[1:1] = [text for text, applies in counts.items() if applies]

    # Mechanisms: what each assumes, and for which two batches a promise is stated.
    promises: list[str] = []
    zeroed: list[str] = []
    for phase in phases:
        own = phase.mechanism
        for each in own.sums if isinstance(own, AdditiveNoise) else (own,):
            promises += each.assumptions
        if isinstance(phase.mechanism, Promise):
            relation = phase.mechanism.relation or plan.adjacency
            promises.append(f"{phase.mechanism.statement} holds for any two batches {RELATIONS[relation]}")
            if Adjacency.ZERO_OUT in {relation, plan.adjacency}:
                zeroed.append(_REPLACED if relation == Adjacency.REPLACE_ONE else _ZEROED)
            below = phase.hierarchy.levels[plan.unit :]
            draws_none = any(
                each.scheme.is_independent or each.scheme.is_cut or each.scheme.is_allocated for each in below
            )
            if relation == Adjacency.REPLACE_ONE and draws_none and phase.hierarchy.episodes is None:
                zeroed.append(_COUNTED)
    lines += dict.fromkeys(promises)
    lines += dict.fromkeys(calibration.assumption for calibration in plan.calibrations)
    if any(getattr(phase.mechanism, "also", ()) for phase in phases):
        lines.append(_ALSO)
    counting = [phase for phase in phases if isinstance(phase.mechanism, PairOnly | RdpOnly)]
    above = [level for phase in counting for level in phase.hierarchy.levels[: plan.unit - 1] if not level.is_whole]
    if above and plan.group_size == 1:
        name = above[-1].name
        lines.append(
            f"to a step that counts units a batch is each drawn {unit}, of whichever {name}: its guarantee covers "
            f"batches that mix them, and a drawn {name} without any leaves no trace"
        )

    lines += ["counts, rates and sizes are public and do not depend on the data", FIXED]
    if plan.tuning is None:
        lines.append("tuning and other runs on the same data are not covered")
    else:
        lines.append(
            f"how often the run is repeated is drawn at random and stays secret ({plan.tuning.words}), no run costs "
            "more than this one, the best is told by the results alone, and only it is released"
        )
    return (*lines, *dict.fromkeys(zeroed))


# Summary of each phase for the protected unit.


@dataclass(frozen=True, kw_only=True)
class PhaseSummary:
    """Mechanism and sampling of one phase, from the point of view of the protected unit; lengths are in clip norms."""

    name: str  # the user's word for the phase
    steps: int  # noisy releases
    mechanism: str  # its type and parameters in words
    noise_multiplier: float | None  # as configured, or the least that a library can have found; None without one
    clip: str  # name of the clipping level, "batch" for the whole batch
    sampling: str  # one line in words
    inclusion: Fraction  # exact probability that a step draws the protected unit
    shift: int | None  # s of the one-step bound; None but for Gaussian noise
    distances: tuple[int, ...]  # d_1..d_p of the one-step bound (direction D||D'); () but for Gaussian noise
    distances_swapped: tuple[int, ...]  # d'_1..d'_p (direction D'||D)
    hold: int = 1  # steps for which one draw of the protected level is held
    revealed: tuple[tuple[Fraction, int], ...] = ()  # (rate, steps) of draws above it that are held for longer
    steps_of_a_pass: int = 1  # in which the protected unit takes part once; 1 without a shuffle
    also: tuple[float | NoisySum, ...] = ()  # the other sums that a step releases, Gaussian ones by their noise
    joint_noise_multiplier: float | None = None  # of all of them as one; None but for Gaussian noise
    other_sums: str | None = None  # these sums in words, "" for none; None but for Gaussian noise that is stated
    clips: bool = True  # whether anything is clipped
    sensitivity: Sensitivity | None = None  # of a strategy of correlated noise where units take part within limits
    strategy: str = ""  # a config's `mechanism.strategy` where noise is correlated


def phase_summaries(composition: Composition, direction: str) -> tuple[PhaseSummary, ...]:
    """Return a summary of each phase for the unit that a direction names, else for the likeliest unit."""
    protected = composition.by_direction.get(direction) or composition.likeliest
    bounds = composition.bounds[composition.units.index(protected)]
    summaries = []
    # `composed` is the phase of independent steps that bounds the stated one.
    for phase, composed, phase_bound in zip(composition.stated.phases, composition.plan.phases, bounds, strict=True):
        bound, mechanism, allocation = phase_bound.bound, phase.mechanism, phase_bound.allocation
        sampling = sampling_text(phase)
        stated, hidden = phase.hierarchy.allocation, composed.hierarchy.allocation
        if isinstance(stated, BallsInBins) and isinstance(hidden, BallsInBins) and stated.bins != hidden.bins:
            sampling += f"; bounded as one of {hidden.bins}, so many bins as the bands keep apart"
        if allocation is not None:
            sampling += "; the chosen steps count as known" if phase_bound.is_revealed else ""
            sampling += "; all members count in each" if phase_bound.units_together else ""
            removed, added = phase_bound.links.count("-"), phase_bound.links.count("+")
            if removed + added > 1:
                sampling += f"; bounded by a chain of {removed} {'removals' if removed > 1 else 'removal'}"
                sampling += f" and {added} {'additions' if added > 1 else 'addition'}" if added else ""
        sampling += f"; costliest: {protected.place}" if protected.place else ""

        joint = joint_noise_multiplier(mechanism) if isinstance(mechanism, Gaussian | MatrixFactorization) else None
        sensitivity, strategy = None, ""
        if isinstance(mechanism, MatrixFactorization):
            strategy = mechanism.strategy.text
            if phase.steps and isinstance(phase.hierarchy.level(1).scheme, AnyOrder):
                sensitivity = mechanism.strategy.sensitivity(phase.steps, mechanism.limits)
        is_gaussian = isinstance(composed.mechanism, Gaussian)  # distances are those of Gaussian mixtures
        chosen = allocation.rate if isinstance(allocation, CheckIn) else phase.hierarchy.chosen_rate
        summaries.append(
            PhaseSummary(
                name=phase.name,
                steps=phase.steps,
                mechanism=mechanism_text(phase),
                noise_multiplier=phase.noise_multiplier,
                clip=phase.clip_names[phase.clip],
                sampling=sampling,
                inclusion=bound.inclusion * chosen,
                shift=bound.shift if is_gaussian else None,
                distances=bound.distances if is_gaussian else (),
                distances_swapped=bound.distances_swapped if is_gaussian else (),
                hold=phase_bound.hold,
                revealed=phase_bound.revealed,
                steps_of_a_pass=phase_bound.steps_of_a_pass,
                also=getattr(mechanism, "also", ()),
                joint_noise_multiplier=joint,
                other_sums=None if phase.calibration else other_sums_text(mechanism),
                clips=phase.clips,
                sensitivity=sensitivity,
                strategy=strategy,
            )
        )
    return tuple(summaries)


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
