"""Changes of configs: what two differ in, key by key, and edits in place for `--write`."""

import re
from collections.abc import Iterator
from dataclasses import field, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import yaml

from dpcalc.config import scalars
from dpcalc.config.build import build, valid_sections
from dpcalc.config.discovery import map_of
from dpcalc.config.documents import config_part
from dpcalc.config.expand import ASSUMED, Changes, Overrides, Run, long_form, runs
from dpcalc.config.files import save
from dpcalc.config.load import Loaded, load_text
from dpcalc.config.readers import read_config
from dpcalc.config.scalars import AT_MOST, BATCH_SIZE, EPISODES, UNKNOWN
from dpcalc.config.source import ConfigError, decode, read_bytes, shortened, visible
from dpcalc.config.tree import (
    USER_KEY,
    Items,
    Node,
    Scalar,
    Section,
    dotted,
    entries_of,
    entry,
    join,
    node_at,
    replace_in,
)
from dpcalc.errors import InputError
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass

# Sections whose keys stand for themselves.
_INDEPENDENT_SECTIONS = frozenset({"privacy", "sampling", "mechanism", "accounting", "budget"})
_LABELS = frozenset({"version", "requires", "name"})
_DRAW_LIMITS = ("max_batch_size", "max_group_size")
_DRAW_KEYS = ("scheme", "redraw_every", "drop_last", "order", "groups", "assignment", "draws", EPISODES, *_DRAW_LIMITS)
_PARTICIPATION_KEYS = ("max_participations", "min_separation", "participation")
_MECHANISM_ASSUMPTIONS = ("clip", "also", "odd_moments", "relation", "strategy", *_PARTICIPATION_KEYS)
_ASSUMPTION_KEYS = frozenset({"part", *_MECHANISM_ASSUMPTIONS, *_DRAW_KEYS}) - {EPISODES}
_RANGE_KEYS = ("min", "max")  # of a count, which the long form lifts out of it
_FILE_KEYS = ("curve", "strategy")  # of a mechanism, whose values may be in data files
_FILE_CHANGED = " (its content changed)"

Keys = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference:
    """The smallest part of a config that differs and makes sense by itself."""

    key: str  # dotted, as the new file writes it, or the old one if the new one lacks it
    old: str  # text in the old file, "" if it lacks the part
    new: str  # text in the new file, "" if it lacks the part
    # (line, column) of the part in the new file, or of the mapping that it was removed from; None if that is in no file
    mark: tuple[int, int] | None
    path: str  # the file that `mark` is in: the new one, or one that a reference in it leads to
    keys: Keys = field(repr=False)  # path of the part in the long form, as keys and 0-based indices
    node: Node | None = field(repr=False)  # the part in the new file
    # True if it concerns the data or how they are drawn and clipped, which dpcalc cannot check and has to assume
    is_claim: bool = False

    def __str__(self) -> str:
        return f"{self.key}: {self.old or 'not set'} -> {self.new or 'not set'}"


def differences(old: Loaded, new: Loaded) -> tuple[Difference, ...]:
    """Return the differences of two configs in long form, then changed data files; labels do not count.

    They are in the order of the new file; in each mapping, keys of the old file alone come last. A draw, length or
    level in which other keys are given is one difference: its keys make no sense one by one.
    """
    # In the long form, where two ways to write the same thing do not differ.
    changes = [*_differences((), old.tree, new.tree, new.tree, new)]
    # Data, curves and strategies in files that changed. What the configs state themselves explains a difference of the
    # plans: the same part, or one above or below it.
    before, after = old.plan.phases, new.plan.phases
    places: list[Keys] = [("data",)] if before[0].hierarchy.data != after[0].hierarchy.data else []
    if len(before) == len(after):  # else `phases` is a difference, and a claim
        for (number, phases), key in product(enumerate(zip(before, after, strict=True)), _FILE_KEYS):
            contents = [getattr(phase.mechanism, key, None) for phase in phases]
            if None not in contents and contents[0] != contents[1]:
                own: Keys = ("phases", number, "mechanism", key)
                places.append(own if node_at(new.tree, *own) else ("mechanism", key))  # at the top if inherited
    reported = tuple(change.keys for change in changes)
    for place in dict.fromkeys(places):
        node = node_at(new.tree, *place)
        if node is not None and not any(keys[: len(place)] == place[: len(keys)] for keys in reported):
            whole = _difference(place, node, node, node, new)
            changes.append(replace(whole, new=whole.new + _FILE_CHANGED))
    return tuple(changes)


def with_difference(old: Loaded, new: Loaded, difference: Difference) -> Plan:
    """Return the old plan after one difference (in data or mechanism: with new data files); ConfigError if invalid."""
    keys, node = difference.keys, difference.node
    root = replace_in(old.tree, keys, node)
    is_in_data_file = keys[0] == "data" or "mechanism" in keys[:3]  # possibly: these sections name data files
    return build(valid_sections(root, new.files if is_in_data_file else old.files))


def _differences(keys: Keys, old: Node | None, new: Node | None, parent: Node, config: Loaded) -> Iterator[Difference]:
    """Yield the smallest differences of a part that make sense by themselves, in the order of the new file.

    A value is None if it is absent; `parent` is the mapping or list that the new one is in.
    """
    if isinstance(old, Section) and isinstance(new, Section):
        # Sections are compared key by key only if each key means something alone. A draw with other keys is one
        # difference: a plan with half of the old and half of the new draw is no plan that anybody wrote.
        is_phase = len(keys) == 2 and keys[0] == "phases"
        stand_alone = not keys or keys[-1] in _INDEPENDENT_SECTIONS or is_phase
        stand_alone = stand_alone and (EPISODES in old.entries) == (EPISODES in new.entries)
        names = [name for name in dict.fromkeys((*new.entries, *old.entries)) if not name.startswith(USER_KEY)]
        if stand_alone or {*names} <= old.entries.keys() & new.entries.keys():
            for name in names:
                if keys or name not in _LABELS:
                    before, after = old.entries.get(name), new.entries.get(name)
                    yield from _differences((*keys, name), before, after, new, config)
            return
    if isinstance(old, Items) and isinstance(new, Items) and len(old.items) == len(new.items):
        for number, (before, after) in enumerate(zip(old.items, new.items, strict=True)):
            yield from _differences((*keys, number), before, after, new, config)
        return
    if isinstance(old, Scalar) and isinstance(new, Scalar):
        is_equal = scalars.value(old) == scalars.value(new)
    else:
        is_equal = old is not None and new is not None and _one_line(old) == _one_line(new)
    if not is_equal:
        yield _difference(keys, old, new, parent, config)


def _difference(keys: Keys, old: Node | None, new: Node | None, parent: Node, config: Loaded) -> Difference:
    """Return a Difference, each value on one short line; `mark` is None if an option states the new one."""
    place = parent if new is None else new
    mark = place.start
    if isinstance(old, Scalar) and isinstance(new, Scalar) and new.origin is not None:
        before, after = (node.mark.source.lines[node.mark.line - 1 : node.mark.line] for node in (old, new))
        mark = new.origin if before == after else mark  # the reference is unchanged, and leads to another value
    # A mark in another file counts only if it is that of the referenced value; an option has no line to show.
    is_in_file = mark.source.path == config.path or (isinstance(new, Scalar) and mark is new.origin)
    # No file can show data, tuning, parts, clipping, the mechanism's type, curves and strategies, and draws except
    # their amount; another number of phases may hide any of these.
    is_claim = keys[0] in {"data", "tuning", "partition"} or keys == ("phases",) or keys[-1] in _ASSUMPTION_KEYS
    if "mechanism" in keys[:3]:
        is_claim |= "curve" in keys or "strategy" in keys or keys[-1] == "type"
    if "sampling" in keys[:3]:
        is_claim |= old is None or new is None
        is_claim |= any(_one_line(entry(old, key)) != _one_line(entry(new, key)) for key in _DRAW_KEYS)
    return Difference(
        key=(new or old or parent).path or dotted(keys),
        old=shortened(_one_line(old)),
        new=shortened(_one_line(new)),
        mark=mark.place if is_in_file else None,
        path=mark.source.path,
        keys=keys,
        node=new,
        is_claim=is_claim,
    )


def _one_line(node: Node | None) -> str:
    """Return a part as YAML on one line, without `x-` keys, a level's `min` and `max` as its count; "" for None."""
    if node is None:
        return ""
    if isinstance(node, Scalar):
        return UNKNOWN if node.origin and node.mark.source.path == ASSUMED else node.text
    if isinstance(node, Items):
        return f"[{', '.join(map(_one_line, node.items))}]"
    entries = entries_of(node)
    ends = [key for key in _RANGE_KEYS if {*_RANGE_KEYS} <= entries.keys()]
    texts = [f"{key}: {_one_line(value)}" for key, value in entries.items() if key not in ends]
    if ends:
        texts.append(f"count: {{{', '.join(f'{key}: {_one_line(entries[key])}' for key in ends)}}}")
    return f"{{{', '.join(texts)}}}"


# Edits of config files in place for `--write`: numbers are replaced where a file states them, all other bytes stay.


_LINE_END = re.compile(r"\r\n|\r|\n|\Z")
_MAX_DIGITS = 24  # of a number in a file; longer ones are refused instead of written


class _Span(NamedTuple):
    """A scalar, or the place in a mapping where a new entry goes, as indices into the text.

    `anchor` is the name of the YAML anchor through which other places repeat it, or ""; `before` and `after` stand
    around a new entry.
    """

    start: int
    stop: int
    anchor: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class _NumberChange:
    """The new number of one key in one phase."""

    run: Run  # the phase in the file
    keys: tuple[str, ...]  # in the long form, from the phase
    node: Scalar | None  # that the phase has it from, None if the file does not state it
    amount: Fraction
    count: Fraction = Fraction(1)  # units at its level, 1 if there is no level
    changed: bool  # True if the number differs from the old one

    @property
    def path(self) -> str:
        return ".".join(filter(None, (self.run.path, *self.keys)))


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """A file and the plan that it shall state."""

    path: str
    key: str = ""  # dotted path of the part of it that is the config, as for `load`
    section: str  # what differs: "mechanism" (noise), "training" (steps) or "sampling" (sizes and rates)
    before: Plan  # that the file states, with assumed values
    after: Plan  # that it shall state by itself
    assumed: tuple[str, ...] = ()  # "key=value" texts that hold where the file says nothing


class _Refusal(Exception):
    """Reason not to put a value into a text; it becomes part of an InputError."""


def write(rewrite: Rewrite) -> tuple[str, ...]:
    """Write the new numbers of a plan to its file; return "path:line: key: value" of each."""
    if map_path := map_of(rewrite.path):
        message = (
            f"expected a config, got a file that the map {visible(map_path)} reads; change it, or the map, by hand"
        )
        raise InputError(f"--write: {visible(rewrite.path)}: {message}")
    data = read_bytes(rewrite.path)
    source = decode(data, rewrite.path)
    assumed = Overrides(assumed=rewrite.assumed)
    # With options the plan is not what the file states; writing the solution alone would then state a third plan.
    if load_text(source.text, path=rewrite.path, key=rewrite.key, overrides=assumed).plan != rewrite.before:
        raise InputError(
            f"--write: {visible(rewrite.path)}: expected a file that means this run by itself, got one that options "
            "change; put them into the file first, or leave out --write"
        )
    text, written = edited(source.text, rewrite)
    mark = data[: len(data) - len(source.text.encode())]  # of the byte order
    save(rewrite.path, mark + text.encode())
    return written


def edited(text: str, rewrite: Rewrite) -> tuple[str, tuple[str, ...]]:
    """Return a config's text with the numbers of `rewrite.after`, and a line about each; InputError if impossible."""
    source = decode(text.encode(), rewrite.path)
    root, _, _ = long_form(config_part(read_config(source)[0], rewrite.key)[0], Changes())
    phases = zip(runs(root), rewrite.before.phases, rewrite.after.phases, strict=True)
    changes = [change for phase in phases for change in _number_changes(rewrite.section, *phase)]
    try:
        if rewrite.path.lower().endswith(".toml"):
            raise _Refusal("a TOML file is not rewritten")
        # A stated number is replaced, an unstated one is added with its missing sections. Phases can share a scalar by
        # inheritance: it is replaced if all of them get one new number, else each that changes gets one of its own.
        numbers = [change for change in changes if change.node is None]
        users: dict[tuple[int, int], list[_NumberChange]] = {}
        for change in changes:
            if change.node is not None:
                users.setdefault(change.node.mark.place, []).append(change)
        for group in users.values():
            changed = [change for change in group if change.changed]
            is_common = len(changed) == len(group) and len({change.amount for change in changed}) == 1
            numbers += changed[:1] if is_common else [replace(change, node=None) for change in changed]

        words, mappings = _spans(source.text)
        edits: list[tuple[int, int, str]] = []
        written: list[tuple[int, str]] = []
        for change in numbers:
            node = change.node
            if node is None:
                section, keys = change.run.at, change.keys
                while len(keys) > 1 and isinstance(below := section.entries.get(keys[0]), Section):
                    section, keys = below, keys[1:]
                place = mappings.get(section.mark.place)
                if place is None or place.anchor:
                    raise _Refusal(f"`{change.path}` has no place of its own in the file")
                *above, last = keys
                entry = f"{last}: {_full_decimal(change.amount)}"
                for name in reversed(above):
                    entry = f"{name}: {{{entry}}}"
                edits.append((place.start, place.stop, f"{place.before}{entry}{place.after}"))
                written.append((change.run.at.mark.line, f"{change.path}: {_full_decimal(change.amount)}"))
                continue
            if "${" in node.text:
                raise _Refusal(f"`{node.path}` is the reference `{node.text}`; the value stands elsewhere")
            scalar = words.get(node.mark.place)
            label = words.get(node.key.place) if node.key else None
            if scalar is not None and scalar.anchor:
                raise _Refusal(f"`{change.path}` comes from the anchor `&{scalar.anchor}`, which other places repeat")
            # In the user's form: `steps` for `epochs`, else under the same key in its own unit.
            stated = node.name
            key, amount = ("steps" if stated == "epochs" else stated), change.amount
            if change.keys[-1] == "rate" and stated in {"expected", BATCH_SIZE}:
                amount *= change.count
                # A `batch_size` cannot become a rate, which would have to stand in another section.
                if stated == "expected" and amount.denominator != 1:
                    key, amount = "rate", change.amount
            has_separators = "_" in node.text and amount.denominator == 1
            number = f"{amount.numerator:_}" if has_separators else _full_decimal(amount)
            if scalar is None or (key != stated and (label is None or label.anchor)):
                raise _Refusal(f"`{node.path}` is written in a way that cannot be changed safely")
            edits.append((scalar.start, scalar.stop, number))
            if key != stated and label is not None:
                edits.append((label.start, label.stop, key))
            written.append((node.mark.line, f"{key}: {number} (was {stated}: {node.text})"))

        fresh = source.text
        for start, stop, put in sorted(edits, key=lambda edit: edit[0], reverse=True):  # so that indices stay valid
            fresh = fresh[:start] + put + fresh[stop:]
        # The edits are right if and only if the new text means the new plan: anchors, merges and references are not
        # reasoned about, the text is loaded.
        try:
            is_right = load_text(fresh, path=rewrite.path, key=rewrite.key).plan == rewrite.after
        except ConfigError:
            is_right = False
        if not is_right:
            raise _Refusal("the value cannot be changed in one place without changing something else")
    except _Refusal as cause:
        unwritten = [change for change in changes if change.changed or change.node is None]
        amounts = [(x.path, x.amount.numerator if x.amount.denominator == 1 else float(x.amount)) for x in unwritten]
        by_hand = ", ".join(f"`{join(rewrite.key, path)}: {amount}`" for path, amount in amounts)
        where = visible(rewrite.path)
        raise InputError(f"--write: {where}: {cause}; nothing was changed. By hand: {by_hand}") from cause
    return fresh, tuple(f"{rewrite.path}:{line}: {words}" for line, words in written)


def _number_changes(section: str, run: Run, old: Phase, new: Phase) -> Iterator[_NumberChange]:
    """Yield the new numbers of one section of a phase, even equal ones."""

    def stated(*keys: str) -> Scalar | None:
        node = node_at(run.sections, *keys)
        return node if isinstance(node, Scalar) else None

    length = _NumberChange(
        run=run,
        keys=("training", "steps"),
        node=stated("training", "steps") or stated("training", "epochs"),
        amount=Fraction(new.steps),
        changed=old.steps != new.steps,
    )
    if section == "mechanism":
        if old.noise_multiplier is None or new.noise_multiplier is None:
            return
        key = old.mechanism.noise_key
        before, amount = (Fraction(repr(float(getattr(phase.mechanism, key)))) for phase in (old, new))
        node = stated("mechanism", key)
        yield _NumberChange(run=run, keys=("mechanism", key), node=node, amount=amount, changed=before != amount)
    elif section == "training":
        yield length
    else:
        # Stated `epochs` may mean other steps with the new draws.
        epochs = scalars.number_of(stated("training", "epochs"))
        if old.hierarchy != new.hierarchy and epochs is not None and new.hierarchy.steps_of(epochs) != new.steps:
            yield replace(length, changed=True)
        for level, other in zip(new.hierarchy.levels, old.hierarchy.levels, strict=True):
            paths = (("size",), ("size", AT_MOST), ("rate",), ("expected",), (BATCH_SIZE,), ("bins",), ("times",))
            node = next(filter(None, (stated("sampling", level.name, *path) for path in paths)), None)
            if node is None and level.scheme.is_whole:
                continue
            drawn = level.scheme.amount
            yield _NumberChange(
                run=run,
                keys=("sampling", level.name, level.scheme.amount_key or "size"),
                node=node,
                amount=Fraction(level.count if drawn is None else drawn),
                count=Fraction(level.count, getattr(level.scheme, "groups", 1)),
                changed=other.scheme != level.scheme,
            )


def _spans(text: str) -> tuple[dict[tuple[int, int], _Span], dict[tuple[int, int], _Span]]:
    """Return the spans of all scalars, and the places in mappings for a new entry, by line and column (from 1).

    Marks of the tree have lines and columns; edits need indices into the text, which only the events have.
    """
    scalar_spans: dict[tuple[int, int], _Span] = {}
    mapping_spans: dict[tuple[int, int], _Span] = {}
    events = tuple(yaml.parse(text, Loader=yaml.SafeLoader))
    aliased = {event.anchor for event in events if isinstance(event, yaml.AliasEvent)}
    line_end = _LINE_END.search(text)
    separator = (line_end and line_end.group()) or "\n"
    shared = [""]  # anchors that are repeated, of the collections around
    for number, event in enumerate(events):
        if isinstance(event, yaml.CollectionEndEvent):
            shared.pop()
        start, stop = event.start_mark, event.end_mark
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) or start is None or stop is None:
            continue
        place = (start.line + 1, start.column + 1)
        anchor = event.anchor if event.anchor and event.anchor in aliased else shared[-1]
        if isinstance(event, yaml.ScalarEvent):
            begin = start.index if event.style else stop.index - len(event.value)  # after an anchor's name
            scalar_spans[place] = _Span(begin, stop.index, anchor)
            continue
        shared.append(anchor)
        if not isinstance(event, yaml.MappingStartEvent):
            continue
        # An entry goes after the first one, not to the end: the end of a block mapping is hard to tell from comments
        # behind it. If the first one is no plain `key: value` on a line, it goes before that.
        between = f"{separator}{' ' * start.column}"
        key, value = events[number + 1 : number + 3]
        begin_key, end = key.start_mark, value.end_mark
        is_plain = isinstance(key, yaml.ScalarEvent) and isinstance(value, yaml.ScalarEvent)
        if is_plain and begin_key and end and begin_key.line == end.line:
            line_end = _LINE_END.search(text, end.index)
            at = end.index if event.flow_style or line_end is None else line_end.start()
            before, after = (", ", "") if event.flow_style else (between, "")
        elif event.flow_style:
            at, before, after = start.index + 1, "", "" if isinstance(key, yaml.MappingEndEvent) else ", "
        else:
            at, before, after = start.index, "", between
        mapping_spans[place] = _Span(at, at, anchor, before, after)
    return scalar_spans, mapping_spans


def _full_decimal(amount: Fraction) -> str:
    """Return the exact decimal of a number; _Refusal if there is none, or it has too many digits."""
    text = scalars.decimal_text(amount)
    if text is None:
        raise _Refusal(f"{amount} is no decimal number")
    if len(text) > _MAX_DIGITS:
        raise _Refusal(f"{text} has too many digits")
    return text
