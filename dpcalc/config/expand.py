"""The long form of a config: short forms written out, command-line changes merged, phases with what they inherit.

Every value keeps the mark of the place where the user wrote it, so that errors found later point there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil

from dpcalc.config import scalars
from dpcalc.config.messages import direct_draw_error, misspelt_episodes_error
from dpcalc.config.overrides import ASSUMED, FLAGS, Assignment, Changes
from dpcalc.config.scalars import AMOUNT_KEYS, BATCH_SIZE, DRAW_KEYS, EPISODES, UNKNOWN
from dpcalc.config.schema import SCHEMES, mechanism_keys
from dpcalc.config.source import Diagnostic, Mark, Severity, error, source_of
from dpcalc.config.tree import (
    USER_KEY,
    Items,
    Node,
    Scalar,
    Section,
    entry,
    join,
    node_at,
    remove_at,
    replace_at,
    step_text,
    walk,
    with_entries,
    without_keys,
)
from dpcalc.keys import MAX_COUNT
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.records import dataclass

DEFAULT_LEVEL = "example"


def level_names(root: Node) -> tuple[str, ...] | None:
    """Return the stated level names, outermost first; None without a list of levels, or if a name is no scalar."""
    levels = entry(entry(root, "data"), "levels")
    if not isinstance(levels, Items) or not levels.items:
        return None
    names = [entry(level, "name") for level in levels.items]
    words = tuple(name.text for name in names if isinstance(name, Scalar))
    return words if len(words) == len(names) else None


def is_direct_draw(sampling: Node | None, names: tuple[str, ...] | None) -> bool:
    """Return True if `sampling` has a draw's key or a plain value where level names belong; False with `episodes`."""
    if not isinstance(sampling, Section) or EPISODES in sampling.entries:
        return False
    return any(
        key in DRAW_KEYS or isinstance(value, Scalar)
        for key, value in sampling.entries.items()
        if key not in (names or ()) and not key.startswith(USER_KEY)
    )


def no_levels_error(sampling: Section, names: tuple[str, ...]) -> Diagnostic | None:
    """Return the error of a misspelt `episodes`, else of a draw stated without its level; None without either."""
    # `episodes` first: misspelt it would be taken for the name of a level, and its keys for those of a draw.
    misspelt = misspelt_episodes_error(sampling, names)
    if misspelt or not names or not is_direct_draw(sampling, names):
        return misspelt
    return direct_draw_error(sampling, names)


def _long_data(root: Section) -> Section:
    """Return the file with `data: {examples: N}` as one level `example`; unchanged without it, or beside `levels`."""
    data = root.entries.get("data")
    if not isinstance(data, Section) or "examples" not in data.entries or "levels" in data.entries:
        return root
    count = data.entries["examples"]
    mark = count.key or count.mark
    name = Scalar(text=DEFAULT_LEVEL, plain=False, mark=mark, key=None, path="data.levels[0].name")
    level = Section(entries={"name": name, "count": count}, mark=mark, key=None, path="data.levels[0]")
    levels = Items(items=(level,), mark=mark, key=count.key, path="data.levels")
    return with_entries(root, {"data": with_entries(without_keys(data, "examples"), {"levels": levels})})


def _with_count_ranges(root: Section) -> Section:
    """Return the file with each level's `count: {min: 5, max: 64}` as keys `min`, `max`; unchanged without levels."""
    levels = node_at(root, "data", "levels")
    if not isinstance(levels, Items):
        return root
    items = tuple(_with_count_range(item) if isinstance(item, Section) else item for item in levels.items)
    return _as_section(replace_at(root, ("data", "levels"), replace(levels, items=items)))


def _with_count_range(level: Section) -> Section:
    """Return a level with its count range as `min` and `max`; unchanged for a plain count or for both forms."""
    count = level.entries.get("count")
    if not isinstance(count, Section) or not count.entries or count.entries.keys() & level.entries.keys():
        return level
    return with_entries(without_keys(level, "count"), count.entries)


def _long_phases(root: Section, names: tuple[str, ...] | None) -> Section:
    """Return the file with direct draws and `batch_size` moved below the only level, in the top and each phase."""
    root = _long_run(root, names)
    phases = root.entries.get("phases")
    if not isinstance(phases, Items):
        return root
    items = tuple(_long_run(item, names) if isinstance(item, Section) else item for item in phases.items)
    return with_entries(root, {"phases": replace(phases, items=items)})


def _long_run(run: Section, names: tuple[str, ...] | None) -> Section:
    """Return a file or phase with its draw and `batch_size` below the only level; unchanged for several levels."""
    # Without known `names` of levels there is one, with the default name.
    if names is not None and len(names) != 1:
        return run
    name = names[0] if names else DEFAULT_LEVEL
    sampling = run.entries.get("sampling")
    if isinstance(sampling, Section) and is_direct_draw(sampling, names):
        if name in sampling.entries:
            return run  # a draw and a level name: two statements, for `sections` to refuse
        run = with_entries(run, {"sampling": replace(sampling, entries={name: sampling})})
    return _with_batch_size_in_draw(run, name)


def _with_batch_size_in_draw(run: Section, level: str) -> Section:
    """Return a file or phase with `training.batch_size` moved into a level's draw, which is added if missing."""
    sampling, training = run.entries.get("sampling"), run.entries.get("training")
    size = entry(training, BATCH_SIZE)
    if not isinstance(training, Section) or size is None:
        return run
    mark = size.key or size.mark
    sampling = sampling or Section(entries={}, mark=mark, key=mark, path="sampling")
    draw = entry(sampling, level) or Section(entries={}, mark=mark, key=mark, path="sampling")
    if not isinstance(sampling, Section) or not isinstance(draw, Section):
        return run
    sampling = with_entries(sampling, {level: with_entries(draw, {BATCH_SIZE: size})})
    return with_entries(run, {"sampling": sampling, "training": without_keys(training, BATCH_SIZE)})


def _with_listed_sums(mechanism: Node) -> Node:
    """Return a `mechanism` section with a single mapping in `also` as a list; anything else unchanged."""
    also = entry(mechanism, "also")
    if not isinstance(mechanism, Section) or not isinstance(also, Section):
        return mechanism
    listed = Items(items=(also,), mark=also.mark, key=also.key, path=also.path)
    return with_entries(mechanism, {"also": listed})


def _with_batch_sizes(sampling: Node) -> Node:
    """Return a `sampling` section with each level's `batch_size` renamed to its scheme's `size` or `expected`."""
    if not isinstance(sampling, Section):
        return sampling
    return replace(sampling, entries={name: _with_batch_size(draw) for name, draw in sampling.entries.items()})


def _with_batch_size(draw: Node) -> Node:
    """Return a draw with `batch_size` renamed to its scheme's `size` or `expected`, unless it has another amount."""
    scheme, size = entry(draw, "scheme"), entry(draw, BATCH_SIZE)
    if not isinstance(draw, Section) or not isinstance(scheme, Scalar) or size is None:
        return draw
    key = next((key for key in SCHEMES.get(scheme.text, ()) if key in {"size", "expected"}), None)
    if key is None or {"size", "rate", "expected"} & draw.entries.keys():
        return draw
    return with_entries(without_keys(draw, BATCH_SIZE), {key: size})


# Inheritance of phases from the top level, and changes by the command line: both are one deep merge.

RUN_KEYS = ("sampling", "mechanism", "training")
# Keys that exclude each other: stating one of a set drops the inherited others.
_EXCLUSIVE_KEYS = (frozenset({"steps", "epochs"}), AMOUNT_KEYS)
# Keys that several mechanism types have; stating another type drops all others.
_COMMON_MECHANISM_KEYS = frozenset({"type", "clip", "max_grad_norm"})


@dataclass(frozen=True, kw_only=True)
class Run:
    """The sections of one phase, with what it inherits.

    Attributes:
        at: the phase's own mapping, or the whole file.
        path: "phases[0]", or "" for a file without phases.
        sections: mapping of `sampling`, `mechanism` and `training`, as far as they are stated.
    """

    at: Section
    path: str
    sections: Section


def apply_changes(root: Section, changes: Changes) -> tuple[Section, tuple[Diagnostic, ...]]:
    """Return the file as written with keys removed and then values set, and notes on keys that a setting drops."""
    notes = []
    for item in changes.unset:
        root = _as_section(remove_at(root, item.keys))
    for item in changes.settings:
        changed = _with_value(root, item, ())
        if isinstance(changed, Section):
            notes += _dropped_keys_note(root, changed, item)
            root = changed
    return root, tuple(notes)


def long_form(root: Section, changes: Changes) -> tuple[Section, tuple[Assignment, ...], tuple[Diagnostic, ...]]:
    """Return the changed file in long form, the settings that were made, and the errors of the other changes."""
    root, problems = _without_unset(root, changes.unset)
    # The levels decide what a short form means, so they are settled first.
    settings = sorted(changes.settings, key=lambda item: item.keys[0] != "data")
    root, done, unmade = _with_settings(_long_data(root), settings)
    root = _long_phases(_with_assumed(root, changes.assumed), level_names(root))
    root, dependent = _with_unknown_count(_with_count_ranges(root))
    return root, done, (*problems, *unmade, *dependent)


def _with_unknown_count(root: Section) -> tuple[Section, list[Diagnostic]]:
    """Return the file with a number in the place of an unknown count of its only level, and why it must be known.

    The number is the least that fits every rate and the group: a plan needs one, and epsilon does not depend on it.
    """
    where = ("data", "levels", 0, "count")
    levels, count = node_at(root, "data", "levels"), node_at(root, *where)
    if not isinstance(count, Scalar) or count.text != UNKNOWN or not isinstance(levels, Items) or len(levels.items) > 1:
        return root, []
    name = (level_names(root) or (DEFAULT_LEVEL,))[0]
    problems, smallest = [], 1
    for run in runs(root):
        draw = entry(run.sections.entries.get("sampling"), name)
        scheme, stated = entry(draw, "scheme"), entry(draw, "rate")
        rate = scalars.number_of(stated)
        if rate is None and isinstance(stated, Scalar):
            rate = scalars.parse_quotient(stated.text)
        if isinstance(draw, Section) and isinstance(scheme, Scalar) and scheme.text in SCHEMES:
            needing = {"size", "expected", BATCH_SIZE, "max_batch_size"} & draw.entries.keys()
            if needing or "size" in SCHEMES[scheme.text]:
                what = f"`{min(needing)}`" if needing else f"scheme {scheme.text}"
                message = f"`{count.path}` is unknown, and with {what} epsilon depends on it"
                problems.append(error("DPC107", count.anchor, message, "state the number, or draw by a `rate` alone"))
        if rate is not None and 0 < rate <= 1:
            smallest = max(smallest, min(MAX_COUNT, ceil(1 / rate)))
    group = scalars.number_of(node_at(root, "privacy", "group_size"))
    if group is not None and group <= MAX_COUNT:
        smallest = max(smallest, ceil(group))
    mark = Mark(source_of(str(smallest), ASSUMED), 1, 1)
    number = replace(count, text=str(MAX_COUNT if problems else smallest), plain=True, mark=mark, origin=count.mark)
    return _as_section(replace_at(root, where, number)), problems


def _without_unset(root: Section, unset: Sequence[Assignment]) -> tuple[Section, list[Diagnostic]]:
    """Return the file without the keys of `--unset`, and an error (DPC103) for each key that it lacks."""
    problems: list[Diagnostic] = []
    for item in unset:
        lost = _first_missing(root, item.keys)
        if lost is None:
            root = _as_section(remove_at(root, item.keys))
        else:
            message = f"there is no {step_text(item.keys[lost])} to take out"
            problems.append(error("DPC103", item.marks[lost], message, "--unset names a key as the file writes it"))
    return root, problems


def _with_settings(
    root: Section, settings: Sequence[Assignment]
) -> tuple[Section, tuple[Assignment, ...], list[Diagnostic]]:
    """Return the file with settings made in turn, the settings that were made, and the errors of the others."""
    done: list[Assignment] = []
    problems: list[Diagnostic] = []
    for item in settings:
        is_in_data = item.keys[0] == "data"
        changed = _assign_data(root, item) if is_in_data else _assign(_long_phases(root, level_names(root)), item)
        if isinstance(changed, Section):
            root = changed
            done.append(item)
        else:
            problems.append(changed)
    return root, tuple(done), problems


def runs(root: Section) -> tuple[Run, ...]:
    """Return a run for each phase, completed from the top level; without `phases` the top level is the only run."""
    phases = root.entries.get("phases")
    if phases is None:
        return (base_run(root),)
    items = phases.items if isinstance(phases, Items) else ()
    base = _sections(root)
    return tuple(
        Run(at=phase, path=f"phases[{index}]", sections=_finish_sections(_merge(base, _sections(phase))))
        for index, phase in enumerate(items)
        if isinstance(phase, Section)
    )


def base_run(root: Section) -> Run:
    """Return the run that the top level alone states, without phases."""
    return Run(at=root, path="", sections=_finish_sections(_sections(root)))


def _merge(base: Section, over: Section) -> Section:
    """Return `over` completed by the entries of `base` that it neither replaces nor excludes, mappings in depth."""
    # Lists and scalars are replaced as a whole; the merged section stands at the place of `over`.
    entries = dict(_kept_entries(base, over))
    for key, value in over.entries.items():
        before = entries.get(key)
        entries[key] = _merge(before, value) if isinstance(before, Section) and isinstance(value, Section) else value
    return replace(over, entries=entries)


def ineffective_errors(
    assignments: Sequence[Assignment], used: Sequence[Node], *, has_phases: bool
) -> Iterator[Diagnostic]:
    """Yield an error (DPC107) for each command-line setting whose value did not reach the plan."""
    # Merging keeps the node objects, so that identity tells whether a value reached the plan.
    used_nodes = {id(node) for tree in used for _, node in walk(tree, "")}
    for item in assignments:
        if item.keys == ("phases",):  # what is wrong in a list of phases is told at its place
            if isinstance(item.value, Items) and any(_is_empty(phase) for phase in item.value.items):
                hint = "a phase has something of its own, e.g. `--set 'phases=[{training: {steps: 100}}]'`"
                yield error("DPC107", item.marks[0], "`phases` has a phase that says nothing", hint)
        elif not _is_used(item, used_nodes):
            rival = next((other for other in assignments if other is not item and _are_rivals(item, other)), None)
            yield _rival_error(item, rival) if rival else _overridden_error(item, has_phases=has_phases)


def _is_empty(node: Node) -> bool:
    """Return True for a mapping without entries."""
    return isinstance(node, Section) and not node.entries


def _rival_error(item: Assignment, rival: Assignment) -> Diagnostic:
    """Return the error (DPC107) of two settings that both state a length, or both an amount drawn."""
    subject = "how many are drawn" if item.keys[-1] in AMOUNT_KEYS else "the length"
    message = f"{_option_text(item)} and {_option_text(rival)} both set {subject}"
    return error("DPC107", item.marks[0], message, "keep one of them")


def _overridden_error(item: Assignment, *, has_phases: bool) -> Diagnostic:
    """Return the error (DPC107) of a setting that has no effect, with a hint at what overrides it."""
    message = f"setting `{item.path}` has no effect: something else overrides it"
    hint = f"a phase's own value wins: set it there, e.g. `--set phases[0].{item.path}=...`"
    return error("DPC107", item.marks[0], message, hint if has_phases else "another setting excludes it; keep one")


def _is_used(item: Assignment, used_nodes: set[int]) -> bool:
    """Return True if a scalar of a setting is among the plan's nodes, given by id(), or it sets an `x-` key."""
    words = [node for _, node in walk(item.value, "") if isinstance(node, Scalar)]
    return any(str(key).startswith(USER_KEY) for key in item.keys) or any(id(word) in used_nodes for word in words)


def _are_rivals(item: Assignment, other: Assignment) -> bool:
    """Return True if both set one phase's length or one draw's amount; an amount without a level may mean any."""
    for group in _EXCLUSIVE_KEYS:
        if not {item.keys[-1], other.keys[-1]} <= group:
            continue
        shorter, longer = sorted((_subject(item), _subject(other)), key=len)
        return shorter == longer or (group is AMOUNT_KEYS and shorter == longer[:-1])
    return False


def _subject(item: Assignment) -> tuple[str | int, ...]:
    """Return the keys of the phase and level that a setting is about: its path without the last key and sections."""
    above = item.keys[:-1]
    return tuple(key for key in above if key not in RUN_KEYS)


def _option_text(item: Assignment) -> str:
    """Return an assignment as the user wrote it: `--steps`, or `--set training.steps`."""
    option = item.marks[0].source.path.partition(" ")[0]
    return f"`{option}`" if option in FLAGS else f"`{option} {item.path}`"


def _sections(run: Section) -> Section:
    """Return a file or phase with nothing but `sampling`, `mechanism` and `training`, which phases inherit."""
    return replace(run, entries={key: run.entries[key] for key in RUN_KEYS if key in run.entries})


def _finish_sections(sections: Section) -> Section:
    """Return merged sections with each `batch_size` under its scheme's key, and `also` as a list."""
    long = {"sampling": _with_batch_sizes, "mechanism": _with_listed_sums}
    entries = {key: long[key](value) if key in long else value for key, value in sections.entries.items()}
    return replace(sections, entries=entries)


def _kept_entries(base: Section, over: Section) -> Iterator[tuple[str, Node]]:
    """Yield the entries of `base` that `over` inherits: all that no key, scheme or type in it excludes."""
    # A phase that states `steps` would else inherit `epochs` too, and a plan with both is refused.
    excluded = {key for group in _EXCLUSIVE_KEYS if group & over.entries.keys() for key in group}
    excluded |= _keys_excluded_by_scheme(over) | _keys_excluded_by_type(base, over)
    if base.path.rpartition(".")[2] == "strategy" and over.entries.keys() - base.entries.keys():
        excluded |= set(base.entries)  # a strategy is one of several words: another word replaces it as a whole
    if base.path.rpartition(".")[2] == "sampling":
        excluded |= _keys_excluded_by_sampling(base, over)
    yield from ((key, value) for key, value in base.entries.items() if key not in excluded)


def _keys_excluded_by_scheme(draw: Section) -> set[str]:
    """Return the keys of a draw that its stated scheme does not take; none without a scheme."""
    # So that a phase can change the scheme in one line.
    scheme = draw.entries.get("scheme")
    if not isinstance(scheme, Scalar) or scheme.text not in SCHEMES:
        return set()
    kept = {"scheme", *SCHEMES[scheme.text]}
    return {*DRAW_KEYS, BATCH_SIZE} - kept - ({BATCH_SIZE} if AMOUNT_KEYS & kept else set())


def _keys_excluded_by_type(base: Section, over: Section) -> set[str]:
    """Return all keys of `base` but the common ones if `over` states another mechanism type; none otherwise."""
    inherited, stated = base.entries.get("type"), over.entries.get("type")
    before = inherited.text if isinstance(inherited, Scalar) else "gaussian"
    is_other = isinstance(stated, Scalar) and stated.text != before
    return set(base.entries.keys() - _COMMON_MECHANISM_KEYS) if is_other else set()


def _keys_excluded_by_sampling(base: Section, over: Section) -> set[str]:
    """Return the keys that are not inherited: draws if `over` states `episodes`, `episodes` if it states a draw."""
    keys = {key for key in over.entries if not key.startswith(USER_KEY)}
    if EPISODES in keys:
        return {key for key in base.entries if key != EPISODES and not key.startswith(USER_KEY)}
    return {EPISODES} if keys else set()


def _first_missing(root: Node, keys: Sequence[str | int]) -> int | None:
    """Return the index, from 0, of the first key of a path that leads nowhere; None if the whole path exists."""
    return next((at for at in range(len(keys)) if node_at(root, *keys[: at + 1]) is None), None)


def _with_assumed(root: Section, assumed: Sequence[Assignment]) -> Section:
    """Return the file completed by the assumed values that fit it; what the file states wins."""
    for item in assumed:
        names = level_names(root)
        if _may_assume(item, root, names):
            # The file is merged over the assumption, so that it wins wherever it states a value or a rival of it.
            assumption = _long_phases(_long_data(_overlay(replace(root, entries={}), item)), names)
            root = _merge(_with_stated_type(assumption, root), _long_phases(root, names))
    return root


def _may_assume(item: Assignment, root: Section, names: tuple[str, ...] | None) -> bool:
    """Return False for data if the file has a `data` section, and for a draw if it has several levels; else True."""
    if item.keys[0] == "data":
        return "data" not in root.entries
    return item.keys[0] != "sampling" or names is None or len(names) <= 1


def _with_stated_type(assumed: Section, root: Section) -> Section:
    """Return the assumed parameters of a mechanism with the file's type, if it is stated and takes them."""
    # Without the type the merge would take the parameter for one of Gaussian noise, and drop it for any other type.
    kind, parameters = entry(entry(root, "mechanism"), "type"), entry(assumed, "mechanism")
    if not isinstance(kind, Scalar) or not isinstance(parameters, Section) or kind.text not in MECHANISMS:
        return assumed
    if not parameters.entries.keys() <= mechanism_keys(kind.text).keys():
        return assumed
    return with_entries(assumed, {"mechanism": with_entries(parameters, {"type": kind})})


def _assign_data(root: Section, item: Assignment) -> Section | Diagnostic:
    """Return the file with a setting in `data` made (`examples` as the only level's count), or the setting's error."""
    levels = node_at(root, "data", "levels")
    if item.keys == ("data", "examples") and isinstance(levels, Items):
        count = _count_of_only_level(item, len(levels.items))
        return count if isinstance(count, Diagnostic) else _assign_data(root, count)
    changed = _assign(root, item)
    return _long_data(changed) if isinstance(changed, Section) else changed


def _assign(root: Section, item: Assignment) -> Section | Diagnostic:
    """Return the file with a value merged in at its path, or the error (DPC103) of a key or index that is not there."""
    lost = _unindexed_key(root, item.keys)
    return _no_place_error(lost, item.marks[0]) if lost else _with_value(root, item, level_names(root))


def _count_of_only_level(examples: Assignment, level_count: int) -> Assignment | Diagnostic:
    """Return a setting of `data.examples` as one of the only level's count, or the error (DPC107) of several levels."""
    first, last = examples.marks
    if level_count != 1:
        message = f"`data.examples` sets the only level, and these data have {level_count}"
        return error("DPC107", last, message, "set `data.levels[0].count`")
    return replace(examples, keys=("data", "levels", 0, "count"), marks=(first, last, last, last))


def _with_value(root: Section, item: Assignment, names: tuple[str, ...] | None) -> Section | Diagnostic:
    """Return the tree with a value merged in, which drops keys it excludes, or the error (DPC103) of a missing item."""
    # Up to the last index of a list the path must exist. The keys after it are merged in as a section, so that they
    # exclude inherited keys as the section of a phase does.
    start = max((number for number, key in enumerate(item.keys, start=1) if isinstance(key, int)), default=0)
    above, below = item.keys[:start], item.below(start)
    target = node_at(root, *above)
    if target is not None and not below.keys:
        return _as_section(replace_at(root, above, item.value))
    if isinstance(target, Section):
        merged = _merge(target, _long_run(_overlay(target, below), names))
        return _with_kept_keys(_as_section(replace_at(root, above, merged)), root, item)
    lost = _first_missing(root, above)
    at = start if lost is None else lost
    return _no_place_error(item.keys[at], item.marks[at])


def _with_kept_keys(changed: Section, root: Section, item: Assignment) -> Section:
    """Return the changed file with those keys of a mechanism that its new type takes, too, in the same meaning."""
    before, after = node_at(root, *item.keys[:-1]), node_at(changed, *item.keys[:-1])
    new = item.value.text if isinstance(item.value, Scalar) else ""
    if item.keys[-1] != "type" or new not in MECHANISMS or not isinstance(before, Section | None):
        return changed
    old = entry(before, "type")
    old_keys = mechanism_keys(old.text if isinstance(old, Scalar) and old.text in MECHANISMS else "gaussian")
    new_keys = mechanism_keys(new)
    kept = {
        key: value
        for key, value in (before.entries if before else {}).items()
        if key not in {"type", *_entries_of(after)}
        and key in old_keys.keys() & new_keys.keys()
        and old_keys[key].meaning == new_keys[key].meaning
    }
    if not isinstance(after, Section):
        return changed
    without = {key for key in _entries_of(before).keys() - new_keys.keys() if not key.startswith(USER_KEY)}
    taken = {key: value for key, value in after.entries.items() if key not in without}
    return _as_section(replace_at(changed, item.keys[:-1], replace(after, entries=taken | kept)))


def _dropped_keys_note(before: Section, after: Section, item: Assignment) -> list[Diagnostic]:
    """Return a note (DPC107) on keys of the file that a new type, scheme or strategy leaves no place for, if any."""
    if item.keys[-1] not in {"type", "scheme"} and item.keys[-2:-1] != ("strategy",):
        return []
    old, new = node_at(before, *item.keys[:-1]), node_at(after, *item.keys[:-1])
    dropped = [key for key in _entries_of(old) if key not in _entries_of(new) and not key.startswith(USER_KEY)]
    if not dropped:
        return []
    message = f"{_option_text(item)} drops {', '.join(f'`{key}`' for key in dropped)} of the file"
    hint = "what goes with the new one is set beside it"
    return [replace(error("DPC107", item.marks[-1], message, hint), severity=Severity.NOTE)]


def _entries_of(node: Node | None) -> Mapping[str, Node]:
    """Return the entries of a mapping; none of another node."""
    return node.entries if isinstance(node, Section) else {}


def _no_place_error(key: str | int, mark: Mark) -> Diagnostic:
    """Return the error (DPC103) of a setting at a key or index that does not exist."""
    hint = "list items are numbered from [0]"
    if key == "phases":
        hint = "the file has no list of phases; `--set 'phases=[{training: {steps: 100}}]'` makes one"
    return error("DPC103", mark, f"there is no {step_text(key)} to set", hint)


def _as_section(root: Node) -> Section:
    """Return the tree itself, typed as the mapping that a whole file is; TypeError if it is none."""
    if not isinstance(root, Section):
        raise TypeError(f"config: expected a mapping at the top, got {type(root).__name__}")
    return root


def _unindexed_key(node: Node | None, keys: Sequence[str | int]) -> str:
    """Return the first text key on a path where a list needs an index; "" if there is none."""
    for key in keys:
        if isinstance(node, Items) and isinstance(key, str):
            return key
        node = node_at(node, key)
    return ""


def _overlay(base: Section, item: Assignment) -> Section:
    """Return `base` with one setting as its only content; the mappings on its path keep their places."""
    head, value = str(item.keys[0]), item.value
    if len(item.keys) > 1:
        present = base.entries.get(head)
        fresh = Section(entries={}, mark=item.marks[0], key=item.marks[0], path=join(base.path, head))
        value = _overlay(present if isinstance(present, Section) else fresh, item.below(1))
    return replace(base, entries={head: value})
