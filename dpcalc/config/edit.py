"""Edits of config files in place for `--write`: character positions of values, and replacement of numbers."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Context, Decimal, Inexact
from fractions import Fraction

import yaml

from dpcalc.config import scalars
from dpcalc.config.documents import config_part
from dpcalc.config.expand import Run, long_form, runs
from dpcalc.config.files import save
from dpcalc.config.load import load_text
from dpcalc.config.overrides import Changes, Overrides
from dpcalc.config.scalars import AT_MOST, BATCH_SIZE
from dpcalc.config.source import ConfigError, Mark, Source, decode, read_bytes, visible
from dpcalc.config.tree import Scalar, Section, join, node_at
from dpcalc.config.yaml_text import parse_yaml
from dpcalc.errors import InputError
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, BallsInBins, CappedPoisson, CyclicPoisson, Poisson, RandomAllocation

_LINE_END = re.compile(r"\r\n|\r|\n|\Z")


@dataclass(frozen=True, kw_only=True)
class ScalarSpan:
    """A scalar in the text, as written.

    Attributes:
        start: 0-based index of its first character.
        stop: index after its last character.
        anchor: name of the YAML anchor through which other places repeat it, or "".
    """

    start: int
    stop: int
    anchor: str


@dataclass(frozen=True, kw_only=True)
class MappingSpan:
    """A mapping in the text, as written.

    Attributes:
        start: 0-based index of its first character.
        indent: blanks before its keys, if it is not written in braces.
        flow: True if it is written in braces.
        empty: True if it has no keys.
        first: index after the value of its first key if that is a scalar on the key's line, else None.
        anchor: name of the YAML anchor through which other places repeat it, or "".
    """

    start: int
    indent: int
    flow: bool
    empty: bool
    first: int | None
    anchor: str


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A replacement of text[start:stop]."""

    start: int
    stop: int
    text: str


class TextPositions:
    """Character positions of the scalars and mappings of a YAML text, by line and column."""

    def __init__(self, source: Source) -> None:
        """Record the span of every scalar and mapping, with the repeated YAML anchor on or around it."""
        self._text = source.text
        self._scalars: dict[tuple[int, int], ScalarSpan] = {}
        self._mappings: dict[tuple[int, int], MappingSpan] = {}
        # Marks of the tree have lines and columns; edits need indices into the text, which only the events have.
        events = tuple(yaml.parse(source.text, Loader=yaml.SafeLoader))
        aliased = {event.anchor for event in events if isinstance(event, yaml.AliasEvent)}
        shared = [""]
        for number, event in enumerate(events):
            if isinstance(event, yaml.CollectionEndEvent):
                shared.pop()
            elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
                anchor = event.anchor if event.anchor and event.anchor in aliased else shared[-1]
                self._record_event(event, events[number + 1 : number + 3], anchor)
                if isinstance(event, yaml.CollectionStartEvent):
                    shared.append(anchor)

    def scalar(self, mark: Mark | None) -> ScalarSpan | None:
        """Return the scalar that stands at a mark, None if there is none."""
        return None if mark is None else self._scalars.get((mark.line, mark.column))

    def mapping(self, mark: Mark) -> MappingSpan | None:
        """Return the mapping that begins at a mark, None if there is none."""
        return self._mappings.get((mark.line, mark.column))

    def insertion(self, mapping: MappingSpan, entry: str) -> Edit:
        """Return the edit that adds "key: value" to a mapping, after its first entry or at its start."""
        # After the first entry, not at the end: the end of a block mapping is hard to tell from comments behind it.
        if mapping.flow:
            return _braced_insertion(mapping, entry)
        between = self._line_separator() + " " * mapping.indent
        if mapping.first is None:
            return Edit(start=mapping.start, stop=mapping.start, text=f"{entry}{between}")
        offset = self._line_end(mapping.first)
        return Edit(start=offset, stop=offset, text=f"{between}{entry}")

    def _record_event(self, event: yaml.Event, following: Sequence[yaml.Event], anchor: str) -> None:
        """Store the span of a scalar or mapping, with its anchor, by its line and column; nothing for a list."""
        start, stop = _event_span(event)
        place = (start.line + 1, start.column + 1)
        if isinstance(event, yaml.ScalarEvent):
            begin = start.index if event.style else stop.index - len(event.value)  # after an anchor's name
            self._scalars[place] = ScalarSpan(start=begin, stop=stop.index, anchor=anchor)
        elif isinstance(event, yaml.MappingStartEvent):
            self._mappings[place] = MappingSpan(
                start=start.index,
                indent=start.column,
                flow=bool(event.flow_style),
                empty=isinstance(following[0], yaml.MappingEndEvent),
                first=_first_value_end(following),
                anchor=anchor,
            )

    def _line_end(self, index: int) -> int:
        """Return the index after the last character of a line."""
        match = _LINE_END.search(self._text, index)
        return len(self._text) if match is None else match.start()

    def _line_separator(self) -> str:
        """Return the line break of the text, that of its first line."""
        match = _LINE_END.search(self._text)
        return match.group() if match and match.group() else "\n"


def _braced_insertion(mapping: MappingSpan, entry: str) -> Edit:
    """Return the edit that adds an entry to a mapping in braces, after its first entry or at its start."""
    if mapping.first is not None:
        return Edit(start=mapping.first, stop=mapping.first, text=f", {entry}")
    offset = mapping.start + 1
    return Edit(start=offset, stop=offset, text=entry if mapping.empty else f"{entry}, ")


def _apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits made, which do not overlap; their indices are those of the original text."""
    # From the end of the text to its beginning, so that earlier indices stay valid.
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return text


def _first_value_end(following: Sequence[yaml.Event]) -> int | None:
    """Return the text's index after a mapping's first value; None unless it and its key are scalars on one line."""
    match following:
        case [yaml.ScalarEvent() as key, yaml.ScalarEvent() as value]:
            begin, end = _event_span(key)[0], _event_span(value)[1]
            return end.index if begin.line == end.line else None
        case _:
            return None


def _event_span(event: yaml.Event) -> tuple[yaml.Mark, yaml.Mark]:
    """Return the marks of PyYAML where an event begins and ends; TypeError if it has none."""
    start, stop = event.start_mark, event.end_mark
    if not isinstance(start, yaml.Mark) or not isinstance(stop, yaml.Mark):
        raise TypeError("expected marks of a text, got none")
    return start, stop


# `--write`: numbers are replaced where a file states them; comments, order and all other bytes stay.

_EXACT = Context(prec=200, traps=[Inexact])  # digits of any decimal that is written; others raise Inexact
_MAX_DIGITS = 24  # of a number in a file; longer ones are refused instead of written


@dataclass(frozen=True, kw_only=True)
class _NumberChange:
    """The number of one key in one phase, before and after.

    Attributes:
        run: the phase in the file.
        keys: key of the number in the long form, from the phase.
        node: scalar that the phase has it from, None if the file does not state it.
        amount: the new number.
        count: units at its level, 1 if there is no level.
        changed: True if the number differs from the old one.
    """

    run: Run
    keys: tuple[str, ...]
    node: Scalar | None
    amount: Fraction
    count: Fraction = Fraction(1)
    changed: bool

    @property
    def path(self) -> str:
        """Dotted key."""
        return ".".join(filter(None, (self.run.path, *self.keys)))


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """A file and the plan that it shall state.

    Attributes:
        path: the file.
        key: dotted path of the part of it that is the config, as for `load`.
        section: what differs: "mechanism" (noise), "training" (steps) or "sampling" (sizes and rates).
        before: the plan that the file states, with assumed values.
        after: the plan that it shall state by itself.
        assumed: "key=value" texts that hold where the file says nothing.
    """

    path: str
    key: str = ""
    section: str
    before: Plan
    after: Plan
    assumed: tuple[str, ...] = ()


def write(rewrite: Rewrite) -> tuple[str, ...]:
    """Write the new numbers of a plan to its file; return "path:line: key: value" of each."""
    data = read_bytes(rewrite.path)
    source = decode(data, rewrite.path)
    _refuse_plan_of_options(source, rewrite)
    text, written = edited(source.text, rewrite)
    mark = data[: len(data) - len(source.text.encode())]  # of the byte order
    save(rewrite.path, mark + text.encode())
    return written


def _refuse_plan_of_options(source: Source, rewrite: Rewrite) -> None:
    """Raise InputError if `rewrite.before` is not the plan of the file alone, but options changed it."""
    # With options the plan is not what the file states; writing the solution alone would then state a third plan.
    assumed = Overrides(assumed=rewrite.assumed)
    if load_text(source.text, path=rewrite.path, key=rewrite.key, overrides=assumed).plan != rewrite.before:
        raise InputError(
            f"--write: {visible(rewrite.path)}: expected a file that means this run by itself, got one that options "
            "change; put them into the file first, or leave out --write"
        )


def edited(text: str, rewrite: Rewrite) -> tuple[str, tuple[str, ...]]:
    """Return a config's text with the numbers of `rewrite.after`, and a line about each; InputError if impossible."""
    source = decode(text.encode(), rewrite.path)
    changes = _number_changes(source, rewrite)
    try:
        edits, written = _edits(changes, TextPositions(source))
        fresh = _require_plan(_apply_edits(source.text, edits), rewrite)
    except _Refusal as cause:
        where, advice = visible(rewrite.path), _manual_advice(changes, rewrite.key)
        raise InputError(f"--write: {where}: {cause}; nothing was changed. {advice}") from cause
    return fresh, tuple(f"{rewrite.path}:{line}: {words}" for line, words in written)


def _number_changes(source: Source, rewrite: Rewrite) -> list[_NumberChange]:
    """Return the numbers of one section in each phase, changed or not, with their values in the new plan."""
    tree, _ = parse_yaml(source)
    root, _, _ = long_form(config_part(tree, rewrite.key)[0], Changes())
    pairs = zip(runs(root), rewrite.before.phases, rewrite.after.phases, strict=True)
    return [change for run, old, new in pairs for change in _SECTIONS[rewrite.section](run, old, new)]


class _Refusal(Exception):
    """Reason not to put a value into a text; it becomes part of an InputError."""


def _require_plan(text: str, rewrite: Rewrite) -> str:
    """Return `text` if it loads as the plan `rewrite.after`; raise _Refusal for another plan or an error."""
    try:
        # The edits are right if and only if the new text means the new plan: anchors, merges and references are not
        # reasoned about, the text is loaded.
        if load_text(text, path=rewrite.path, key=rewrite.key).plan == rewrite.after:
            return text
    except ConfigError:
        pass
    raise _Refusal("the value cannot be changed in one place without changing something else")


def _noise_changes(run: Run, old: Phase, new: Phase) -> Iterator[_NumberChange]:
    """Yield a phase's noise with its new number, even an equal one; nothing for a mechanism without noise."""
    if old.noise_multiplier is None or new.noise_multiplier is None:
        return
    key = getattr(old.mechanism, "noise_key", "noise_multiplier")
    before, amount = (Fraction(repr(float(getattr(phase.mechanism, key)))) for phase in (old, new))
    keys = ("mechanism", key)
    yield _NumberChange(run=run, keys=keys, node=_stated_scalar(run, keys), amount=amount, changed=before != amount)


def _length_changes(run: Run, old: Phase, new: Phase) -> Iterator[_NumberChange]:
    """Yield the new number of a phase's steps, even an equal one, for stated `steps`, `epochs` or neither."""
    keys = ("training", "steps")
    node = _stated_scalar(run, keys) or _stated_scalar(run, ("training", "epochs"))
    yield _NumberChange(run=run, keys=keys, node=node, amount=Fraction(new.steps), changed=old.steps != new.steps)


def _draw_changes(run: Run, old: Phase, new: Phase) -> Iterator[_NumberChange]:
    """Yield the steps if stated `epochs` would mean others, then the amount that is drawn of each level."""
    if _epochs_need_other_steps(run, old, new):
        yield from (replace(change, changed=True) for change in _length_changes(run, old, new))
    for before, after in zip(old.hierarchy.levels, new.hierarchy.levels, strict=True):
        yield from _amount_changes(run, before, after)


def _amount_changes(run: Run, old: Level, new: Level) -> Iterator[_NumberChange]:
    """Yield the new amount of a level's draw, even an equal one; nothing if all are drawn and no amount is stated."""
    node = _stated_amount(run, new.name)
    if node is None and isinstance(new.scheme, All):
        return
    key, amount = _draw_amount(new)
    yield _NumberChange(
        run=run,
        keys=("sampling", new.name, key),
        node=node,
        amount=amount,
        count=Fraction(new.count, getattr(new.scheme, "groups", 1)),
        changed=old.scheme != new.scheme,
    )


def _epochs_need_other_steps(run: Run, old: Phase, new: Phase) -> bool:
    """Return True if a phase states `epochs` and its draws change so that these would no longer make `new.steps`."""
    epochs = scalars.number_of(_stated_scalar(run, ("training", "epochs")))
    return old.hierarchy != new.hierarchy and epochs is not None and new.hierarchy.steps_of(epochs) != new.steps


def _stated_amount(run: Run, level: str) -> Scalar | None:
    """Return the scalar that states the amount of a level's draw, under any key; None without one."""
    paths = (("size",), ("size", AT_MOST), ("rate",), ("expected",), (BATCH_SIZE,), ("bins",), ("times",))
    nodes = (_stated_scalar(run, ("sampling", level, *keys)) for keys in paths)
    return next((node for node in nodes if node), None)


_SECTIONS: dict[str, Callable[[Run, Phase, Phase], Iterator[_NumberChange]]] = {
    "mechanism": _noise_changes,
    "training": _length_changes,
    "sampling": _draw_changes,
}


def _draw_amount(level: Level) -> tuple[str, Fraction]:
    """Return the key and number of a draw's amount: its "rate", "bins" or "times", else the number drawn as "size"."""
    match level.scheme:
        case Poisson() | CappedPoisson() | CyclicPoisson() as poisson:
            return "rate", poisson.probability
        case BallsInBins(bins=bins):
            return "bins", Fraction(bins)
        case RandomAllocation(times=times):
            return "times", Fraction(times)
        case _:
            return "size", Fraction(level.max_drawn)


def _stated_scalar(run: Run, keys: tuple[str, ...]) -> Scalar | None:
    """Return the scalar at a path of keys in what a phase is made of, None if there is none."""
    node = node_at(run.sections, *keys)
    return node if isinstance(node, Scalar) else None


def _edits(changes: list[_NumberChange], positions: TextPositions) -> tuple[list[Edit], list[tuple[int, str]]]:
    """Return the edits that write each number, and the line and text of each for the report."""
    edits: list[Edit] = []
    written: list[tuple[int, str]] = []
    for change in _numbers_to_write(changes):
        node = change.node
        if node is None:
            edits.append(_insertion_edit(change, positions))
            written.append((change.run.at.mark.line, f"{change.path}: {_full_decimal(change.amount)}"))
        else:
            edits += _replacement_edits(change, node, positions)
            key, text = _stated_text(change, node)
            written.append((node.mark.line, f"{key}: {text} (was {node.path.rpartition('.')[2]}: {node.text})"))
    return edits, written


def _numbers_to_write(changes: list[_NumberChange]) -> list[_NumberChange]:
    """Return the unstated numbers, then those that changed; each replaces its `node`, or is inserted if it is None."""
    # Phases can share a scalar by inheritance, so that its users are collected before any place is chosen.
    users: dict[tuple[int, int], list[_NumberChange]] = {}
    for change in changes:
        if change.node is not None:
            users.setdefault((change.node.mark.line, change.node.mark.column), []).append(change)
    stated = [change for group in users.values() for change in _changes_of_scalar(group)]
    return [change for change in changes if change.node is None] + stated


def _changes_of_scalar(users: list[_NumberChange]) -> list[_NumberChange]:
    """Return one replacement if all phases that use a scalar get one new number, else an insertion for each change."""
    changed = [change for change in users if change.changed]
    if len(changed) == len(users) and len({change.amount for change in changed}) == 1:
        return changed[:1]
    return [replace(change, node=None) for change in changed]


def _replacement_edits(change: _NumberChange, node: Scalar, positions: TextPositions) -> list[Edit]:
    """Return the edits that replace a number and, if needed, its key; _Refusal for a reference or an anchor."""
    scalar, name = positions.scalar(node.mark), positions.scalar(node.key)
    if "${" in node.text:
        raise _Refusal(f"`{node.path}` is the reference `{node.text}`; the value stands elsewhere")
    if scalar is not None and scalar.anchor:
        raise _Refusal(f"`{change.path}` comes from the anchor `&{scalar.anchor}`, which other places repeat")
    key, text = _stated_text(change, node)
    is_renamed = key != node.path.rpartition(".")[2]
    if scalar is None or (is_renamed and (name is None or name.anchor)):
        raise _Refusal(f"`{node.path}` is written in a way that cannot be changed safely")
    edits = [Edit(start=scalar.start, stop=scalar.stop, text=text)]
    if is_renamed and name is not None:
        edits.append(Edit(start=name.start, stop=name.stop, text=key))
    return edits


def _stated_text(change: _NumberChange, node: Scalar) -> tuple[str, str]:
    """Return the key and value to write in the user's form, with `_` between thousands if the old text has one."""
    key, amount = _stated_form(change, node.path.rpartition(".")[2])
    if "_" in node.text and amount.denominator == 1:
        return key, f"{amount.numerator:_}"
    return key, _full_decimal(amount)


def _stated_form(change: _NumberChange, stated_key: str) -> tuple[str, Fraction]:
    """Return the key and number that replace a stated key: `steps` for `epochs`, else the same key in its own unit."""
    if stated_key == "epochs":
        return "steps", change.amount
    if change.keys[-1] == "rate" and stated_key in {"expected", BATCH_SIZE}:
        return _rate_in_units(stated_key, change.amount, change.count)
    return stated_key, change.amount


def _rate_in_units(stated_key: str, rate: Fraction, count: Fraction) -> tuple[str, Fraction]:
    """Return the stated key with the mean number drawn, rate * count; ("rate", rate) for a fractional `expected`."""
    number = rate * count
    # A `batch_size` cannot become a rate, which would have to stand in another section.
    return ("rate", rate) if stated_key == "expected" and number.denominator != 1 else (stated_key, number)


def _insertion_edit(change: _NumberChange, positions: TextPositions) -> Edit:
    """Return the edit that adds a number and its missing sections; _Refusal if a YAML anchor repeats the place."""
    section, keys = change.run.at, change.keys
    while len(keys) > 1 and isinstance(below := section.entries.get(keys[0]), Section):
        section, keys = below, keys[1:]
    mapping = positions.mapping(section.mark)
    if mapping is None or mapping.anchor:
        raise _Refusal(f"`{change.path}` has no place of its own in the file")
    *above, last = keys
    text = f"{last}: {_full_decimal(change.amount)}"
    for key in reversed(above):
        text = f"{key}: {{{text}}}"
    return positions.insertion(mapping, text)


def _full_decimal(amount: Fraction) -> str:
    """Return the shortest exact decimal of a number; _Refusal if there is none, or it has too many digits."""
    if amount.denominator == 1:
        return str(amount.numerator)
    try:
        exact = _EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    except Inexact:
        raise _Refusal(f"{amount} is no decimal number") from None
    # The shortest decimal of the float is what a person would write; it counts only if it is the number exactly.
    short = repr(float(exact))
    if Decimal(short) == exact:
        return short
    if len(exact.as_tuple().digits) > _MAX_DIGITS:
        raise _Refusal(f"{exact} has too many digits")
    return format(exact, "f")


def _manual_advice(changes: list[_NumberChange], key: str) -> str:
    """Return "By hand: `key.path: value`, ..." of the numbers that change or that the file does not state."""
    amounts = [(join(key, change.path), change.amount) for change in changes if change.changed or change.node is None]
    texts = [f"`{path}: {amount.numerator if amount.denominator == 1 else float(amount)}`" for path, amount in amounts]
    return f"By hand: {', '.join(texts)}"
