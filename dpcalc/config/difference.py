"""Differences of two configs, key by key, and the plan that one difference alone makes."""

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import product

from dpcalc.config import scalars
from dpcalc.config.build import build, valid_sections
from dpcalc.config.load import Loaded
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.scalars import EPISODES, UNKNOWN
from dpcalc.config.source import shortened
from dpcalc.config.tree import (
    USER_KEY,
    Items,
    Node,
    Scalar,
    Section,
    dotted,
    entries_of,
    entry,
    node_at,
    replace_in,
)
from dpcalc.planner.plan import Plan
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
