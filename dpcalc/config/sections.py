"""Reading of a config: every section by its declaration, with all errors at once.

A config is judged in two rounds. Here each section is read by itself, and errors in one hide none in another. Once all
are right, `rules` judges what they say about each other, with every value at hand.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

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
from dpcalc.config.scalars import AMOUNT_KEYS, AT_MOST, BATCH_SIZE, EPISODES, LABEL, AtMost, DrawSize
from dpcalc.config.schema import (
    MAX_PHASES,
    SCHEMES,
    Accounting,
    Data,
    Draw,
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
from dpcalc.planner.plan import Budget
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Episodes
from dpcalc.sampling.trees import Tree

M = TypeVar("M")


@dataclass(frozen=True, kw_only=True)
class RunSections(Run):
    """One phase, and what its sections say."""

    draws: dict[str, Draw]  # by level; {} for constructed tasks
    episodes: Episodes | None
    mechanism: Mechanism
    clip: str | None  # name of the clipping level, where one is stated
    votes: str  # the file with the votes of teachers as written, or ""
    training: Training

    def node(self, *keys: str) -> Node | None:
        """Return the value at a path of keys in this phase, inherited sections included; None if there is none."""
        return node_at(self.sections, *keys)


@dataclass(frozen=True, kw_only=True)
class Sections:
    """A config whose sections are all right by themselves."""

    root: Section  # the file in its long form
    names: tuple[str, ...]  # of the levels, outermost first
    counts: tuple[tuple[int, int], ...]  # (fewest, most) units of each level under one parent
    tree: Tree | None
    privacy: Privacy
    method: str
    budget: Budget | None
    tuning: Tuning | None
    partition: Partition | None
    runs: tuple[RunSections, ...]


def read_sections(root: Section, files: Files) -> Sections:
    """Return the sections of a file and its phases; ConfigError with one error for each mistake in them."""
    return _Reader(root, files).file(root)


class _Reader:
    """What its methods return is whole only if `errors` is empty in the end; wrong values are None until then."""

    def __init__(self, root: Section, files: Files) -> None:
        self.errors: list[Diagnostic] = []
        self.files, self.mechanism_files = files, MechanismFiles(files)
        self.names = level_names(root)  # None if the file states none
        # Sections that unknown keys of the file and its phases probably mean are not called missing.
        phases = root.entries.get("phases")
        items = phases.items if isinstance(phases, Items) else ()
        phase_keys = [key for phase in items if isinstance(phase, Section) for key in phase.entries]
        self.meant = sections_meant(root.entries) | sections_meant(phase_keys, "phases[]")

    def file(self, root: Section) -> Sections:
        """Return the sections of the file; ConfigError with all errors."""
        phases = root.entries.get("phases")
        mappings: tuple[Node, ...] = (root,)
        if isinstance(phases, Items):
            mappings += phases.items
            if not 1 <= len(phases.items) <= MAX_PHASES:
                message = f"`phases` must hold 1 to {MAX_PHASES} phases, got {len(phases.items)}"
                self.errors.append(error("DPC106", phases.anchor, message))
        elif phases is not None:
            self.errors.append(wrong_type_error(phases, "a list of phases"))
        for mapping in mappings:
            self.labels_and_keys(mapping)
        data = self.section(Data, self.required(root, "data"))
        tree, stated_tree = None, node_at(root, "data", "tree")
        if self.names and stated_tree is not None:
            try:
                tree = data_tree(stated_tree, self.names, self.files)
            except ConfigError as cause:
                self.errors.extend(cause.diagnostics)
        self.check_sizes(root)
        if phases is not None:
            # What is missing at the top may stand in the phases.
            before = len(self.errors)
            self.run(base_run(root), is_whole=False)
            self.errors[before:] = [each for each in self.errors[before:] if each.code != "DPC103"]
        all_runs = tuple(self.run(run, is_whole=True) for run in runs(root))
        privacy = self.section(Privacy, self.required(root, "privacy"))
        accounting = self.section(Accounting, root.entries.get("accounting")) or Accounting()
        budget, tuning, partition = (
            self.section(model, root.entries.get(model.__name__.lower())) for model in (Budget, Tuning, Partition)
        )
        if self.errors:
            raise ConfigError(self.errors)
        return Sections(
            root=root,
            names=tuple(level.name for level in data.levels),
            counts=tuple((min(sizes), max(sizes)) for sizes in tree.sizes)
            if tree
            else tuple((level.count or level.min, level.count or level.max) for level in data.levels),
            tree=tree,
            privacy=privacy,
            method=accounting.method,
            budget=budget,
            tuning=tuning,
            partition=partition,
            runs=all_runs,
        )

    # Values by their declaration.

    def value(self, kind: ValueType, node: Node, name: str) -> Any:
        """Return a node as its type reads it: as it is, a tuple of sections, an AtMost or a scalar's value."""
        if isinstance(kind, Structure):
            return node
        if isinstance(kind, ListOf):
            if not isinstance(node, Items):
                self.errors.append(wrong_type_error(node, kind.form))
                return None
            before = len(self.errors)
            items = tuple(self.section(kind.item, item) for item in node.items)
            if len(self.errors) == before and not kind.min_length <= len(items) <= kind.max_length:
                message = f"`{node.path}` must hold {kind.length_words}, got {len(items)}"
                self.errors.append(error("DPC106", node.anchor, message))
            return items
        if isinstance(kind, DrawSize) and entries_of(node).keys() == {AT_MOST}:
            return AtMost(size=self.value(COUNT, entries_of(node)[AT_MOST], AT_MOST))
        value = scalars.value(node) if isinstance(node, Scalar) else node
        if getattr(kind, "quotients", False) and isinstance(value, str):
            value = scalars.parse_quotient(value) or value  # 1/97
        try:
            return kind.check(value)
        except WrongValueError as cause:
            wrong = wrong_value_error(node, cause)
            if isinstance(kind, Word):
                wrong = wrong_word_error(name, node, kind.allowed)
            elif name == "size" and kind is COUNT and entry(node, AT_MOST):
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

    def section(self, model: type[M], node: Node | None) -> Any:
        """Return a section as its dataclass; None if it is absent or wrong."""
        if node is None:
            return None
        # Short forms are written out before, so that one which is left over is an unknown key.
        before = len(self.errors)
        values = self.values({name: key for name, key in keys_of(model).items() if not key.is_short_form}, node)
        values = _as_floats(values) if model is Budget else values
        return model(**values) if len(self.errors) == before else None

    def required(self, parent: Section, key: str) -> Node | None:
        """Return a section of a file or phase; missing, it is an error unless an unknown key probably means it."""
        if key not in parent.entries and key not in self.meant:
            self.errors.append(missing_key_error(parent, key))
        return parent.entries.get(key)

    def check_choice(self, section: Section, keys: tuple[str, str], hint: str, *, is_required: bool) -> None:
        """Add DPC107 if a section states both of two keys, DPC103 if it must state one of them and does not."""
        stated = [key for key in section.entries if key in keys]
        if len(stated) > 1:
            node = section.entries[stated[-1]]
            message = f"`{keys[0]}` and `{keys[1]}` in `{section.path}` both say the same thing"
            self.errors.append(error("DPC107", node.key or node.anchor, message, "keep one of them"))
        elif not stated and is_required:
            message = f"`{section.path}` needs `{keys[0]}` or `{keys[1]}`"
            self.errors.append(error("DPC103", section.anchor, message, hint))

    # The sections.

    def labels_and_keys(self, mapping: Node) -> None:
        """Check that a file or phase is a mapping, the names that it is printed with, and that its keys are known."""
        if not isinstance(mapping, Section):
            self.errors.append(wrong_type_error(mapping, "a mapping"))
            return
        for key, value in entries_of(mapping).items():
            if key in keys_in("phases[]" if mapping.path else ""):
                continue
            if mapping.path and key in keys_in(""):
                message = f"`{key}` cannot change between phases"
                problem = error("DPC104", value.key or value.anchor, message, "move it to the top level")
            else:
                problem = unknown_key_error(mapping, key, value)
            self.errors.append(problem)
        for key in ("name", "part"):
            if key in mapping.entries:
                self.value(LABEL, mapping.entries[key], key)

    def check_sizes(self, root: Section) -> None:
        """Check that each level has one size, a count or a range; none beside a tree, which has them all."""
        levels = node_at(root, "data", "levels")
        items = levels.items if isinstance(levels, Items) else ()
        has_tree = node_at(root, "data", "tree") is not None
        if has_tree and len(items) == 1:
            return  # a tree over one level is an error by itself
        for level in items:
            stated = {key: node for key, node in entries_of(level).items() if key in {"count", "min", "max"}}
            count = stated.get("count")
            if has_tree:
                for key, node in stated.items():
                    message = f"`{key}` in `{level.path}` and `data.tree` both say how many there are"
                    hint = "with a tree the levels have names only"
                    self.errors.append(error("DPC107", node.key or node.anchor, message, hint))
            elif isinstance(count, Scalar) and len(stated) > 1:
                others = " and ".join(f"`{key}`" for key in stated if key != "count")
                message = f"`count` and {others} in `{level.path}` both say how many there are"
                self.errors.append(error("DPC107", count.key or count.anchor, message, "keep one of them"))
            elif (
                count is None
                and isinstance(level, Section)
                and entries_of(level).keys() <= keys_in("data.levels[]").keys()
            ):
                missing = ("min", "max") if stated else ("count",)
                self.errors.extend(missing_key_error(level, key) for key in missing if key not in stated)
                fewest, largest = (scalars.number_of(stated.get(key)) for key in ("min", "max"))
                if fewest is not None and largest is not None and fewest > largest:
                    message = f"`{stated['min'].path}` is {fewest}, more than the {largest} of `max`"
                    self.errors.append(error("DPC106", stated["min"].anchor, message, "check both numbers"))

    def run(self, run: Run, *, is_whole: bool) -> RunSections:
        """Return the sections of a phase; `is_whole` is False for the top level, which phases complete."""
        mechanism, clip, votes = self.mechanism(self.required(run.sections, "mechanism"))
        draws, episodes = self.sampling(run, is_whole=is_whole)
        return RunSections(
            at=run.at,
            path=run.path,
            sections=run.sections,
            draws=draws,
            episodes=episodes,
            mechanism=mechanism,
            clip=clip,
            votes=votes,
            training=self.training(run, is_whole=is_whole),
        )

    def sampling(self, run: Run, *, is_whole: bool) -> tuple[dict[str, Draw], Any]:
        """Return the draws by level, and how tasks are constructed or None."""
        stated = entry(run.sections.entries.get("sampling"), EPISODES)
        sampling = self.required(run.sections, "sampling")
        names = self.names or ()
        draws: dict[str, Draw] = {}
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
                self.errors.append(error("DPC107", node.key or node.anchor, message, hint))
            try:
                return draws, self.section(Episodes, stated)
            except KeyedInputError as cause:
                self.errors.append(keyed_error(sampling, cause))
                return draws, None
        misread = no_levels_error(sampling, names)
        if misread:
            self.errors.append(misread)
            return draws, None
        for name, node in entries_of(sampling).items():
            before = len(self.errors)
            draws[name] = self.draw(node)
            scheme = entry(node, "scheme")
            takes = SCHEMES.get(scheme.text, ()) if isinstance(scheme, Scalar) else ()
            if is_whole and name in names and isinstance(node, Section) and "expected" in takes:
                hint = "`expected` is the average number drawn: rate = expected / count"
                self.check_choice(node, ("rate", "expected"), hint, is_required=len(self.errors) == before)
        return draws, None

    def draw(self, node: Node) -> Any:
        """Return the draw of a level, by the keys that its scheme takes."""
        if not isinstance(node, Section):
            self.errors.append(wrong_type_error(node, DRAW_FORM))
            return None
        before, scheme = len(self.errors), node.entries.get("scheme")
        if scheme is None:
            self.errors.extend(missing_scheme_errors(node))
        elif not isinstance(scheme, Scalar) or scheme.text not in SCHEMES:
            self.errors.append(wrong_word_error("scheme", scheme, tuple(SCHEMES)))
        else:
            values = self.values(draw_keys(scheme.text), node)
            if len(self.errors) == before:
                return Draw(**values)
        return None

    def mechanism(self, node: Node | None) -> tuple[Any, str | None, str]:
        """Return the mechanism, with data files read, and what a phase holds of it: clipping level and votes file."""
        stated = entry(node, "type")
        name = "gaussian" if stated is None else stated.text if isinstance(stated, Scalar) else ""
        if node is None or name not in MECHANISMS:
            if node is not None and stated is not None:
                self.errors.append(wrong_word_error("type", stated, tuple(MECHANISMS)))
            return None, None, ""
        before = len(self.errors)
        keys = mechanism_keys(name)
        values = self.values(keys, node)
        try:
            values |= self.mechanism_files.read(keys, node)  # the data replace the nodes that state them
            if len(self.errors) > before:
                return None, None, ""
            values.pop("type", None)
            clip, votes = values.pop("clip", None), values.pop("votes", "")
            return mechanism_class(name).of(**_as_floats(values)), clip, votes
        except ConfigError as cause:
            self.errors.extend(cause.diagnostics)
        except KeyedInputError as cause:
            self.errors.append(keyed_error(node, cause))
        return None, None, ""

    def training(self, run: Run, *, is_whole: bool) -> Any:
        """Return the length of a phase."""
        training, names = self.required(run.sections, "training"), self.names or ()
        if not isinstance(training, Section):
            return self.section(Training, training)
        size = training.entries.get(BATCH_SIZE)  # with one level it is moved into the draw before
        if size and len(names) > 1:
            message = f"`batch_size` is for data with one level, and these have {len(names)} ({', '.join(names)})"
            hint = f"write `size` or `expected` in `sampling.{names[0]}`"
            self.errors.append(error("DPC107", size.key or size.anchor, message, hint))
        length = self.section(Training, without_keys(training, BATCH_SIZE))
        if is_whole:
            hint = "e.g. `steps: 10_000`"
            self.check_choice(training, ("steps", "epochs"), hint, is_required=length is not None)
        return length


def _as_floats(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with exact numbers as floats, for classes that compute with them."""
    return {key: float(value) if isinstance(value, Fraction) else value for key, value in values.items()}
