"""Loading a config: from a file and command-line overrides to a plan, or to all errors at once."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction

from dpcalc._version import __version__
from dpcalc.config import scalars
from dpcalc.config.build import build, shuffled_passes_error
from dpcalc.config.documents import (
    HYDRA_HINT,
    NO_TOML,
    ConfigPart,
    Document,
    References,
    config_part,
    unresolved_errors,
)
from dpcalc.config.expand import RUN_KEYS, apply_changes, ineffective_errors, level_names, long_form, runs
from dpcalc.config.files import Files, config_folder, config_source
from dpcalc.config.messages import NOT_YET, missing_key_error, sections_meant, wrong_type_error
from dpcalc.config.normal import fingerprint
from dpcalc.config.other_files import other_file_error
from dpcalc.config.overrides import (
    COMMAND_LINE,
    Assignment,
    Overrides,
    parse_overrides,
    with_assumptions,
    without_file_hint,
)
from dpcalc.config.rules import remarks, valid_sections
from dpcalc.config.schema import REQUIREMENT
from dpcalc.config.sections import Sections
from dpcalc.config.source import STDIN, ConfigError, Diagnostic, Source, error, source_of, visible, whole_file
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, node_at, replace_at, walk, within
from dpcalc.config.yaml_text import parse_yaml, tagged_paths
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass

VERSION = 1
MAX_INHERITED = 50_000  # phases times keys that each inherits; a small hostile file could else make hours of work


def _refuse_other_file(written: Section, root: Section) -> None:
    """Raise ConfigError for a file of another version or tool, and if its phases inherit too much in all."""
    # In a file of another kind every key is wrong: one error says so, instead of one for each key.
    kind_error = (
        _requirement_error(root)
        or _history_error(root)
        or _hydra_error(root)
        or _other_version_error(root)
        or other_file_error(written)
    )
    errors = [each for each in (kind_error, _inheritance_error(root)) if each is not None]
    if errors:
        raise ConfigError(errors)


def _requirement_error(root: Section) -> Diagnostic | None:
    """Return DPC104 if `requires` excludes this version of dpcalc, else None."""
    requires = root.entries.get("requires")
    if not isinstance(requires, Scalar) or satisfies(__version__, requires.text) is not False:
        return None
    message = f"this config is for dpcalc {requires.text}, and this is dpcalc {__version__}"
    return error("DPC104", requires.mark, message, "use a version that it names, or change `requires`")


def _history_error(root: Section) -> Diagnostic | None:
    """Return DPC110 for the state of an Opacus accountant, which has a history of steps; else None."""
    history = root.entries.get("history")
    if "mechanism" not in root.entries or not isinstance(history, Items):
        return None
    hint = "`dpcalc import FILE --delta 1e-5 --output run.yaml` writes a config of it, which `ledger add` takes"
    return error("DPC110", history.anchor, "this is the history of an Opacus accountant, no config", hint)


def _hydra_error(root: Section) -> Diagnostic | None:
    """Return DPC110 for a file of Hydra, which has a list `defaults` of other files; else None."""
    defaults = root.entries.get("defaults")
    if not isinstance(defaults, Items):
        return None
    return error("DPC110", defaults.anchor, "`defaults` names other files that are not read here", HYDRA_HINT)


def _other_version_error(root: Section) -> Diagnostic | None:
    """Return DPC104 if `version` is a number other than VERSION, else None."""
    version = root.entries.get("version")
    number = scalars.value(version) if isinstance(version, Scalar) else None
    if not isinstance(version, Scalar) or not isinstance(number, Fraction) or number == VERSION:
        return None
    message = f"version {version.text} of the config file {NOT_YET}"
    return error("DPC104", version.anchor, message, f"this dpcalc reads `version: {VERSION}`")


def _inheritance_error(root: Section) -> Diagnostic | None:
    """Return DPC111 if phases times keys and values that each inherits exceed MAX_INHERITED, else None."""
    phases = root.entries.get("phases")
    # Each phase gets a copy of all that it inherits; the limit on events bounds the file only.
    inherited = sum(1 for key in RUN_KEYS if key in root.entries for _ in walk(root.entries[key], key))
    if not isinstance(phases, Items) or inherited * len(phases.items) <= MAX_INHERITED:
        return None
    message = f"{len(phases.items)} phases inherit {inherited} keys and values each"
    return error("DPC111", phases.anchor, message, "a config is a few lines: is this the right file?")


def _version_errors(root: Section) -> Iterator[Diagnostic]:
    """Yield DPC103 for a missing `version` that is not only misspelt, or DPC102 for one that is no number."""
    # Another version than this one is reported by `_other_version_error`, a misspelt key by `read_sections`.
    version = root.entries.get("version")
    if version is None and "version" not in sections_meant(root.entries):
        yield missing_key_error(root, "version")
    elif version is not None and (not isinstance(version, Scalar) or not isinstance(scalars.value(version), Fraction)):
        yield wrong_type_error(version, f"the number {VERSION}")


def _requires_errors(root: Section) -> Iterator[Diagnostic]:
    """Yield an error for a stated `requires` that is no text (DPC102) or no comparisons with versions (DPC104)."""
    requires = root.entries.get("requires")
    if requires is None:
        return
    if not isinstance(requires, Scalar) or not isinstance(scalars.value(requires), str):
        yield wrong_type_error(requires, "a text")
    elif satisfies(__version__, requires.text) is None:
        message = f"`requires` must be comparisons with versions, got {scalars.describe(requires)}"
        yield error("DPC104", requires.mark, message, 'write e.g. `requires: ">=0.1"` or `requires: ">=0.1, <2"`')


def satisfies(version: str, requirement: str) -> bool | None:
    """Return True if a version, its suffix ignored, satisfies a requirement; None for an unreadable requirement.

    Example:
        >>> satisfies("0.1.0", ">=0.1, <2"), satisfies("0.1.0", ">0.1"), satisfies("0.1.0", "0.1")
        (True, False, None)
    """
    if not re.fullmatch(REQUIREMENT, requirement):
        return None
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import Version

    try:
        return SpecifierSet(requirement).contains(Version(version).base_version)
    except InvalidSpecifier:  # a relation that takes another kind of version, such as ~=1
        return None


# Loading: from the text of a file, and the command line's overrides, to a plan or all errors at once.


NO_OVERRIDES = Overrides()


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A config that was read without errors.

    Attributes:
        plan: the plan that it states.
        path: the file as the user named it, "<stdin>" for standard input.
        section: dotted path of the part of the file that is the config, "" for all of it.
        diagnostics: warnings and notes, in the order of the file.
        config_hash: SHA-256 of the plan; comments, order, formatting and short forms do not change it.
        marks: (line, column) by dotted key, both from 1.
        tree: the file in its long form, for comparing it with another one.
        files: reader of the files that the config names.
        sources: origin of each value that a reference or an alias leads to, by dotted key: (canonical name of another
            file, or "" for this one; dotted path there).
        refusal: the error if no bound covers the batch size, else None.
    """

    plan: Plan
    path: str
    section: str
    diagnostics: tuple[Diagnostic, ...]
    config_hash: str
    marks: Mapping[str, tuple[int, int]] = field(repr=False)
    tree: Section = field(repr=False, compare=False)
    files: Files = field(repr=False, compare=False)
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False, compare=False)
    refusal: ConfigError | None = field(default=None, repr=False, compare=False)

    def accepted(self) -> "Loaded":
        """Return the config itself; raise the ConfigError in `refusal` if no bound covers its batch size."""
        if self.refusal is not None:
            raise self.refusal
        return self

    def mark(self, key: str) -> tuple[int, int] | None:
        """Return line and column (from 1) of a dotted key; None if the file lacks it."""
        return self.marks.get(key)


def load(path: str, *, key: str = "", assignments: Sequence[str] = (), overrides: Overrides = NO_OVERRIDES) -> Loaded:
    """Load a config file; ConfigError with all errors, except that of a batch size without bound, kept in `refusal`."""
    return _load(config_source(path), key, _with_assignments(assignments, overrides), config_folder(path))


def load_every_unit(path: str, *, key: str = "", overrides: Overrides = NO_OVERRIDES) -> tuple[Loaded, ...]:
    """Load a config with each level as the protected unit, outermost first; ConfigError for the first that fails."""
    source, files = config_source(path), config_folder(path)
    # Opened without `--unit`, whose word `all` names no level.
    others = tuple((option, text) for option, text in overrides.flags if option != "--unit")
    names = level_names(_open(source, key, replace(overrides, flags=others), files).root) or ()
    flags_by_unit = [(*others, ("--unit", json.dumps(name, ensure_ascii=False))) for name in names] or [others]
    return tuple(_load(source, key, replace(overrides, flags=flags), files) for flags in flags_by_unit)


def load_text(
    text: str,
    *,
    path: str,
    key: str = "",
    assignments: Sequence[str] = (),
    overrides: Overrides = NO_OVERRIDES,
    files: Files | None = None,
) -> Loaded:
    """Load a config from YAML; ConfigError with all errors, except that of a batch size without bound, in `refusal`.

    Example:
        >>> text = "{version: 1, data: {examples: 100}, sampling: {scheme: all}, training: {steps: 3}, "
        >>> text += "mechanism: {noise_multiplier: 2}, privacy: {delta: 1e-5}}"
        >>> load_text(text, path="example.yaml").plan.steps
        3
    """
    return _load(source_of(text, path), key, _with_assignments(assignments, overrides), files or config_folder(path))


def load_from_flags(overrides: Overrides) -> Loaded:
    """Load a run that options alone state, with notes on what is assumed; ConfigError if it is wrong."""
    completed, notes = with_assumptions(overrides)
    loaded = load_text(f"version: {VERSION}\n", path=COMMAND_LINE, overrides=completed)
    return replace(loaded, diagnostics=(*notes, *map(without_file_hint, loaded.diagnostics)))


def _with_assignments(assignments: Sequence[str], overrides: Overrides) -> Overrides:
    """Return overrides with further assignments before their own."""
    return replace(overrides, assignments=(*assignments, *overrides.assignments))


@dataclass(frozen=True, kw_only=True)
class _OpenedConfig:
    """A config in its long form, not yet validated.

    Attributes:
        part: the part of the file that is the config.
        root: the long form of it, with the command line's changes.
        settings: values set by the command line whose path exists.
        errors: all errors so far: syntax, unreadable options, references, settings without a place.
        notes: on keys of the file that a setting leaves no place for.
        reference_errors: those of them at values that are missing, such as references that lead nowhere.
        sources: see `Loaded.sources`.
    """

    part: ConfigPart
    root: Section
    settings: tuple[Assignment, ...]
    errors: tuple[Diagnostic, ...]
    reference_errors: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    sources: Mapping[str, tuple[str, str]]


def _open(source: Source, key: str, overrides: Overrides, files: Files) -> _OpenedConfig:
    """Return a config in long form, all references resolved, and its errors; ConfigError for TOML or another file."""
    if source.path.lower().endswith(".toml"):
        raise whole_file(source.path, "DPC100", "the file is TOML", NO_TOML)
    tree, flaws = parse_yaml(source)
    part = config_part(tree, key)
    written, unreadable = parse_overrides(overrides)
    changed, notes = apply_changes(part.root, written)
    main = Document(tree=replace_at(tree, part.keys, changed), tagged=tagged_paths(flaws))
    references = References(main, files)
    resolved = references.resolved(part.root)
    aliased = {path: ("", origin) for path, origin in _alias_targets(tree, part.path, source).items()}
    sources = aliased | references.ends  # of the file, not of settings
    set_values = tuple(replace(item, value=references.resolved(item.value)) for item in written.settings)
    changes = replace(written, settings=set_values)
    stated = resolved if isinstance(resolved, Section) else part.root
    root, settings, lost = long_form(stated, changes)
    _refuse_other_file(stated, root)
    reference_errors = tuple(unresolved_errors(root, references.faults))
    syntax = (flaw.diagnostic for flaw in flaws if within(part.path, flaw.path))
    return _OpenedConfig(
        part=part,
        root=root,
        settings=settings,
        errors=(*syntax, *unreadable, *reference_errors, *_not_at_places_of(lost, reference_errors)),
        reference_errors=reference_errors,
        notes=notes,
        sources=sources,
    )


def _load(source: Source, key: str, overrides: Overrides, files: Files) -> Loaded:
    """Load a source; ConfigError with all errors in file order, but that of a batch size without bound in `refusal`."""
    opened = _open(source, key, overrides, files)
    config = _sections_without_errors(opened, source, files)
    plan = build(config)
    return Loaded(
        plan=plan,
        path=source.path,
        section=opened.part.path,
        diagnostics=_sorted_diagnostics((*opened.notes, *remarks(config)), source.path),
        config_hash=fingerprint(plan),
        marks=_positions(source, opened.part.root, opened.root),
        tree=opened.root,
        files=files,
        sources=opened.sources,
        refusal=shuffled_passes_error(plan, config),
    )


def _sections_without_errors(opened: _OpenedConfig, source: Source, files: Files) -> Sections:
    """Return the sections of an opened config; ConfigError with every error of text, options, sections and rules."""
    root = opened.root
    idle = ineffective_errors(opened.settings, tuple(_plan_trees(root)), has_phases="phases" in root.entries)
    config: Sections | None = None
    wrong: tuple[Diagnostic, ...] = ()
    try:
        config = valid_sections(root, files)
    except ConfigError as cause:
        wrong = cause.diagnostics
    errors = (*_version_errors(root), *_requires_errors(root), *wrong, *idle)
    # Errors that only follow from a broken reference are dropped.
    errors = (*opened.errors, *_not_at_places_of(errors, opened.reference_errors))
    if node_at(root, "budget", "epsilon") is not None:
        errors = tuple(_with_solver(each, source.path) for each in errors)
    if errors or config is None:
        told = [_with_dropped_keys(each, opened.notes) for each in errors]
        raise ConfigError(_sorted_diagnostics(told, source.path))
    return config


def _with_dropped_keys(diagnostic: Diagnostic, notes: Sequence[Diagnostic]) -> Diagnostic:
    """Return the error of a missing key with the keys that a setting dropped, which may be why it is missing."""
    if diagnostic.code != "DPC103" or not diagnostic.message.endswith(" is missing"):
        return diagnostic
    hints = (diagnostic.hint, *(note.message for note in notes))
    return replace(diagnostic, hint="; ".join(filter(None, hints)))


def _with_solver(diagnostic: Diagnostic, path: str) -> Diagnostic:
    """Return the error of a missing noise multiplier with the command that finds the least one for the budget."""
    if diagnostic.message not in {"`mechanism.noise_multiplier` is missing", "`mechanism` is missing"}:
        return diagnostic
    solver = f"dpcalc solve-sigma {visible(shlex.quote(path))}" if path != STDIN else "dpcalc solve-sigma FILE"
    own = diagnostic.hint if "noise_multiplier" in diagnostic.message else "noise divided by the clip norm"
    return replace(diagnostic, hint=f"{own}, as the run has it; `{solver}` finds the least one for `budget.epsilon`")


def _alias_targets(tree: Node, section: str, source: Source) -> dict[str, str]:
    """Return {path in the section of an aliased value: path of its anchor}, for anchors elsewhere or in `x-` keys."""
    # An alias and its anchor have the same mark: the value stands twice in the tree, once on each path.
    prefix = f"{section}." if section else ""
    inside: dict[str, tuple[int, int]] = {}
    outside: dict[tuple[int, int], str] = {}
    for scalar, is_user_data in _every_scalar(tree):
        place = (scalar.mark.line, scalar.mark.column)
        if scalar.mark.source is source and within(section, scalar.path) and not is_user_data:
            inside[scalar.path.removeprefix(prefix)] = place
        elif scalar.mark.source is source:
            outside.setdefault(place, scalar.path)
    return {path: outside[place] for path, place in inside.items() if place in outside}


def _every_scalar(tree: Node) -> Iterator[tuple[Scalar, bool]]:
    """Yield each scalar of a tree, from the last one to the first, with True if it is below an `x-` key."""
    # A loop and not `walk`: values of `x-` keys are anchors too, to which an alias in the config may lead.
    waiting = [(tree, False)]
    while waiting:
        node, is_user_data = waiting.pop()
        if isinstance(node, Section):
            waiting += [(value, is_user_data or key.startswith(USER_KEY)) for key, value in node.entries.items()]
        elif isinstance(node, Items):
            waiting += [(item, is_user_data) for item in node.items]
        else:
            yield node, is_user_data


def _plan_trees(root: Section) -> Iterator[Node]:
    """Yield the parts of a file that a plan is built from: top-level values, then each phase's sections and name."""
    for key, value in root.entries.items():
        if key not in {*RUN_KEYS, "phases"}:
            yield value
    for run in runs(root):
        yield run.sections
        name = run.at.entries.get("name")
        if name is not None:
            yield name


def _not_at_places_of(errors: Iterable[Diagnostic], reference_errors: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the errors at places without a reference error; those at one only follow from it."""
    places = {(each.path, each.line, each.column) for each in reference_errors}
    return (each for each in errors if (each.path, each.line, each.column) not in places)


def _sorted_diagnostics(diagnostics: Iterable[Diagnostic], path: str) -> tuple[Diagnostic, ...]:
    """Return each diagnostic once, in the order of the file; those about options come last."""
    unique = dict.fromkeys(diagnostics)
    return tuple(sorted(unique, key=lambda item: (item.path != path, item.path, item.line or 0, item.column or 0)))


def _positions(source: Source, written: Section, root: Section) -> dict[str, tuple[int, int]]:
    """Return line and column (from 1) of each key in this file by each path: as written, in long form, in a phase."""
    trees = [("", written), ("", root), *((run.path, run.sections) for run in runs(root))]
    marks: dict[str, tuple[int, int]] = {}
    for start, tree in trees:
        for path, node in walk(tree, start):
            place = node.key or node.mark
            if path and place.source is source:
                marks.setdefault(path, (place.line, place.column))
    return marks
