"""Validation of every section of a file by its declaration; errors in one section hide no errors in another one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
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
    scheme_errors,
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
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entry, node_at, without_keys
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
    return section(**_read_values(keys_of(section), node))


def _read_values(keys: Mapping[str, Key], node: Node) -> dict[str, Any]:
    """Return the checked values of stated keys; ConfigError with an error for each wrong, missing or misspelt key."""
    # Short forms among the keys are written out already, and so unknown.
    if not isinstance(node, Section):
        raise ConfigError([wrong_type_error(node, "a mapping")])
    keys = {name: key for name, key in keys.items() if not key.is_short_form}
    # Unknown keys are collected first: a missing key next to its misspelling is one mistake, and gets one error.
    extra = [name for name in node.entries if name not in keys and not name.startswith(USER_KEY)]
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


def _read_value(kind: ValueType, node: Node, name: str) -> Any:  # noqa: ANN401  each type has its own
    """Return the value of a node as its type reads it; ConfigError if the type refuses it."""
    if isinstance(kind, Structure):
        return node
    if isinstance(kind, ListOf):
        return _read_list(kind, node)
    if isinstance(kind, DrawSize) and isinstance(node, Section):
        own = {key for key in node.entries if not key.startswith(USER_KEY)}
        if own == {AT_MOST}:
            return AtMost(size=_read_value(COUNT, node.entries[AT_MOST], AT_MOST))
    return _checked_value(kind, node, name)


def _checked_value(kind: ValueType, node: Node, name: str) -> Any:  # noqa: ANN401  each type has its own
    """Return the value that `kind` accepts, 1/97 as a number where quotients are allowed; ConfigError for others."""
    value = scalars.value(node) if isinstance(node, Scalar) else node
    if isinstance(kind, Word) and value not in kind.allowed:
        raise ConfigError([wrong_word_error(name, node, kind.allowed)])
    if getattr(kind, "quotients", False) and isinstance(value, str):
        value = scalars.parse_quotient(value) or value
    try:
        return kind.check(value)
    except WrongValueError as cause:
        wrong = wrong_value_error(node, cause)
        limited = name == "size" and entry(node, AT_MOST) is not None and kind is COUNT
        raise ConfigError([replace(wrong, hint="`at_most` is for scheme fixed") if limited else wrong]) from None


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
    """Return the draw of a level; ConfigError if `scheme` is not known, or its keys or values are wrong."""
    if not isinstance(node, Section):
        raise ConfigError([wrong_type_error(node, DRAW_FORM)])
    scheme = node.entries.get("scheme")
    word = scalars.value(scheme) if isinstance(scheme, Scalar) else None
    if not isinstance(word, str) or word not in SCHEMES:
        raise ConfigError(scheme_errors(node))
    return Draw(**_read_values(draw_keys(word), node))


class _MechanismParts(NamedTuple):
    """A mechanism, the name of its clipping level (None: not stated), and its votes file ("": none)."""

    mechanism: Mechanism | None
    clip: str | None
    votes: str


def _mechanism_parts(node: Node, data: MechanismFiles) -> _MechanismParts:
    """Return the parts that a `mechanism` section states; ConfigError for a wrong type, value, file or combination."""
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
    """Return the sections of a file, with None for a wrong one, and all errors.

    Args:
        root: the file.
        files: reader of the data files that it names.
    """
    reader = _SectionReader(level_names(root), MechanismFiles(files))
    reader.report_unknown_keys(root)
    reader.check_label(root)
    reader.check_phases(root)
    data = reader.read_model(Data, root, "data")
    tree = reader.read_tree(root)
    names, counts = _levels(root, tree)
    if "phases" in root.entries:
        reader.check_inherited(base_run(root))
    config = Sections(
        root=root,
        data=data,
        names=names,
        counts=counts,
        tree=tree,
        runs=tuple(reader.read_run(run) for run in runs(root)),
        privacy=reader.read_model(Privacy, root, "privacy"),
        accounting=reader.read_model(Accounting, root, "accounting") if "accounting" in root.entries else Accounting(),
        budget=reader.read_model(Budget, root, "budget") if "budget" in root.entries else None,
        tuning=reader.read_model(Tuning, root, "tuning") if "tuning" in root.entries else None,
        partition=reader.read_model(Partition, root, "partition") if "partition" in root.entries else None,
    )
    return config, tuple(reader.problems)


def _levels(root: Section, tree: Tree | None) -> tuple[tuple[str, ...], tuple[tuple[int, int] | None, ...]]:
    """Return the names of the levels and their count ranges; (), () if the names are wrong or missing."""
    data = node_at(root, "data")
    data_keys = data.entries if isinstance(data, Section) else {}
    names, levels = level_names(root), data_keys.get("levels")
    if names is None or not isinstance(levels, Items) or not _have_valid_names(levels.items):
        return (), ()
    return names, _count_ranges(data_keys, levels.items, tree)


def _count_ranges(
    data_keys: Mapping[str, Node], levels: Sequence[Node], tree: Tree | None
) -> tuple[tuple[int, int] | None, ...]:
    """Return the (fewest, most) units of each level, from `data.tree` if stated; None where unknown."""
    if any(key not in keys_of(Data) and not key.startswith(USER_KEY) for key in data_keys):
        return (None,) * len(levels)  # `60,000` in braces is 60 and a key `000`
    if "tree" in data_keys:
        return tuple((min(sizes), max(sizes)) for sizes in tree.sizes) if tree else (None,) * len(levels)
    return tuple(map(_count_range, levels))


def _have_valid_names(levels: Sequence[Node]) -> bool:
    """Return True if there are at most MAX_LEVELS levels, and each has a name that is allowed."""
    with suppress(ConfigError):
        for level in levels:
            _read_value(LEVEL_NAME, level.entries["name"] if isinstance(level, Section) else level, "name")
        return len(levels) <= MAX_LEVELS
    return False


def _count_range(level: Node) -> tuple[int, int] | None:
    """Return (fewest, most) units of a level under one parent; None if a size is missing or wrong."""
    stated = {key: node for key in ("count", "min", "max") if (node := entry(level, key))}
    with suppress(ConfigError):
        values = {key: _read_value(keys_of(Level)[key].kind, node, key) for key, node in stated.items()}
        return Level(name="", **values).count_range
    return None


class _SectionReader:
    """Validator that collects errors over all sections and phases."""

    def __init__(self, names: tuple[str, ...] | None, data: MechanismFiles) -> None:
        """Start without problems; `names` of the levels are None if the file states none."""
        self.problems: list[Diagnostic] = []
        self._names, self._data = names, data
        self._meant_sections: frozenset[str] = frozenset()

    def _report_missing(self, parent: Section, key: str) -> None:
        """Add an error for a section that a file or phase lacks, unless an unknown key is probably its misspelling."""
        if key not in self._meant_sections:
            self.problems.append(missing_key_error(parent, key))

    def read_model(self, model: type[M], parent: Section, key: str) -> M | None:
        """Return a required section as its dataclass; None, with its errors added, if it is missing or wrong.

        Args:
            model: the model.
            parent: the file, or the merged sections of a phase.
            key: name of the section.
        """
        node = parent.entries.get(key)
        if node is None:
            self._report_missing(parent, key)
        else:
            with _collected(self.problems):
                return _read_section(model, node)
        return None

    def read_tree(self, root: Section) -> Tree | None:
        """Return the sizes in `data.tree`; None without one, if it is wrong (errors are added) or no level is named."""
        node = node_at(root, "data", "tree")
        if node is not None and self._names:
            with _collected(self.problems):
                return data_tree(node, self._names, self._data.files)
        return None

    def read_run(self, run: Run) -> RunSections:
        """Return a phase's sections, with None for a missing or wrong one, whose errors are added."""
        episodes = self._read_episodes(run)
        parts = self._read_mechanism(run) or _MechanismParts(None, None, "")
        return RunSections(
            run=run,
            sampling={} if episodes else self._read_sampling(run),
            episodes=episodes,
            mechanism=parts.mechanism,
            clip=parts.clip,
            training=self._read_training(run),
            votes=parts.votes,
        )

    def _read_mechanism(self, run: Run) -> _MechanismParts | None:
        """Return the parts of `mechanism`; None, with its errors added, if it is missing or wrong."""
        node = run.sections.entries.get("mechanism")
        if node is None:
            self._report_missing(run.sections, "mechanism")
        else:
            with _collected(self.problems):
                return _mechanism_parts(node, self._data)
        return None

    def check_inherited(self, run: Run) -> None:
        """Add the errors of the top level that phases inherit, but not its missing keys, which phases may state."""
        # Read by a second reader, whose errors are filtered: what is missing here may stand in the phases.
        reader = _SectionReader(self._names, self._data)
        reader.read_run(run)
        self.problems.extend(problem for problem in reader.problems if problem.code != "DPC103")

    def check_label(self, section: Section) -> None:
        """Add an error if the `name` of a file or phase, or its `part`, is no text, too long or not printable."""
        for key in ("name", "part"):
            if key in section.entries:
                with _collected(self.problems):
                    _read_value(LABEL, section.entries[key], key)

    def report_unknown_keys(self, section: Section) -> None:
        """Add an error for each unknown key of a file or phase: DPC101, or DPC104 for a file's key in a phase.

        The sections that unknown keys stand for are remembered: `_report_missing` does not call them missing.
        """
        kind = "phases[]" if section.path else ""
        allowed = keys_in(kind)
        self._meant_sections |= sections_meant(section.entries, kind)
        for key, value in section.entries.items():
            if key in allowed or key.startswith(USER_KEY):
                continue
            if section.path and key in keys_in(""):
                message = f"`{key}` cannot change between phases"
                self.problems.append(error("DPC104", value.key or value.anchor, message, "move it to the top level"))
            else:
                self.problems.append(unknown_key_error(section, key, value))

    def check_phases(self, root: Section) -> None:
        """Add the errors of the list `phases`: of its length, and of the items, their keys and their names."""
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
                self.report_unknown_keys(phase)
                self.check_label(phase)
            else:
                self.problems.append(wrong_type_error(phase, "a mapping"))

    def _read_episodes(self, run: Run) -> Episodes | None:
        """Return `sampling.episodes`; None if there are none, they are wrong, or draws are stated as well."""
        node = run.sections.entries.get("sampling")
        built = entry(node, EPISODES)
        if not isinstance(node, Section) or built is None:
            return None
        others = [key for key in node.entries if key != EPISODES and not key.startswith(USER_KEY)]
        for key in others:
            mark = node.entries[key].key or node.entries[key].anchor
            message = f"`{key}` and `{EPISODES}` in `{node.path}` both say how a step draws"
            self.problems.append(error("DPC107", mark, message, "tasks are constructed from whole levels; keep one"))
        with _collected(self.problems):
            episodes = _read_section(Episodes, built)
            return None if others else episodes
        return None

    def _read_sampling(self, run: Run) -> dict[str, Draw] | None:
        """Return the valid draws by level; None with `episodes`, or if the section is wrong or missing."""
        node = run.sections.entries.get("sampling")
        if node is None:
            self._report_missing(run.sections, "sampling")
            return None
        if not isinstance(node, Section):
            self.problems.append(wrong_type_error(node, DRAW_FORM if isinstance(node, Scalar) else "a mapping"))
            return None
        if entry(node, EPISODES) is not None:
            return None
        problem = no_levels_error(node, self._names or ())
        if problem:
            self.problems.append(problem)
            return None
        return self._read_draws(node)

    def _read_draws(self, sampling: Section) -> dict[str, Draw]:
        """Return the valid draws by level, and add the errors of the others."""
        draws: dict[str, Draw] = {}
        for name, draw in sampling.entries.items():
            if not name.startswith(USER_KEY):
                with _collected(self.problems):
                    draws[name] = _read_draw(draw)
        return draws

    def _read_training(self, run: Run) -> Training | None:
        """Return `training` without its `batch_size`; None if it is wrong or missing."""
        node = run.sections.entries.get("training")
        size = entry(node, BATCH_SIZE)
        if not isinstance(node, Section) or size is None:
            return self.read_model(Training, run.sections, "training")
        names = self._names or ()
        if len(names) > 1:
            message = f"`batch_size` is for data with one level, and these have {len(names)} ({', '.join(names)})"
            hint = f"write `size` or `expected` in `sampling.{names[0]}`"
            self.problems.append(error("DPC107", size.key or size.anchor, message, hint))
        with _collected(self.problems):
            return _read_section(Training, without_keys(node, BATCH_SIZE))
        return None
