"""The long form of a config: short forms written out, command-line changes merged, phases with what they inherit.

Every value keeps the mark of the place where the user wrote it, so that errors found later point there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dpcalc.config import scalars
from dpcalc.config.loaders import LOADER, LOADER_KEYS, mechanism_written_out, written_out
from dpcalc.config.overrides import ASSUMED, FLAGS, Assignment, Changes
from dpcalc.config.scalars import AMOUNT_KEYS, BATCH_SIZE, DRAW_KEYS, EPISODES, UNKNOWN
from dpcalc.config.schema import SCHEMES, mechanism_keys
from dpcalc.config.source import ConfigError, Diagnostic, Mark, Severity, error, finding, source_of
from dpcalc.config.tree import (
    USER_KEY,
    Items,
    Node,
    Scalar,
    Section,
    entries_of,
    entry,
    items_of,
    join,
    node_at,
    replace_in,
    step_text,
    text_at,
    walk,
    with_entries,
    without_keys,
)
from dpcalc.keys import MAX_COUNT
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.records import dataclass

DEFAULT_LEVEL = "example"
RUN_KEYS = ("sampling", "mechanism", "training")
# Keys that exclude each other: stating one of a set drops the inherited others.
_EXCLUSIVE_KEYS = (frozenset({"steps", "epochs"}), AMOUNT_KEYS)
# Keys that several mechanism types have; stating another type drops all others.
_COMMON_MECHANISM_KEYS = frozenset({"type", "clip", "max_grad_norm"})


def level_names(root: Node) -> tuple[str, ...] | None:
    """Return the stated level names, outermost first; None without a list of levels, or if a name is no scalar."""
    levels = node_at(root, "data", "levels")
    if not isinstance(levels, Items) or not levels.items:
        return None
    names = [entry(level, "name") for level in levels.items]
    words = tuple(name.text for name in names if isinstance(name, Scalar))
    return words if len(words) == len(names) else None


# Short forms.


def is_direct_draw(sampling: Section, names: tuple[str, ...] | None) -> bool:
    """Return True if `sampling` has a draw's key or a plain value where level names belong; False with `episodes`."""
    others = [(key, value) for key, value in entries_of(sampling).items() if key not in (names or ())]
    return EPISODES not in sampling.entries and any(key in DRAW_KEYS or isinstance(x, Scalar) for key, x in others)


def _long_data(root: Section) -> Section:
    """Return the file with `data: {examples: N}` as one level `example`; unchanged without it, or beside `levels`."""
    data = root.entries.get("data")
    if not isinstance(data, Section) or "examples" not in data.entries or "levels" in data.entries:
        return root
    count = data.entries["examples"]
    name = Scalar(text=DEFAULT_LEVEL, plain=False, mark=count.start, path="data.levels[0].name")
    level = Section(entries={"name": name, "count": count}, mark=count.start, path="data.levels[0]")
    levels = Items(items=(level,), mark=count.start, key=count.key, path="data.levels")
    return with_entries(root, {"data": with_entries(without_keys(data, "examples"), {"levels": levels})})


def _long_runs(run: Section, names: tuple[str, ...] | None) -> Section:
    """Return a file, or a phase of one, with draws and `batch_size` below the only level; unchanged for several."""
    # Without known `names` of levels there is one, with the default name.
    if names is not None and len(names) != 1:
        return run
    phases = run.entries.get("phases")
    if isinstance(phases, Items):
        items = tuple(_long_runs(item, names) if isinstance(item, Section) else item for item in phases.items)
        run = with_entries(run, {"phases": replace(phases, items=items)})
    name = names[0] if names else DEFAULT_LEVEL
    sampling, training = run.entries.get("sampling"), run.entries.get("training")
    if isinstance(sampling, Section) and is_direct_draw(sampling, names):
        if name in sampling.entries:
            return run  # a draw and a level name: two statements, for `build` to refuse
        sampling = replace(sampling, entries={name: sampling})
        run = with_entries(run, {"sampling": sampling})
    size = entry(training, BATCH_SIZE)
    if not isinstance(training, Section) or size is None:
        return run
    missing = Section(entries={}, mark=size.start, key=size.start, path="sampling")
    sampling = sampling or missing
    draw = entry(sampling, name) or missing
    if not isinstance(sampling, Section) or not isinstance(draw, Section):
        return run
    sampling = with_entries(sampling, {name: with_entries(draw, {BATCH_SIZE: size})})
    return with_entries(run, {"sampling": sampling, "training": without_keys(training, BATCH_SIZE)})


# Inheritance of phases from the top level, and changes by the command line: both are one deep merge.


@dataclass(frozen=True, kw_only=True)
class Run:
    """The sections of one phase, with what it inherits."""

    at: Section  # the phase's own mapping, or the whole file
    path: str  # "phases[0]", or "" for a file without phases
    sections: Section  # mapping of `sampling`, `mechanism` and `training`, as far as they are stated
    stated: Section  # the same before loaders and the parts of batches were written out
    faults: Mapping[str | None, tuple[Diagnostic, ...]]  # by level, None for the mechanism: why it is not written out


def runs(root: Section) -> tuple[Run, ...]:
    """Return a run for each phase, completed from the top level; without `phases` the top level is the only run.

    `batch_size` stands under its scheme's key, `also` is a list, and a loader is the scheme that it stands for; those
    for which there is none stay, with the reason in `faults`.
    """
    found, inherited = [], without_keys(root, *root.entries.keys() - {*RUN_KEYS})
    phases = root.entries.get("phases")
    # The first level of a name counts, where several have it.
    levels = reversed(items_of(node_at(root, "data", "levels")))
    counts = {text_at(level, "name"): entry(level, "count") for level in levels}
    adjacency = text_at(root.entries.get("privacy"), "adjacency")
    places: list[tuple[Node, str]] = [(each, f"phases[{number}]") for number, each in enumerate(items_of(phases))]
    for at, path in [(root, "")] if phases is None else places:
        if not isinstance(at, Section):
            continue
        own = _merge(inherited, without_keys(at, *at.entries.keys() - {*RUN_KEYS})) if path else inherited
        entries, faults = dict(own.entries), dict[str | None, tuple[Diagnostic, ...]]()
        sampling, mechanism = entries.get("sampling"), entries.get("mechanism")
        if isinstance(sampling, Section):
            draws = dict(sampling.entries)
            for name, stated in sampling.entries.items():
                try:
                    draws[name] = written_out(stated, counts.get(name), adjacency)
                except ConfigError as cause:
                    faults[name] = cause.diagnostics
                draw = draws[name]
                size, taken = entry(draw, BATCH_SIZE), SCHEMES.get(text_at(draw, "scheme"), ())
                key = next((key for key in taken if key in {"size", "expected"}), None)
                # For `build` to refuse: a draw that states another amount too keeps both, wrong parts of a batch stay.
                size = None if isinstance(size, Section) else size
                if isinstance(draw, Section) and size and key and not AMOUNT_KEYS & draw.entries.keys() - {BATCH_SIZE}:
                    draws[name] = with_entries(without_keys(draw, BATCH_SIZE), {key: size})
            entries["sampling"] = replace(sampling, entries=draws)
        try:
            mechanism = mechanism_written_out(mechanism)
        except ConfigError as cause:
            faults[None] = cause.diagnostics
        if mechanism is not None:
            entries["mechanism"] = mechanism
        also = entry(mechanism, "also")
        if isinstance(mechanism, Section) and isinstance(also, Section):
            listed = Items(items=(also,), mark=also.mark, key=also.key, path=also.path)
            entries["mechanism"] = with_entries(mechanism, {"also": listed})
        found.append(Run(at=at, path=path, sections=replace(own, entries=entries), stated=own, faults=faults))
    return tuple(found)


def _merge(base: Section, over: Section) -> Section:
    """Return `over` completed by the entries of `base` that it neither replaces nor excludes, mappings in depth.

    Lists and scalars are replaced as a whole; the merged section stands at the place of `over`.
    """
    stated = over.entries.keys()
    # A phase that states `steps` would else inherit `epochs` too, and a plan with both is refused.
    excluded = {key for group in _EXCLUSIVE_KEYS if group & stated for key in group}
    scheme = text_at(over, "scheme")
    if "of" in stated and text_at(over, "of") != text_at(base, "of"):  # what another class does not take
        excluded |= {"drop_last", "order", *LOADER_KEYS} - {BATCH_SIZE}
    if scheme == LOADER:
        excluded |= {*DRAW_KEYS} - {"drop_last"}
    elif scheme in SCHEMES:  # so that a phase can change the scheme in one line
        taken = {"scheme", *SCHEMES[scheme]}
        excluded |= {*DRAW_KEYS} - taken if AMOUNT_KEYS & taken else {*DRAW_KEYS, BATCH_SIZE} - taken
        excluded |= LOADER_KEYS.keys() - {BATCH_SIZE}
    kind = over.entries.get("type")
    if isinstance(kind, Scalar) and kind.text != text_at(base, "type", "gaussian"):
        excluded |= base.entries.keys() - _COMMON_MECHANISM_KEYS
    section = base.name
    if section == "strategy" and stated - base.entries.keys():
        excluded |= base.entries.keys()  # a strategy is one of several words: another word replaces it as a whole
    if section == "sampling":  # `episodes` and draws by level exclude each other
        if EPISODES in stated:
            excluded |= entries_of(base).keys() - {EPISODES}
        elif entries_of(over):
            excluded.add(EPISODES)
    entries = {key: value for key, value in base.entries.items() if key not in excluded}
    for key, value in over.entries.items():
        below = entries.get(key)
        entries[key] = _merge(below, value) if isinstance(below, Section) and isinstance(value, Section) else value
    return replace(over, entries=entries)


def _overlay(base: Section, item: Assignment, start: int = 0) -> Section:
    """Return `base` with one setting, below its first keys, alone in it; the mappings on its path keep their places."""
    head, value = str(item.keys[start]), item.value
    if start + 1 < len(item.keys):
        present, mark = base.entries.get(head), item.marks[start]
        fresh = Section(entries={}, mark=mark, key=mark, path=join(base.path, head))
        value = _overlay(present if isinstance(present, Section) else fresh, item, start + 1)
    return replace(base, entries={head: value})


def _first_missing(root: Node, keys: Sequence[str | int]) -> int | None:
    """Return the index, from 0, of the first key of a path that leads nowhere; None if the whole path exists."""
    return next((at for at in range(len(keys)) if node_at(root, *keys[: at + 1]) is None), None)


def _no_place_error(key: str | int, mark: Mark) -> Diagnostic:
    """Return the error (DPC103) of a setting at a key or index that does not exist."""
    hint = "list items are numbered from [0]"
    if key == "phases":
        hint = "the file has no list of phases; `--set 'phases=[{training: {steps: 100}}]'` makes one"
    return error("DPC103", mark, f"there is no {step_text(key)} to set", hint)


def _option_text(item: Assignment) -> str:
    """Return an assignment as the user wrote it: `--steps`, or `--set training.steps`."""
    option = item.marks[0].source.path.partition(" ")[0]
    return f"`{option}`" if option in FLAGS else f"`{option} {item.path}`"


def _with_value(root: Section, item: Assignment, names: tuple[str, ...] | None) -> Section | Diagnostic:
    """Return the tree with a value merged in, which drops keys it excludes, or the error (DPC103) of a missing item."""
    # Up to the last index of a list the path must exist. The keys after it are merged in as a section, so that they
    # exclude inherited keys as the section of a phase does.
    start = max((number for number, key in enumerate(item.keys, start=1) if isinstance(key, int)), default=0)
    above = item.keys[:start]
    target = node_at(root, *above)
    if target is not None and start == len(item.keys):
        return replace_in(root, above, item.value)
    if not isinstance(target, Section):
        lost = _first_missing(root, above)
        at = start if lost is None else lost
        return _no_place_error(item.keys[at], item.marks[at])
    merged = _merge(target, _long_runs(_overlay(target, item, start), names))
    changed = replace_in(root, above, merged)
    new = item.value.text if isinstance(item.value, Scalar) else ""
    before, after = node_at(root, *item.keys[:-1]), node_at(changed, *item.keys[:-1])
    is_type = item.keys[-1] == "type" and new in MECHANISMS
    if not is_type or not isinstance(after, Section) or not isinstance(before, Section | None):
        return changed
    # Another type of mechanism: of the file's keys those stay that both types take in the same meaning.
    old = text_at(before, "type")
    old_keys, new_keys = mechanism_keys(old if old in MECHANISMS else "gaussian"), mechanism_keys(new)
    entries = dict(after.entries)
    for key, value in (before.entries if before else {}).items():
        if key not in new_keys and not key.startswith(USER_KEY):
            entries.pop(key, None)
        elif key in old_keys and key in new_keys and key != "type" and old_keys[key].meaning == new_keys[key].meaning:
            entries.setdefault(key, value)
    return replace_in(changed, item.keys[:-1], replace(after, entries=entries))


def apply_changes(root: Section, changes: Changes) -> tuple[Section, tuple[Diagnostic, ...]]:
    """Return the file as written with keys removed and then values set, and notes on keys that a setting drops."""
    notes = []
    for item in changes.unset:
        root = replace_in(root, item.keys, None)
    for item in changes.settings:
        changed = _with_value(root, item, ())
        if isinstance(changed, Diagnostic):
            continue
        if item.keys[-1] in {"type", "scheme"} or item.keys[-2:-1] == ("strategy",):
            old, new = node_at(root, *item.keys[:-1]), node_at(changed, *item.keys[:-1])
            dropped = [key for key in entries_of(old) if key not in entries_of(new)]
            if dropped:
                message = f"{_option_text(item)} drops {', '.join(f'`{key}`' for key in dropped)} of the file"
                hint = "what goes with the new one is set beside it"
                notes.append(finding(Severity.NOTE, "DPC107", item.marks[-1], message, hint))
        root = changed
    return root, tuple(notes)


def long_form(root: Section, changes: Changes) -> tuple[Section, tuple[Assignment, ...], tuple[Diagnostic, ...]]:
    """Return the changed file in long form, the settings that were made, and the errors of the other changes."""
    problems: list[Diagnostic] = []
    for item in changes.unset:
        lost = _first_missing(root, item.keys)
        if lost is None:
            root = replace_in(root, item.keys, None)
        else:
            message = f"there is no {step_text(item.keys[lost])} to take out"
            problems.append(error("DPC103", item.marks[lost], message, "--unset names a key as the file writes it"))

    root = _long_data(root)
    done: list[Assignment] = []
    # The levels decide what a short form means, so they are settled first.
    for item in sorted(changes.settings, key=lambda item: item.keys[0] != "data"):
        made = item
        levels = node_at(root, "data", "levels")
        if item.keys == ("data", "examples") and isinstance(levels, Items):
            first, last = item.marks
            if len(levels.items) != 1:
                message = f"`data.examples` sets the only level, and these data have {len(levels.items)}"
                problems.append(error("DPC107", last, message, "set `data.levels[0].count`"))
                continue
            made = replace(item, keys=("data", "levels", 0, "count"), marks=(first, last, last, last))
        base = root if item.keys[0] == "data" else _long_runs(root, level_names(root))
        lists = (key for at, key in enumerate(made.keys) if isinstance(node_at(base, *made.keys[:at]), Items))
        unindexed = next((key for key in lists if isinstance(key, str)), "")
        changed = _no_place_error(unindexed, made.marks[0]) if unindexed else _with_value(base, made, level_names(base))
        if isinstance(changed, Diagnostic):
            problems.append(changed)
        else:
            root = _long_data(changed) if item.keys[0] == "data" else changed
            done.append(item)

    for item in changes.assumed:
        names = level_names(root)
        if item.keys[0] == "data" and "data" in root.entries:
            continue
        if item.keys[0] == "sampling" and names is not None and len(names) > 1:
            continue
        stated = node_at(root, *item.keys)
        if isinstance(stated, Scalar) and stated.text == "???":  # nobody states it yet
            root = replace_in(root, item.keys, None)
        # The file is merged over the assumption, so that it wins wherever it states a value or a rival of it.
        assumption = _long_runs(_long_data(_overlay(replace(root, entries={}), item)), names)
        # Without the file's type the merge would take a parameter of its mechanism for one of Gaussian noise.
        kind, parameters = node_at(root, "mechanism", "type"), entry(assumption, "mechanism")
        keys = mechanism_keys(kind.text).keys() if isinstance(kind, Scalar) and kind.text in MECHANISMS else set()
        if kind and isinstance(parameters, Section) and parameters.entries.keys() <= keys:
            assumption = with_entries(assumption, {"mechanism": with_entries(parameters, {"type": kind})})
        root = _merge(assumption, _long_runs(root, names))

    root = _long_runs(root, level_names(root))
    levels = node_at(root, "data", "levels")
    for at, level in enumerate(items_of(levels)):
        ends = entry(level, "count")  # `{min: 5, max: 64}` becomes two keys of the level
        if not isinstance(level, Section) or not isinstance(ends, Section) or not ends.entries:
            continue
        if not ends.entries.keys() & level.entries.keys():
            long = with_entries(without_keys(level, "count"), ends.entries)
            root = replace_in(root, ("data", "levels", at), long)

    # A number in the place of an unknown count of the only level: the least that fits every rate and the group. A plan
    # needs one, and epsilon does not depend on it.
    where = ("data", "levels", 0, "count")
    count = node_at(root, *where)
    if not isinstance(count, Scalar) or count.text != UNKNOWN or len(items_of(levels)) > 1:
        return root, tuple(done), tuple(problems)
    dependent, rates = [], []
    for run in runs(root):
        draw = node_at(run.sections, "sampling", (level_names(root) or (DEFAULT_LEVEL,))[0])
        scheme, stated = text_at(draw, "scheme"), entry(draw, "rate")
        rate = scalars.number_of(stated)
        rates.append(scalars.parse_quotient(text_at(draw, "rate")) if rate is None else rate)
        if scheme == LOADER:  # it was not written out
            problem = "is unknown, and what its loader draws depends on it"
            dependent.append(count.fault("DPC107", problem, "state the number, or a scheme with a `rate` alone"))
        if isinstance(draw, Section) and scheme in SCHEMES:
            needing = {"size", "expected", BATCH_SIZE, "max_batch_size"} & draw.entries.keys()
            if needing or "size" in SCHEMES[scheme]:
                what = f"`{min(needing)}`" if needing else f"scheme {scheme}"
                problem = f"is unknown, and with {what} epsilon depends on it"
                dependent.append(count.fault("DPC107", problem, "state the number, or draw by a `rate` alone"))
    smallest = scalars.least_count(rates, scalars.number_of(node_at(root, "privacy", "group_size")))
    mark = Mark(source_of(str(smallest), ASSUMED), 1, 1)
    number = replace(count, text=str(MAX_COUNT if dependent else smallest), plain=True, mark=mark, origin=count.mark)
    return replace_in(root, where, number), tuple(done), (*problems, *dependent)


def ineffective_errors(
    assignments: Sequence[Assignment], used: Sequence[Node], *, has_phases: bool
) -> Iterator[Diagnostic]:
    """Yield an error (DPC107) for each command-line setting whose value did not reach the plan."""
    # Merging keeps the node objects, so that identity tells whether a value reached the plan.
    used_nodes = {id(node) for tree in used for _, node in walk(tree, "")}
    for item in assignments:
        if item.keys == ("phases",):  # what is wrong in a list of phases is told at its place
            if any(isinstance(phase, Section) and not phase.entries for phase in items_of(item.value)):
                hint = "a phase has something of its own, e.g. `--set 'phases=[{training: {steps: 100}}]'`"
                yield error("DPC107", item.marks[0], "`phases` has a phase that says nothing", hint)
            continue
        words = [node for _, node in walk(item.value, "") if isinstance(node, Scalar)]
        is_users = any(str(key).startswith(USER_KEY) for key in item.keys)
        if is_users or any(id(word) in used_nodes for word in words):
            continue
        # Two settings of one phase's length or one draw's amount; an amount without a level may mean any.
        rival, above = None, [key for key in item.keys[:-1] if key not in RUN_KEYS]
        for other in assignments:
            around = [key for key in other.keys[:-1] if key not in RUN_KEYS]
            group = next((each for each in _EXCLUSIVE_KEYS if {item.keys[-1], other.keys[-1]} <= each), None)
            near = around == above or (group is AMOUNT_KEYS and (around == above[:-1] or around[:-1] == above))
            if other is not item and group and near:
                rival = rival or other
        if rival:
            subject = "how many are drawn" if item.keys[-1] in AMOUNT_KEYS else "the length"
            message = f"{_option_text(item)} and {_option_text(rival)} both set {subject}"
            yield error("DPC107", item.marks[0], message, "keep one of them")
        else:
            message = f"setting `{item.path}` has no effect: something else overrides it"
            hint = f"a phase's own value wins: set it there, e.g. `--set phases[0].{item.path}=...`"
            yield error(
                "DPC107", item.marks[0], message, hint if has_phases else "another setting excludes it; keep one"
            )
