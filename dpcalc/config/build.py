"""From a tree to the plan: sections by their declarations, contradictions between them, the plan, and remarks.

A config is judged in two rounds. First each section is read by itself, so that errors in one hide none in another. Once
all are right, what they say about each other is judged, with every value at hand. What a constructor of the plan checks
is checked there, and raised with the key that is wrong; here it gets its place in the file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import zip_longest
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dpcalc.amplification.groups import group_refusal, max_group_size, units_left
from dpcalc.config import scalars
from dpcalc.config.data_files import READERS, data_tree
from dpcalc.config.expand import ASSUMED, Run, is_direct_draw, level_names, runs
from dpcalc.config.files import Files
from dpcalc.config.loaders import LOADER, delta_written_out
from dpcalc.config.messages import (
    DRAW_FORM,
    extra_key_error,
    key_suggestion,
    keyed_error,
    missing_key_error,
    must_be,
    nearest,
    no_levels_error,
    no_number,
    section_kind,
    sections_meant,
    unknown_key_error,
    value_meaning,
    wrong_type_error,
    wrong_word_error,
)
from dpcalc.config.scalars import AMOUNT_KEYS, AT_MOST, BATCH, BATCH_SIZE, DRAW_KEYS, DRAW_SIZE, EPISODES, EVERY, LABEL
from dpcalc.config.schema import DRAW, MAX_PHASES, NOISE, SCHEMES, draw_keys, keys_in, mechanism_keys
from dpcalc.config.source import ConfigError, Diagnostic, Severity, error, finding, whole_file
from dpcalc.config.tree import (
    Items,
    Node,
    Scalar,
    Section,
    entries_of,
    entry,
    items_of,
    node_at,
    text_at,
    with_entries,
    without_keys,
)
from dpcalc.errors import InputError, KeyedInputError
from dpcalc.guarantee import Adjacency
from dpcalc.keys import COUNT, MAX_COUNT, Key, ListOf, Structure, ValueType, Word, WrongValueError, keys_of
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.mechanisms.kinds import MECHANISMS, Mechanism, mechanism_class
from dpcalc.planner.calibration import CLASSICAL, Calibration, classical_noise
from dpcalc.planner.plan import Budget, Partition, Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import (
    MAX_RECORDS,
    TASK,
    Episodes,
    Hierarchy,
    Level,
    Tree,
    draw_faults,
    episode_faults,
    name_faults,
    size_faults,
)
from dpcalc.sampling.schemes import SCHEMES as CLASSES
from dpcalc.sampling.schemes import AnyOrder, BallsInBins, Fixed, Poisson, RandomAllocation

if TYPE_CHECKING:  # it loads numpy
    from dpcalc.planner.tuning import Repetitions

SINGLE_PHASE = "training"  # name of the only phase of a file without `phases`

# Sections as they were read have an attribute for each of their keys (`schema`), of the type that the key has.


@dataclass(frozen=True, kw_only=True)
class RunSections(Run):
    """One phase, and what its sections say."""

    draws: dict[str, SimpleNamespace]  # by level; {} for constructed tasks
    episodes: Episodes | None
    mechanism: Mechanism
    clip: str | None  # name of the clipping level, where one is stated
    votes: str  # the file with the votes of teachers as written, or ""
    asked: SimpleNamespace | None  # of a library, where the noise is what it found
    training: SimpleNamespace

    def node(self, *keys: str) -> Node | None:
        """Return the value at a path of keys in this phase, inherited sections included; None if there is none."""
        return node_at(self.sections, *keys)


@dataclass(frozen=True, kw_only=True)
class Sections:
    """A config whose sections are all right by themselves."""

    root: Section  # the file in its long form
    names: tuple[str, ...]  # of the levels, outermost first
    levels: tuple[tuple[str, int, int], ...]  # (name, fewest, most) units of each level under one parent
    tree: Tree | None
    privacy: SimpleNamespace
    method: str
    budget: Budget | None
    tuning: SimpleNamespace | None
    partition: SimpleNamespace | None
    runs: tuple[RunSections, ...]

    def max_units(self, depth: int) -> int:
        """Return the largest number of units that a level has in all data."""
        return sum(self.tree.sizes[depth - 1]) if self.tree else prod(most for _, _, most in self.levels[:depth])


class _Reader:
    """What its methods return is whole only if `errors` is empty in the end; wrong values are None until then."""

    def __init__(self, root: Section, files: Files) -> None:
        self.errors: list[Diagnostic] = []
        self.files = files
        # What data files hold, by the identity of the node that names one: phases that inherit it share the node.
        # Errors are kept too: a thousand phases that inherit a wrong file must not read it a thousand times.
        self.contents: dict[int, object] = {}
        self.names = level_names(root)  # None if the file states none
        # Sections that unknown keys of the file and its phases probably mean are not called missing.
        phases = items_of(root.entries.get("phases"))
        phase_keys = [key for phase in phases if isinstance(phase, Section) for key in phase.entries]
        self.meant = sections_meant(root.entries) | sections_meant(phase_keys, "phases[]")

    def file(self, root: Section) -> Sections:
        """Return the sections of the file; ConfigError with one error for each mistake in them."""
        phases = root.entries.get("phases")
        mappings: tuple[Node, ...] = (root,)
        if isinstance(phases, Items):
            mappings += phases.items
            if not 1 <= len(phases.items) <= MAX_PHASES:
                message = f"must hold 1 to {MAX_PHASES} phases, got {len(phases.items)}"
                self.errors.append(phases.fault("DPC106", message))
        elif phases is not None:
            self.errors.append(wrong_type_error(phases, "a list of phases"))
        for mapping in mappings:
            if not isinstance(mapping, Section):
                self.errors.append(wrong_type_error(mapping, "a mapping"))
                continue
            for key, value in entries_of(mapping).items():
                if mapping.path and key in keys_in("") and key not in keys_in("phases[]"):
                    message = f"`{key}` cannot change between phases"
                    self.errors.append(error("DPC104", value.start, message, "move it to the top level"))
                elif key not in keys_in("phases[]" if mapping.path else ""):
                    self.errors.append(unknown_key_error(mapping, key, value))
                if key in {"name", "part"}:  # with which it is printed
                    self.value(LABEL, value, key)
        data = self.section("data", self.required(root, "data"))
        tree, stated_tree = None, node_at(root, "data", "tree")
        if self.names and stated_tree is not None:
            try:
                tree = data_tree(stated_tree, self.names, self.files)
            except ConfigError as cause:
                self.errors.extend(cause.diagnostics)
        # Each level has one size, a count or a range; none beside a tree, which has them all. A tree over one level is
        # an error by itself.
        levels = items_of(node_at(root, "data", "levels"))
        for level in levels if stated_tree is None or len(levels) > 1 else ():
            stated = {key: node for key, node in entries_of(level).items() if key in {"count", "min", "max"}}
            count = stated.get("count")
            if stated_tree is not None:
                for key, node in stated.items():
                    message = f"`{key}` in `{level.path}` and `data.tree` both say how many there are"
                    self.errors.append(error("DPC107", node.start, message, "with a tree the levels have names only"))
            elif isinstance(count, Scalar) and len(stated) > 1:
                others = " and ".join(f"`{key}`" for key in stated if key != "count")
                message = f"`count` and {others} in `{level.path}` both say how many there are"
                self.errors.append(error("DPC107", count.start, message, "keep one of them"))
            elif (
                count is None and isinstance(level, Section) and not {*entries_of(level)} - {*keys_in("data.levels[]")}
            ):
                missing = ("min", "max") if stated else ("count",)
                self.errors.extend(missing_key_error(level, key) for key in missing if key not in stated)
                fewest, largest = (scalars.number_of(stated.get(key)) for key in ("min", "max"))
                if fewest is not None and largest is not None and fewest > largest:
                    problem = f"is {fewest}, more than the {largest} of `max`"
                    self.errors.append(stated["min"].fault("DPC106", problem, "check both numbers"))
        if phases is not None:
            # What is missing at the top may stand in the phases.
            before = len(self.errors)
            self.run(runs(without_keys(root, "phases"))[0], is_whole=False)
            self.errors[before:] = [each for each in self.errors[before:] if each.code != "DPC103"]
        all_runs = tuple(self.run(run, is_whole=True) for run in runs(root))
        stated_privacy = self.required(root, "privacy")
        if isinstance(stated_privacy, Section) and isinstance(entry(stated_privacy, "delta"), Section):
            try:
                units: int | None = 2  # the fewest protected ones that the data can have, where the data are right
                if data is not None:
                    unit, names = text_at(stated_privacy, "unit"), [level.name for level in data.levels]
                    number = names.index(unit) + 1 if unit in names else 1
                    counts = [level.count or level.min for level in data.levels[:number]]
                    counts = [sum(tree.sizes[number - 1])] if tree else counts
                    is_known = all(counts) and not has_assumed_sizes(root) and (unit in names or len(names) == 1)
                    units = prod(counts) if is_known else None
                delta = delta_written_out(stated_privacy.entries["delta"], units)
                stated_privacy = with_entries(stated_privacy, {"delta": delta} if delta else {})
            except ConfigError as cause:
                self.errors.extend(cause.diagnostics)
                stated_privacy = None
        privacy = self.section("privacy", stated_privacy)
        accounting, budget, tuning, partition = (
            self.section(name, root.entries.get(name)) for name in ("accounting", "budget", "tuning", "partition")
        )
        if self.errors:
            raise ConfigError(self.errors)
        return Sections(
            root=root,
            names=tuple(level.name for level in data.levels),
            levels=tuple(
                (level.name, min(sizes), max(sizes))
                if sizes
                else (level.name, level.count or level.min, level.count or level.max)
                for level, sizes in zip_longest(data.levels, tree.sizes if tree else ())
            ),
            tree=tree,
            privacy=privacy,
            method=accounting.method if accounting else str(keys_in("accounting")["method"].default),
            budget=budget and Budget(**_as_floats(vars(budget))),
            tuning=tuning,
            partition=partition,
            runs=all_runs,
        )

    # Values by their declaration.

    def value(self, kind: ValueType, node: Node, name: str) -> Any:
        """Return a node as its type reads it: as it is, a tuple of sections, or a scalar's value."""
        if isinstance(kind, Structure):
            return node
        if isinstance(kind, ListOf):
            if not isinstance(node, Items):
                self.errors.append(wrong_type_error(node, kind.form))
                return None
            before = len(self.errors)
            items = tuple(self.mapping(keys_of(kind.item), item) for item in node.items)
            if len(self.errors) == before and not kind.min_length <= len(items) <= kind.max_length:
                self.errors.append(node.fault("DPC106", f"must hold {kind.length_words}, got {len(items)}"))
            return items
        if kind is DRAW_SIZE and entries_of(node).keys() == {AT_MOST}:
            size = self.value(COUNT, entries_of(node)[AT_MOST], AT_MOST)
            return size and Fixed(size=size, at_most=True)
        try:
            return scalars.checked(kind, node)
        except WrongValueError as cause:
            if isinstance(kind, Word):
                wrong = wrong_word_error(name, node, kind.allowed)
            elif cause.code == "DPC102":
                wrong = wrong_type_error(node, cause.expected)
            else:
                wrong = must_be(cause.code, node, cause.expected, no_number(name, getattr(node, "text", "")))
            if name == "size" and kind is COUNT and entry(node, AT_MOST):
                wrong = replace(wrong, hint="`at_most` is for scheme fixed")
            self.errors.append(wrong)
            return None

    def values(self, keys: Mapping[str, Key], node: Node) -> dict[str, Any]:
        """Return the values of stated keys; one error for each wrong, unknown, missing or misspelt key."""
        if not isinstance(node, Section):
            self.errors.append(wrong_type_error(node, "a mapping"))
            return {}
        # A missing key next to its misspelling is one mistake, and gets one error: that about the unknown key.
        extra = [name for name in entries_of(node) if name not in keys]
        kind = section_kind(node.path)
        values: dict[str, Any] = {}
        for name, key in keys.items():
            if name in node.entries:
                values[name] = self.value(key.kind, node.entries[name], name)
            elif key.is_required and not any(
                other in AMOUNT_KEYS or key_suggestion(kind, other).key == name for other in extra
            ):
                self.errors.append(missing_key_error(node, name, key.advice))
        self.errors.extend(extra_key_error(node, name, node.entries[name]) for name in extra)
        return values

    def mapping(self, keys: Mapping[str, Key], node: Node) -> Any:
        """Return the values of a section, defaults included; None if it is wrong."""
        before = len(self.errors)
        values = {name: key.default for name, key in keys.items()} | self.values(keys, node)
        return SimpleNamespace(**values) if len(self.errors) == before else None

    def section(self, kind: str, node: Node | None) -> Any:
        """Return a section of a kind of `SECTIONS`; None if it is absent or wrong."""
        if node is None:
            return None
        # Short forms are written out before, so that one which is left over is an unknown key.
        return self.mapping({name: key for name, key in keys_in(kind).items() if not key.is_short_form}, node)

    def required(self, parent: Section, key: str) -> Node | None:
        """Return a section of a file or phase; missing, it is an error unless an unknown key probably means it."""
        if key not in parent.entries and key not in self.meant:
            self.errors.append(missing_key_error(parent, key))
        return parent.entries.get(key)

    def check_choice(self, section: Section, keys: tuple[str, str], hint: str, *, is_required: bool) -> None:
        """Add DPC107 if a section states both of two keys, DPC103 if it must state one of them and does not."""
        stated = [key for key in section.entries if key in keys]
        if len(stated) > 1:
            message = f"`{keys[0]}` and `{keys[1]}` in `{section.path}` both say the same thing"
            self.errors.append(error("DPC107", section.entries[stated[-1]].start, message, "keep one of them"))
        elif not stated and is_required:
            self.errors.append(section.fault("DPC103", f"needs `{keys[0]}` or `{keys[1]}`", hint))

    # The sections.

    def run(self, run: Run, *, is_whole: bool) -> RunSections:
        """Return the sections of a phase; `is_whole` is False for the top level, which phases complete."""
        mechanism, clip, votes, asked = self.mechanism(run)
        draws, episodes = self.sampling(run, is_whole=is_whole)
        training, names = self.required(run.sections, "training"), self.names or ()
        if not isinstance(training, Section):
            length = self.section("training", training)
        else:
            size = training.entries.get(BATCH_SIZE)  # with one level it is moved into the draw before
            if size and len(names) > 1:
                several = f"these have {len(names)} ({', '.join(names)})"
                message = f"`batch_size` is for data with one level, and {several}"
                hint = f"write `size` or `expected` in `sampling.{names[0]}`"
                self.errors.append(error("DPC107", size.start, message, hint))
            length = self.section("training", without_keys(training, BATCH_SIZE))
            if is_whole:
                self.check_choice(training, ("steps", "epochs"), "e.g. `steps: 10_000`", is_required=length is not None)
        return RunSections(
            **vars(run),
            draws=draws,
            episodes=episodes,
            mechanism=mechanism,
            clip=clip,
            votes=votes,
            asked=asked,
            training=length,
        )

    def sampling(self, run: Run, *, is_whole: bool) -> tuple[dict[str, SimpleNamespace], Any]:
        """Return the draws by level, and how tasks are constructed or None."""
        sampling, names = self.required(run.sections, "sampling"), self.names or ()
        stated, draws = entry(sampling, EPISODES), dict[str, SimpleNamespace]()
        if sampling is None:
            return draws, None
        if not isinstance(sampling, Section):
            form = DRAW_FORM if isinstance(sampling, Scalar) else "a mapping"
            self.errors.append(wrong_type_error(sampling, form))
            return draws, None
        if stated is not None:
            for key, node in entries_of(without_keys(sampling, EPISODES)).items():
                message = f"`{key}` and `{EPISODES}` in `{sampling.path}` both say how a step draws"
                hint = "tasks are constructed from whole levels; keep one"
                self.errors.append(error("DPC107", node.start, message, hint))
            try:
                episodes = self.section("sampling.episodes", stated)
                return draws, episodes and Episodes(**vars(episodes))
            except KeyedInputError as cause:
                self.errors.append(keyed_error(sampling, cause))
                return draws, None
        misread = no_levels_error(sampling, names, is_direct=bool(names) and is_direct_draw(sampling, names))
        if misread:
            self.errors.append(misread)
            return draws, None
        for name, node in entries_of(sampling).items():
            before, scheme, word = len(self.errors), entry(node, "scheme"), text_at(node, "scheme")
            if not isinstance(node, Section):
                self.errors.append(wrong_type_error(node, DRAW_FORM))
            elif scheme is None:  # one error for it, or that of the unknown key which means it
                unknown = [key for key in entries_of(node) if key not in {*DRAW_KEYS, BATCH_SIZE}]
                self.errors.extend(unknown_key_error(node, key, node.entries[key]) for key in unknown)
                if not any(key_suggestion("sampling", key).key == "scheme" for key in unknown):
                    self.errors.append(missing_key_error(node, "scheme"))
            elif word == LOADER or isinstance(entry(node, BATCH_SIZE), Section):  # left over: something is wrong
                self.errors.extend(run.faults.get(name, ()))
            elif word not in SCHEMES:
                self.errors.append(wrong_word_error("scheme", scheme, (*SCHEMES, LOADER)))
            else:
                values = self.values(draw_keys(word), node)
                draws[name] = SimpleNamespace(**{key: each.default for key, each in DRAW.items()} | values)
                if is_whole and name in names and "expected" in SCHEMES[word]:
                    hint = "`expected` is the average number drawn: rate = expected / count"
                    self.check_choice(node, ("rate", "expected"), hint, is_required=len(self.errors) == before)
        return draws, None

    def mechanism(self, run: Run) -> tuple[Any, str | None, str, Any]:
        """Return the mechanism, with data files read, and what a phase holds: clipping level, votes, calibration."""
        node = self.required(run.sections, "mechanism")
        stated = entry(node, "type")
        name = text_at(node, "type") if stated else "gaussian"
        before, asked, nothing = len(self.errors), None, (None, None, "", None)
        if node is not None and stated is not None and name not in MECHANISMS:
            self.errors.append(wrong_word_error("type", stated, tuple(MECHANISMS)))
        else:
            self.errors.extend(run.faults.get(None, ()))
        if node is None or len(self.errors) > before:
            return nothing
        keys = mechanism_keys(name)
        noise = entry(node, "noise_multiplier")
        if isinstance(node, Section) and isinstance(noise, Section) and name == Gaussian.name:
            asked = self.section(NOISE, noise)
            for inner in ("calibrated_to", "assuming") if asked else ():
                setattr(asked, inner, self.section(f"{NOISE}.{inner}", getattr(asked, inner)))
            node = without_keys(node, "noise_multiplier")
            keys = {key: each for key, each in keys.items() if key != "noise_multiplier"}
        values = self.values(keys, node)
        values |= {"noise_multiplier": Fraction(1)} if asked else {}  # `build` puts in what the library found
        try:
            for key, read in READERS.items():  # the data replace the nodes that state them
                data = entry(node, key) if key in keys else None
                if data is None:
                    continue
                if id(data) not in self.contents:
                    try:
                        self.contents[id(data)] = read(data, self.files)
                    except ConfigError as cause:
                        self.contents[id(data)] = cause
                content = self.contents[id(data)]
                if isinstance(content, ConfigError):
                    raise content
                values[key] = content
            if len(self.errors) > before:
                return nothing
            values.pop("type", None)
            clip, votes = values.pop("clip", None), values.pop("votes", "")
            return mechanism_class(name).of(**_as_floats(values)), clip, votes, asked
        except ConfigError as cause:
            self.errors.extend(cause.diagnostics)
        except KeyedInputError as cause:
            self.errors.append(keyed_error(node, cause))
        return nothing


def _as_floats(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with exact numbers as floats, for classes that compute with them."""
    return {key: float(value) if isinstance(value, Fraction) else value for key, value in values.items()}


# Contradictions.


def valid_sections(root: Section, files: Files) -> Sections:
    """Return the sections of a file; ConfigError with all errors in them or, without any, all between them."""
    config = _Reader(root, files).file(root)
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
    if config.max_units(len(names)) > MAX_RECORDS:  # every count may be valid while their product is not
        (*_, last), tree = items_of(entry(data, "levels")), entry(data, "tree")
        place = tree or entry(last, "count") or entry(last, "max") or root
        yield error("DPC106", place.anchor, f"more than {MAX_RECORDS:.0e} records in all", "check the counts")

    unit = entry(privacy, "unit")
    if not isinstance(unit, Scalar):
        if len(names) > 1:
            message = f"`privacy.unit` is missing: the data have {len(names)} levels ({', '.join(names)})"
            yield error("DPC103", privacy.anchor, message, f"say what is protected, e.g. `unit: {names[0]}`")
    elif unit.text == TASK and any(run.episodes for run in config.runs):
        problem = f"is `{TASK}`, but tasks are constructed anew in every step: a record sits in many of them"
        hint = f"hiding one task hides nobody; protect {' or '.join(f'`{name}`' for name in names)}"
        yield unit.fault("DPC206", problem, hint)
    elif unit.text == EVERY:
        hint = f"choose one of {', '.join(names)}; `dpcalc epsilon --unit all` tells of each"
        yield unit.fault("DPC108", f"must name one level, got `{EVERY}`", hint)
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
            yield error("DPC107", shape.start, message, "take it out")
    if tuning is not None and method is not None and config.method not in {"auto", "rdp"}:
        yield must_be("DPC107", method, "auto or rdp beside `tuning`", "only rdp bounds the best of several runs")

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
                problem = f"is `{TASK}`, which is what `sampling.{EPISODES}` constructs from the levels"
                yield node.fault("DPC107", problem, "the levels are the classes and their records: name them so")
    unknown = [name for name in run.draws if name not in names]
    for name in unknown:
        node, near = node_at(sampling, name) or sampling, nearest(name, names)
        hint = f"did you mean `{near}`?" if near else f"the levels are {', '.join(names)}"
        message = f"`{sampling.path}.{name}`: there is no level `{name}`"
        yield error("DPC108", node.start, message, hint)
    if not run.episodes and not unknown and names[0] not in run.draws:
        message = f"`{sampling.path}.{names[0]}` is missing: how the outermost level is drawn is never assumed"
        hint = f"e.g. `{names[0]}: {{scheme: poisson, rate: 0.01}}`"
        hint += "; levels are listed outermost first: is their order right?" if run.draws else ""
        yield error("DPC103", sampling.anchor, message, hint)
    tasks = {TASK: f"`{TASK}` clips each constructed task"} if run.episodes else {}
    others = tasks | {BATCH: f"`{BATCH}` clips the whole batch as one vector"}
    clip = run.node("mechanism", "clip")
    if isinstance(clip, Scalar) and clip.text not in (*names, *others):
        yield _unknown_level_error(clip, names, others)
    elif clip is not None and run.episodes and len(names) == 2 and run.clip == names[0]:
        problem = f"is `{names[0]}`, which can be in several tasks of a step and has no vector of its own"
        hint = f"`clip: {TASK}` clips each constructed task, `clip: {names[1]}` each {names[1]} in it"
        yield clip.fault("DPC107", problem, hint)

    # Sizes that do not fit the data. What the draws of all levels say together can be judged without such errors only.
    wrong: list[Diagnostic] = []
    passed: tuple[str, str, bool] = ("", "", False)  # first level that is not drawn whole, its scheme, if it varies
    for number, (name, fewest, largest) in enumerate(config.levels, start=1):
        draw = run.draws.get(name)
        if draw is None:
            continue
        if draw.scheme != "all" and not passed[0]:
            passed = name, draw.scheme, fewest < largest and not config.tree
        size, expected = (node_at(sampling, name, key) for key in ("size", "expected"))
        if size is not None and isinstance(draw.size, int) and not CLASSES[draw.scheme].can_repeat:
            smallest = config.tree.smallest_parent(number) if config.tree else ""
            can_fall_short = CLASSES[draw.scheme].has_stand_in
            advice = f"; `size: {{{AT_MOST}: N}}` takes all of a smaller one" if can_fall_short else ""
            faults = size_faults(name, draw.size, fewest, largest, smallest_parent=smallest)
            wrong += (size.fault(fault.code, fault.problem, f"{fault.hint}{advice}") for fault in faults)
        if expected is not None:
            # The rate of a Poisson draw refers to the largest parent, see `levels_of`; a step draws from one group.
            group = Fraction(largest, draw.groups)
            faults = size_faults(name, draw.expected, group, group)
            wrong += (expected.fault(fault.code, fault.problem, fault.hint) for fault in faults)
            if fewest < largest:
                message = f"`{expected.path}` gives no rate: level `{name}` has {fewest} to {largest} units under one "
                hint = "state `rate`, which is the same for all of them"
                wrong.append(error("DPC107", expected.start, f"{message}parent", hint))
        if draw.draws > 1 and draw.max_batch_size is not None:
            node = node_at(sampling, name, "max_batch_size")
            problem = f"cuts one batch, and `draws` adds up {draw.draws}: no bound is proved for the sum of cut batches"
            wrong.append((node or sampling).fault("DPC107", problem, "keep one of them"))
    yield from wrong
    if not wrong:
        levels = levels_of(run, config)
        yield from (keyed_error(sampling, fault) for fault in draw_faults(levels, run.training.steps))
        if run.episodes:
            yield from (keyed_error(sampling, fault) for fault in episode_faults(run.episodes, levels, config.tree))

    # Epochs are passes over the first level that is not drawn whole: its draw must make a known number of them.
    epochs, (name, scheme, varies) = run.node("training", "epochs"), passed
    reason = "constructed tasks make no passes over the data" if run.episodes else ""
    if scheme == RandomAllocation.name and not config.tree:
        reason = "random-allocation chooses among steps, not passes"
    elif varies and scheme not in {Poisson.name, BallsInBins.name}:
        reason = f"nobody knows how many of level `{name}` there are"
    elif scheme == AnyOrder.name and name == names[0]:
        reason = "batches in any order make no passes"
    if reason and epochs is not None:
        message = f"`{epochs.path}` is no number of steps: {reason}"
        yield error("DPC107", epochs.start, message, "state `steps`")


def _unknown_level_error(node: Scalar, levels: tuple[str, ...], others: dict[str, str]) -> Diagnostic:
    """Return DPC108 for a word that is no level; it hints at the nearest, or at all levels and what `others` mean."""
    near = nearest(node.text, (*levels, *others))
    also = f"; {', '.join(others.values())}" if others else ""
    hint = f"did you mean `{near}`?" if near else f"the levels are {', '.join(levels)}{also}"
    hint = value_meaning(node.name, node.text) or hint
    return node.fault("DPC108", f"must name a level, got {scalars.describe(node)}", hint)


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
                    problem = f"makes more than {MAX_COUNT:.0e} steps"
                    raise epochs.config_error("DPC106", problem, "check the epochs and the rate")
            phase = Phase(
                name=(text_at(run.at, "name") or f"phase {number}") if run.path else SINGLE_PHASE,
                hierarchy=hierarchy,
                mechanism=run.mechanism,
                clip=len(levels),
                steps=steps,
                votes=run.votes,
                part=text_at(run.at, "part") if run.path else "",
            )
            # Clipping is counted in levels from the outermost, 0 for the whole batch.
            phase = phase if run.clip is None else replace(phase, clip=phase.clip_names.index(run.clip))
            phases.append(_with_found_noise(phase, run, delta=float(privacy.delta)))
        # Without a budget the target is the gate, where it is one of the whole run at the delta of the config.
        budget, found = config.budget, phases[0].calibration
        if budget is None and found and len(phases) == 1 and found.delta >= float(privacy.delta):
            budget = Budget(epsilon=found.epsilon)
        plan = Plan(
            name=text_at(root, "name"),
            phases=tuple(phases),
            unit=config.names.index(privacy.unit) + 1 if privacy.unit else 1,
            adjacency=privacy.adjacency or Adjacency.ADD_REMOVE,
            delta=float(privacy.delta),
            group_size=privacy.group_size,
            budget=budget,
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
        for summed_fault in phase.summed_faults(plan.unit):
            raise ConfigError([keyed_error(run.sections, summed_fault)])
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
        from dpcalc.mechanisms.black_box import PateMechanism

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
        problem = f"is {size}, but at most {max_size} of level `{plan.unit_name}` can be "
        problem += "removed together" if left else "protected together: there are no more"
        hint = f"a step must find {left} of those that are left; " if left else ""
        raise group.config_error("DPC106", problem, f"{hint}lower it, or check the counts")
    return plan


def _with_found_noise(phase: Phase, run: RunSections, *, delta: float) -> Phase:
    """Return the phase with the least noise that the library can have found; ConfigError where nothing bounds it."""
    asked, noise = run.asked, run.node("mechanism", "noise_multiplier")
    if asked is None or noise is None:
        return phase
    level, is_opacus, told, target = phase.hierarchy.level(1), "opacus" in asked.by, asked.assuming, asked.calibrated_to
    if asked.by == CLASSICAL:
        if told is not None or target.delta is None:
            why = "takes `calibrated_to: {epsilon: E, delta: D}` of one release, and no `assuming`"
            raise ConfigError([noise.fault("DPC103", why, "state both as the code has them")])
        return phase.with_noise(classical_noise(epsilon=float(target.epsilon), delta=float(target.delta)))
    if told is None:
        rate, steps, epochs = level.scheme.share(level.count), phase.steps, run.training.epochs
        is_flat = phase.hierarchy.depth == level.redraw_every == 1 and isinstance(level.scheme, Poisson)
        if run.path or not is_flat or (is_opacus and rate.numerator != 1):
            why = "libraries are told of Poisson draws of examples, in one phase, Opacus at the rate 1 / len(loader)"
            hint = "add `assuming: {rate: 1/BATCHES, steps: N}` beside `by`, what the library was told"
            raise noise.config_error("DPC103", f"lacks `assuming`: {why}", hint)
        if is_opacus and epochs is not None:  # Opacus: int(epochs / sample_rate)
            steps = min(steps, int(float(epochs) / float(rate)))
        told = SimpleNamespace(rate=rate, steps=steps)
    delta = delta if target.delta is None else float(target.delta)
    found = Calibration(epsilon=float(target.epsilon), delta=delta, by=asked.by, rate=told.rate, steps=told.steps)
    try:
        return replace(phase.with_noise(found.noise), calibration=found)
    except InputError as cause:
        raise noise.config_error("DPC104", f"cannot be bounded: {cause}") from cause


def levels_of(run: RunSections, config: Sections, *, steps: int | None = None) -> tuple[Level, ...]:
    """Return a phase's levels with their draws; InputError if the numbers do not fit.

    A random allocation without `steps` spans as many steps as its `times`.
    """
    levels = []
    for name, fewest, largest in config.levels:
        draw = run.draws.get(name, _WHOLE)
        level = Level(
            name=name,
            min_count=fewest,
            count=largest,
            scheme=CLASSES[draw.scheme].of(draw, largest, steps),
            redraw_every=draw.redraw_every,
            is_assumed=has_assumed_sizes(config.root),
        )
        levels.append(level)
    return tuple(levels)


_WHOLE = SimpleNamespace(**{key: each.default for key, each in DRAW.items()} | {"scheme": "all"})


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


def remarks(config: Sections, plan: Plan) -> Iterator[Diagnostic]:
    """Yield the warnings and notes on a valid config, such as an assumed adjacency or a large delta."""
    root, privacy, section = config.root, config.privacy, config.root.entries["privacy"]
    if privacy.adjacency is None:
        hint = "add `adjacency: add-remove`, or replace-one or zero-out"
        in_file = section.mark.source is root.mark.source  # else the section exists only because of a flag
        place = section.anchor if in_file else root.anchor
        yield finding(Severity.NOTE, "DPC204", place, "adjacency not stated, add-remove assumed", hint)

    units, delta = config.max_units(plan.unit), node_at(root, "privacy", "delta")
    count = node_at(root, "data", "levels", 0, "count")
    if delta is not None and has_assumed_sizes(root):
        if isinstance(count, Scalar) and count.origin is not None:
            message = "the number of examples is unknown: whether delta is well below 1 / it is not checked"
            yield finding(Severity.NOTE, "DPC203", delta.anchor, message, "state `examples`")
    elif delta is not None and privacy.delta * units >= 1:
        message = f"delta is at least 1 / {units}, the number of protected units ({plan.unit_name})"
        hint = f"releasing one random {plan.unit_name} in full would satisfy such a delta; choose one well below"
        yield finding(Severity.WARNING, "DPC203", delta.anchor, message, hint)

    rule = node_at(root, "partition", "rule")
    if plan.adjacency is Adjacency.ADD_REMOVE and rule and plan.partition and _BY_POSITION.search(plan.partition.rule):
        message = "the rule goes by position: where one unit is removed, those after it move to other parts"
        hint = "then all parts count; let the unit alone decide its part, e.g. `sha256 of the id, modulo 2`"
        yield finding(Severity.WARNING, "DPC211", rule.anchor, message, hint)

    for phase, run in zip(plan.phases, config.runs, strict=True):
        for level in phase.hierarchy.levels:
            scheme, node = level.scheme, run.node("sampling", level.name, "scheme")
            is_cut = scheme.is_shuffled and scheme.size < level.count
            is_amplified = plan.adjacency is not Adjacency.ADD_REMOVE and scheme.is_secret
            if is_cut and not is_amplified and node is not None:
                message = (
                    "batches are cut from a shuffled order: no amplification; each unit counts in full once a pass"
                )
                hint = (
                    "a loader in which each unit chooses its batch by itself (balls-in-bins, poisson) may cost far "
                    "less; so may this one under zero-out and replace-one, if it keeps what `order: secret` says"
                )
                yield finding(Severity.NOTE, "DPC202", node.anchor, message, hint)
        noise = run.node("mechanism", "noise_multiplier")
        if phase.noise_multiplier == 0 and noise is not None:
            message = "noise_multiplier is 0: without noise there is no privacy, epsilon is infinite"
            yield finding(Severity.WARNING, "DPC207", noise.anchor, message, "set it above 0")
        if phase.calibration and noise is not None:
            hint = f"add `{phase.calibration.assuming}` to hold it: without, the library counts as told of any run here"
            hint = "" if run.asked and run.asked.assuming else hint
            yield finding(Severity.NOTE, "DPC213", noise.anchor, phase.calibration.note, hint)
        for key in ("steps", "epochs"):
            length = run.node("training", key)
            if length is not None and scalars.number_of(length) == 0:
                message = f"{key} is 0: such a run releases nothing, and costs nothing"
                yield finding(Severity.WARNING, "DPC210", length.anchor, message, "state the length of the run")
