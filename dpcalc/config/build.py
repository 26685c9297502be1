"""Construction of the plan from sections without contradictions."""

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcalc.amplification.groups import group_refusal, max_group_size, min_units_left
from dpcalc.config.messages import keyed_error
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.scalars import AtMost
from dpcalc.config.schema import Draw, Tuning
from dpcalc.config.sections import RunSections, Sections
from dpcalc.config.source import ConfigError, error, whole_file
from dpcalc.config.tree import Scalar, Section, entry, node_at
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.keys import MAX_COUNT
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.plan import Budget, Partition, Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import (
    All,
    AnyOrder,
    BallsInBins,
    CappedPoisson,
    CyclicPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Scheme,
    Shuffle,
    WithReplacement,
)

if TYPE_CHECKING:  # it loads numpy
    from dpcalc.planner.tuning import Repetitions

SINGLE_PHASE = "training"  # name of the only phase of a file without `phases`


def build(config: Sections) -> Plan:
    """Return the plan; ConfigError for what no bound covers, shuffled passes left to `shuffled_passes_error`.

    Rates are exact, epochs are rounded up to whole steps. If unstated, the unit is level 1 and the adjacency
    add-remove.
    """
    privacy, budget, partition = config.privacy, config.budget, config.partition
    rise = budget.max_increase_pct if budget else None
    try:
        plan = Plan(
            name=_text(config.root, "name"),
            phases=tuple(_phase(run, number, config) for number, run in enumerate(config.runs, start=1)),
            unit=config.names.index(privacy.unit) + 1 if privacy.unit else 1,
            adjacency=privacy.adjacency or Adjacency.ADD_REMOVE,
            delta=float(privacy.delta),
            group_size=privacy.group_size,
            budget=Budget(epsilon=float(budget.epsilon), max_increase_pct=None if rise is None else float(rise))
            if budget
            else None,
            tuning=_repetitions(config.tuning) if config.tuning else None,
            partition=Partition(rule=partition.rule, parts=tuple(part.name for part in partition.parts))
            if partition
            else None,
            method=config.method,
        )
    except ConfigError:
        raise
    except InputError as cause:
        raise whole_file(config.root.mark.source.path, "DPC106", str(cause), "") from cause
    # Asked of the whole plan: whether a theorem covers a phase depends on unit, adjacency and group size too.
    for phase, run in zip(plan.phases, config.runs, strict=True):
        _refuse_uncovered_mechanism(phase, run, plan)
    if privacy.group_size > 1:
        _refuse_wrong_group(plan, config.root)
    return plan


def _refuse_uncovered_mechanism(phase: Phase, run: RunSections, plan: Plan) -> None:
    """Raise ConfigError if no bound covers the mechanism as the phase samples, or its strategy with these steps."""
    if phase.is_correlated or phase.hierarchy.spans_steps:
        from dpcalc.amplification.correlated import correlated_fault, length_fault

        fault = correlated_fault(phase.mechanism, phase.hierarchy, phase.steps)
        fault = fault or length_fault(phase.mechanism, phase.steps)
        if fault is not None:
            raise ConfigError([keyed_error(run.run.sections, fault)])
    node = run.node("mechanism")
    if isinstance(phase.mechanism, Gaussian) or phase.is_correlated or node is None:
        return
    from dpcalc.amplification.phase import black_box_refusal
    from dpcalc.amplification.schedule import ensemble_refusal
    from dpcalc.mechanisms.pate import PateMechanism

    if isinstance(phase.mechanism, PateMechanism):
        why = ensemble_refusal(phase.mechanism, phase.hierarchy)
    else:
        why = black_box_refusal(
            phase.mechanism, phase.hierarchy, unit=plan.unit, adjacency=plan.adjacency, group_size=plan.group_size
        )
    if why:
        raise ConfigError([error("DPC104", node.anchor, f"`{node.path}`: {why}", "nothing is proved there")])


def _refuse_wrong_group(plan: Plan, root: Section) -> None:
    """Raise ConfigError for a group that no theorem covers, whose members may part, or that exceeds the data."""
    node = node_at(root, "privacy", "group_size")
    if node is None:
        return
    size, phases = plan.group_size, [phase.hierarchy for phase in plan.phases]
    why = group_refusal(size, phases, unit=plan.unit) or (plan.parting and f"expected 1 {plan.parting}, got {size}")
    if why:
        hint = "nothing is proved for such a group; lower it"
        raise ConfigError([error("DPC104", node.anchor, f"`{node.path}`: {why}", hint)])
    max_size = max_group_size(phases, unit=plan.unit, adjacency=plan.adjacency)
    if size > max_size:
        # For add-remove the group is removed as a whole, and each step must still find what it draws.
        is_removed = plan.adjacency is Adjacency.ADD_REMOVE
        units_left = max(min_units_left(phase, unit=plan.unit) for phase in phases) if is_removed else 0
        message = f"`{node.path}` is {size}, but at most {max_size} of level `{plan.unit_name}` can be "
        message += "removed together" if units_left else "protected together: there are no more"
        hint = f"a step must find {units_left} of those that are left; " if units_left else ""
        raise ConfigError([error("DPC106", node.anchor, message, f"{hint}lower it, or check the counts")])


def _repetitions(tuning: Tuning) -> "Repetitions":
    """Return the distribution of the number of tuning runs."""
    from dpcalc.planner.tuning import Poisson, TruncatedNegativeBinomial

    mean = float(tuning.mean)
    if tuning.distribution == "poisson":
        return Poisson(mean=mean)
    # The geometric and the logarithmic distribution are the negative binomial ones of shape 1 and 0.
    shape = {"geometric": 1.0, "logarithmic": 0.0}.get(tuning.distribution, float(tuning.shape or 0))
    return TruncatedNegativeBinomial(shape=shape, mean=mean)


def _phase(run: RunSections, number: int, config: Sections) -> Phase:
    """Return phase `number` (from 1) of the plan; innermost units are clipped if nothing else is stated."""
    training, is_phase = run.training, bool(run.run.path)
    levels = levels_of(run, config, steps=training.steps)
    hierarchy = Hierarchy(levels=levels, tree=config.tree, episodes=run.episodes)
    steps = training.steps
    if steps is None:
        steps, epochs = hierarchy.steps_of(training.epochs or Fraction(0)), run.node("training", "epochs")
        if steps > MAX_COUNT and epochs is not None:
            message = f"`{epochs.path}` makes more than {MAX_COUNT:.0e} steps"
            raise ConfigError([error("DPC106", epochs.anchor, message, "check the epochs and the rate")])
    phase = Phase(
        name=(_text(run.run.at, "name") or f"phase {number}") if is_phase else SINGLE_PHASE,
        hierarchy=hierarchy,
        mechanism=run.mechanism,
        clip=len(levels),
        steps=steps,
        votes=run.votes,
        part=_text(run.run.at, "part") if is_phase else "",
    )
    # Clipping is counted in levels from the outermost, 0 for the whole batch.
    return phase if run.clip is None else replace(phase, clip=phase.clip_names.index(run.clip))


def levels_of(run: RunSections, config: Sections, *, steps: int | None = None) -> tuple[Level, ...]:
    """Return a phase's levels with their draws; InputError if the numbers do not fit.

    A random allocation without `steps` spans as many steps as its `times`.
    """
    is_assumed = has_assumed_sizes(config.root)
    levels = []
    for name, (fewest, largest) in zip(config.names, config.counts, strict=True):
        draw = run.draws.get(name, _WHOLE)
        scheme: Scheme = All()
        match draw:
            case Draw(scheme="poisson" | "cyclic-poisson"):
                # The rate refers to the largest parent. `expected` is the number drawn in a step, in which cyclic
                # sampling draws from one of its groups.
                rate = Fraction(draw.expected or 0, largest) * draw.groups if draw.rate is None else draw.rate
                cap = draw.max_batch_size
                if draw.scheme == "cyclic-poisson":
                    scheme = CyclicPoisson(
                        probability=rate,
                        groups=draw.groups,
                        max_batch_size=cap,
                        max_group_size=draw.max_group_size,
                    )
                elif cap is None:
                    scheme = Poisson(probability=rate)
                else:
                    scheme = CappedPoisson(probability=rate, max_batch_size=cap)
            case Draw(scheme="fixed", size=AtMost(size=size)):
                scheme = Fixed(size=size, at_most=True)
            case Draw(scheme="fixed", size=int(size)):
                scheme = Fixed(size=size)
            case Draw(scheme="with-replacement", size=int(size)):
                scheme = WithReplacement(size=size)
            case Draw(scheme="shuffle", size=int(size), drop_last=drop_last):
                scheme = Shuffle(size=size, drop_last=drop_last)
            case Draw(scheme="any-order"):
                scheme = AnyOrder()
            case Draw(scheme="balls-in-bins", bins=int(bins), assignment=assignment):
                scheme = BallsInBins(bins=bins, is_held=assignment == "held")
            case Draw(scheme="random-allocation", times=int(times)):
                scheme = RandomAllocation(times=times, steps=times if steps is None else steps)
        level = Level(
            name=name,
            min_count=fewest,
            count=largest,
            scheme=scheme,
            redraw_every=draw.redraw_every,
            is_assumed=is_assumed,
        )
        levels.append(level)
    return tuple(levels)


_WHOLE = Draw(scheme="all")


def has_assumed_sizes(root: Section) -> bool:
    """Return True if the count of the only level was assumed by dpcalc: it is unknown, or options do not state it."""
    count = node_at(root, "data", "levels", 0, "count")
    return count is not None and count.mark.source.path == ASSUMED


def shuffled_passes_error(plan: Plan, config: Sections) -> ConfigError | None:
    """Return the error (DPC104) of the first phase whose shuffling of protected units no bound covers; else None.

    It is returned, not raised, so that a solver can still look for another size.
    """
    for phase, run in zip(plan.phases, config.runs, strict=True):
        level = phase.hierarchy.level(plan.unit)
        if not isinstance(level.scheme, Shuffle):
            continue
        from dpcalc.planner.vary import refusal as refusal_of_passes

        why = refusal_of_passes(replace(plan, phases=(phase,)))
        draw = run.node("sampling", level.name)
        if why is not None and draw is not None:
            return ConfigError([error("DPC104", (entry(draw, "size") or draw).anchor, str(why), "")])
    return None


def _text(section: Section, key: str) -> str:
    """Return the text of a name, "" if there is none."""
    node = section.entries.get(key)
    return node.text if isinstance(node, Scalar) else ""
