"""Marked trees: the content of a config file with the place of every value; YAML text to a tree.

A tree never changes: each function that edits one returns a new tree that shares what stays the same. Paths are keys of
mappings and 0-based indices of lists.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

import yaml

from dpcalc.config.source import ConfigError, Diagnostic, Mark, Source, config_error, error
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
    """Return a whole file after `replace_at`: below a key it stays a mapping."""
    return cast(Section, replace_at(root, keys, value))


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


# YAML text to marked tree: PyYAML's pure Python scanner under limits, and our own reading of its nodes.
# The C scanner crashes the interpreter on deep nesting, so it is never used. Nothing is constructed from tags. Aliases
# and `<<` are expanded here, which ends cycles and exponential expansion.


MAX_EVENTS = 20_000  # keys and values; PyYAML reads them in about 0.5 s (tests/config/test_source.py)
MAX_DEPTH = 50  # nesting; far below the recursion limit of Python, far above any config
_KEY_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool")}
TAGGED = "DPC100"  # among flaws only tags have this code

_TOO_MANY = (
    f"more than {MAX_EVENTS} keys and values, aliases written out",
    "a config is a few lines: is this the right file?",
)
_TOO_DEEP = (f"more than {MAX_DEPTH} levels of nesting", "write it flatter")

# (part of PyYAML's complaint, our message, our hint); the first match counts.
_SENTENCES = (
    ("'\\t'", "a tab cannot indent YAML", "use spaces"),
    ("found undefined alias", "the alias has no anchor before it", "define it with `&name` further up"),
    ("found duplicate anchor", "the same anchor is defined twice", "give the second one another name"),
    (
        "expected a single document",
        "a second document begins",
        "`${file.yaml#2:key}` refers to the second document; else keep the part that is meant, without `---`",
    ),
    ("mapping values are not allowed", "a `:` is not expected", "check the indentation; quote a text with `: ` in it"),
    ("could not find expected ':'", "a `:` is missing after a key", "write `key: value` with a space after the colon"),
    ("unexpected end of stream", "the quote is never closed", "close it on the same line"),
    ("expected ',' or '}'", "a `,` or `}` is missing in the mapping that begins here", ""),
    ("expected ',' or ']'", "a `,` or `]` is missing in the list that begins here", ""),
    ("<stream end>", "the text ends inside a list or mapping", "close every `[` and `{`"),
    ("expected the node content", "a key or a value is missing here", ""),
    ("expected <block end>", "the indentation does not fit the lines above", "indent the keys of one mapping alike"),
    ("cannot start any token", "a value cannot begin with this character", "quote it"),
    ("unknown escape character", "unknown escape in a double-quoted text", "use single quotes"),
    ("expected '<document start>'", "the text goes on where the document has ended", "quote the whole value"),
    ("scanning a directive", "this `%` line is not understood", "remove it, or quote a value that begins with `%`"),
    ("YAML directive", "this `%` line is not understood", "remove it"),
    ("found undefined tag handle", "tags are not allowed", "remove the `!...`"),
)


class Flaw(NamedTuple):
    """An error that still leaves a tree to check, and the dotted path of what it concerns.

    A duplicate key, a tag, a key that is no word.
    """

    path: str
    diagnostic: Diagnostic


def parse_yaml(source: Source, number: int = 0) -> tuple[Node, tuple[Flaw, ...]]:
    """Return a YAML text as a tree with places, and its flaws; ConfigError if it cannot be read or is empty.

    The text is one document, or with a `number` from 1 that document of it.
    """
    loader = _BoundedLoader(source)
    try:
        root: yaml.Node | None = None if number else loader.get_single_node()
        for each in range(number):
            if not loader.check_node():
                message = f"there is no document {number}, only {each}"
                raise config_error("DPC100", Mark(source, 1, 1), message, "documents are numbered from #1")
            root = loader.get_node()
    except ConfigError:
        raise  # it is a ValueError too
    except yaml.MarkedYAMLError as cause:
        # PyYAML's complaint in our words if known, and where the mistake begins.
        text = " ".join(str(part) for part in (cause.problem, cause.context) if part)
        message, hint = next(((words, advice) for part, words, advice in _SENTENCES if part in text), (text, ""))
        if "expected ','" in text or "expected the node content" in text:
            at = cause.problem_mark
            line = source.lines[at.line] if at and at.line < len(source.lines) else ""
            if "${" in line:
                hint = 'inside braces a reference needs quotes: `"${...}"`'
            elif "???" in line:
                hint = "write the value: `???` stands for one still to be given"
        # PyYAML reports an unclosed bracket or quote at the end of the file; the reader needs its beginning.
        unclosed = "end of stream" in text or "expected ','" in text
        position = (cause.context_mark if unclosed else None) or cause.problem_mark or cause.context_mark
        mark = Mark(source, position.line + 1, position.column + 1) if position else Mark(source, 1, 1)
        raise config_error("DPC100", mark, message, hint) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        # An escape such as "\UFFFFFFFF" or an absurd %YAML directive: PyYAML does not say where.
        mark = Mark(source, loader.line + 1, 1)
        hint = "look for an odd escape or a `%` line"
        raise config_error("DPC100", mark, "this cannot be read as YAML", hint) from None
    finally:
        loader.dispose()
    if root is None:
        raise config_error("DPC100", Mark(source, 1, 1), "the file is empty", "begin with `version: 1`")
    builder = _TreeBuilder(source, loader.tags)
    return builder.build(root, "", None), tuple(builder.flaws)


def tagged_paths(flaws: Iterable[Flaw]) -> frozenset[str]:
    """Return the dotted paths of values with a tag, without that of a whole file."""
    return frozenset(flaw.path for flaw in flaws if flaw.diagnostic.code == TAGGED and flaw.path)


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML's composer, which counts events and nesting while it reads, so that hostile files end early."""

    def __init__(self, source: Source) -> None:
        """Start before the first event; `tags` will hold the line and column (from 1) of each value with a tag."""
        super().__init__(source.text)
        self.source = source
        self.tags: set[tuple[int, int]] = set()
        self._events = self._nesting = 0

    def get_event(self) -> yaml.Event:
        """Return PyYAML's next event and remember its tag; ConfigError (DPC111) above the limits."""
        event: yaml.Event = super().get_event()  # type: ignore[no-untyped-call]
        mark = _mark_of(self.source, event)
        self._events += 1
        self._nesting += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if self._events > MAX_EVENTS:
            raise config_error("DPC111", mark, *_TOO_MANY)
        if self._nesting > MAX_DEPTH:
            raise config_error("DPC111", mark, *_TOO_DEEP)
        if getattr(event, "tag", None) is not None:
            self.tags.add(mark.place)
        return event


class _TreeBuilder:
    """Translation of PyYAML's graph into a marked tree: aliases expanded, `<<` merged, every node with its path."""

    def __init__(self, source: Source, tags: set[tuple[int, int]]) -> None:
        """Start without flaws; `tags` holds the places of values with a tag, which each make a flaw."""
        self.flaws: list[Flaw] = []
        self._source, self._tags = source, tags
        self._ancestors: list[int] = []
        self._count = 0
        self._replaced: dict[int, dict[str, tuple[Node, Node]]] = {}  # by id of a mapping: (merged, own) values of keys

    def build(self, node: yaml.Node, path: str, key: Mark | None) -> Node:
        """Return a PyYAML node as a tree, and add its flaws; ConfigError (DPC111) for a cycle or above the limits."""
        mark = _mark_of(self._source, node)
        self._report_tag(mark, path)
        self._count += 1
        if self._count > MAX_EVENTS:
            raise config_error("DPC111", mark, *_TOO_MANY)
        # An alias is the same node object again: among its own ancestors it would be built without end.
        if id(node) in self._ancestors:
            raise config_error("DPC111", key or mark, "an alias contains itself", "write the value out")
        if len(self._ancestors) > MAX_DEPTH:
            raise config_error("DPC111", mark, *_TOO_DEEP)
        if isinstance(node, yaml.ScalarNode):
            return Scalar(text=node.value, plain=not node.style, mark=mark, key=key, path=path)
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            mark = replace(mark, width=1)  # a block ends lines below
        self._ancestors.append(id(node))
        tree: Node
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self.build(item, f"{path}[{index}]", None) for index, item in enumerate(node.value))
            tree = Items(items=items, mark=mark, key=key, path=path)
        else:
            entries, repeated = self._entries(node, path)
            tree = Section(entries=entries, repeated=repeated, mark=mark, key=key, path=path)
        self._ancestors.pop()
        return tree

    def _report_tag(self, mark: Mark, path: str) -> None:
        """Add a flaw if there is a tag at a place."""
        if mark.place in self._tags:
            self.flaws.append(Flaw(path, error(TAGGED, mark, "tags are not allowed", "remove the `!...`")))

    def _entries(self, mapping: yaml.Node, path: str) -> tuple[dict[str, Node], frozenset[str]]:
        """Return the entries of a mapping, and its repeated keys, of which the first counts; flaws are added."""
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        disputed: dict[str, tuple[Mark, Node, Node]] = {}  # keys to which `<<` brings two values
        first_lines: dict[str, int] = {}
        repeated: set[str] = set()
        same: dict[object, str] = {}  # `1`, `01` and `true` are one key to YAML 1.1 and Python
        for key_node, value_node in mapping.value:
            mark = _mark_of(self._source, key_node)
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
                self.flaws.append(Flaw(path, error("DPC102", mark, "a key must be a word", "write `key: value`")))
                continue
            name = str(key_node.value)
            self._report_tag(mark, join(path, name))
            first = same.setdefault(_key(key_node), name)
            first = name if name in first_lines else first
            if first in first_lines:
                message = f"duplicate key `{name}` (first at line {first_lines[first]})"
                hint = "YAML would silently keep the last one; delete one of them"
                self.flaws.append(Flaw(join(path, name), error("DPC105", mark, message, hint)))
                repeated |= {first, name}
            if name == "<<" and not key_node.style:  # a second one brings its values, too
                for each in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    tree = self.build(each, path, mark)
                    if not isinstance(tree, Section):
                        wrong = error("DPC102", mark, "`<<` takes a mapping", "write e.g. `<<: *base`")
                        self.flaws.append(Flaw(path, wrong))
                        continue
                    repeated |= tree.repeated
                    disputed |= {key: (mark, *pair) for key, pair in self._replaced.get(id(each), {}).items()}
                    for key, value in tree.entries.items():
                        if said(merged.setdefault(key, value)) != said(value):
                            disputed.setdefault(key, (mark, merged[key], value))
            elif first not in first_lines:
                own[name] = self.build(value_node, join(path, name), mark)
            first_lines.setdefault(name, mark.line)
        for name in disputed.keys() - own.keys():
            mark, one, other = disputed[name]
            places = " and ".join(str(each.start.line) for each in (one, other))
            message = f"`<<` brings two values of `{name}`, from lines {places}"
            hint = "releases of PyYAML take different ones; write it once, or beside the `<<`"
            self.flaws.append(Flaw(join(path, name), error("DPC105", mark, message, hint)))
            repeated.add(name)
        # Merged once more, PyYAML 6.0.4 lets the first of two pairs win whose keys are the same object: an alias, or
        # one character. Other releases let the last one win.
        self._replaced[id(mapping)] = {
            name: (before, own[name])
            for name in merged.keys() & own.keys()
            for before in (merged[name], *disputed.get(name, ())[1:])
            if (len(name) == 1 or before.start.place == own[name].start.place) and said(before) != said(own[name])
        }
        return {**merged, **own}, frozenset(repeated)


def _key(node: yaml.ScalarNode) -> object:
    """Return the key that a word is to PyYAML: numbers and truths that Python takes for equal are one."""
    if node.tag in _KEY_TAGS and not node.style:
        with suppress(ValueError, KeyError, OverflowError, yaml.YAMLError):
            return yaml.constructor.SafeConstructor().construct_object(node)
    return node.value


def _mark_of(source: Source, node: yaml.Node | yaml.Event) -> Mark:
    """Return the place of a node or event, up to the end of its first line."""
    start, end = cast(yaml.Mark, node.start_mark), cast(yaml.Mark, node.end_mark)  # what is parsed has both
    line = source.lines[start.line] if start.line < len(source.lines) else ""
    stop = end.column if end.line == start.line else len(line)
    return Mark(source, start.line + 1, start.column + 1, max(1, stop - start.column))
