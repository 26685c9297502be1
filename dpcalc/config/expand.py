"""The long form of a config with its command-line changes, and the normal form of a plan with its hash."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.loaders import LOADER, LOADER_KEYS, mechanism_written_out, written_out
from dpcalc.config.scalars import AMOUNT_KEYS, BATCH_SIZE, DRAW_KEYS, EPISODES, UNKNOWN
from dpcalc.config.schema import SCHEMES, mechanism_keys
from dpcalc.config.source import (
    ConfigError,
    Diagnostic,
    Mark,
    Severity,
    Source,
    config_error,
    error,
    finding,
    source_of,
)
from dpcalc.config.tree import (
    USER_KEY,
    Flaw,
    Items,
    Node,
    Scalar,
    Section,
    dotted,
    entries_of,
    entry,
    items_of,
    join,
    node_at,
    parse_yaml,
    replace_in,
    split_path,
    step_text,
    text_at,
    walk,
    with_entries,
    with_path,
    within,
    without_keys,
)
from dpcalc.errors import InputError
from dpcalc.keys import MAX_COUNT
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy

ASSUMED = "assumed"  # name of the source of values that dpcalc assumes; their marks have it as the path
OVER, _UNSET = "--over", "--unset"
# Options that are short for `--set KEY=...`, and their keys.
FLAGS = {
    "--unit": "privacy.unit",
    "--group-size": "privacy.group_size",
    "--delta": "privacy.delta",
    "--adjacency": "privacy.adjacency",
    "--method": "accounting.method",
    "--scheme": "sampling.scheme",
    "--sample-rate": "sampling.rate",
    "--batch-size": "training.batch_size",
    "--dataset-size": "data.examples",
    "--steps": "training.steps",
    "--epochs": "training.epochs",
    "--noise-multiplier": "mechanism.noise_multiplier",
}


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One value for one path."""

    keys: tuple[str | int, ...]  # never empty
    marks: tuple[Mark, ...]  # place of each part of the path in the argument
    value: Node

    @property
    def path(self) -> str:
        """The dotted path."""
        return dotted(self.keys)


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Everything the command line says about the content of a file, as text."""

    assignments: tuple[str, ...] = ()  # values of `--set`, such as "training.steps=1e4"
    flags: tuple[tuple[str, str], ...] = ()  # such as ("--delta", "1e-5"); each is short for its key in `FLAGS`
    unset: tuple[str, ...] = ()  # values of `--unset`: keys to remove from the file before anything is set
    assumed: tuple[str, ...] = ()  # "key=value" texts that hold where nothing else states the key
    swept: tuple[str, ...] = ()  # values of `--over` at one point of a grid, such as "training.steps=1e4"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Parsed overrides, one for each key, by the order in which they are made."""

    unset: tuple[Assignment, ...] = ()  # keys to remove; their values are empty
    settings: tuple[Assignment, ...] = ()
    assumed: tuple[Assignment, ...] = ()  # for keys that are still missing then


def parse_overrides(overrides: Overrides) -> tuple[Changes, tuple[Diagnostic, ...]]:
    """Return the changes that the command line states, and the errors of unreadable values and repeated keys."""
    problems: list[Diagnostic] = []

    def parsed(words: Iterable[tuple[str, str]]) -> tuple[Assignment, ...]:
        first: dict[tuple[str | int, ...], Assignment] = {}
        for option, text in words:
            # A flag has the text of its value, --unset that of a key, the others "key=value".
            flaws: tuple[Flaw, ...] = ()
            try:
                source = source_of(text, option)
                if option in FLAGS:
                    mark, path = Mark(source, 1, 1, max(1, len(text))), FLAGS[option]
                    if not text.strip():
                        raise config_error(
                            "DPC102", mark, f"{option} is empty", f"give it a value, or leave {option} out"
                        )
                    keys = tuple[str | int, ...](path.split("."))
                    marks = (mark,) * len(keys)  # no path is written: each key has the place of the whole option
                    value, flaws = parse_yaml(source)
                elif option.startswith(_UNSET):
                    path = source.text
                    keys, marks = parse_path(path, source)
                    value = Scalar(text="", mark=marks[-1])
                else:
                    path, separator, right = source.text.partition("=")
                    if not separator:
                        hint = "write `--set training.steps=1000`"
                        raise config_error("DPC100", Mark(source, 1, 1), "an assignment needs a `=`", hint)
                    keys, marks = parse_path(path, source)
                    if not right.strip():
                        hint = "give it a value, e.g. `--set a.b=1`"
                        raise config_error("DPC102", marks[-1], f"`{path}` is empty", hint)
                    # Blanks in the place of the path: columns of the parsed value are columns of the argument.
                    value, flaws = parse_yaml(Source(option, " " * (len(path) + 1) + right, source.lines))
            except ConfigError as cause:
                problems.extend(cause.diagnostics)
                continue
            problems.extend(flaw.diagnostic for flaw in flaws)
            item = Assignment(keys=keys, marks=marks, value=replace(with_path(value, path), key=marks[-1]))
            earlier = first.setdefault(item.keys, item)
            if earlier is not item:
                names = [each.marks[0].source.path.partition(" ")[0] for each in (earlier, item)]
                both = "twice" if names[0] == names[1] else f"by {names[0]} and by {names[1]}"
                problems.append(error("DPC105", item.marks[0], f"`{item.path}` is set {both}", "keep one of them"))
        return tuple(first.values())

    unset = parsed((f"{_UNSET} #{number}", text) for number, text in enumerate(overrides.unset, start=1))
    stated = [(f"--set #{number}", text) for number, text in enumerate(overrides.assignments, start=1)]
    settings = parsed([*stated, *((OVER, text) for text in overrides.swept), *overrides.flags])
    assumed = parsed((ASSUMED, text) for text in overrides.assumed)
    return Changes(unset=unset, settings=settings, assumed=assumed), tuple(problems)


def parse_path(text: str, source: Source) -> tuple[tuple[str | int, ...], tuple[Mark, ...]]:
    """Return the keys and 0-based indices of a dotted path with their places; ConfigError (DPC100) if it is none."""
    steps, read = split_path(text)
    if not steps or read < len(text):
        hint = "write e.g. `phases[0].training.steps`"
        raise config_error("DPC100", Mark(source, 1, read + 1), f"`{text}` is no path of keys", hint)
    return tuple(key for key, _, _ in steps), tuple(Mark(source, 1, start + 1, width) for _, start, width in steps)


# A run described by options alone: no file, one level of examples.

COMMAND_LINE = "<command line>"  # in the place of a path
_AMOUNTS = ("sampling.rate", "sampling.expected", "sampling.size", "training.batch_size")
_SCHEME, _RATE, _SIZE, _GROUP = "sampling.scheme", "sampling.rate", "data.examples", "privacy.group_size"
SCHEME_QUESTION = (
    "how does the loader draw? shuffle: it goes through shuffled data, as DataLoader(shuffle=True) does; poisson: a "
    "coin for each example, as Opacus' loader; fixed: so many drawn afresh in each step. What it costs differs by far"
)
_CHOOSING_STEPS = {"balls-in-bins": "sampling.bins", "random-allocation": "sampling.times"}


def _given(overrides: Overrides) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts that are stated and those that are assumed, by dotted key; options win over settings."""
    stated, assumed = (
        {key.strip(): text.strip() for key, _, text in (each.partition("=") for each in assignments)}
        for assignments in ((*overrides.assignments, *overrides.swept), overrides.assumed)
    )
    return stated | {FLAGS[option]: text.strip() for option, text in overrides.flags}, assumed


def _states(texts: Iterable[str], *keys: str) -> bool:
    """Return True if the command line states one of some keys: itself, a section around it, or a part of it."""
    return any(within(stated, key) or within(key, stated) for stated in texts for key in keys)


def missing_flags(overrides: Overrides) -> tuple[str, ...]:
    """Return the options that a run without a file needs: scheme, amount or else data set size, noise, steps, delta."""
    texts, assumed = _given(overrides)

    def has(*keys: str) -> bool:
        return _states(texts, *keys) or not assumed.keys().isdisjoint(keys)

    # Only a rate alone tells how examples are drawn: a size needs its scheme.
    has_scheme = _states(texts, _SCHEME) and not ("sampling" in texts and "scheme" not in texts["sampling"])
    sizes = ["sampling.expected", "sampling.size", "sampling.max_batch_size", "training.batch_size"]
    whole = [texts.get(section, "") for section in ("sampling", "training")]
    names_size = any(size in text for size in ("expected", "size") for text in whole)
    needs_scheme = not has_scheme and (names_size or not texts.keys().isdisjoint(sizes))

    scheme = texts.get(_SCHEME, "" if _states(texts, _SCHEME) else "poisson")  # "" if it is part of a longer value
    takes, parameter = SCHEMES.get(scheme or "poisson", ()), _CHOOSING_STEPS.get(scheme, "")
    amount = ""
    if "size" in takes and not has("sampling.size", "training.batch_size"):
        amount = "--batch-size"
    elif parameter and not has(parameter):
        amount = f"--set {parameter}=N"
    elif "rate" in takes and not has(*_AMOUNTS):
        amount = "--sample-rate"

    # Epsilon depends on the number of examples with a size, an expected number or capped batches.
    is_rated = _RATE in texts or (_RATE in assumed and not _states(texts, *_AMOUNTS))
    is_free = scheme in {"all", "any-order"} or (scheme in {"poisson", "cyclic-poisson"} and is_rated)
    needs_size = not is_free or has("sampling.max_batch_size")
    needs_size = needs_size and not parameter and (not scheme or scheme in SCHEMES) and not _states(texts, _SIZE)

    options = (
        "--scheme" if needs_scheme else "",
        amount or ("--dataset-size" if needs_size else ""),
        "" if has("mechanism.noise_multiplier", "mechanism.type") else "--noise-multiplier",
        "" if has("training.steps", "training.epochs") else "--steps",
        "" if has("privacy.delta") else "--delta",
    )
    return tuple(filter(None, options))


def with_assumptions(overrides: Overrides) -> tuple[Overrides, tuple[Diagnostic, ...]]:
    """Return the options with unstated sampling and number of examples assumed, and a note on each assumption."""
    texts, given = _given(overrides)
    assumed, notes = [*overrides.assumed], []
    if not _states(texts, _SCHEME):
        assumed.append(f"{_SCHEME}=poisson")
        message = "a rate without a scheme is Poisson's: a step draws every example on its own, with that probability"
        hint = "a shuffled loader is `--scheme shuffle`, a fixed number drawn afresh `--scheme fixed`; both with "
        hint += "--batch-size and --dataset-size"
        notes.append(note(message, hint))
    if not _states(texts, _SIZE):
        # Epsilon of Poisson draws depends on the rate alone, but a plan needs a number of examples. Nothing is computed
        # from it, and wrong numbers do not count.
        stated, group = texts.get(_RATE) or given.get(_RATE, "1"), texts.get(_GROUP, "1")
        rate = None if texts.get(_SCHEME) == "all" else scalars.parse_number(stated) or scalars.parse_quotient(stated)
        assumed.append(f"{_SIZE}={scalars.least_count([rate], scalars.parse_number(group))}")
        hint = "epsilon depends on the rate only, but delta should be well below 1 / it; --dataset-size states it"
        notes.append(note("the number of examples is not stated", hint))
    return replace(overrides, assumed=tuple(assumed)), tuple(notes)


def note(message: str, hint: str, code: str = "DPC201") -> Diagnostic:
    """Return a note without a place."""
    return Diagnostic(code=code, severity=Severity.NOTE, message=message, hint=hint, path=COMMAND_LINE)


# The long form of a config: short forms written out, command-line changes merged, phases with what they inherit.
# Every value keeps the mark of the place where the user wrote it, so that errors found later point there.


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


# The normal form of a plan as a config file, its hash, and the terms in which a config states sizes.


_WORD = re.compile(r"[^\W\d_][\w-]*(?: [\w-]+)*")
_YAML_1_1 = frozenset({"yes", "no", "on", "off", "y", "n"})  # other readers take these words for truth values
MAX_WRITTEN_COUNTS = 10_000  # units of a tree; a config with more exceeds yaml_text.MAX_EVENTS
_NO_MARK = Mark(source_of("", "show"), 1, 1)


def normal_form(plan: Plan) -> str:
    """Return a YAML config that loads as the same plan, defaults written out; InputError if tree or rate are too long.

    Numbers are exact. An expected number or a rate is written, whichever is a finite decimal, and the other one as a
    remark; where neither is one the rate is a quotient such as 1/97. `epochs` have become steps.
    """
    if len(plan.phases) == 1 and not plan.parts:
        run = _run_lines(plan.phases[0])
    else:
        run = ["phases:", *(line for phase in plan.phases for line in phase_lines(phase))]
    return "\n".join([*_data_lines(plan), *run, *_terms_lines(plan), ""])


def unfinished_form(plan: Plan) -> str:
    """Return a config file with everything of a plan but its phases; it ends with `phases:`, to be continued."""
    return "\n".join([*_data_lines(plan), *_terms_lines(plan), "phases:", ""])


def phase_lines(phase: Phase) -> Iterator[str]:
    """Yield the lines of a phase as an entry of `phases:`, indented by two, without line breaks."""
    yield f"  - name: {quoted(phase.name)}"
    if phase.part:
        yield f"    part: {quoted(phase.part)}"
    yield from (f"    {line}" for line in _run_lines(phase))


def _data_lines(plan: Plan) -> list[str]:
    """Return the lines of the version, the run's name and the levels with their counts or a tree."""
    hierarchy = plan.phases[0].hierarchy
    lines = ["version: 1", *([f"name: {quoted(plan.name)}"] if plan.name else []), "data:", "  levels:"]
    for level in hierarchy.levels:
        count: object = level.count if level.is_equal else f"{{min: {level.min_count}, max: {level.count}}}"
        count = UNKNOWN if level.is_assumed else count
        lines.append(f"    - {{name: {quoted(level.name)}{'' if hierarchy.tree else f', count: {count}'}}}")
    if hierarchy.tree is not None:
        size = sum(map(len, hierarchy.tree.sizes))
        if size > MAX_WRITTEN_COUNTS:
            message = f"data.tree: expected at most {MAX_WRITTEN_COUNTS} units to be written out, got {size}"
            raise InputError(f"{message}; keep them in a file, `tree: {{file: counts.json}}`")
        lines.append(f"  tree: {hierarchy.tree.nested()}")
    return lines


def _terms_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of privacy and accounting, then of budget, tuning and partition where the plan has them."""
    terms = {"adjacency": plan.adjacency, "delta": plan.delta, "group_size": plan.group_size}
    yield f"privacy: {_mapping_text({'unit': quoted(plan.unit_name)} | terms)}"
    yield f"accounting: {{method: {plan.method}}}"
    if plan.budget is not None:
        yield f"budget: {_mapping_text(asdict(plan.budget))}"
    if plan.tuning is not None:
        law = {"mean": plan.tuning.mean, "distribution": plan.tuning.distribution}
        shape = {"shape": plan.tuning.shape} if plan.tuning.distribution == "negative-binomial" else {}
        yield f"tuning: {_mapping_text(law | shape)}"
    if plan.partition is not None:
        parts = ", ".join(f"{{name: {quoted(part)}}}" for part in plan.partition.parts)
        yield f"partition: {{rule: {quoted(plan.partition.rule)}, parts: [{parts}]}}"


def _run_lines(phase: Phase) -> list[str]:
    """Return the lines of a phase's sampling, mechanism and training."""
    hierarchy, sampling = phase.hierarchy, list[str]()
    if hierarchy.episodes is not None:
        sampling.append(f"{EPISODES}: {_mapping_text(asdict(hierarchy.episodes))}")
    for level in () if hierarchy.episodes else hierarchy.levels:
        # What a draw does not state stands behind it as a comment. In a part, whose size is not known, an expected
        # number means no rate.
        is_part = bool(phase.part) and level is hierarchy.levels[0] and level.count > 1
        is_equal = level.is_equal and not is_part
        scheme, amount, remark = level.scheme, dict[str, object](), ""
        limit = "" if is_equal else "at most "
        if scheme.amount_key == "rate":
            # An exact rate often is no decimal while the expected number is one, or the other way round: the form that
            # is exact is written, and the other one as a remark. Where counts differ the number has no meaning.
            rate, is_cyclic = scheme.probability, scheme.spans_steps
            expected, is_known = rate * level.count, is_equal and not level.is_assumed
            number = scalars.decimal_text(expected) if is_known else None
            is_simpler = number and (expected.denominator == 1 or scalars.decimal_text(rate) is None)
            stated = scalars.probability_text(rate)
            if is_simpler and not is_cyclic:
                amount["expected"] = number
                remark = f"rate {_rounded_text(rate)}"
            elif stated is None:
                limit = f"expected a rate of at most {scalars.MAX_DIGITS} characters"
                raise InputError(f"level {level.name}: {limit}, got {rate}")
            else:
                amount["rate"] = stated
                if is_known and not is_simpler:  # that of a cyclic draw, if simpler, would be taken for one step's
                    remark = f"{'of all groups ' if is_cyclic else ''}expected {_rounded_text(expected)}"
        elif scheme.at_most:
            amount["size"] = f"{{at_most: {scheme.size}}}"
            remark = "all where there are fewer"
        elif scheme.amount_key:
            amount[scheme.amount_key] = scheme.amount
            remark = f"rate {'' if scheme.is_allocated else limit}{_rounded_text(level.rate)}"
            if scheme.is_shuffled:
                remark = f"{limit}{scheme.steps_of_a_pass(level.count)} steps a pass"
        period = level.redraw_every if level.redraw_every > 1 else None
        draw = _mapping_text({"scheme": scheme.name, **amount, **scheme.options, "redraw_every": period})
        sampling.append(f"{quoted(level.name)}: {draw}{remark and f'  # {remark}'}")
    mechanism: dict[str, object] = {"type": phase.mechanism.name}
    mechanism |= {
        key: value for key, value in phase.mechanism.parameters.items() if key != "also" and value != math.inf
    }
    also = [
        _mapping_text({"noise_multiplier": each} if isinstance(each, float) else each._asdict())
        for each in getattr(phase.mechanism, "also", ())
    ]
    if (asked := phase.calibration) is not None:
        target = f"{{epsilon: {_value_text(asked.epsilon)}, delta: {_value_text(asked.delta)}}}"
        mechanism["noise_multiplier"] = f"{{calibrated_to: {target}, by: {asked.by}, {asked.assuming}}}"
    mechanism |= {
        "also": f"[{', '.join(also)}]" if also else None,
        "votes": quoted(phase.votes) if phase.votes else None,
        "clip": quoted(phase.clip_names[phase.clip]) if phase.clips else None,
    }
    lines = [f"  {line}" for line in sampling]
    return ["sampling:", *lines, f"mechanism: {_mapping_text(mechanism)}", f"training: {{steps: {phase.steps}}}"]


def _mapping_text(entries: Mapping[str, object]) -> str:
    """Return a YAML mapping in braces of keys and their values, without those that are None."""
    return f"{{{', '.join(f'{key}: {_value_text(x)}' for key, x in entries.items() if x is not None)}}}"


def _value_text(value: object) -> str:
    """Return a number (the shortest decimal that means the float), a YAML text or a list of such as YAML."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value_text, value))}]"
    if isinstance(value, str):
        return value
    return "true" if value is True else scalars.decimal_text(Fraction(repr(value))) or repr(value)


def quoted(word: str) -> str:
    """Return a text as a YAML value, in double quotes where YAML would not read it as this text."""
    unquoted = Scalar(text=word, mark=_NO_MARK)
    is_text = _WORD.fullmatch(word) and isinstance(scalars.value(unquoted), str) and word.lower() not in _YAML_1_1
    return word if is_text else json.dumps(word, ensure_ascii=False)


def _rounded_text(number: Fraction) -> str:
    """Return an integer, or 6 significant digits, for a remark."""
    return str(number.numerator) if number.denominator == 1 else f"{float(number):.6g}"


# The hash of a plan, for lock files and change reports. Its bytes must stay the same for ever: lock files outlive
# versions. So keys such as "least" stay, whatever the attributes are called (tests/config/test_normal.py).


def fingerprint(plan: Plan) -> str:
    """Return the SHA-256 in hex of everything that decides the guarantee and the budget.

    The names of the run and of its phases are labels and do not count. Fields are listed one by one: a field that a
    later version adds must stay out of the hash while it has its default, so that a lock file outlives an update.
    """
    phases: list[dict[str, object]] = []
    for phase in plan.phases:
        levels = []
        for level in phase.hierarchy.levels:
            scheme = level.scheme
            content: dict[str, object] = {
                "name": level.name,
                "count": level.count,
                "least": level.min_count,
                "scheme": scheme.name,
                "amount": str(Fraction(scheme.probability)) if scheme.amount_key == "rate" else scheme.amount,
                "at_most": scheme.at_most,
                "redraw_every": level.redraw_every,
                **scheme.options,
            }
            usual = {"least": level.count, "at_most": False, "redraw_every": 1}
            levels.append({key: value for key, value in content.items() if key not in usual or value != usual[key]})
        # A promise whose relation is that of the run is as one without a relation, which older versions lack; they
        # lack `also` too.
        left_out = {"relation"} if getattr(phase.mechanism, "relation", None) in {None, plan.adjacency} else set()
        identity = {
            key: _exact_value(value)
            for key, value in phase.mechanism.identity.items()
            if key not in left_out and (key != "also" or value)
        }
        if (asked := phase.calibration) is not None:  # the noise that follows may get closer in later versions
            target = {"epsilon": asked.epsilon.hex(), "delta": asked.delta.hex(), "by": asked.by}
            identity["noise_multiplier"] = target | {"rate": str(asked.rate), "steps": asked.steps}
        hierarchy = phase.hierarchy
        content = {
            "levels": levels,
            **({"episodes": asdict(hierarchy.episodes)} if hierarchy.episodes else {}),
            **({"tree": hierarchy.tree.digest} if hierarchy.tree else {}),
            "mechanism": phase.mechanism.name,
            **identity,
            "clip": phase.clip,
            "steps": phase.steps,
        }
        phases.append(content)
    budget, tuning = plan.budget, plan.tuning
    rise = None if budget is None else budget.max_increase_pct
    limits = budget and {"epsilon": budget.epsilon.hex(), "max_increase_pct": None if rise is None else rise.hex()}
    runs_law = tuning and {
        "distribution": tuning.distribution,
        "mean": tuning.mean.hex(),
        "shape": tuning.shape.hex(),
    }
    content = {
        "phases": phases,
        "unit": plan.unit,
        **({"group_size": plan.group_size} if plan.group_size > 1 else {}),
        "adjacency": plan.adjacency.value,
        "delta": plan.delta.hex(),
        "method": plan.method,
        **({"tuning": runs_law} if runs_law else {}),
        **({"parts": [phase.part for phase in plan.phases], "rule": plan.partition.rule} if plan.partition else {}),
        "budget": limits,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _exact_value(value: object) -> object:
    """Return a parameter for the hash: a number as hexadecimal float, a word as it is, a tuple as a list."""
    if isinstance(value, tuple):
        return [_exact_value(each) for each in value]
    return value if isinstance(value, str) else float(value).hex()  # type: ignore[arg-type]  # what else there is


# The terms in which a config states sizes and lengths, so that a solver answers in the same terms.


class StatedTerms(NamedTuple):
    """Terms in which a config states how one phase draws and how long it is."""

    amount: str  # "batch_size" or "expected" if that is how a whole number of units of a Poisson step is stated, or ""
    epochs: Fraction | None  # the length in passes if the config states that


def stated_terms(root: Section, number: int, hierarchy: Hierarchy) -> StatedTerms:
    """Return the terms of a phase: how the user states the outermost draw but `all`, and the length."""
    sections, amount = runs(root)[number].sections, ""
    level = next((level for level in hierarchy.levels if not level.scheme.is_whole), None)
    if level is not None and level.scheme.amount_key == "rate":
        node = node_at(sections, "sampling", level.name, "expected")
        stated = _stated_number(node)
        if node is not None and stated is not None and stated.denominator == 1:
            amount = node.name  # the value keeps the path at which the user wrote it
    return StatedTerms(amount=amount, epochs=_stated_number(node_at(sections, "training", "epochs")))


def assumes_in_phases(root: Section, section: str, name: str) -> tuple[bool, ...]:
    """Return for each phase True if its value of a key was assumed and not stated by the user."""
    nodes = (entry(run.sections.entries.get(section), name) for run in runs(root))
    return tuple(isinstance(node, Scalar) and node.mark.source.path == ASSUMED for node in nodes)


def _stated_number(node: Node | None) -> Fraction | None:
    """Return the number that the user states; None for anything else, and for an assumed number."""
    if not isinstance(node, Scalar) or node.mark.source.path == ASSUMED:
        return None
    return scalars.number_of(node)
