"""Validation of every section of a file by its declaration; errors in one section hide no errors in another one."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeVar

from dpcalc.config import scalars
from dpcalc.config.data_files import MechanismFiles, data_tree
from dpcalc.config.expand import Run, base_run, level_names, no_levels_error, runs
from dpcalc.config.files import Files
from dpcalc.config.messages import (
    DRAW_FORM,
    extra_key_error,
    key_suggestion,
    keyed_error,
    missing_key_error,
    missing_scheme_errors,
    section_kind,
    sections_meant,
    unknown_key_error,
    wrong_type_error,
    wrong_value_error,
    wrong_word_error,
)
from dpcalc.config.scalars import AMOUNT_KEYS, AT_MOST, BATCH_SIZE, EPISODES, LABEL, LEVEL_NAME, AtMost, DrawSize
from dpcalc.config.schema import (
    MAX_LEVELS,
    MAX_PHASES,
    SCHEMES,
    Accounting,
    Budget,
    Data,
    Draw,
    Episodes,
    Level,
    Partition,
    Privacy,
    Training,
    Tuning,
    draw_keys,
    keys_in,
    mechanism_keys,
)
from dpcalc.config.source import ConfigError, Diagnostic, error
from dpcalc.config.tree import Items, Node, Scalar, Section, entries_of, entry, node_at, without_keys
from dpcalc.errors import KeyedInputError
from dpcalc.keys import COUNT, Key, ListOf, Structure, ValueType, Word, WrongValueError, keys_of
from dpcalc.mechanisms.kinds import MECHANISMS, Mechanism, mechanism_class
from dpcalc.records import dataclass
from dpcalc.sampling.trees import Tree

M = TypeVar("M")


@contextmanager
def _collected(errors: list[Diagnostic]) -> Iterator[None]:
    """Context manager that adds the errors of a ConfigError in its block to a list instead of raising it."""
    try:
        yield
    except ConfigError as cause:
        errors.extend(cause.diagnostics)


def _read_section(section: type[M], node: Node) -> M:
    """Return a section of the file as its dataclass; raise ConfigError with one error for each mistake."""
    # Short forms are written out before, so that one which is left over is an unknown key.
    long_keys = {name: key for name, key in keys_of(section).items() if not key.is_short_form}
    return section(**_read_values(long_keys, node))


def _read_values(keys: Mapping[str, Key], node: Node) -> dict[str, Any]:
    """Return the values of stated keys; ConfigError with one error for each wrong, unknown, missing or misspelt key."""
    if not isinstance(node, Section):
        raise ConfigError([wrong_type_error(node, "a mapping")])
    # Unknown keys are collected first: a missing key next to its misspelling is one mistake, and gets one error.
    extra = [name for name in entries_of(node) if name not in keys]
    values: dict[str, Any] = {}
    errors: list[Diagnostic] = []
    for name, key in keys.items():
        stated = node.entries.get(name)
        if stated is not None:
            with _collected(errors):
                values[name] = _read_value(key.kind, stated, name)
        elif key.is_required and not _is_explained(name, extra, node):
            errors.append(missing_key_error(node, name, key.advice))
    errors.extend(extra_key_error(node, name, node.entries[name]) for name in extra)
    if errors:
        raise ConfigError(errors)
    return values


def _is_explained(missing: str, extra: Collection[str], section: Section) -> bool:
    """Return True if an unknown key explains the missing one, which then needs no error of its own."""
    # The error about that key then stands for the one about the missing key.
    kind = section_kind(section.path)
    return any(name in AMOUNT_KEYS or key_suggestion(kind, name).key == missing for name in extra)


def _read_value(kind: ValueType, node: Node, name: str) -> Any:
    """Return a node as its type reads it: as it is, a tuple, an AtMost or a scalar's value; ConfigError if wrong."""
    if isinstance(kind, Structure):
        return node
    if isinstance(kind, ListOf):
        return _read_list(kind, node)
    if isinstance(kind, DrawSize) and entries_of(node).keys() == {AT_MOST}:
        return AtMost(size=_read_scalar(COUNT, entries_of(node)[AT_MOST], AT_MOST))
    return _read_scalar(kind, node, name)


def _read_scalar(kind: ValueType, node: Node, name: str) -> Any:
    """Return the value that `kind` makes of a scalar; ConfigError if it refuses it, or another node than a scalar."""
    value = scalars.value(node) if isinstance(node, Scalar) else node
    if getattr(kind, "quotients", False) and isinstance(value, str):
        value = scalars.parse_quotient(value) or value  # 1/97
    try:
        return kind.check(value)
    except WrongValueError as cause:
        raise ConfigError([_refused_value_error(kind, node, name, cause)]) from None


def _refused_value_error(kind: ValueType, node: Node, name: str, cause: WrongValueError) -> Diagnostic:
    """Return the error of a value that `kind` refuses, with advice on a misspelt word or a misplaced `at_most`."""
    if isinstance(kind, Word):
        return wrong_word_error(name, node, kind.allowed)
    wrong = wrong_value_error(node, cause)
    if name == "size" and kind is COUNT and entry(node, AT_MOST):
        return replace(wrong, hint="`at_most` is for scheme fixed")
    return wrong


def _read_list(kind: ListOf, node: Node) -> tuple[object, ...]:
    """Return the mappings in a list as instances of `kind.item`; raise ConfigError for wrong ones or a wrong length."""
    if not isinstance(node, Items):
        raise ConfigError([wrong_type_error(node, kind.form)])
    read: list[object] = []
    errors: list[Diagnostic] = []
    for item in node.items:
        with _collected(errors):
            read.append(_read_section(kind.item, item))
    if not errors and not kind.min_length <= len(read) <= kind.max_length:
        errors = [error("DPC106", node.anchor, f"`{node.path}` must hold {kind.length_words}, got {len(read)}")]
    if errors:
        raise ConfigError(errors)
    return tuple(read)


def _read_draw(node: Node) -> Draw:
    """Return the draw of a level; ConfigError if `scheme` is missing or not known, or its keys or values are wrong."""
    if not isinstance(node, Section):
        raise ConfigError([wrong_type_error(node, DRAW_FORM)])
    scheme = node.entries.get("scheme")
    if scheme is None:
        raise ConfigError(missing_scheme_errors(node))
    if not isinstance(scheme, Scalar) or scheme.text not in SCHEMES:
        raise ConfigError([wrong_word_error("scheme", scheme, tuple(SCHEMES))])
    return Draw(**_read_values(draw_keys(scheme.text), node))


class _MechanismParts(NamedTuple):
    """A mechanism, the name of its clipping level (None: not stated), and its votes file ("": none)."""

    mechanism: Mechanism
    clip: str | None
    votes: str


def _mechanism_parts(node: Node, data: MechanismFiles) -> _MechanismParts:
    """Return the mechanism, clipping level and votes file that a section states; ConfigError with all errors in it."""
    kind = _mechanism_type(node)
    values = _mechanism_values(kind, node, data)
    clip, votes = values.pop("clip", None), values.pop("votes", "")
    try:
        return _MechanismParts(mechanism_class(kind).of(**values), clip, votes)
    except KeyedInputError as cause:
        raise ConfigError([keyed_error(node, cause)]) from None


def _mechanism_type(node: Node) -> str:
    """Return the `type` of a mechanism section, gaussian without one; ConfigError if there is no such type."""
    stated = entry(node, "type")
    if stated is None:
        return "gaussian"
    if not isinstance(stated, Scalar) or stated.text not in MECHANISMS:
        raise ConfigError([wrong_word_error("type", stated, tuple(MECHANISMS))])
    return stated.text


def _mechanism_values(kind: str, node: Node, data: MechanismFiles) -> dict[str, Any]:
    """Return a mechanism's values, with numbers as floats and data files read; ConfigError with all errors."""
    errors: list[Diagnostic] = []
    values: dict[str, Any] = {}
    for read in (_read_values, data.read):  # the data replace the nodes that state them
        with _collected(errors):
            values |= read(mechanism_keys(kind), node)
    if errors:
        raise ConfigError(errors)
    values.pop("type", None)
    return {name: float(value) if isinstance(value, Fraction) else value for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class RunSections:
    """One phase, its sections as dataclasses.

    Attributes:
        run: the tree that the phase comes from, with inherited sections.
        sampling: valid draws by level, {} for constructed tasks; None if the section is wrong as a whole.
        episodes: how tasks are constructed; None if they are not, or the section has errors.
        mechanism: what its section states, None if that has errors.
        clip: name of the clipping level; None if none is stated or the mechanism clips nothing.
        training: the section, None if it has errors.
        votes: name of the file with the votes of teachers as written, "" without one.
    """

    run: Run
    sampling: dict[str, Draw] | None
    episodes: Episodes | None
    mechanism: Mechanism | None
    clip: str | None
    training: Training | None
    votes: str = ""

    def node(self, *keys: str) -> Node | None:
        """Return the value at a path of keys in this phase, inherited sections included; None if there is none."""
        return node_at(self.run.sections, *keys)


@dataclass(frozen=True, kw_only=True)
class Sections:
    """A whole config, its sections as dataclasses.

    Attributes:
        root: the file in its long form.
        data: the section, None if the section has errors.
        names: of the levels, outermost first; () if one is missing or wrong.
        counts: for each of these levels (fewest, most) units under one parent, None if missing or wrong.
        tree: sizes of all units; None without a tree or with errors.
        privacy: the section, None if the section has errors.
        accounting: with defaults if the file has none; None if the section has errors.
        budget: None if the file has none or the section has errors.
        tuning: None if the file has none or the section has errors.
        partition: None if the file has none or the section has errors.
        runs: one for each phase.
    """

    root: Section
    data: Data | None
    names: tuple[str, ...]
    counts: tuple[tuple[int, int] | None, ...]
    tree: Tree | None
    privacy: Privacy | None
    accounting: Accounting | None
    budget: Budget | None
    tuning: Tuning | None
    partition: Partition | None
    runs: tuple[RunSections, ...]

    @property
    def count_ranges(self) -> tuple[tuple[int, int], ...] | None:
        """(fewest, most) units under one parent for each level; None if a size is missing or wrong."""
        known = tuple(count_range for count_range in self.counts if count_range)
        return known if known and len(known) == len(self.counts) else None


def read_sections(root: Section, files: Files) -> tuple[Sections, tuple[Diagnostic, ...]]:
    """Return the sections of a file and its phases, None or empty where absent or wrong, and all errors in them."""
    reader = _SectionReader(level_names(root), MechanismFiles(files), _meant_sections(root))
    return reader.read_file(root), tuple(reader.problems)


def _meant_sections(root: Section) -> frozenset[str]:
    """Return the sections that unknown keys of a file and its phases probably mean: they are not called missing."""
    phases = root.entries.get("phases")
    items = phases.items if isinstance(phases, Items) else ()
    phase_keys = [key for phase in items if isinstance(phase, Section) for key in phase.entries]
    return sections_meant(root.entries) | sections_meant(phase_keys, "phases[]")


def _named_levels(root: Section) -> tuple[Node, ...]:
    """Return the items of `data.levels`; () unless they are 1 to MAX_LEVELS mappings with allowed names."""
    levels = node_at(root, "data", "levels")
    if level_names(root) is None or not isinstance(levels, Items) or len(levels.items) > MAX_LEVELS:
        return ()
    with suppress(ConfigError):
        for level in levels.items:
            _read_value(LEVEL_NAME, entry(level, "name") or level, "name")
        return levels.items
    return ()


def _count_ranges(root: Section, levels: Sequence[Node], tree: Tree | None) -> tuple[tuple[int, int] | None, ...]:
    """Return (fewest, most) units of each level, by `data.tree` if stated; all None if `data` has an unknown key."""
    data_keys = entries_of(root.entries.get("data")).keys()
    if not levels or data_keys - keys_of(Data).keys():
        return (None,) * len(levels)  # `60,000` in braces is 60 and a key `000`
    if "tree" in data_keys:
        return tuple((min(sizes), max(sizes)) for sizes in tree.sizes) if tree else (None,) * len(levels)
    return tuple(map(_count_range, levels))


def _count_range(level: Node) -> tuple[int, int] | None:
    """Return (fewest, most) units of a level under one parent; None if a size is missing or wrong."""
    stated = {key: node for key in ("count", "min", "max") if (node := entry(level, key))}
    with suppress(ConfigError):
        values = {key: _read_value(keys_of(Level)[key].kind, node, key) for key, node in stated.items()}
        return Level(name="", **values).count_range
    return None


class _SectionReader:
    """Validator that collects errors over all sections and phases."""

    def __init__(self, names: tuple[str, ...] | None, data: MechanismFiles, meant_sections: Collection[str]) -> None:
        """Start without problems; `names` of the levels are None if the file states none."""
        self.problems: list[Diagnostic] = []
        self._names, self._data, self._meant_sections = names, data, meant_sections

    def read_file(self, root: Section) -> Sections:
        """Return the sections of a file and its phases, with None for absent and wrong ones, and add all errors."""
        self._report_unknown_keys(root)
        self._check_labels(root)
        self._check_phases(root)
        data = self._read_required(Data, root, "data")
        tree = self._read_tree(root)
        levels = _named_levels(root)
        if "phases" in root.entries:
            self._check_inherited(base_run(root))
        return Sections(
            root=root,
            data=data,
            names=(level_names(root) or ()) if levels else (),
            counts=_count_ranges(root, levels, tree),
            tree=tree,
            runs=tuple(self.read_run(run) for run in runs(root)),
            privacy=self._read_required(Privacy, root, "privacy"),
            accounting=self._read_optional(Accounting, root, "accounting")
            if "accounting" in root.entries
            else Accounting(),
            budget=self._read_optional(Budget, root, "budget"),
            tuning=self._read_optional(Tuning, root, "tuning"),
            partition=self._read_optional(Partition, root, "partition"),
        )

    def _required_node(self, parent: Section, key: str) -> Node | None:
        """Return a section of a file or phase; None, with an error added unless it is probably misspelt, if missing."""
        if key not in parent.entries and key not in self._meant_sections:
            self.problems.append(missing_key_error(parent, key))
        return parent.entries.get(key)

    def _attempt(self, read: Callable[[Node], M], node: Node | None) -> M | None:
        """Return what `read` makes of a node; None without a node or, with its errors added, after a ConfigError."""
        with _collected(self.problems):
            return None if node is None else read(node)
        return None

    def _read_required(self, model: type[M], parent: Section, key: str) -> M | None:
        """Return a required section as its dataclass; None, with its errors added, if it is missing or wrong."""
        return self._attempt(partial(_read_section, model), self._required_node(parent, key))

    def _read_optional(self, model: type[M], root: Section, key: str) -> M | None:
        """Return a section as its dataclass; None if it is absent or, with its errors added, if it is wrong."""
        return self._attempt(partial(_read_section, model), root.entries.get(key))

    def _read_tree(self, root: Section) -> Tree | None:
        """Return the sizes in `data.tree`; None without one, if it is wrong (errors are added) or no level is named."""
        names, node = self._names, node_at(root, "data", "tree")
        return self._attempt(lambda tree: data_tree(tree, names, self._data.files), node) if names else None

    def read_run(self, run: Run) -> RunSections:
        """Return a phase's sections, with None for a missing or wrong one, whose errors are added."""
        episodes = self._read_episodes(run)
        mechanism = self._required_node(run.sections, "mechanism")
        parts = self._attempt(partial(_mechanism_parts, data=self._data), mechanism)
        return RunSections(
            run=run,
            sampling={} if episodes else self._read_sampling(run),
            episodes=episodes,
            mechanism=parts.mechanism if parts else None,
            clip=parts.clip if parts else None,
            training=self._read_training(run),
            votes=parts.votes if parts else "",
        )

    def _check_inherited(self, run: Run) -> None:
        """Add the errors of the top level that phases inherit, but not its missing keys, which phases may state."""
        # Read by a second reader, whose errors are filtered: what is missing here may stand in the phases.
        reader = _SectionReader(self._names, self._data, self._meant_sections)
        reader.read_run(run)
        self.problems.extend(problem for problem in reader.problems if problem.code != "DPC103")

    def _check_labels(self, section: Section) -> None:
        """Add an error if the `name` of a file or phase, or its `part`, is no text, too long or not printable."""
        for key in ("name", "part"):
            if key in section.entries:
                with _collected(self.problems):
                    _read_value(LABEL, section.entries[key], key)

    def _report_unknown_keys(self, section: Section) -> None:
        """Add an error for each unknown key of a file or phase: DPC101, or DPC104 for a file's key in a phase."""
        allowed = keys_in("phases[]" if section.path else "")
        unknown = {key: value for key, value in entries_of(section).items() if key not in allowed}
        for key, value in unknown.items():
            if section.path and key in keys_in(""):
                message = f"`{key}` cannot change between phases"
                self.problems.append(error("DPC104", value.key or value.anchor, message, "move it to the top level"))
            else:
                self.problems.append(unknown_key_error(section, key, value))

    def _check_phases(self, root: Section) -> None:
        """Add the errors of the list `phases`, if stated: its type and length, and its items' type, keys and labels."""
        phases = root.entries.get("phases")
        if phases is None:
            return
        if not isinstance(phases, Items):
            self.problems.append(wrong_type_error(phases, "a list of phases"))
            return
        if not 1 <= len(phases.items) <= MAX_PHASES:
            message = f"`phases` must hold 1 to {MAX_PHASES} phases, got {len(phases.items)}"
            self.problems.append(error("DPC106", phases.anchor, message))
        for phase in phases.items:
            if isinstance(phase, Section):
                self._report_unknown_keys(phase)
                self._check_labels(phase)
            else:
                self.problems.append(wrong_type_error(phase, "a mapping"))

    def _read_episodes(self, run: Run) -> Episodes | None:
        """Return `sampling.episodes`; None if there are none, they are wrong, or other keys stand beside them."""
        sampling = run.sections.entries.get("sampling")
        stated = entry(sampling, EPISODES)
        if not isinstance(sampling, Section) or stated is None:
            return None
        conflicts = _conflicts_with_episodes(sampling)
        self.problems.extend(conflicts)
        episodes = self._attempt(partial(_read_section, Episodes), stated)
        return None if conflicts else episodes

    def _read_sampling(self, run: Run) -> dict[str, Draw] | None:
        """Return the valid draws by level; None with `episodes`, or if the section is missing or wrong as a whole."""
        sampling = self._required_node(run.sections, "sampling")
        if entry(sampling, EPISODES):
            return None
        draws = self._attempt(partial(_checked_draws, names=self._names or ()), sampling)
        return None if draws is None else self._read_draws(draws)

    def _read_draws(self, sampling: Section) -> dict[str, Draw]:
        """Return the valid draws by level, and add the errors of the others."""
        draws: dict[str, Draw] = {}
        for name, draw in entries_of(sampling).items():
            with _collected(self.problems):
                draws[name] = _read_draw(draw)
        return draws

    def _read_training(self, run: Run) -> Training | None:
        """Return `training`, with a left-over `batch_size` not read; None if the section is missing or wrong."""
        training = self._required_node(run.sections, "training")
        if isinstance(training, Section):
            self._check_batch_size(training)
            training = without_keys(training, BATCH_SIZE)
        return self._attempt(partial(_read_section, Training), training)

    def _check_batch_size(self, training: Section) -> None:
        """Add an error (DPC107) if `batch_size` is stated for data with several levels, whose draws it cannot size."""
        size, names = training.entries.get(BATCH_SIZE), self._names or ()
        if size and len(names) > 1:
            message = f"`batch_size` is for data with one level, and these have {len(names)} ({', '.join(names)})"
            hint = f"write `size` or `expected` in `sampling.{names[0]}`"
            self.problems.append(error("DPC107", size.key or size.anchor, message, hint))


def _conflicts_with_episodes(sampling: Section) -> list[Diagnostic]:
    """Return an error (DPC107) for each key of `sampling` beside `episodes`, except `x-` keys."""
    problem = f"and `{EPISODES}` in `{sampling.path}` both say how a step draws"
    hint = "tasks are constructed from whole levels; keep one"
    others = entries_of(without_keys(sampling, EPISODES))
    return [error("DPC107", node.key or node.anchor, f"`{key}` {problem}", hint) for key, node in others.items()]


def _checked_draws(sampling: Node, names: tuple[str, ...]) -> Section:
    """Return `sampling` itself; ConfigError unless it is a mapping whose keys can be names of levels."""
    if not isinstance(sampling, Section):
        raise ConfigError([wrong_type_error(sampling, DRAW_FORM if isinstance(sampling, Scalar) else "a mapping")])
    problem = no_levels_error(sampling, names)
    if problem:
        raise ConfigError([problem])
    return sampling
