"""YAML text to marked tree: PyYAML's pure Python scanner under limits, and our own reading of its nodes.

The C scanner crashes the interpreter on deep nesting, so it is never used. Nothing is constructed from tags. Aliases
and `<<` are expanded here, which ends cycles and exponential expansion.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import yaml

from dpcalc.config.source import ConfigError, Diagnostic, Mark, Source, config_error, error
from dpcalc.config.tree import Items, Node, Scalar, Section, join, said

MAX_EVENTS = 20_000  # keys and values; PyYAML reads them in about 0.5 s (tests/config/test_limits.py)
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

    def get_event(self) -> yaml.Event | None:
        """Return PyYAML's next event, None at the end, and remember its tag; ConfigError (DPC111) above the limits."""
        event: yaml.Event | None = super().get_event()  # type: ignore[no-untyped-call]
        if event is None:
            return None
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
    """Return the place of a node or event, up to the end of its first line; line 1 if it has no place."""
    start, end = node.start_mark, node.end_mark
    if start is None or end is None:
        return Mark(source, 1, 1)
    line = source.lines[start.line] if start.line < len(source.lines) else ""
    stop = end.column if end.line == start.line else len(line)
    return Mark(source, start.line + 1, start.column + 1, max(1, stop - start.column))
