"""Marked trees: the content of a config file with the place of every value, and dotted paths into it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dpcalc.config.source import Mark
from dpcalc.records import dataclass

USER_KEY = "x-"  # keys with this prefix belong to the user and are never read


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class _Marked:
    """A value of a config with its place.

    Attributes:
        mark: place of its beginning.
        key: place of its key, None inside lists and at the top.
        path: dotted path as written, "data.levels[0].count"; "" at the top.
    """

    mark: Mark
    key: Mark | None
    path: str

    @property
    def anchor(self) -> Mark:
        """Place for messages about the value as a whole."""
        return self.key or self.mark


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Scalar(_Marked):
    """A single value as text; `scalars.value` interprets it.

    Attributes:
        text: as written, with quotes and escapes resolved.
        plain: True if it was written without quotes.
        origin: place of the value that a reference was replaced with, else None.
    """

    text: str
    plain: bool
    origin: Mark | None = None

    @property
    def anchor(self) -> Mark:
        """Place for messages about the value: its key if the value is empty."""
        return self.key if self.key and not self.text else self.mark


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Items(_Marked):
    """A list.

    Attributes:
        items: its values.
    """

    items: "tuple[Node, ...]"


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Section(_Marked):
    """A mapping.

    Attributes:
        entries: values by key, in the order of the file.
        repeated: keys that the file gives more than once; `entries` holds the first value.
    """

    entries: "Mapping[str, Node]"
    repeated: frozenset[str] = frozenset()


Node = Scalar | Items | Section


def join(path: str, key: str) -> str:
    """Return a dotted path extended by an unquoted key; the key alone if the path is "".

    Example:
        >>> join("privacy", "delta"), join("", "privacy")
        ('privacy.delta', 'privacy')
    """
    return f"{path}.{key}" if path else key


def dotted(keys: Iterable[str | int]) -> str:
    """Return keys and 0-based indices as a dotted path, such as "phases[0].training"; "" for none."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def within(above: str, path: str) -> bool:
    """Return True if the dotted path `path` is `above` or lies below it.

    Example:
        >>> within("", "a"), within("a", "a[0].b"), within("a", "ab")
        (True, True, False)
    """
    return not above or path == above or path.startswith((f"{above}.", f"{above}["))


def walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    """Yield (dotted path, node) of a node and all below it, parents first, without the values of `x-` keys."""
    yield path, node
    if isinstance(node, Items):
        for index, item in enumerate(node.items):
            yield from walk(item, f"{path}[{index}]")
    for key, value in entries_of(node).items():
        yield from walk(value, join(path, key))


def entry(node: Node | None, key: str) -> Node | None:
    """Return the value of a key, None if the node is no mapping or lacks it."""
    return node.entries.get(key) if isinstance(node, Section) else None


def entries_of(node: Node | None) -> dict[str, Node]:
    """Return the entries of a mapping without those under `x-` keys; {} if the node is no mapping."""
    stated = node.entries if isinstance(node, Section) else {}
    return {key: value for key, value in stated.items() if not key.startswith(USER_KEY)}


# Dotted paths as users write them.


_PART = re.compile(r"(?P<key>[^.\[\]=\s]+)|\[(?P<index>[0-9]{1,6})\]")


@dataclass(frozen=True, kw_only=True)
class PathStep:
    """One step of a dotted path.

    Attributes:
        key: key of a mapping, or 0-based index of a list.
        start: 0-based position of its first character in the path.
        width: number of its characters.
    """

    key: str | int
    start: int
    width: int


def split_path(text: str) -> tuple[tuple[PathStep, ...], int]:
    """Return the steps of a dotted path and the number of characters read, fewer than all if it is malformed.

    Example:
        >>> [step.key for step in split_path("phases[0].training")[0]], split_path("a..b")[1]
        (['phases', 0, 'training'], 2)
    """
    steps: list[PathStep] = []
    position = 0
    while position < len(text):
        # A point only between steps; an index only behind a key without a point: `a[0].b`, neither `a.[0]` nor `[0]`.
        if steps and text[position] == ".":
            position += 1
        match = _PART.match(text, position)
        if not match or (match["index"] is not None) == (not steps or text[position - 1] == "."):
            break
        key = match["key"] if match["index"] is None else int(match["index"])
        steps.append(PathStep(key=key, start=match.start(), width=len(match.group())))
        position = match.end()
    return tuple(steps), position


def step_text(key: str | int) -> str:
    """Return a key or index as a message names it."""
    return f"[{key}]" if isinstance(key, int) else f"`{key}`"


def node_at(node: Node | None, *keys: str | int) -> Node | None:
    """Return the value at a path of keys and 0-based indices, None if there is none."""
    for key in keys:
        if isinstance(key, str):
            node = entry(node, key)
        else:
            node = node.items[key] if isinstance(node, Items) and key < len(node.items) else None
    return node


# Edits of trees. A tree never changes: each function returns a new one that shares what stays the same.


def with_entries(section: Section, entries: "Mapping[str, Node]") -> Section:
    """Return a mapping with entries added; an entry of the same name is replaced in its place."""
    return replace(section, entries={**section.entries, **entries})


def without_keys(section: Section, *keys: str) -> Section:
    """Return a mapping without some keys; keys that it lacks are ignored."""
    return replace(section, entries={key: value for key, value in section.entries.items() if key not in keys})


def replace_at(root: Node, keys: Sequence[str | int], value: Node) -> Node:
    """Return a tree with `value` at a path, whose last key may be new; unchanged if the path leads nowhere."""
    if not keys:
        return value
    below = node_at(root, keys[0])
    if len(keys) > 1 and below is None:
        return root
    changed = value if len(keys) == 1 else replace_at(below or root, keys[1:], value)
    if isinstance(root, Section) and isinstance(keys[0], str):
        return with_entries(root, {keys[0]: changed})
    if isinstance(root, Items) and isinstance(keys[0], int) and below is not None:
        return replace(root, items=(*root.items[: keys[0]], changed, *root.items[keys[0] + 1 :]))
    return root


def remove_at(root: Node, keys: Sequence[str | int]) -> Node:
    """Return a tree without the value at a path; the tree itself where the path leads nowhere."""
    parent, last = node_at(root, *keys[:-1]), keys[-1]
    if isinstance(parent, Section) and isinstance(last, str):
        return replace_at(root, keys[:-1], without_keys(parent, last))
    if isinstance(parent, Items) and isinstance(last, int):
        return replace_at(root, keys[:-1], replace(parent, items=(*parent.items[:last], *parent.items[last + 1 :])))
    return root


def with_path(node: Node, path: str) -> Node:
    """Return a tree whose dotted paths all begin with `path`, as if it stood there."""
    if isinstance(node, Items):
        items = tuple(with_path(item, f"{path}[{index}]") for index, item in enumerate(node.items))
        return replace(node, items=items, path=path)
    if isinstance(node, Section):
        entries = {key: with_path(value, join(path, key)) for key, value in node.entries.items()}
        return replace(node, entries=entries, path=path)
    return replace(node, path=path)
