"""Values from elsewhere: `--set a.b=v` on the command line, and what a file leaves unresolved."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpcalc.config import scalars
from dpcalc.config.diagnostics import ConfigError, Diagnostic
from dpcalc.config.nodes import Items, Node, Scalar, Section, entry, walk
from dpcalc.config.source import Mark, Source, error, source_of
from dpcalc.config.yaml_text import parse

_PART = re.compile(r"(?P<key>[^.\[\]=\s]+)|\[(?P<index>[0-9]{1,6})\]")
_HYDRA = "this looks like an unresolved Hydra config: let Hydra write the resolved one (`--cfg job --resolve`)"


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One `--set`.

    Attributes:
        keys: the path: names and list indices, never empty.
        marks: where each part of the path is written.
        value: what is assigned.
    """

    keys: tuple[str | int, ...]
    marks: tuple[Mark, ...]
    value: Node

    @property
    def path(self) -> str:
        """The dotted path."""
        return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys).removeprefix(".")


def assignments(texts: Sequence[str]) -> tuple[tuple[Assignment, ...], tuple[Diagnostic, ...]]:
    """The `--set` arguments, read by the rules of the file.

    Args:
        texts: arguments such as "training.steps=1e4" or "phases[0].training.epochs=3".

    Returns:
        What could be read, and an error for everything else.
    """
    read: list[Assignment] = []
    problems: list[Diagnostic] = []
    for number, text in enumerate(texts, start=1):
        try:
            item, found = _assignment(text, f"--set #{number}")
        except ConfigError as cause:
            problems.extend(cause.diagnostics)
            continue
        problems.extend(found)
        earlier = any(item.keys == other.keys for other in read)
        if earlier:
            problems.append(error("DPC105", item.marks[0], f"`{item.path}` is set twice", "keep one of them"))
        else:
            read.append(item)
    return tuple(read), tuple(problems)


def unresolved(root: Node) -> Iterator[Diagnostic]:
    """Everything in a tree that has no value: references, markers, nothing at all, numbers without end.

    Args:
        root: the tree; the user's own sections are not looked at.

    Yields:
        One error for each.
    """
    for _, node in walk(root, ""):
        if not isinstance(node, Scalar):
            continue
        path = node.path
        reason = scalars.out_of_reach(node)
        if "${" in node.text:
            message = f"`{path}` is the reference `{node.text[:60]}`; references are not resolved by this version"
            yield error("DPC110", node.mark, message, "write the value")
        elif node.text == "???":
            yield error("DPC110", node.mark, f"`{path}` is `???`, a value still to be given", "write the value")
        elif reason:
            yield error("DPC106", node.mark, f"`{path}` is {node.text[:60]}: {reason}", "write a plain number")
        elif scalars.value(node) is None:
            yield error("DPC102", node.anchor, f"`{path}` is empty", "give it a value, or delete the line")


def hydra_defaults(root: Node) -> Iterator[Diagnostic]:
    """An error for a `defaults` list, which only Hydra can follow."""
    defaults = entry(root, "defaults")
    if isinstance(defaults, Items):
        yield error("DPC110", defaults.anchor, "`defaults` names other files that are not read here", _HYDRA)


def _assignment(text: str, path: str) -> tuple[Assignment, tuple[Diagnostic, ...]]:
    """One argument as path and value."""
    source = source_of(text, path)
    left, separator, right = source.text.partition("=")
    if not separator:
        message = "an assignment needs a `=`"
        raise ConfigError([error("DPC100", Mark(source, 1, 1), message, "write `--set training.steps=1000`")])
    keys, marks = _path(left, source)
    # Blanks in place of the path keep the columns of the value true.
    padded = Source(path, " " * (len(left) + 1) + right, source.lines)
    if not right.strip():
        raise ConfigError([error("DPC102", marks[-1], f"`{left}` is empty", "give it a value, e.g. `--set a.b=1`")])
    value, problems = parse(padded)
    return Assignment(keys=keys, marks=marks, value=_named(value, left, marks[-1])), problems


def _path(text: str, source: Source) -> tuple[tuple[str | int, ...], tuple[Mark, ...]]:
    """The parts of a dotted path and where they stand."""
    keys: list[str | int] = []
    marks: list[Mark] = []
    position = 0
    while position < len(text):
        if keys and text[position] == ".":
            position += 1
        found = _PART.match(text, position)
        if not found or (found["index"] is not None) == (not keys or text[position - 1] == "."):
            break
        keys.append(found["key"] if found["index"] is None else int(found["index"]))
        marks.append(Mark(source, 1, found.start() + 1, len(found.group())))
        position = found.end()
    if not keys or position < len(text):
        mark = Mark(source, 1, position + 1)
        hint = "write e.g. `phases[0].training.steps=1000`"
        raise ConfigError([error("DPC100", mark, f"`{text}` is no path of keys", hint)])
    return tuple(keys), tuple(marks)


def _named(node: Node, path: str, key: Mark | None) -> Node:
    """An assigned value under the name it is assigned to."""
    if isinstance(node, Scalar):
        return Scalar(text=node.text, plain=node.plain, mark=node.mark, key=key, path=path)
    if isinstance(node, Items):
        items = tuple(_named(item, f"{path}[{index}]", None) for index, item in enumerate(node.items))
        return Items(items=items, mark=node.mark, key=key, path=path)
    entries = {name: _named(value, f"{path}.{name}", value.key or value.mark) for name, value in node.entries.items()}
    return Section(entries=entries, mark=node.mark, key=key, path=path)
