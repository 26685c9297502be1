"""From the sections of a config to the plan: contradictions between sections, the plan, and remarks on a valid config.

What a constructor of the plan checks is checked there, and raised with the key that is wrong; here it gets its place in
the file.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

from dpcalc.amplification.groups import group_refusal, max_group_size, units_left
from dpcalc.config import scalars
from dpcalc.config.files import Files
from dpcalc.config.messages import keyed_error, nearest
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.scalars import AT_MOST, BATCH, EPISODES, EVERY
from dpcalc.config.schema import Draw
from dpcalc.config.sections import RunSections, Sections, read_sections
from dpcalc.config.source import ConfigError, Diagnostic, Severity, error, finding, whole_file
from dpcalc.config.tree import Items, Scalar, Section, entry, node_at
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.keys import MAX_COUNT
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.plan import Partition, Phase, Plan
from dpcalc.sampling.hierarchy import (
    TASK,
    Hierarchy,
    Level,
    draw_faults,
    episode_faults,
    name_faults,
    size_faults,
)
from dpcalc.sampling.schemes import SCHEMES, AnyOrder, BallsInBins, Poisson, RandomAllocation, Shuffle
from dpcalc.sampling.trees import MAX_RECORDS

if TYPE_CHECKING:  # it loads numpy
    from dpcalc.planner.tuning import Repetitions

SINGLE_PHASE = "training"  # name of the only phase of a file without `phases`


# Contradictions.


def valid_sections(root: Section, files: Files) -> Sections:
    """Return the sections of a file; ConfigError with all errors in them or, without any, all between them."""
    config = read_sections(root, files)
    contradictions = (
        *_file_contradictions(config),
        *(each for run in config.runs for each in _run_contradictions(run, config)),
    )
    if contradictions:
        raise ConfigError(contradictions)
    return config


def _file_contradictions(config: Sections) -> Iterator[Diagnostic]:
    """Yield the contradictions of data, privacy, tuning, parts and the names of phases."""
    root, names = config.root, config.names
    data, privacy = root.entries["data"], root.entries["privacy"]
    yield from (keyed_error(data, fault) for fault in name_faults(names))
    if max_units(config, len(names)) > MAX_RECORDS:  # every count may be valid while their product is not
        levels, tree = entry(data, "levels"), entry(data, "tree")
        last = levels.items[-1] if isinstance(levels, Items) else None
        place = tree or entry(last, "count") or entry(last, "max") or root
        yield error("DPC106", place.anchor, f"more than {MAX_RECORDS:.0e} records in all", "check the counts")

    unit = entry(privacy, "unit")
    if not isinstance(unit, Scalar):
        if len(names) > 1:
            message = f"`privacy.unit` is missing: the data have {len(names)} levels ({', '.join(names)})"
            yield error("DPC103", privacy.anchor, message, f"say what is protected, e.g. `unit: {names[0]}`")
    elif unit.text == TASK and any(run.episodes for run in config.runs):
        message = (
            f"`{unit.path}` is `{TASK}`, but tasks are constructed anew in every step: a record sits in many of them"
        )
        hint = f"hiding one task hides nobody; protect {' or '.join(f'`{name}`' for name in names)}"
        yield error("DPC206", unit.anchor, message, hint)
    elif unit.text == EVERY:
        hint = f"choose one of {', '.join(names)}; `dpcalc epsilon --unit all` tells of each"
        yield error("DPC108", unit.anchor, f"`{unit.path}` must name one level, got `{EVERY}`", hint)
    elif unit.text not in names:
        yield _unknown_level_error(unit, names, {})

    tuning, method = config.tuning, node_at(root, "accounting", "method")
    if tuning is not None and (tuning.shape is None) == (tuning.distribution == "negative-binomial"):
        section, shape = root.entries["tuning"], node_at(root, "tuning", "shape")
        if shape is None:
            message = "`tuning` lacks `shape`, which tells one negative binomial distribution from another"
            yield error("DPC103", section.anchor, message, "e.g. 0.5")
        else:
            message = f"`{shape.path}` is of `distribution: negative-binomial`, not of {tuning.distribution}"
            yield error("DPC107", shape.key or shape.anchor, message, "take it out")
    if tuning is not None and method is not None and config.method not in {"auto", "rdp"}:
        message = f"`{method.path}` must be auto or rdp beside `tuning`, got {scalars.describe(method)}"
        yield error("DPC107", method.anchor, message, "only rdp bounds the best of several runs")

    parts = [part.name for part in config.partition.parts] if config.partition else []
    twice = next((name for name in parts if parts.count(name) > 1), None)
    if twice is not None:
        message = f"two parts are called `{twice}`"
        yield error("DPC105", root.entries["partition"].anchor, message, "give each part its own name")
    seen: set[str] = set()
    for run in config.runs:
        if not run.path:
            continue
        name, part = entry(run.at, "name"), entry(run.at, "part")
        if isinstance(name, Scalar):
            if name.text in seen:
                message = f"two phases are called `{name.text}`"
                yield error("DPC105", name.anchor, message, "give each phase its own name")
            seen.add(name.text)
        if isinstance(part, Scalar):
            if part.text not in parts:
                hint = (
                    f"the parts are {', '.join(parts)}" if parts else "add `partition` with its `rule` and its `parts`"
                )
                yield error("DPC108", part.anchor, f"`{part.path}`: there is no part `{part.text}`", hint)
            amount = run.node("sampling", names[0], "expected")
            if amount is not None:
                message = f"`{amount.path}` gives no rate: how many units a part holds is not known"
                yield error("DPC107", amount.anchor, message, "state `rate`")


def _run_contradictions(run: RunSections, config: Sections) -> Iterator[Diagnostic]:
    """Yield the contradictions of the draws, clipping and length of a phase, among each other and with the data."""
    names, sampling = config.names, run.sections.entries["sampling"]
    if run.episodes:
        for index, name in enumerate(names):
            node = node_at(config.root, "data", "levels", index, "name")
            if name == TASK and node is not None:
                message = f"`{node.path}` is `{TASK}`, which is what `sampling.{EPISODES}` constructs from the levels"
                hint = "the levels are the classes and their records: name them so"
                yield error("DPC107", node.anchor, message, hint)
    unknown = [name for name in run.draws if name not in names]
    for name in unknown:
        node, near = node_at(sampling, name) or sampling, nearest(name, names)
        hint = f"did you mean `{near}`?" if near else f"the levels are {', '.join(names)}"
        message = f"`{sampling.path}.{name}`: there is no level `{name}`"
        yield error("DPC108", node.key or node.anchor, message, hint)
    if not run.episodes and not unknown and names[0] not in run.draws:
        message = f"`{sampling.path}.{names[0]}` is missing: how the outermost level is drawn is never assumed"
        yield error("DPC103", sampling.anchor, message, f"e.g. `{names[0]}: {{scheme: poisson, rate: 0.01}}`")
    tasks = {TASK: f"`{TASK}` clips each constructed task"} if run.episodes else {}
    others = tasks | {BATCH: f"`{BATCH}` clips the whole batch as one vector"}
    clip = run.node("mechanism", "clip")
    if isinstance(clip, Scalar) and clip.text not in (*names, *others):
        yield _unknown_level_error(clip, names, others)
    elif clip is not None and run.episodes and len(names) == 2 and run.clip == names[0]:
        message = f"`{clip.path}` is `{names[0]}`, which can be in several tasks of a step and has no vector of its own"
        hint = f"`clip: {TASK}` clips each constructed task, `clip: {names[1]}` each {names[1]} in it"
        yield error("DPC107", clip.anchor, message, hint)

    # Sizes that do not fit the data. What the draws of all levels say together can be judged without such errors only.
    fit = True
    for number, (name, (fewest, largest)) in enumerate(zip(names, config.counts, strict=True), start=1):
        draw = run.draws.get(name)
        size, expected = (node_at(sampling, name, key) for key in ("size", "expected"))
        wrong: list[Diagnostic] = []
        if draw and size is not None and isinstance(draw.size, int) and not SCHEMES[draw.scheme].can_repeat:
            smallest = config.tree.smallest_parent(number) if config.tree else ""
            advice = (
                f"; `size: {{{AT_MOST}: N}}` takes all of a smaller one" if SCHEMES[draw.scheme].has_stand_in else ""
            )
            wrong += (
                error(fault.code, size.anchor, f"`{size.path}` {fault.problem}", f"{fault.hint}{advice}")
                for fault in size_faults(name, draw.size, fewest, largest, smallest_parent=smallest)
            )
        if draw and expected is not None and draw.expected is not None:
            # The rate of a Poisson draw refers to the largest parent, see `build`; a step draws from one group.
            group = Fraction(largest, draw.groups)
            wrong += (
                error(fault.code, expected.anchor, f"`{expected.path}` {fault.problem}", fault.hint)
                for fault in size_faults(name, draw.expected, group, group)
            )
            if fewest < largest:
                message = (
                    f"`{expected.path}` gives no rate: level `{name}` has {fewest} to {largest} units under one parent"
                )
                hint = "state `rate`, which is the same for all of them"
                wrong.append(error("DPC107", expected.key or expected.anchor, message, hint))
        yield from wrong
        fit = fit and not wrong
    if fit:
        levels = levels_of(run, config)
        yield from (keyed_error(sampling, fault) for fault in draw_faults(levels, run.training.steps))
        if run.episodes:
            yield from (keyed_error(sampling, fault) for fault in episode_faults(run.episodes, levels, config.tree))

    # Epochs are passes over the first level that is not drawn whole: its draw must make a known number of them.
    epochs = run.node("training", "epochs")
    drawn = (
        (name, run.draws[name].scheme, fewest < largest and not config.tree)
        for name, (fewest, largest) in zip(names, config.counts, strict=True)
        if name in run.draws and run.draws[name].scheme != "all"
    )
    name, scheme, is_range = next(drawn, ("", "", False))
    reason = "constructed tasks make no passes over the data" if run.episodes else ""
    if scheme == RandomAllocation.name and not config.tree:
        reason = "random-allocation chooses among steps, not passes"
    elif is_range and scheme not in {Poisson.name, BallsInBins.name}:
        reason = f"nobody knows how many of level `{name}` there are"
    elif scheme == AnyOrder.name and name == names[0]:
        reason = "batches in any order make no passes"
    if reason and epochs is not None:
        message = f"`{epochs.path}` is no number of steps: {reason}"
        yield error("DPC107", epochs.key or epochs.anchor, message, "state `steps`")


def max_units(config: Sections, depth: int) -> int:
    """Return the largest number of units that a level has in all data."""
    if config.tree is not None:
        return sum(config.tree.sizes[depth - 1])
    return prod(largest for _, largest in config.counts[:depth])


def _unknown_level_error(node: Scalar, levels: tuple[str, ...], others: dict[str, str]) -> Diagnostic:
    """Return DPC108 for a word that is no level; it hints at the nearest, or at all levels and what `others` mean."""
    near = nearest(node.text, (*levels, *others))
    also = f"; {', '.join(others.values())}" if others else ""
    hint = f"did you mean `{near}`?" if near else f"the levels are {', '.join(levels)}{also}"
    return error("DPC108", node.anchor, f"`{node.path}` must name a level, got {scalars.describe(node)}", hint)


# The plan.


def build(config: Sections) -> Plan:
    """Return the plan; ConfigError for what no bound covers, shuffled passes left to `shuffled_passes_error`.

    Rates are exact, epochs are rounded up to whole steps. If unstated, the unit is level 1, the adjacency add-remove,
    and innermost units are clipped.
    """
    root, privacy, partition = config.root, config.privacy, config.partition
    tuning: Repetitions | None = None
    try:
        if config.tuning is not None:
            from dpcalc.planner import tuning as laws

            mean, name = float(config.tuning.mean), config.tuning.distribution
            # The geometric and the logarithmic distribution are the negative binomial ones of shape 1 and 0.
            shape = {"geometric": 1.0, "logarithmic": 0.0}.get(name, float(config.tuning.shape or 0))
            is_poisson = name == "poisson"
            tuning = laws.Poisson(mean=mean) if is_poisson else laws.TruncatedNegativeBinomial(shape=shape, mean=mean)
        phases = []
        for number, run in enumerate(config.runs, start=1):
            levels = levels_of(run, config, steps=run.training.steps)
            hierarchy = Hierarchy(levels=levels, tree=config.tree, episodes=run.episodes)
            steps, epochs = run.training.steps, run.node("training", "epochs")
            if steps is None:
                steps = hierarchy.steps_of(run.training.epochs or Fraction(0))
                if steps > MAX_COUNT and epochs is not None:
                    message = f"`{epochs.path}` makes more than {MAX_COUNT:.0e} steps"
                    raise ConfigError([error("DPC106", epochs.anchor, message, "check the epochs and the rate")])
            phase = Phase(
                name=(_text(run.at, "name") or f"phase {number}") if run.path else SINGLE_PHASE,
                hierarchy=hierarchy,
                mechanism=run.mechanism,
                clip=len(levels),
                steps=steps,
                votes=run.votes,
                part=_text(run.at, "part") if run.path else "",
            )
            # Clipping is counted in levels from the outermost, 0 for the whole batch.
            phases.append(phase if run.clip is None else replace(phase, clip=phase.clip_names.index(run.clip)))
        plan = Plan(
            name=_text(root, "name"),
            phases=tuple(phases),
            unit=config.names.index(privacy.unit) + 1 if privacy.unit else 1,
            adjacency=privacy.adjacency or Adjacency.ADD_REMOVE,
            delta=float(privacy.delta),
            group_size=privacy.group_size,
            budget=config.budget,
            tuning=tuning,
            partition=Partition(rule=partition.rule, parts=tuple(part.name for part in partition.parts))
            if partition
            else None,
            method=config.method,
        )
    except ConfigError:
        raise
    except InputError as cause:
        raise whole_file(root.mark.source.path, "DPC106", str(cause), "") from cause

    # Asked of the whole plan: whether a theorem covers a phase depends on unit, adjacency and group size too.
    for phase, run in zip(plan.phases, config.runs, strict=True):
        if phase.is_correlated or phase.hierarchy.spans_steps:
            from dpcalc.amplification.correlated import correlated_fault, length_fault

            fault = correlated_fault(phase.mechanism, phase.hierarchy, phase.steps)
            fault = fault or length_fault(phase.mechanism, phase.steps)
            if fault is not None:
                raise ConfigError([keyed_error(run.sections, fault)])
        if isinstance(phase.mechanism, Gaussian) or phase.is_correlated:
            continue
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
            node = run.sections.entries["mechanism"]
            raise ConfigError([error("DPC104", node.anchor, f"`{node.path}`: {why}", "nothing is proved there")])

    # A group that no theorem covers, whose members may part, or that exceeds the data.
    size, group = plan.group_size, node_at(root, "privacy", "group_size")
    if size == 1 or group is None:
        return plan
    hierarchies = [phase.hierarchy for phase in plan.phases]
    why = group_refusal(size, hierarchies, unit=plan.unit) or (
        plan.parting and f"expected 1 {plan.parting}, got {size}"
    )
    if why:
        hint = "nothing is proved for such a group; lower it"
        raise ConfigError([error("DPC104", group.anchor, f"`{group.path}`: {why}", hint)])
    max_size = max_group_size(hierarchies, unit=plan.unit, adjacency=plan.adjacency)
    if size > max_size:
        # For add-remove the group is removed as a whole, and each step must still find what it draws.
        left = units_left(hierarchies, unit=plan.unit, adjacency=plan.adjacency)
        message = f"`{group.path}` is {size}, but at most {max_size} of level `{plan.unit_name}` can be "
        message += "removed together" if left else "protected together: there are no more"
        hint = f"a step must find {left} of those that are left; " if left else ""
        raise ConfigError([error("DPC106", group.anchor, message, f"{hint}lower it, or check the counts")])
    return plan


def _text(section: Section, key: str) -> str:
    """Return the text of a name, "" if there is none."""
    node = section.entries.get(key)
    return node.text if isinstance(node, Scalar) else ""


def levels_of(run: RunSections, config: Sections, *, steps: int | None = None) -> tuple[Level, ...]:
    """Return a phase's levels with their draws; InputError if the numbers do not fit.

    A random allocation without `steps` spans as many steps as its `times`.
    """
    is_assumed = has_assumed_sizes(config.root)
    levels = []
    for name, (fewest, largest) in zip(config.names, config.counts, strict=True):
        draw = run.draws.get(name, _WHOLE)
        level = Level(
            name=name,
            min_count=fewest,
            count=largest,
            scheme=SCHEMES[draw.scheme].of(draw, largest, steps),
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
        if not level.scheme.is_shuffled:
            continue
        from dpcalc.planner.vary import refusal as refusal_of_passes

        why = refusal_of_passes(replace(plan, phases=(phase,)))
        draw = run.node("sampling", level.name)
        if why is not None and draw is not None:
            return ConfigError([error("DPC104", (entry(draw, "size") or draw).anchor, str(why), "")])
    return None


# Remarks.


# Ways to cut a list, in which the part of a unit depends on how many others come before it.
_BY_POSITION = re.compile(
    r"array_split|\bsplit|split\b|chunk|slice|position|\bindex\b|\bindices\b|\brow (number|index)|line number"
    r"|\[[^\]]*:[^\]]*\]|round.?robin|contiguous|in order|\border\b|\bfirst\b|\blast\b|half|halves|shuffled|kfold",
    re.IGNORECASE,
)


def remarks(config: Sections) -> Iterator[Diagnostic]:
    """Yield the warnings and notes on a valid config, such as an assumed adjacency or a large delta."""
    root, privacy, section = config.root, config.privacy, config.root.entries["privacy"]
    if privacy.adjacency is None:
        hint = "add `adjacency: add-remove`, or replace-one or zero-out"
        in_file = section.mark.source is root.mark.source  # else the section exists only because of a flag
        place = section.anchor if in_file else root.anchor
        yield finding(Severity.NOTE, "DPC204", place, "adjacency not stated, add-remove assumed", hint)

    depth = config.names.index(privacy.unit) + 1 if privacy.unit else 1
    units, delta = max_units(config, depth), node_at(root, "privacy", "delta")
    count = node_at(root, "data", "levels", 0, "count")
    if delta is not None and has_assumed_sizes(root):
        if isinstance(count, Scalar) and count.origin is not None:
            message = "the number of examples is unknown: whether delta is well below 1 / it is not checked"
            yield finding(Severity.NOTE, "DPC203", delta.anchor, message, "state `examples`")
    elif delta is not None and privacy.delta * units >= 1:
        message = f"delta is at least 1 / {units}, the number of protected units ({config.names[depth - 1]})"
        hint = "such a delta allows publishing a whole unit; choose one well below"
        yield finding(Severity.WARNING, "DPC203", delta.anchor, message, hint)

    rule, is_removal = node_at(root, "partition", "rule"), privacy.adjacency in {None, "add-remove"}
    if is_removal and rule is not None and config.partition and _BY_POSITION.search(config.partition.rule):
        message = "the rule goes by position: where one unit is removed, those after it move to other parts"
        hint = "then all parts count; let the unit alone decide its part, e.g. `sha256 of the id, modulo 2`"
        yield finding(Severity.WARNING, "DPC211", rule.anchor, message, hint)

    for run in config.runs:
        for name, (_, largest) in zip(config.names, config.counts, strict=True):
            draw, scheme = run.draws.get(name), run.node("sampling", name, "scheme")
            is_cut = draw and draw.scheme == Shuffle.name and isinstance(draw.size, int) and draw.size < largest
            is_amplified = draw and draw.order == "secret" and privacy.adjacency in {"zero-out", "replace-one"}
            if is_cut and not is_amplified and scheme is not None:
                message = (
                    "batches are cut from a shuffled order: no amplification is claimed, only one step in each pass"
                )
                hint = (
                    "a loader in which each unit chooses its batch by itself (balls-in-bins, poisson) may cost far "
                    "less; so may this one under zero-out and replace-one, if it keeps what `order: secret` says"
                )
                yield finding(Severity.NOTE, "DPC202", scheme.anchor, message, hint)
        noise = run.node("mechanism", "noise_multiplier")
        is_noisy = isinstance(run.mechanism, Gaussian) or run.mechanism.is_correlated
        if is_noisy and getattr(run.mechanism, "noise_multiplier", 1) == 0 and noise is not None:
            message = "noise_multiplier is 0: without noise there is no privacy, epsilon is infinite"
            yield finding(Severity.WARNING, "DPC207", noise.anchor, message, "set it above 0")
        for key in ("steps", "epochs"):
            length = run.node("training", key)
            if length is not None and scalars.number_of(length) == 0:
                message = f"{key} is 0: such a run releases nothing, and costs nothing"
                yield finding(Severity.WARNING, "DPC210", length.anchor, message, "state the length of the run")
