"""A file, and what `--set` adds, as a plan; or every error at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpcalc.config import scalars
from dpcalc.config.assignments import Overrides, changes
from dpcalc.config.build import build
from dpcalc.config.diagnostics import ConfigError, Diagnostic
from dpcalc.config.fingerprint import fingerprint
from dpcalc.config.meaning import contradictions, remarks
from dpcalc.config.merging import RUN_KEYS, long_form, runs, without_effect
from dpcalc.config.messages import NOT_YET, missing, unexpected
from dpcalc.config.nodes import Items, Node, Scalar, Section, walk
from dpcalc.config.references import hydra_defaults, unresolved
from dpcalc.config.sections import sections
from dpcalc.config.source import STDIN, Source, decode, error, read, source_of
from dpcalc.config.yaml_text import parse
from dpcalc.planner.plan import Plan

VERSION = 1
NOTHING = Overrides()
MAX_INHERITED = 50_000  # phases times what each inherits: a small file must not make much work


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A file that was understood.

    Attributes:
        plan: what it says.
        path: the file as the user named it, "<stdin>" for standard input.
        diagnostics: warnings and notes, in the order of the file.
        config_hash: SHA-256 of the meaning: comments, order, formatting and short forms do not change it.
        marks: line and column by dotted key.
    """

    plan: Plan
    path: str
    diagnostics: tuple[Diagnostic, ...]
    config_hash: str
    marks: Mapping[str, tuple[int, int]] = field(repr=False)

    def mark(self, key: str) -> tuple[int, int] | None:
        """Where the file states a key.

        Args:
            key: dotted, as written or in the long form: "budget.epsilon", "data.levels[0].count",
                "phases[1].training.steps" (also when the phase inherits it).

        Returns:
            1-based line and column of the key (of the item in a list), None when the file does not state it.
        """
        return self.marks.get(key)


def load(path: str, *, assignments: Sequence[str] = (), overrides: Overrides = NOTHING) -> Loaded:
    """The plan in a file.

    Args:
        path: file name, "-" for standard input.
        assignments: overriding values such as "training.steps=1000", read by the rules of the file.
        overrides: what else the command line says.

    Returns:
        The plan with warnings and notes.

    Raises:
        ConfigError: the file cannot be used; holds all errors.
    """
    return _loaded(decode(read(path), STDIN if path == "-" else path), _both(assignments, overrides))


def load_text(text: str, *, path: str, assignments: Sequence[str] = (), overrides: Overrides = NOTHING) -> Loaded:
    """The plan in a text; otherwise as `load`.

    Args:
        text: YAML.
        path: the name for messages.
        assignments: overriding values.
        overrides: what else the command line says.

    Returns:
        The plan with warnings and notes.

    Raises:
        ConfigError: the text cannot be used; holds all errors.

    Example:
        >>> text = "{version: 1, data: {examples: 100}, sampling: {scheme: all}, training: {steps: 3}, "
        >>> text += "mechanism: {noise_multiplier: 2}, privacy: {delta: 1e-5}}"
        >>> load_text(text, path="example.yaml").plan.steps
        3
    """
    return _loaded(source_of(text, path), _both(assignments, overrides))


def _both(assignments: Sequence[str], overrides: Overrides) -> Overrides:
    """Overrides with more assignments."""
    return replace(overrides, assignments=(*assignments, *overrides.assignments))


def _loaded(source: Source, overrides: Overrides) -> Loaded:
    """The stages from text to plan."""
    tree, syntax = parse(source)
    if not isinstance(tree, Section):
        raise ConfigError([*syntax, unexpected(tree, "a mapping of keys")])
    changed, unreadable = changes(overrides)
    root, settings, lost = long_form(tree, changed)
    foreign = tuple(_foreign(root))
    if foreign:
        raise ConfigError(foreign)
    holes = tuple(unresolved(root))
    found, wrong = sections(root)
    faults = (*_version(root), *wrong, *contradictions(found), *lost, *without_effect(settings, tuple(_used(root))))
    errors = (*syntax, *unreadable, *holes, *_elsewhere(faults, holes))
    if errors:
        raise ConfigError(_ordered(errors, source.path))
    plan = build(found)
    return Loaded(
        plan=plan,
        path=source.path,
        diagnostics=_ordered(remarks(found), source.path),
        config_hash=fingerprint(plan),
        marks=_marks(source, tree, root),
    )


def _foreign(root: Section) -> Iterator[Diagnostic]:
    """What makes a file something else than a version 1 config, so that nothing more is worth saying."""
    inside = root.entries.get("dpcalc")
    version = root.entries.get("version")
    if inside is not None:
        message = f"a `dpcalc:` section inside a training config {NOT_YET}"
        yield error("DPC104", inside.key or inside.anchor, message, "move it to a file of its own")
    elif isinstance(root.entries.get("defaults"), Items):
        yield from hydra_defaults(root)
    elif isinstance(version, Scalar) and isinstance(number := scalars.value(version), Fraction) and number != VERSION:
        message = f"version {version.text} of the config file {NOT_YET}"
        yield error("DPC104", version.anchor, message, f"this dpcalc reads `version: {VERSION}`")
    phases = root.entries.get("phases")
    inherited = sum(1 for key in RUN_KEYS if key in root.entries for _ in walk(root.entries[key], key))
    if isinstance(phases, Items) and inherited * len(phases.items) > MAX_INHERITED:
        message = f"{len(phases.items)} phases inherit {inherited} keys and values each"
        yield error("DPC111", phases.anchor, message, "a config is a few lines: is this the right file?")


def _version(root: Section) -> Iterator[Diagnostic]:
    """A version that is missing or no number."""
    version = root.entries.get("version")
    if version is None:
        yield missing(root, "version")
    elif not isinstance(version, Scalar) or not isinstance(scalars.value(version), Fraction):
        yield unexpected(version, f"the number {VERSION}")


def _used(root: Section) -> Iterator[Node]:
    """The trees a plan is made of: of inherited sections only what phases keep."""
    for key, value in root.entries.items():
        if key not in {*RUN_KEYS, "phases"}:
            yield value
    for run in runs(root):
        yield run.sections
        name = run.at.entries.get("name")
        if name is not None:
            yield name


def _elsewhere(faults: Iterable[Diagnostic], holes: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Faults that are not just another view of a hole at the same place."""
    taken = {(hole.path, hole.line, hole.column) for hole in holes}
    return (fault for fault in faults if (fault.path, fault.line, fault.column) not in taken)


def _ordered(diagnostics: Iterable[Diagnostic], path: str) -> tuple[Diagnostic, ...]:
    """Each finding once, in the order of the file; what concerns `--set` comes last."""
    unique = dict.fromkeys(diagnostics)
    return tuple(sorted(unique, key=lambda item: (item.path != path, item.path, item.line or 0, item.column or 0)))


def _marks(source: Source, written: Section, root: Section) -> dict[str, tuple[int, int]]:
    """Line and column by dotted key: as written first, then as the long form calls it."""
    trees = [("", written), ("", root), *((run.path, run.sections) for run in runs(root))]
    marks: dict[str, tuple[int, int]] = {}
    for start, tree in trees:
        for path, node in walk(tree, start):
            place = node.key or node.mark
            if path and place.source is source:
                marks.setdefault(path, (place.line, place.column))
    return marks
