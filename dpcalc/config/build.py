"""Construction of the plan from validated sections."""

from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcalc.amplification.groups import group_refusal, max_group_size, min_units_left
from dpcalc.config import schema
from dpcalc.config.messages import keyed_error
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.scalars import AtMost
from dpcalc.config.schema import Draw, Training
from dpcalc.config.sections import RunSections, Sections
from dpcalc.config.source import ConfigError, Diagnostic, error, whole_file
from dpcalc.config.tree import Node, Scalar, Section, entry, node_at
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.keys import MAX_COUNT
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.plan import Budget, Partition, Phase, Plan
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level
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
    """Return the plan of valid sections; ConfigError if contradictory or not covered (shuffled passes are not checked).

    Shuffled passes are left to `shuffled_passes_error`. Rates are exact, epochs are rounded up to whole steps.
    """
    _refuse_wrong_parts(config)
    plan = _plan_of_values(config)
    # Asked of the whole plan: whether a theorem covers a phase depends on unit, adjacency and group size too.
    _refuse_uncovered_phases(plan, config.runs)
    stated_group = node_at(config.root, "privacy", "group_size")
    if stated_group is not None and plan.group_size > 1:
        _refuse_uncovered_group(plan, stated_group)
        _refuse_oversized_group(plan, stated_group)
    return plan


def _plan_of_values(config: Sections) -> Plan:
    """Return the plan of the sections' values; ConfigError (DPC106) if `Plan` refuses them.

    If unstated, the unit is level 1 and the adjacency add-remove.
    """
    data, privacy, accounting = config.data, config.privacy, config.accounting
    if data is None or privacy is None or accounting is None:
        raise LookupError("build: expected sections without errors, got a missing one")
    names = [level.name for level in data.levels]
    try:
        return Plan(
            name=_text(entry(config.root, "name")),
            phases=tuple(_phase(run, number, config) for number, run in enumerate(config.runs, start=1)),
            unit=names.index(privacy.unit) + 1 if privacy.unit else 1,
            adjacency=privacy.adjacency or Adjacency.ADD_REMOVE,
            delta=float(privacy.delta),
            group_size=privacy.group_size,
            budget=_budget(config.budget),
            tuning=_repetitions(config.tuning),
            partition=_partition(config.partition),
            method=accounting.method,
        )
    except ConfigError:
        raise
    except InputError as cause:
        raise whole_file(config.root.mark.source.path, "DPC106", str(cause), "") from cause


def _refuse_uncovered_group(plan: Plan, node: Node) -> None:
    """Raise ConfigError (DPC104) at `node` if no theorem covers the group, or sampling may separate its members."""
    size, phases = plan.group_size, [phase.hierarchy for phase in plan.phases]
    why = group_refusal(size, phases, unit=plan.unit) or (plan.parting and f"expected 1 {plan.parting}, got {size}")
    if why:
        message = f"`{node.path}`: {why}"
        raise ConfigError([error("DPC104", node.anchor, message, "nothing is proved for such a group; lower it")])


def _refuse_oversized_group(plan: Plan, node: Node) -> None:
    """Raise ConfigError (DPC106) if a group exceeds the data or, for add-remove, what each step's draw can spare."""
    phases = [phase.hierarchy for phase in plan.phases]
    max_size = max_group_size(phases, unit=plan.unit, adjacency=plan.adjacency)
    if plan.group_size > max_size:
        # For add-remove the group is removed as a whole, and each step must still find what it draws.
        is_removed = plan.adjacency is Adjacency.ADD_REMOVE
        units_left = max(min_units_left(phase, unit=plan.unit) for phase in phases) if is_removed else 0
        raise ConfigError([_oversized_group_error(plan, node, max_size, units_left)])


def _oversized_group_error(plan: Plan, node: Node, max_size: int, units_left: int) -> Diagnostic:
    """Return the error (DPC106) of a group above `max_size`; `units_left` is what a step must find then, or 0."""
    message = f"`{node.path}` is {plan.group_size}, but at most {max_size} of level `{plan.unit_name}` can be "
    message += "removed together" if units_left else "protected together: there are no more"
    hint = f"a step must find {units_left} of those that are left; " if units_left else ""
    return error("DPC106", node.anchor, message, f"{hint}lower it, or check the counts")


def _partition(partition: schema.Partition | None) -> Partition | None:
    """Return the partition of the plan, its parts by name only; None without one."""
    if partition is None:
        return None
    return Partition(rule=partition.rule, parts=tuple(part.name for part in partition.parts))


def _budget(budget: schema.Budget | None) -> Budget | None:
    """Return the budget of the plan, with its numbers as floats; None without a budget."""
    if budget is None:
        return None
    rise = budget.max_increase_pct
    return Budget(epsilon=float(budget.epsilon), max_increase_pct=None if rise is None else float(rise))


def _refuse_wrong_parts(config: Sections) -> None:
    """Raise ConfigError for a repeated part name, an unknown part of a phase, or an `expected` draw from a part."""
    names = () if config.partition is None else tuple(part.name for part in config.partition.parts)
    _refuse_repeated_part(config.root, names)
    for run in config.runs:
        part = entry(run.run.at, "part") if run.run.path else None
        if isinstance(part, Scalar):
            _refuse_unknown_part(part, names)
            _refuse_expected_number_in_part(run, config.data)


def _refuse_repeated_part(root: Section, names: tuple[str, ...]) -> None:
    """Raise ConfigError (DPC105) at `partition` for the first name that two parts have."""
    twice = next((name for name in names if names.count(name) > 1), None)
    section = root.entries.get("partition")
    if twice is not None and section is not None:
        message = f"two parts are called `{twice}`"
        raise ConfigError([error("DPC105", section.anchor, message, "give each part its own name")])


def _refuse_unknown_part(part: Scalar, names: tuple[str, ...]) -> None:
    """Raise ConfigError (DPC108), which lists the names, if the `part` of a phase is none of them."""
    if part.text not in names:
        hint = f"the parts are {', '.join(names)}" if names else "add `partition` with its `rule` and its `parts`"
        message = f"`{part.path}`: there is no part `{part.text}`"
        raise ConfigError([error("DPC108", part.anchor, message, hint)])


def _refuse_expected_number_in_part(run: RunSections, data: schema.Data | None) -> None:
    """Raise ConfigError (DPC107) if a phase on a part states its outermost draw by `expected` and not by a rate."""
    outermost = entry(run.node("sampling"), data.levels[0].name) if data else None
    amount = entry(outermost, "expected")
    if amount is not None:
        message = f"`{amount.path}` gives no rate: how many units a part holds is not known"
        raise ConfigError([error("DPC107", amount.anchor, message, "state `rate`")])


def _repetitions(tuning: schema.Tuning | None) -> "Repetitions | None":
    """Return the distribution of the number of tuning runs; None without tuning."""
    if tuning is None:
        return None
    from dpcalc.planner.tuning import Poisson, TruncatedNegativeBinomial

    mean = float(tuning.mean)
    if tuning.distribution == "poisson":
        return Poisson(mean=mean)
    # The geometric and the logarithmic distribution are the negative binomial ones of shape 1 and 0.
    shape = {"geometric": 1.0, "logarithmic": 0.0}.get(tuning.distribution, float(tuning.shape or 0))
    return TruncatedNegativeBinomial(shape=shape, mean=mean)


def _phase(run: RunSections, number: int, config: Sections) -> Phase:
    """Return phase `number` (from 1) of the plan; LookupError if a section is missing.

    Innermost units are clipped if nothing else is stated.
    """
    if run.mechanism is None or run.training is None:
        raise LookupError(f"phase {number}: expected sections without errors, got a missing one")
    hierarchy = _hierarchy(run, run.training, config)
    phase = Phase(
        name=_phase_name(run, number),
        hierarchy=hierarchy,
        mechanism=run.mechanism,
        clip=len(hierarchy.levels),
        steps=_steps(run, run.training, hierarchy),
        votes=run.votes,
        part=_text(entry(run.run.at, "part")) if run.run.path else "",
    )
    # Clipping is counted in levels from the outermost, 0 for the whole batch; records are clipped if nothing is stated.
    return phase if run.clip is None else replace(phase, clip=phase.clip_names.index(run.clip))


def _phase_name(run: RunSections, number: int) -> str:
    """Return the stated name of a phase, else "phase N" (from 1); "training" for a file without `phases`."""
    if not run.run.path:
        return SINGLE_PHASE
    return _text(entry(run.run.at, "name")) or f"phase {number}"


def _hierarchy(run: RunSections, training: Training, config: Sections) -> Hierarchy:
    """Return a phase's levels (all assumed if one count is), tree and episodes; LookupError if a section is missing."""
    data, count_ranges = config.data, config.count_ranges
    if run.sampling is None or data is None or count_ranges is None:
        raise LookupError("hierarchy: expected sections without errors, got a missing one")
    is_assumed = has_assumed_sizes(config.root)
    levels = tuple(
        replace(level_of(level.name, run.sampling.get(level.name), counts, steps=training.steps), is_assumed=is_assumed)
        for level, counts in zip(data.levels, count_ranges, strict=True)
    )
    episodes = Episodes(**asdict(run.episodes)) if run.episodes else None
    return Hierarchy(levels=levels, tree=config.tree, episodes=episodes)


def _refuse_uncovered_phases(plan: Plan, runs: tuple[RunSections, ...]) -> None:
    """Raise ConfigError for the first phase that no bound covers, or whose `epochs` give no number of steps."""
    for phase, run in zip(plan.phases, runs, strict=True):
        if phase.is_correlated or phase.hierarchy.spans_steps:
            _refuse_epochs_of_any_order(run, phase.hierarchy)
            _refuse_uncovered_correlation(phase, run)
        _refuse_uncovered_mechanism(phase, run, plan)


def _refuse_uncovered_mechanism(phase: Phase, run: RunSections, plan: Plan) -> None:
    """Raise ConfigError (DPC104) if no bound covers PATE or a mechanism that counts units as the phase samples."""
    why, node = _mechanism_refusal(phase, plan), run.node("mechanism")
    if why and node is not None:
        raise ConfigError([error("DPC104", node.anchor, f"`{node.path}`: {why}", "nothing is proved there")])


def _mechanism_refusal(phase: Phase, plan: Plan) -> str:
    """Return why no bound covers PATE or a mechanism that counts units as the phase samples; "" if one does."""
    if isinstance(phase.mechanism, Gaussian) or phase.is_correlated:
        return ""
    from dpcalc.amplification.phase import black_box_refusal
    from dpcalc.amplification.schedule import ensemble_refusal
    from dpcalc.mechanisms.pate import PateMechanism

    if isinstance(phase.mechanism, PateMechanism):
        return ensemble_refusal(phase.mechanism, phase.hierarchy)
    return black_box_refusal(
        phase.mechanism, phase.hierarchy, unit=plan.unit, adjacency=plan.adjacency, group_size=plan.group_size
    )


def _refuse_epochs_of_any_order(run: RunSections, hierarchy: Hierarchy) -> None:
    """Raise ConfigError (DPC107) if `epochs` are stated for batches in any order, which make no passes."""
    epochs = run.node("training", "epochs")
    if epochs is not None and isinstance(hierarchy.level(1).scheme, AnyOrder):
        message = f"`{epochs.path}` is no number of steps: batches in any order make no passes"
        raise ConfigError([error("DPC107", epochs.key or epochs.anchor, message, "state `steps`")])


def _refuse_uncovered_correlation(phase: Phase, run: RunSections) -> None:
    """Raise ConfigError if no theorem covers correlated noise with these draws, or the strategy with these steps."""
    from dpcalc.amplification.correlated import correlated_fault, length_fault

    fault = correlated_fault(phase.mechanism, phase.hierarchy, phase.steps)
    fault = fault or length_fault(phase.mechanism, phase.steps)
    if fault is not None:
        raise ConfigError([keyed_error(run.run.sections, fault)])


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
        draw = entry(run.node("sampling"), level.name)
        if why is not None and draw is not None:
            return ConfigError([error("DPC104", (entry(draw, "size") or draw).anchor, str(why), "")])
    return None


def level_of(name: str, draw: Draw | None, count_range: tuple[int, int], *, steps: int | None = None) -> Level:
    """Return a level with its draw; InputError if the numbers do not fit.

    An `expected` number is divided by the largest count.
    """
    fewest, largest = count_range
    draw = draw or Draw(scheme="all")
    scheme = _scheme(draw, largest, steps)
    return Level(name=name, min_count=fewest, count=largest, scheme=scheme, redraw_every=draw.redraw_every)


def _scheme(draw: Draw, max_count: int, steps: int | None) -> Scheme:
    """Return the sampling scheme that a valid draw from at most `max_count` units states.

    A random allocation without `steps` spans as many steps as its `times`.
    """
    scheme: Scheme = All()
    match draw:
        case Draw(scheme="poisson" | "cyclic-poisson"):
            scheme = _poisson_scheme(draw, max_count)
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
    return scheme


def _poisson_scheme(draw: Draw, max_count: int) -> Poisson | CappedPoisson | CyclicPoisson:
    """Return the cyclic, plain or (with `max_batch_size`) capped Poisson scheme of a draw from `max_count` units."""
    # `expected` is the number drawn in a step, in which cyclic sampling draws from one of its groups.
    rate = Fraction(draw.expected or 0, max_count) * draw.groups if draw.rate is None else draw.rate
    cap = draw.max_batch_size
    if draw.scheme == "cyclic-poisson":
        max_group_size = draw.max_group_size
        return CyclicPoisson(probability=rate, groups=draw.groups, max_batch_size=cap, max_group_size=max_group_size)
    return Poisson(probability=rate) if cap is None else CappedPoisson(probability=rate, max_batch_size=cap)


def has_assumed_sizes(root: Section) -> bool:
    """Return True if the count of the only level was assumed by dpcalc: it is unknown, or options do not state it."""
    count = node_at(root, "data", "levels", 0, "count")
    return count is not None and count.mark.source.path == ASSUMED


def _steps(run: RunSections, training: Training, hierarchy: Hierarchy) -> int:
    """Return the stated steps, else those of the epochs, rounded up; ConfigError (DPC106) if these exceed MAX_COUNT."""
    if training.steps is not None:
        return training.steps
    steps = hierarchy.steps_of(training.epochs or Fraction(0))
    node = run.node("training", "epochs")
    if steps > MAX_COUNT and node is not None:
        message = f"`{node.path}` makes more than {MAX_COUNT:.0e} steps"
        raise ConfigError([error("DPC106", node.anchor, message, "check the epochs and the rate")])
    return steps


def _text(node: object) -> str:
    """Return the text of a name, "" if there is none."""
    return node.text if isinstance(node, Scalar) else ""
