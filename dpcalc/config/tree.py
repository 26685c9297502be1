"""Marked trees: the content of a config file with the place of every value, and dotted paths into it.

A tree never changes: each function that edits one returns a new tree that shares what stays the same. Paths are keys of
mappings and 0-based indices of lists.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dpcalc.config.source import ConfigError, Diagnostic, Mark, error
from dpcalc.records import dataclass

if TYPE_CHECKING:
    from dpcalc.config.files import Refusal

USER_KEY = "x-"  # keys with this prefix belong to the user and are never read


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class _Marked:
    """A value of a config with its place."""

    mark: Mark  # of its beginning
    key: Mark | None = None  # of its key, None inside lists and at the top
    path: str = ""  # dotted, as written: "data.levels[0].count"; "" at the top

    @property
    def start(self) -> Mark:
        """Place of its key, or else its own."""
        return self.key or self.mark

    @property
    def anchor(self) -> Mark:
        """Place for messages about the value as a whole."""
        return self.start

    @property
    def name(self) -> str:
        """Its key, the last part of its path."""
        return self.path.rpartition(".")[2]

    def fault(self, code: str, problem: str, hint: str = "") -> Diagnostic:
        """Return an error at this place, of a sentence about the value, which is called by its path."""
        return error(code, self.anchor, f"`{self.path}` {problem}", hint)

    def config_error(self, code: str, problem: str, hint: str = "") -> ConfigError:
        """Return a ConfigError of one such error, for the caller to raise."""
        return ConfigError([self.fault(code, problem, hint)])


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Scalar(_Marked):
    """A single value as text, with quotes and escapes resolved; `scalars.value` interprets it.

    `plain` is True if it was written without quotes, `origin` the place of the value that replaced a reference.
    """

    text: str
    plain: bool = True
    origin: Mark | None = None

    @property
    def anchor(self) -> Mark:
        """Place for messages about the value: its key if the value is empty."""
        return self.key if self.key and not self.text else self.mark


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Items(_Marked):
    """A list."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Section(_Marked):
    """A mapping, in the order of the file; of keys in `repeated`, given more than once, it holds the first value."""

    entries: "Mapping[str, Node]"
    repeated: frozenset[str] = frozenset()


Node = Scalar | Items | Section


class Document(NamedTuple):
    """A whole file that references lead into."""

    tree: Node
    refused: "Mapping[str, Refusal]" = MappingProxyType({})  # by dotted path: why a value there is not followed
    # By dotted path, values that are defaults: the options that a launch may give instead, such as "--sigma".
    defaults: "Mapping[str, tuple[str, ...]]" = MappingProxyType({})
    # By dotted path, values that are code: the expression, and the path of the flag that it reads, "" for none.
    code: "Mapping[str, tuple[str, str]]" = MappingProxyType({})
    # By dotted path, the paths of the defaults that a condition around it reads: `if args.dp: K(sigma=1)`.
    guards: "Mapping[str, Sequence[str]]" = MappingProxyType({})


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


_PART = re.compile(r"""(?P<key>[^.\[\]=\s]+)|\[(?P<index>[0-9]{1,6})\]|\[(['"])(?P<quoted>[^'"]+)\3\]""")


def split_path(text: str) -> tuple[list[tuple[str | int, int, int]], int]:
    """Return (key, start, width) of each step of a dotted path, and how many characters were read.

    Fewer than all are read if the path is malformed.

    Example:
        >>> split_path("phases[0].training")[0], split_path("a..b")[1], split_path("['a.b']")[0]
        ([('phases', 0, 6), (0, 6, 3), ('training', 10, 8)], 2, [('a.b', 0, 7)])
    """
    steps: list[tuple[str | int, int, int]] = []
    position = 0
    while position < len(text):
        # A point only between steps; an index only behind a key without a point: `a[0].b`, neither `a.[0]` nor `[0]`.
        # A quoted key stands in brackets too, and may be the first one: `['a.b'].c`.
        if steps and text[position] == ".":
            position += 1
        match = _PART.match(text, position)
        is_after_point = position > 0 and text[position - 1] == "."
        if not match or (match["key"] is not None and steps and not is_after_point):
            break
        if match["key"] is None and (is_after_point or (match["index"] is not None and not steps)):
            break
        key = match["key"] or match["quoted"] or int(match["index"])
        steps.append((key, match.start(), len(match.group())))
        position = match.end()
    return steps, position


def step_text(key: str | int) -> str:
    """Return a key or index as a message names it."""
    return f"[{key}]" if isinstance(key, int) else f"`{key}`"


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


def text_at(node: Node | None, key: str, default: str = "") -> str:
    """Return the text of a scalar in a mapping; the default if there is none."""
    value = entry(node, key)
    return value.text if isinstance(value, Scalar) else default


def entries_of(node: Node | None) -> dict[str, Node]:
    """Return the entries of a mapping without those under `x-` keys; {} if the node is no mapping."""
    stated = node.entries if isinstance(node, Section) else {}
    return {key: value for key, value in stated.items() if not key.startswith(USER_KEY)}


def items_of(node: Node | None) -> "tuple[Node, ...]":
    """Return the items of a list; () if the node is no list."""
    return node.items if isinstance(node, Items) else ()


def said(node: Node | None) -> object:
    """Return what a value says, without its place: two values that are written alike have equal ones."""
    if isinstance(node, Scalar):
        return node.text, node.plain
    if isinstance(node, Items):
        return [said(item) for item in node.items]
    return None if node is None else {key: said(value) for key, value in node.entries.items()}


def node_at(node: Node | None, *keys: str | int) -> Node | None:
    """Return the value at a path, None if there is none."""
    for key in keys:
        if isinstance(key, str):
            node = entry(node, key)
        else:
            items = items_of(node)
            node = items[key] if key < len(items) else None
    return node


def with_entries(section: Section, entries: "Mapping[str, Node]") -> Section:
    """Return a mapping with entries added; an entry of the same name is replaced in its place."""
    return replace(section, entries={**section.entries, **entries})


def without_keys(section: Section, *keys: str) -> Section:
    """Return a mapping without some keys; keys that it lacks are ignored."""
    return replace(section, entries={key: value for key, value in section.entries.items() if key not in keys})


def replace_at(root: Node, keys: Sequence[str | int], value: Node | None) -> Node:
    """Return a tree with `value` at a path, whose last key may be new; None removes what stands there.

    The tree stays as it is where the path leads nowhere.
    """
    if not keys:
        return value or root
    head, *rest = keys
    below = node_at(root, head)
    if rest:
        if below is None:
            return root
        value = replace_at(below, rest, value)
    if isinstance(root, Section) and isinstance(head, str):
        return without_keys(root, head) if value is None else with_entries(root, {head: value})
    if isinstance(root, Items) and isinstance(head, int) and below is not None:
        changed = () if value is None else (value,)
        return replace(root, items=(*root.items[:head], *changed, *root.items[head + 1 :]))
    return root


def replace_in(root: Section, keys: Sequence[str | int], value: Node | None) -> Section:
    """Return a whole file, which stays a mapping, after `replace_at`; TypeError if it would become something else."""
    changed = replace_at(root, keys, value)
    if not isinstance(changed, Section):
        raise TypeError(f"config: expected a mapping at the top, got {type(changed).__name__}")
    return changed


def nested(leaves: "Mapping[tuple[str, ...], Node]", mark: Mark, path: str = "") -> Section:
    """Return values by their keys as one mapping at a path; what would stand below a value is left out.

    An empty mapping among them is filled, and nothing takes the place of a mapping that is filled already.
    """
    levels: dict[tuple[str, ...], dict[str, Node]] = {(): {}}
    for keys, leaf in leaves.items():
        for end, key in enumerate(keys, 1):
            above, here = levels.get(keys[: end - 1]), keys[:end]
            if above is None or key in above:
                continue
            above[key] = leaf
            if end < len(keys) or (isinstance(leaf, Section) and not leaf.entries):
                levels[here] = {}
                place = join(path, ".".join(here))
                above[key] = Section(entries=levels[here], mark=mark, path=place)
    return Section(entries=levels[()], mark=mark, path=path)


def with_path(node: Node, path: str) -> Node:
    """Return a tree whose dotted paths all begin with `path`, as if it stood there."""
    if isinstance(node, Items):
        items = tuple(with_path(item, f"{path}[{index}]") for index, item in enumerate(node.items))
        return replace(node, items=items, path=path)
    if isinstance(node, Section):
        entries = {key: with_path(value, join(path, key)) for key, value in node.entries.items()}
        return replace(node, entries=entries, path=path)
    return replace(node, path=path)
