"""Loading a config: from a file and command-line overrides to a plan, or to all errors at once."""

import json
import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace

from dpcalc._version import __version__
from dpcalc.config import scalars
from dpcalc.config.build import Sections, build, remarks, shuffled_passes_error, valid_sections
from dpcalc.config.discovery import map_of
from dpcalc.config.documents import HYDRA_HINT, Default, References, config_part, default_notes, unresolved_errors
from dpcalc.config.expand import (
    COMMAND_LINE,
    RUN_KEYS,
    Overrides,
    apply_changes,
    fingerprint,
    ineffective_errors,
    level_names,
    long_form,
    note,
    parse_overrides,
    runs,
    with_assumptions,
)
from dpcalc.config.files import SUFFIXES, Files, Refusal, config_folder, config_source, text_of
from dpcalc.config.messages import NOT_YET, missing_key_error, other_file_error, sections_meant, wrong_type_error
from dpcalc.config.readers import document_of, read_config, read_document
from dpcalc.config.schema import REQUIREMENT
from dpcalc.config.source import STDIN, ConfigError, Diagnostic, Source, absolute, error, source_of, visible, whole_file
from dpcalc.config.tree import (
    USER_KEY,
    Document,
    Items,
    Node,
    Scalar,
    Section,
    dotted,
    node_at,
    replace_at,
    walk,
    within,
)
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass

VERSION = 1
MAX_INHERITED = 50_000  # phases times keys that each inherits; a small hostile file could else make hours of work
NO_OVERRIDES = Overrides()


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A config that was read without errors."""

    plan: Plan
    path: str  # the file as the user named it, "<stdin>" for standard input
    section: str  # dotted path of the part of the file that is the config, "" for all of it
    diagnostics: tuple[Diagnostic, ...]  # warnings and notes, in the order of the file
    config_hash: str  # SHA-256 of the plan; comments, order, formatting and short forms do not change it
    marks: Mapping[str, tuple[int, int]] = field(repr=False)  # (line, column) by dotted key, both from 1
    tree: Section = field(repr=False, compare=False)  # the file in its long form, for comparing it with another one
    files: Files = field(repr=False, compare=False)  # reader of the files that the config names
    # Where each value comes from that a reference or an alias leads to, by dotted key: (canonical name of another file,
    # or "" for this one; dotted path there).
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False, compare=False)
    defaults: tuple[Default, ...] = field(default=(), repr=False, compare=False)  # that a launch may override
    refusal: ConfigError | None = field(default=None, repr=False, compare=False)  # where no bound covers the batch size

    def accepted(self) -> "Loaded":
        """Return the config itself; raise the ConfigError in `refusal` if no bound covers its batch size."""
        if self.refusal is not None:
            raise self.refusal
        return self

    def mark(self, key: str) -> tuple[int, int] | None:
        """Return line and column (from 1) of a dotted key; None if the file lacks it."""
        return self.marks.get(key)


def load(
    path: str,
    *,
    key: str = "",
    assignments: Sequence[str] = (),
    overrides: Overrides = NO_OVERRIDES,
    map_path: str | None = None,
) -> Loaded:
    """Load a config file; ConfigError with all errors, except that of a batch size without bound, kept in `refusal`.

    A file that `[tool.dpcalc.maps]` names is no config itself: the config is its map, and the file the root of what the
    map refers to. `map_path` is another map than that of the present table, "" for none.
    """
    return _load_file(path, key, assignments, overrides, map_path=map_path)[0]


def load_every_unit(path: str, *, key: str = "", overrides: Overrides = NO_OVERRIDES) -> tuple[Loaded, ...]:
    """Load a config with each level as the protected unit, outermost first; ConfigError for the first that fails."""
    return _load_file(path, key, (), overrides, every_unit=True)


def _load_file(
    path: str,
    key: str,
    assignments: Sequence[str],
    overrides: Overrides,
    *,
    every_unit: bool = False,
    map_path: str | None = None,
) -> tuple[Loaded, ...]:
    """Load a file, or its map, from the disk."""
    found = map_of(path) if map_path is None else map_path
    if not found:
        return _load(config_source(path), key, assignments, overrides, config_folder(path), every_unit=every_unit)
    files = config_folder(found)
    mapped = mapped_document(path, os.path.relpath(absolute(path), files.folder), found, files)
    every = _load(config_source(found), key, assignments, overrides, files, every_unit=every_unit, mapped=mapped)
    return tuple(replace(each, path=path) for each in every)


def mapped_document(path: str, name: str, map_path: str, files: Files) -> tuple[str, Document]:
    """Return the canonical name and the content of a file, named as its map would; ConfigError if it cannot be read."""
    try:
        place = files.locate(posixpath.normpath(name), "")
        suffix = posixpath.splitext(place)[1].lower()
        if suffix not in SUFFIXES:
            raise Refusal("DPC110", f"cannot be the root of a map: it ends in none of {', '.join(SUFFIXES)}")
        return place, read_document(text_of(files, place), suffix)
    except Refusal as cause:
        raise whole_file(path, cause.code, f"{cause.message} (its map is {visible(map_path)})", cause.hint) from None


def load_text(
    text: str,
    *,
    path: str,
    key: str = "",
    assignments: Sequence[str] = (),
    overrides: Overrides = NO_OVERRIDES,
    files: Files | None = None,
    mapped: tuple[str, Document] | None = None,
) -> Loaded:
    """Load a config from YAML; ConfigError with all errors, except that of a batch size without bound, in `refusal`.

    Example:
        >>> text = "{version: 1, data: {examples: 100}, sampling: {scheme: all}, training: {steps: 3}, "
        >>> text += "mechanism: {noise_multiplier: 2}, privacy: {delta: 1e-5}}"
        >>> load_text(text, path="example.yaml").plan.steps
        3
    """
    return _load(source_of(text, path), key, assignments, overrides, files or config_folder(path), mapped=mapped)[0]


def load_from_flags(overrides: Overrides) -> Loaded:
    """Load a run that options alone state, with notes on what is assumed; ConfigError if it is wrong."""
    completed, notes = with_assumptions(overrides)
    loaded = load_text(f"version: {VERSION}\n", path=COMMAND_LINE, overrides=completed)
    hint = "state `--adjacency add-remove`, or replace-one or zero-out"
    said = (note(each.message, hint, each.code) if each.code == "DPC204" else each for each in loaded.diagnostics)
    return replace(loaded, diagnostics=(*notes, *said))


def _load(
    source: Source,
    key: str,
    assignments: Sequence[str],
    overrides: Overrides,
    files: Files,
    *,
    every_unit: bool = False,
    mapped: tuple[str, Document] | None = None,
) -> tuple[Loaded, ...]:
    """Load a config, once or for every unit; ConfigError with all its errors, in the order of the file.

    `mapped` is the canonical name and the content of the file that a map is for, into which its references lead.
    """
    others = tuple((option, text) for option, text in overrides.flags if option != "--unit" or not every_unit)
    overrides = replace(overrides, assignments=(*assignments, *overrides.assignments), flags=others)

    tree, flaws = read_config(source)
    written, keys = config_part(tree, key)
    section = dotted(keys)
    changes, unreadable = parse_overrides(overrides)
    # References look into the whole file, as the command line changes it.
    changed, notes = apply_changes(written, changes)
    place, main = mapped or ("", document_of(replace_at(tree, keys, changed), flaws))
    references = References(main, files, place)
    resolved = references.resolved(written)
    stated = resolved if isinstance(resolved, Section) else written
    aliases = {} if source.path.lower().endswith(".toml") else _alias_targets(tree, section, source)
    sources = aliases | references.ends  # of the file, not of settings
    set_values = tuple(replace(item, value=references.resolved(item.value)) for item in changes.settings)
    root, settings, lost = long_form(stated, replace(changes, settings=set_values))
    unreadable_version = _version_errors(stated, root)
    if every_unit:
        flags_by_unit = [(*others, ("--unit", json.dumps(x, ensure_ascii=False))) for x in level_names(root) or ()]
        each_unit = (replace(overrides, flags=flags) for flags in flags_by_unit or [others])
        return tuple(_load(source, key, (), each, files, mapped=mapped)[0] for each in each_unit)

    # Errors that only follow from a broken reference are dropped.
    broken, still_open = unresolved_errors(root, references.faults)
    config: Sections | None = None
    wrong: tuple[Diagnostic, ...] = ()
    try:
        config = valid_sections(root, files)
    except ConfigError as cause:
        wrong = cause.diagnostics
    used = [value for name, value in root.entries.items() if name not in {*RUN_KEYS, "phases"}]
    for run in runs(root):
        used.append(run.stated)
        if "name" in run.at.entries:
            used.append(run.at.entries["name"])
    idle = ineffective_errors(settings, used, has_phases="phases" in root.entries)
    following = (*lost, *unreadable_version, *wrong, *idle)
    places = {(each.path, each.line, each.column) for each in broken}
    places |= {(mark.source.path, *mark.place) for mark in still_open}
    errors = [flaw.diagnostic for flaw in flaws if within(section, flaw.path)]
    errors += [*unreadable, *broken]
    errors += [each for each in following if (each.path, each.line, each.column) not in places]
    if errors or config is None:
        # What may have dropped a missing key, and the solver of missing noise.
        path, noise = source.path, "`mechanism.noise_multiplier` is missing"
        for at, each in enumerate(errors):
            hint = each.hint
            if node_at(root, "budget", "epsilon") and each.message in {noise, "`mechanism` is missing"}:
                solver = f"dpcalc solve-sigma {visible(shlex.quote(path)) if path != STDIN else 'FILE'}"
                own = hint if each.message == noise else "noise divided by the clip norm"
                hint = f"{own}, as the run has it; `{solver}` finds the least one for `budget.epsilon`"
                hint += "; where a library finds it, `noise_multiplier: {calibrated_to: {epsilon: E}, by: "
                hint += "LIBRARY.ACCOUNTANT}` (docs/configs.md)"
            if each.code == "DPC103" and each.message.endswith(" is missing"):
                hint = "; ".join(filter(None, (hint, *(note.message for note in notes))))
            errors[at] = _with_origin(replace(each, hint=hint), references.origins)
        raise ConfigError(_in_order(errors, path))

    marks: dict[str, tuple[int, int]] = {}  # of each key by each path: as written, in long form, in a phase
    for start, part in [("", written), ("", root), *((run.path, run.sections) for run in runs(root))]:
        for path, node in walk(part, start):
            # Of a map the places are those in the file that it is for.
            mark = node.start if not place else node.origin if isinstance(node, Scalar) else None
            if path and mark is not None and mark.source is main.tree.mark.source:
                marks.setdefault(path, mark.place)
    plan = build(config)
    loaded = Loaded(
        plan=plan,
        path=source.path,
        section=section,
        diagnostics=_in_order(
            (
                *notes,
                *default_notes(references.defaults),
                *(_with_origin(x, references.origins) for x in remarks(config, plan)),
            ),
            source.path,
        ),
        config_hash=fingerprint(plan),
        marks=marks,
        tree=root,
        files=files,
        sources=sources,
        defaults=tuple(references.defaults),
        refusal=shuffled_passes_error(plan, config),
    )
    return (loaded,)


def _alias_targets(tree: Node, section: str, source: Source) -> dict[str, tuple[str, str]]:
    """Return {path in the section of an aliased value: ("", that of its anchor)}, for anchors elsewhere or in `x-`."""
    # An alias and its anchor have the same mark: the value stands twice in the tree, once on each path. A loop and not
    # `walk`: values of `x-` keys are anchors too, to which an alias in the config may lead.
    inside: dict[str, tuple[int, int]] = {}
    outside: dict[tuple[int, int], str] = {}
    waiting = [(tree, False)]
    while waiting:
        node, is_user_data = waiting.pop()
        place = node.mark.place
        if isinstance(node, Section):
            waiting += [(value, is_user_data or key.startswith(USER_KEY)) for key, value in node.entries.items()]
        elif isinstance(node, Items):
            waiting += [(item, is_user_data) for item in node.items]
        elif node.mark.source is source and within(section, node.path) and not is_user_data:
            inside[node.path.removeprefix(f"{section}." if section else "")] = place
        elif node.mark.source is source:
            outside.setdefault(place, node.path)
    return {path: ("", outside[place]) for path, place in inside.items() if place in outside}


def _version_errors(written: Section, root: Section) -> list[Diagnostic]:
    """Return the errors of `version` and `requires`, where they are missing or cannot be read.

    ConfigError for a file of another version or tool, and if its phases inherit too much in all: there every key is
    wrong, and one error says so.
    """
    requires, history, phases = (root.entries.get(key) for key in ("requires", "history", "phases"))
    defaults, version = root.entries.get("defaults"), root.entries.get("version")
    number = scalars.number_of(version)
    fits: bool | None = None  # for a requirement that cannot be read
    if isinstance(requires, Scalar) and re.fullmatch(REQUIREMENT, requires.text):
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
        from packaging.version import Version

        with suppress(InvalidSpecifier):  # a relation that takes another kind of version, such as ~=1
            fits = SpecifierSet(requires.text).contains(Version(__version__).base_version)
    problem, errors = None, []
    if isinstance(requires, Scalar) and fits is False:
        message = f"this config is for dpcalc {requires.text}, and this is dpcalc {__version__}"
        problem = error("DPC104", requires.mark, message, "use a version that it names, or change `requires`")
    elif "mechanism" in root.entries and isinstance(history, Items):
        message = "this is the history of an Opacus accountant, no config"
        hint = "`dpcalc import FILE --delta 1e-5 --output run.yaml` writes a config of it, which `ledger add` takes"
        problem = error("DPC110", history.anchor, message, hint)
    elif isinstance(defaults, Items):
        problem = error("DPC110", defaults.anchor, "`defaults` names other files that are not read here", HYDRA_HINT)
    elif isinstance(version, Scalar) and number is not None and number != VERSION:
        message = f"version {version.text} of the config file {NOT_YET}"
        problem = error("DPC104", version.anchor, message, f"this dpcalc reads `version: {VERSION}`")
    others = [each for each in (problem or other_file_error(written),) if each]
    # Each phase gets a copy of all that it inherits; the limit on events bounds the file only.
    inherited = sum(1 for key in RUN_KEYS if key in root.entries for _ in walk(root.entries[key], key))
    if isinstance(phases, Items) and inherited * len(phases.items) > MAX_INHERITED:
        message = f"{len(phases.items)} phases inherit {inherited} keys and values each"
        others.append(error("DPC111", phases.anchor, message, "a config is a few lines: is this the right file?"))
    if others:
        raise ConfigError(others)

    if version is None and "version" not in sections_meant(root.entries):
        errors.append(missing_key_error(root, "version"))
    elif version is not None and number is None:
        errors.append(wrong_type_error(version, f"the number {VERSION}"))
    if requires is not None and (not isinstance(requires, Scalar) or not isinstance(scalars.value(requires), str)):
        errors.append(wrong_type_error(requires, "a text"))
    elif requires is not None and fits is None:
        message = f"`requires` must be comparisons with versions, got {scalars.describe(requires)}"
        hint = 'write e.g. `requires: ">=0.1"` or `requires: ">=0.1, <2"`'
        errors.append(error("DPC104", requires.mark, message, hint))
    return errors


def _with_origin(diagnostic: Diagnostic, origins: Mapping[tuple[str, int | None, int | None], list[str]]) -> Diagnostic:
    """Return a diagnostic at a reference with the places in other files from which the value comes."""
    stated = origins.get((diagnostic.path, diagnostic.line, diagnostic.column), ())
    return replace(diagnostic, hint="; ".join(filter(None, (*stated, diagnostic.hint)))) if stated else diagnostic


def _in_order(diagnostics: Iterable[Diagnostic], path: str) -> tuple[Diagnostic, ...]:
    """Return each diagnostic once, in the order of the file; those about options come last."""
    unique = dict.fromkeys(diagnostics)
    return tuple(sorted(unique, key=lambda item: (item.path != path, item.path, item.line or 0, item.column or 0)))
