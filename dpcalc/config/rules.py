"""Errors and remarks that concern several sections of a config: episodes, units, draws, lengths and clipping."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from math import prod

from dpcalc.config import scalars
from dpcalc.config.build import has_assumed_sizes, level_of
from dpcalc.config.messages import key_suggestion, keyed_error, missing_key_error, nearest
from dpcalc.config.scalars import AT_MOST, BATCH, EPISODES, EVERY
from dpcalc.config.schema import SCHEMES, Draw, Privacy, mechanism_keys
from dpcalc.config.schema import Episodes as EpisodesSection
from dpcalc.config.schema import Level as LevelSection
from dpcalc.config.sections import RunSections, Sections
from dpcalc.config.source import Diagnostic, Mark, Severity, error, finding
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entry, node_at
from dpcalc.errors import InputError, KeyedInputError
from dpcalc.keys import MAX_COUNT, keys_of
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.sampling.hierarchy import TASK, Episodes, Level, draw_faults, episode_faults, name_faults, size_faults
from dpcalc.sampling.schemes import Fixed, Poisson, Shuffle, WithReplacement
from dpcalc.sampling.trees import MAX_RECORDS, Tree

_SIZE_KEYS = ("count", "min", "max")


def _has_episodes(run: RunSections) -> bool:
    """Return True if a phase's `sampling` has the key `episodes`, whether or not its value is valid."""
    return run.node("sampling", EPISODES) is not None


def _episode_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the errors of phases with `episodes`: a level called `task`, an outer `clip`, or `epochs`."""
    runs = [run for run in config.runs if _has_episodes(run)]
    if not runs:
        return
    yield from _task_level_errors(config.root, config.names)
    for run in runs:
        yield from _episode_clip_errors(run, config.names)
        yield from _no_passes_errors(run, "constructed tasks make no passes over the data")


def _task_level_errors(root: Section, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield DPC107 for each level called `task`, since that is the name of the tasks that `episodes` construct."""
    for index, name in enumerate(names):
        node = node_at(root, "data", "levels", index, "name")
        if name == TASK and node is not None:
            message = f"`{node.path}` is `{TASK}`, which is what `sampling.{EPISODES}` constructs from the levels"
            yield error("DPC107", node.anchor, message, "the levels are the classes and their records: name them so")


def _episode_clip_errors(run: RunSections, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield DPC107 if a phase with episodes clips the outer of two levels, which is in several tasks of a step."""
    clip = run.node("mechanism", "clip")
    if run.mechanism and clip is not None and len(names) == 2 and run.clip == names[0]:
        message = f"`{clip.path}` is `{names[0]}`, which can be in several tasks of a step and has no vector of its own"
        hint = f"`clip: {TASK}` clips each constructed task, `clip: {names[1]}` each {names[1]} in it"
        yield error("DPC107", clip.anchor, message, hint)


def _no_passes_errors(run: RunSections, reason: str) -> Iterator[Diagnostic]:
    """Yield DPC107 if a phase states `epochs`, with the reason why it makes no passes."""
    epochs = run.node("training", "epochs")
    if epochs is not None:
        message = f"`{epochs.path}` is no number of steps: {reason}"
        yield error("DPC107", epochs.key or epochs.anchor, message, "state `steps`")


# Rules of the hierarchy, which its constructors check.


def _hierarchy_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the faults of each phase's draws over all levels, and of its episodes."""
    for run in config.runs:
        sampling = run.node("sampling")
        if run.sampling is None or sampling is None:
            continue
        levels = _read_levels(run, run.sampling, config)
        steps = None if run.training is None else run.training.steps
        yield from (keyed_error(sampling, fault) for fault in draw_faults(levels, steps))
        if run.episodes:
            yield from _task_errors(sampling, run.episodes, levels, config.tree)


def _read_levels(run: RunSections, draws: dict[str, Draw], config: Sections) -> list[Level]:
    """Return a phase's levels before the first misread draw: missing draws are `all`, missing counts MAX_COUNT."""
    levels = []
    for name, count_range in zip(config.names, config.counts, strict=True):
        if name not in draws and run.node("sampling", name) is not None and not run.episodes:
            break
        # Without counts the rules about periods and passes still hold: any large count stands for a missing one.
        draw = draws.get(name, Draw(scheme="all"))
        levels.append(_fitting_level(name, draw, count_range or (MAX_COUNT, MAX_COUNT)))
    return levels


def _task_errors(
    sampling: Node, episodes: EpisodesSection, levels: list[Level], tree: Tree | None
) -> Iterator[Diagnostic]:
    """Yield the error of invalid `episodes`, and in any case the faults that they have with the levels."""
    try:
        tasks = Episodes(**asdict(episodes))
    except KeyedInputError as cause:
        yield keyed_error(sampling, cause)
        tasks = Episodes(**(asdict(episodes) | {"shots": 1}))  # for the other errors
    if levels:
        yield from (keyed_error(sampling, fault) for fault in episode_faults(tasks, levels, tree))


def _fitting_level(name: str, draw: Draw, count_range: tuple[int, int]) -> Level:
    """Return the level of a draw or, if its numbers do not fit, of a Poisson draw of rate 1/2 or shuffle of size 1."""
    try:
        return level_of(name, draw, count_range)
    except InputError:
        fewest, largest = count_range
        some = Shuffle(size=1, drop_last=True) if draw.scheme == Shuffle.name else Poisson(probability=Fraction(1, 2))
        return Level(name=name, min_count=fewest, count=largest, scheme=some, redraw_every=draw.redraw_every)


# Sizes of levels and draws.


def _size_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the errors of stated sizes, of too many records, and of draws and `epochs` that do not fit the sizes."""
    yield from _size_statement_errors(config)
    yield from _record_number_errors(config)
    for run in config.runs:
        for number, (name, count_range) in enumerate(zip(config.names, config.counts, strict=True), start=1):
            if count_range:
                parent = config.tree.smallest_parent(number) if config.tree else ""
                draw = entry(run.node("sampling"), name)
                yield from _draw_size_errors(draw, name, count_range, parent)
                yield from _expected_errors(draw, name, count_range[1])
                yield from _expected_range_errors(draw, name, count_range)
        if config.count_ranges and config.tree is None:
            yield from _epoch_errors(run, config.names, config.count_ranges)


def _record_number_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield DPC106 if the data have more than MAX_RECORDS records; nothing if a count is unknown."""
    # Every count may be valid while their product is not.
    if config.count_ranges and max_units(config, len(config.count_ranges)) > MAX_RECORDS:
        message = f"more than {MAX_RECORDS:.0e} records in all"
        yield error("DPC106", _last_size_mark(config.root), message, "check the counts")


def max_units(config: Sections, depth: int) -> int:
    """Return the largest number of units that a level has in all data; 0 if it is unknown."""
    if config.tree is not None:
        return sum(config.tree.sizes[depth - 1])
    return prod(largest for _, largest in config.count_ranges[:depth]) if config.count_ranges else 0


def _last_size_mark(root: Section) -> Mark:
    """Return the place of the last size that the file states, or of the file if it states none."""
    data = entry(root, "data")
    levels, tree = entry(data, "levels"), entry(data, "tree")
    last = levels.items[-1] if isinstance(levels, Items) else None
    return (tree or entry(last, "count") or entry(last, "max") or root).anchor


def _size_statement_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the errors of the sizes that levels state, of which none may stand beside `data.tree`."""
    levels = node_at(config.root, "data", "levels")
    items = levels.items if isinstance(levels, Items) else ()
    has_tree = node_at(config.root, "data", "tree") is not None
    if has_tree and len(items) == 1:
        return  # a tree over one level is an error by itself
    for level in items:
        if isinstance(level, Section):
            yield from _size_beside_tree_errors(level) if has_tree else _stated_size_errors(level)


def _stated_size_errors(level: Section) -> Iterator[Diagnostic]:
    """Yield DPC107 for `count` beside `min` or `max`; without `count` and unknown keys the errors of the range."""
    stated = {key: node for key, node in level.entries.items() if key in _SIZE_KEYS}
    count = stated.get("count")
    if isinstance(count, Scalar) and len(stated) > 1:
        message = f"`count` and {' and '.join(f'`{key}`' for key in stated if key != 'count')} in `{level.path}`"
        yield error("DPC107", count.key or count.anchor, f"{message} both say how many there are", "keep one of them")
    elif count is None and keys_of(LevelSection).keys() >= _own_keys(level):
        yield from _range_errors(level, stated)


def _size_beside_tree_errors(level: Section) -> Iterator[Diagnostic]:
    """Yield DPC107 for each of `count`, `min` and `max` that a level states although `data.tree` gives all counts."""
    for key, node in level.entries.items():
        if key in _SIZE_KEYS:
            message = f"`{key}` in `{level.path}` and `data.tree` both say how many there are"
            yield error("DPC107", node.key or node.anchor, message, "with a tree the levels have names only")


def _own_keys(section: Section) -> set[str]:
    """Return the keys of a section that are not marked as the user's."""
    return {key for key in section.entries if not key.startswith(USER_KEY)}


def _range_errors(level: Section, stated: dict[str, Node]) -> Iterator[Diagnostic]:
    """Yield the errors of a level without `count`: DPC103 for a missing size, DPC106 for a min above the max."""
    if not stated:
        yield missing_key_error(level, "count")
        return
    for key in ("min", "max"):
        if key not in stated:
            yield missing_key_error(level, key)
    fewest, largest = (scalars.number_of(stated.get(key)) for key in ("min", "max"))
    if fewest is not None and largest is not None and fewest > largest:
        node = stated["min"]
        message = f"`{node.path}` is {fewest}, more than the {largest} of `max`"
        yield error("DPC106", node.anchor, message, "check both numbers")


def _draw_size_errors(
    draw: Node | None, name: str, count_range: tuple[int, int], smallest_parent: str
) -> Iterator[Diagnostic]:
    """Yield the error of a draw without replacement whose `size` exceeds the fewest units of a parent."""
    scheme, size = entry(draw, "scheme"), entry(draw, "size")
    kind = scheme.text if isinstance(scheme, Scalar) else ""
    number = scalars.number_of(size)
    if size is not None and number is not None and kind != WithReplacement.name:
        advice = f"; `size: {{{AT_MOST}: N}}` takes all of a smaller one" if kind == Fixed.name else ""
        for fault in size_faults(name, number, *count_range, smallest_parent=smallest_parent):
            yield error(fault.code, size.anchor, f"`{size.path}` {fault.problem}", f"{fault.hint}{advice}")


def _expected_errors(draw: Node | None, name: str, max_count: int) -> Iterator[Diagnostic]:
    """Yield the error of an `expected` number above its level's largest count divided by the draw's `groups`."""
    expected = entry(draw, "expected")
    number = scalars.number_of(expected)
    if expected is not None and number is not None:
        # The rate of a Poisson draw refers to the largest parent, see `build`; a step draws from one group.
        group = max_count / max(Fraction(1), scalars.number_of(entry(draw, "groups")) or Fraction(1))
        for fault in size_faults(name, number, group, group):
            yield error(fault.code, expected.anchor, f"`{expected.path}` {fault.problem}", fault.hint)


def _expected_range_errors(draw: Node | None, name: str, count_range: tuple[int, int]) -> Iterator[Diagnostic]:
    """Yield DPC107 for an `expected` number at a level whose parents differ in size, where it gives no rate."""
    fewest, largest = count_range
    expected = entry(draw, "expected")
    if expected is not None and fewest < largest:
        message = f"`{expected.path}` gives no rate: level `{name}` has {fewest} to {largest} units under one parent"
        hint = "state `rate`, which is the same for all of them"
        yield error("DPC107", expected.key or expected.anchor, message, hint)


def _epoch_errors(
    run: RunSections, names: tuple[str, ...], count_ranges: tuple[tuple[int, int], ...]
) -> Iterator[Diagnostic]:
    """Yield DPC107 for `epochs` if the outermost draw other than `all` makes an unknown number of passes."""
    for name, (fewest, largest) in zip(names, count_ranges, strict=True):
        draw = (run.sampling or {}).get(name)
        if run.sampling is None or (draw is None and run.node("sampling", name) is not None):
            return  # a wrong draw
        if draw is not None and draw.scheme != "all":
            reason = _no_passes_reason(draw.scheme, name, is_range=fewest < largest)
            yield from _no_passes_errors(run, reason) if reason else ()
            return


def _no_passes_reason(scheme: str, name: str, *, is_range: bool) -> str:
    """Return why a draw makes no known number of passes over the data; "" if it makes one."""
    if scheme == "random-allocation":
        return "random-allocation chooses among steps, not passes"
    if is_range and scheme not in {"poisson", "balls-in-bins"}:
        return f"nobody knows how many of level `{name}` there are"
    return ""


# Rules between sections, for every config.


def consistency_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the errors of sections that do not fit together, or of values that need more than one key to judge."""
    # A rule skips what was misread, or what another rule reports: one mistake makes one error.
    data = config.root.entries.get("data")
    if data is not None:
        yield from (keyed_error(data, fault) for fault in name_faults(config.names))
    yield from _size_errors(config)
    yield from _hierarchy_errors(config)
    yield from _episode_errors(config)
    yield from _unit_errors(config)
    yield from _tuning_shape_errors(config)
    yield from _tuning_method_errors(config)
    for run in config.runs:
        yield from _length_errors(run)
        if config.names:
            yield from _draw_errors(run, config.names)
            yield from _clip_errors(run, config.names)
    yield from _duplicate_phase_errors(config)


def _tuning_shape_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield DPC103 if negative binomial tuning lacks `shape`, DPC107 if another distribution states it."""
    tuning, section = config.tuning, config.root.entries.get("tuning")
    if tuning is None or section is None or (tuning.shape is not None) == (tuning.distribution == "negative-binomial"):
        return
    shape = entry(section, "shape")
    if shape is None:
        message = "`tuning` lacks `shape`, which tells one negative binomial distribution from another"
        yield error("DPC103", section.key or section.anchor, message, "e.g. 0.5")
    else:
        message = f"`{shape.path}` is of `distribution: negative-binomial`, not of {tuning.distribution}"
        yield error("DPC107", shape.key or shape.anchor, message, "take it out")


def _tuning_method_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield DPC107 if `tuning` is stated with an accounting method other than auto and rdp."""
    method = node_at(config.root, "accounting", "method")
    if config.tuning is None or config.accounting is None or method is None:
        return
    if config.accounting.method not in {"auto", "rdp"}:
        message = f"`{method.path}` must be auto or rdp beside `tuning`, got {scalars.describe(method)}"
        yield error("DPC107", method.anchor, message, "only rdp bounds the best of several runs")


# Ways to cut a list, in which the part of a unit depends on how many others come before it.
_BY_POSITION = re.compile(
    r"array_split|\bsplit|split\b|chunk|slice|position|\bindex\b|\bindices\b|\brow (number|index)|line number"
    r"|\[[^\]]*:[^\]]*\]|round.?robin|contiguous|in order|\border\b|\bfirst\b|\blast\b|half|halves|shuffled|kfold",
    re.IGNORECASE,
)


def remarks(config: Sections) -> Iterator[Diagnostic]:
    """Yield the warnings and notes on a valid config, such as an assumed adjacency or a large delta."""
    section = config.root.entries.get("privacy")
    if config.data is None or config.privacy is None or section is None:
        return
    yield from _adjacency_notes(config.root, section, config.privacy)
    yield from _delta_warnings(config, [level.name for level in config.data.levels], config.privacy)
    rule, is_removal = node_at(config.root, "partition", "rule"), config.privacy.adjacency in {None, "add-remove"}
    if is_removal and rule is not None and config.partition and _BY_POSITION.search(config.partition.rule):
        message = "the rule goes by position: where one unit is removed, those after it move to other parts"
        hint = "then all parts count; let the unit alone decide its part, e.g. `sha256 of the id, modulo 2`"
        yield finding(Severity.WARNING, "DPC211", rule.anchor, message, hint)
    for run in config.runs:
        yield from _shuffle_notes(run, config)
        yield from _zero_noise_warnings(run)
        for key in ("steps", "epochs"):
            length = run.node("training", key)
            if length is not None and scalars.number_of(length) == 0:
                message = f"{key} is 0: such a run releases nothing, and costs nothing"
                yield finding(Severity.WARNING, "DPC210", length.anchor, message, "state the length of the run")


def _adjacency_notes(root: Section, section: Node, privacy: Privacy) -> Iterator[Diagnostic]:
    """Yield the note DPC204 if no adjacency is stated."""
    if privacy.adjacency is None:
        hint = "add `adjacency: add-remove`, or replace-one or zero-out"
        in_file = section.mark.source is root.mark.source  # else the section exists only because of a flag
        place = section.anchor if in_file else root.anchor
        yield finding(Severity.NOTE, "DPC204", place, "adjacency not stated, add-remove assumed", hint)


def _delta_warnings(config: Sections, names: list[str], privacy: Privacy) -> Iterator[Diagnostic]:
    """Yield DPC203 if delta is at least 1 / largest number of protected units, unless a count is assumed."""
    depth = names.index(privacy.unit) + 1 if privacy.unit else 1
    units = max_units(config, depth)
    delta = node_at(config.root, "privacy", "delta")
    if delta is not None and has_assumed_sizes(config.root):
        count = node_at(config.root, "data", "levels", 0, "count")
        if isinstance(count, Scalar) and count.origin is not None:
            message = "the number of examples is unknown: whether delta is well below 1 / it is not checked"
            yield finding(Severity.NOTE, "DPC203", delta.anchor, message, "state `examples`")
    elif delta is not None and privacy.delta * units >= 1:
        message = f"delta is at least 1 / {units}, the number of protected units ({names[depth - 1]})"
        hint = "such a delta allows publishing a whole unit; choose one well below"
        yield finding(Severity.WARNING, "DPC203", delta.anchor, message, hint)


def _zero_noise_warnings(run: RunSections) -> Iterator[Diagnostic]:
    """Yield the warning DPC207 if a phase states Gaussian or correlated noise with a multiplier of 0."""
    noise = run.node("mechanism", "noise_multiplier")
    is_noisy = isinstance(run.mechanism, Gaussian) or getattr(run.mechanism, "is_correlated", False)
    if is_noisy and getattr(run.mechanism, "noise_multiplier", 1) == 0 and noise is not None:
        message = "noise_multiplier is 0: without noise there is no privacy, epsilon is infinite"
        yield finding(Severity.WARNING, "DPC207", noise.anchor, message, "set it above 0")


def _shuffle_notes(run: RunSections, config: Sections) -> Iterator[Diagnostic]:
    """Yield the note DPC202 for each level that a phase shuffles and cuts into several batches."""
    sampling = run.node("sampling")
    for level, (_, count) in zip(config.data.levels if config.data else (), config.count_ranges or (), strict=True):
        draw, scheme = (run.sampling or {}).get(level.name), node_at(sampling, level.name, "scheme")
        is_cut = draw is not None and draw.scheme == "shuffle" and isinstance(draw.size, int) and draw.size < count
        if is_cut and scheme is not None:
            message = "batches are cut from a shuffled order: no amplification is claimed, only one step in each pass"
            hint = "a loader in which each unit chooses its batch by itself (balls-in-bins, poisson) may cost far less"
            yield finding(Severity.NOTE, "DPC202", scheme.anchor, message, hint)


def _unit_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the error of a missing or wrong `privacy.unit`; nothing if the section or all levels are misread."""
    section = config.root.entries.get("privacy")
    if isinstance(section, Section) and config.names:
        unit = section.entries.get("unit")
        if unit is None:
            yield from _missing_unit_errors(section, config.names)
        elif isinstance(unit, Scalar):
            yield from _wrong_unit_errors(unit, config.names, has_episodes=any(map(_has_episodes, config.runs)))


def _missing_unit_errors(privacy: Section, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield DPC103 for several levels without a unit, unless an unknown key of the section probably means it."""
    unknown = _own_keys(privacy) - keys_of(Privacy).keys()
    if len(names) > 1 and not any(key_suggestion("privacy", key).key == "unit" for key in unknown):
        message = f"`privacy.unit` is missing: the data have {len(names)} levels ({', '.join(names)})"
        yield error("DPC103", privacy.anchor, message, f"say what is protected, e.g. `unit: {names[0]}`")


def _wrong_unit_errors(unit: Scalar, names: tuple[str, ...], *, has_episodes: bool) -> Iterator[Diagnostic]:
    """Yield DPC206 for `task` where `episodes` construct tasks, DPC108 for `all` or another text that is no level."""
    if unit.text == TASK and has_episodes:
        built = "but tasks are constructed anew in every step: a record sits in many of them"
        hint = f"hiding one task hides nobody; protect {' or '.join(f'`{name}`' for name in names)}"
        yield error("DPC206", unit.anchor, f"`{unit.path}` is `{TASK}`, {built}", hint)
    elif unit.text == EVERY:
        message = f"`{unit.path}` must name one level, got `{EVERY}`"
        hint = f"choose one of {', '.join(names)}; `dpcalc epsilon --unit all` tells of each"
        yield error("DPC108", unit.anchor, message, hint)
    elif isinstance(scalars.value(unit), str) and unit.text not in names:
        yield _unknown_level_error(unit, names, {})


def _draw_errors(run: RunSections, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield the errors of draws (unknown level, no outermost one, none or two rates) of a phase without `episodes`."""
    sampling = run.node("sampling")
    if not isinstance(sampling, Section) or _has_episodes(run):
        return
    if run.sampling is not None:
        yield from _drawn_level_errors(sampling, names)
    for name in names:
        yield from _rate_errors(run, name)


def _drawn_level_errors(sampling: Section, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield DPC108 for each draw of an unknown level; without any, DPC103 if the outermost level has no draw."""
    unknown = [key for key in sampling.entries if key not in names and not key.startswith(USER_KEY)]
    for key in unknown:
        node = sampling.entries[key]
        near = nearest(key, names)
        hint = f"did you mean `{near}`?" if near else f"the levels are {', '.join(names)}"
        yield error("DPC108", node.key or node.anchor, f"`{sampling.path}.{key}`: there is no level `{key}`", hint)
    if names[0] not in sampling.entries and not unknown:
        message = f"`{sampling.path}.{names[0]}` is missing: how the outermost level is drawn is never assumed"
        yield error("DPC103", sampling.anchor, message, f"e.g. `{names[0]}: {{scheme: poisson, rate: 0.01}}`")


def _rate_errors(run: RunSections, name: str) -> Iterator[Diagnostic]:
    """Yield DPC107 if a draw has both `rate` and `expected`, DPC103 if an otherwise valid one needs either."""
    draw, scheme = entry(run.node("sampling"), name), node_at(run.run.sections, "sampling", name, "scheme")
    takes = SCHEMES.get(scheme.text, ()) if isinstance(scheme, Scalar) else ()
    if not isinstance(draw, Section) or "expected" not in takes:
        return
    hint = "`expected` is the average number drawn: rate = expected / count"
    yield from _choice_errors(draw, ("rate", "expected"), hint, is_required=name in (run.sampling or ()))


def _length_errors(run: RunSections) -> Iterator[Diagnostic]:
    """Yield DPC107 if a phase has both `steps` and `epochs`, DPC103 if an otherwise valid section has neither."""
    training = run.node("training")
    if isinstance(training, Section):
        is_required = run.training is not None
        yield from _choice_errors(training, ("steps", "epochs"), "e.g. `steps: 10_000`", is_required=is_required)


def _clip_errors(run: RunSections, levels: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield DPC108 for a `clip` text that is no level, `batch` or episodes' `task`, if the mechanism takes `clip`."""
    tasks = {TASK: f"`{TASK}` clips each constructed task"} if _has_episodes(run) else {}
    others = tasks | {BATCH: f"`{BATCH}` clips the whole batch as one vector"}
    clip, kind = run.node("mechanism", "clip"), run.node("mechanism", "type")
    name = kind.text if isinstance(kind, Scalar) else Gaussian.name
    takes_clip = name in MECHANISMS and "clip" in mechanism_keys(name)
    names = (*levels, *others)
    if takes_clip and isinstance(clip, Scalar) and isinstance(scalars.value(clip), str) and clip.text not in names:
        yield _unknown_level_error(clip, levels, others)


def _duplicate_phase_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield DPC105 at each stated phase name that an earlier phase has too."""
    seen: set[str] = set()
    for run in config.runs:
        name = entry(run.run.at, "name") if run.run.path else None
        if isinstance(name, Scalar) and name.text in seen:
            yield error("DPC105", name.anchor, f"two phases are called `{name.text}`", "give each phase its own name")
        if isinstance(name, Scalar):
            seen.add(name.text)


def _unknown_level_error(node: Scalar, levels: tuple[str, ...], others: dict[str, str]) -> Diagnostic:
    """Return DPC108 for a word that is no level; it hints at the nearest, or at all levels and what `others` mean."""
    near = nearest(node.text, (*levels, *others))
    also = f"; {', '.join(others.values())}" if others else ""
    hint = f"did you mean `{near}`?" if near else f"the levels are {', '.join(levels)}{also}"
    return error("DPC108", node.anchor, f"`{node.path}` must name a level, got {scalars.describe(node)}", hint)


def _choice_errors(section: Section, keys: tuple[str, str], hint: str, *, is_required: bool) -> Iterator[Diagnostic]:
    """Yield DPC107 if a section states both of two keys, DPC103 if it must state one of them and does not."""
    stated = [key for key in section.entries if key in keys]
    if len(stated) > 1:
        node = section.entries[stated[-1]]
        message = f"`{keys[0]}` and `{keys[1]}` in `{section.path}` both say the same thing"
        yield error("DPC107", node.key or node.anchor, message, "keep one of them")
    elif not stated and is_required:
        yield error("DPC103", section.anchor, f"`{section.path}` needs `{keys[0]}` or `{keys[1]}`", hint)
