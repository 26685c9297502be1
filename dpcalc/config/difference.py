"""Differences of two configs, key by key, and the plan that one difference alone makes."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import product
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.build import build
from dpcalc.config.load import Loaded
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.rules import valid_sections
from dpcalc.config.scalars import EPISODES, UNKNOWN
from dpcalc.config.source import Mark, shortened
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, dotted, entry, node_at, remove_at, replace_at
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass

# Sections whose keys stand for themselves.
_INDEPENDENT_SECTIONS = frozenset({"privacy", "sampling", "mechanism", "accounting", "budget"})
_LABELS = frozenset({"version", "requires", "name"})
_DRAW_LIMITS = ("max_batch_size", "max_group_size")
_DRAW_KEYS = ("scheme", "redraw_every", "drop_last", "groups", "assignment", EPISODES, *_DRAW_LIMITS)
_PARTICIPATION_KEYS = ("max_participations", "min_separation", "participation")
_MECHANISM_ASSUMPTIONS = ("clip", "also", "odd_moments", "relation", "strategy", *_PARTICIPATION_KEYS)
_ASSUMPTION_KEYS = frozenset({"part", *_MECHANISM_ASSUMPTIONS, *_DRAW_KEYS}) - {EPISODES}
_RANGE_KEYS = ("min", "max")  # of a count, which the long form lifts out of it
_FILE_KEYS = ("curve", "strategy")  # of a mechanism, whose values may be in data files
_FILE_CHANGED = " (its content changed)"

Keys = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Difference:
    """The smallest part of a config that differs and makes sense by itself.

    Attributes:
        key: dotted, as the new file writes it, or the old one if the new one lacks it.
        old: text in the old file, "" if it lacks the part.
        new: text in the new file, "" if it lacks the part.
        mark: (line, column) of the part in the new file, or of the mapping that it was removed from; None if that is
            in no file.
        path: the file that `mark` is in: the new one, or one that a reference in it leads to.
        keys: path of the part in the long form, as keys and 0-based indices.
        node: the part in the new file, or None.
        is_claim: True if it concerns the data or how they are drawn and clipped, which dpcalc cannot check and has to
            assume.
    """

    key: str
    old: str
    new: str
    mark: tuple[int, int] | None
    path: str
    keys: Keys = field(repr=False)
    node: Node | None = field(repr=False)
    is_claim: bool = False


def differences(old: Loaded, new: Loaded) -> tuple[Difference, ...]:
    """Return the differences of two configs in long form, then changed data files; labels do not count.

    The differences in the order of the new file; in each mapping, keys of the old file alone come last. A draw,
    length or level in which other keys are given is one difference: its keys make no sense one by one.
    """
    # In the long form, where two ways to write the same thing do not differ.
    changes = [_difference(pair, new) for pair in _different_pairs(_Pair((), old.tree, new.tree, new.tree))]
    for keys in dict.fromkeys(_unexplained_file_keys(old, new, tuple(change.keys for change in changes))):
        node = node_at(new.tree, *keys)
        if node is not None:
            whole = _difference(_Pair(keys, node, node, node), new)
            changes.append(replace(whole, new=whole.new + _FILE_CHANGED))
    return tuple(changes)


def _unexplained_file_keys(old: Loaded, new: Loaded, reported: tuple[Keys, ...]) -> Iterator[Keys]:
    """Yield the paths of data, curves and strategies that differ, except at, above or below a path in `reported`."""
    before, after = old.plan.phases[0].hierarchy, new.plan.phases[0].hierarchy
    data_keys: list[Keys] = [("data",)] if before.data != after.data else []
    for place in (*data_keys, *_mechanism_file_keys(old, new)):
        # What the configs state themselves explains a difference of the plans: the same part, one above or below it.
        if not any(keys[: len(place)] == place[: len(keys)] for keys in reported):
            yield place


def _mechanism_file_keys(old: Loaded, new: Loaded) -> Iterator[Keys]:
    """Yield the path of each changed `curve` or `strategy`, at the top if inherited; none if phase counts differ."""
    before, after = old.plan.phases, new.plan.phases
    if len(before) != len(after):  # then `phases` is a difference, and a claim
        return
    for (number, (earlier, later)), key in product(enumerate(zip(before, after, strict=True)), _FILE_KEYS):
        contents = [getattr(phase.mechanism, key, None) for phase in (earlier, later)]
        if None not in contents and contents[0] != contents[1]:
            own: Keys = ("phases", number, "mechanism", key)
            yield own if node_at(new.tree, *own) else ("mechanism", key)


def with_difference(old: Loaded, new: Loaded, difference: Difference) -> Plan:
    """Return the old plan after one difference (in data or mechanism: with new data files); ConfigError if invalid."""
    keys, node = difference.keys, difference.node
    root = remove_at(old.tree, keys) if node is None else replace_at(old.tree, keys, node)
    if not isinstance(root, Section):
        raise TypeError(f"difference: expected a mapping at the top, got {type(root).__name__}")
    is_in_data_file = keys[0] == "data" or "mechanism" in keys[:3]  # possibly: these sections name data files
    return build(valid_sections(root, new.files if is_in_data_file else old.files))


class _Pair(NamedTuple):
    """A part of two configs: its keys, its values (None if absent) and the mapping or list that the new one is in."""

    keys: Keys
    old: Node | None
    new: Node | None
    parent: Node


def _different_pairs(pair: _Pair) -> Iterator[_Pair]:
    """Yield the smallest different parts of a pair that can be compared by themselves, in the order of the new file."""
    children = _comparable_children(pair)
    if children is None and not _are_equal(pair.old, pair.new):
        yield pair
    for child in children or ():
        yield from _different_pairs(child)


def _comparable_children(pair: _Pair) -> list[_Pair] | None:
    """Return the entries or items of a pair to compare one by one; None if it is compared as a whole."""
    keys, old, new, _ = pair
    if isinstance(old, Section) and isinstance(new, Section):
        names = _comparable_keys(keys, old, new)
        if names is not None:
            return [_Pair((*keys, name), old.entries.get(name), new.entries.get(name), new) for name in names]
    if isinstance(old, Items) and isinstance(new, Items) and len(old.items) == len(new.items):
        both = enumerate(zip(old.items, new.items, strict=True))
        return [_Pair((*keys, number), before, after, new) for number, (before, after) in both]
    return None


def _comparable_keys(keys: Keys, old: Section, new: Section) -> list[str] | None:
    """Return the keys to compare one by one, new ones first; None if the sections are compared as a whole."""
    names = [name for name in dict.fromkeys((*new.entries, *old.entries)) if not name.startswith(USER_KEY)]
    # Sections are compared key by key only if each key means something alone. A draw with other keys is one
    # difference: a plan with half of the old and half of the new draw is no plan that anybody wrote.
    are_independent = _has_independent_keys(keys) and (EPISODES in old.entries) == (EPISODES in new.entries)
    if not are_independent and not {*names} <= old.entries.keys() & new.entries.keys():
        return None
    return [name for name in names if keys or name not in _LABELS]


def _are_equal(old: Node | None, new: Node | None) -> bool:
    """Return True if two scalars have equal values, or two other parts equal texts; False if either is None."""
    if isinstance(old, Scalar) and isinstance(new, Scalar):
        return scalars.value(old) == scalars.value(new)
    return old is not None and new is not None and _one_line(old) == _one_line(new)


def _has_independent_keys(keys: Keys) -> bool:
    """Return True for the top, a phase, privacy, sampling, mechanism, accounting, budget: their keys stand alone."""
    return not keys or keys[-1] in _INDEPENDENT_SECTIONS or (len(keys) == 2 and keys[0] == "phases")


def _difference(pair: _Pair, new_config: Loaded) -> Difference:
    """Return a pair as a Difference, each value on one short line; `mark` is None if an option states the new one."""
    keys, old, new, parent = pair
    mark = _changed_mark(old, parent if new is None else new)
    name = (new or old or parent).path
    # A mark in another file counts only if it is that of the referenced value; an option has no line to show.
    is_in_file = mark.source.path == new_config.path or (isinstance(new, Scalar) and mark is new.origin)
    return Difference(
        key=name or dotted(keys),
        old=shortened(_one_line(old)),
        new=shortened(_one_line(new)),
        mark=(mark.line, mark.column) if is_in_file else None,
        path=mark.source.path,
        keys=keys,
        node=new,
        is_claim=_is_assumption(keys, old, new),
    )


def _changed_mark(old: Node | None, new: Node) -> Mark:
    """Return the place of a change: the referenced value if the reference is unchanged, else the new key."""
    if isinstance(old, Scalar) and isinstance(new, Scalar) and new.origin is not None:
        before, after = (node.mark.source.lines[node.mark.line - 1 : node.mark.line] for node in (old, new))
        if before == after:
            return new.origin
    return new.key or new.mark


def _is_assumption(keys: Keys, old: Node | None, new: Node | None) -> bool:
    """Return True if a change is to an assumption about data or training that no file can show.

    These are data, tuning, parts, phases, clipping, mechanism type, curves, strategies, and draws except their amount.
    """
    # Another number of phases may hide any of these; `also` and curves count too.
    if keys[0] in {"data", "tuning", "partition"} or keys == ("phases",) or keys[-1] in _ASSUMPTION_KEYS:
        return True
    if "mechanism" in keys[:3] and ("curve" in keys or "strategy" in keys or keys[-1] == "type"):
        return True
    return "sampling" in keys[:3] and _draws_in_another_way(old, new)


def _draws_in_another_way(old: Node | None, new: Node | None) -> bool:
    """Return True if a draw differs in more than its amount, or is in one of the configs only."""
    return (
        old is None
        or new is None
        or any(_one_line(entry(old, key)) != _one_line(entry(new, key)) for key in _DRAW_KEYS)
    )


def _one_line(node: Node | None) -> str:
    """Return a part as YAML on one line, without `x-` keys; "" for None."""
    match node:
        case None:
            return ""
        case Scalar():
            return UNKNOWN if node.origin and node.mark.source.path == ASSUMED else node.text
        case Items():
            return f"[{', '.join(map(_one_line, node.items))}]"
        case Section():
            return _entries_on_one_line(
                {key: value for key, value in node.entries.items() if not key.startswith(USER_KEY)}
            )


def _entries_on_one_line(entries: Mapping[str, Node]) -> str:
    """Return a mapping as YAML on one line, with `min` and `max` of a level written as its `count`."""
    ends = [key for key in _RANGE_KEYS if {*_RANGE_KEYS} <= entries.keys()]
    texts = [f"{key}: {_one_line(value)}" for key, value in entries.items() if key not in ends]
    if ends:
        texts.append(f"count: {{{', '.join(f'{key}: {_one_line(entries[key])}' for key in ends)}}}")
    return f"{{{', '.join(texts)}}}"
