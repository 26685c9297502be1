"""The part of a training config that is for dpcalc: a `dpcalc:` section, or one that `--key` names."""

import re
from dataclasses import dataclass, replace

from dpcalc.config.assignments import path_of
from dpcalc.config.diagnostics import ConfigError
from dpcalc.config.dotted import child, shown
from dpcalc.config.messages import unexpected
from dpcalc.config.nodes import Items, Node, Scalar, Section, entry
from dpcalc.config.source import error, source_of

SECTION = "dpcalc"
KEY = "--key"
NO_TOML = "a config is YAML or JSON; write `key: value` in the place of TOML's `key = value`"
_TOML = re.compile(r"\s*[\w.-]+ *= *\S")


@dataclass(frozen=True, kw_only=True)
class Part:
    """The part and the way to it.

    Attributes:
        root: the part, as if it were a file of its own.
        keys: the way from the top of the file, empty for the whole file.
        path: the same as a dotted path.
    """

    root: Section
    keys: tuple[str | int, ...]
    path: str


def part_of(tree: Node, key: str) -> Part:
    """The part of a file that is a config.

    Args:
        tree: the whole file.
        key: what `--key` says, "" when it says nothing: then a `dpcalc:` section at the top, else the whole file.

    Returns:
        The part; paths in it begin there.

    Raises:
        ConfigError: there is nothing at `--key`, or what is there is no mapping.
    """
    keys: tuple[str | int, ...] = ()
    node: Node = tree
    if key:
        source = source_of(key, KEY)
        keys, marks = path_of(source.text, source)
        for step, mark in zip(keys, marks, strict=True):
            below = child(node, step)
            if below is None:
                message = f"there is no {shown(step)} in {f'`{node.path}`' if node.path else 'the file'}"
                raise ConfigError([error("DPC103", mark, message, "--key names a section of the file")])
            node = below
    elif entry(tree, SECTION) is not None:
        keys, node = (SECTION,), entry(tree, SECTION) or tree
    if not isinstance(node, Section):
        wrong = unexpected(node, "a mapping of keys")
        is_toml = isinstance(node, Scalar) and _TOML.match(node.text)
        raise ConfigError([replace(wrong, hint=NO_TOML) if is_toml else wrong])
    return Part(root=_section(node, len(node.path)), keys=keys, path=node.path)


def put_back(tree: Node, keys: tuple[str | int, ...], root: Node) -> Node:
    """The whole file with its part exchanged.

    Args:
        tree: the whole file.
        keys: the way to the part.
        root: what shall stand there.
    """
    if not keys:
        return root
    head, *rest = keys
    below = child(tree, head)
    if below is None:
        return tree
    changed = put_back(below, tuple(rest), root)
    if isinstance(tree, Items):
        return replace(tree, items=tuple(changed if index == head else one for index, one in enumerate(tree.items)))
    if isinstance(tree, Section):
        return replace(tree, entries={**tree.entries, str(head): changed})
    return tree


def _section(node: Section, cut: int) -> Section:
    """A mapping with paths that begin further down."""
    entries = {key: _node(value, cut) for key, value in node.entries.items()}
    return replace(node, entries=entries, path=_shorter(node.path, cut))


def _node(node: Node, cut: int) -> Node:
    """A tree with paths that begin further down."""
    if isinstance(node, Section):
        return _section(node, cut)
    if isinstance(node, Items):
        return replace(node, items=tuple(_node(item, cut) for item in node.items), path=_shorter(node.path, cut))
    return replace(node, path=_shorter(node.path, cut))


def _shorter(path: str, cut: int) -> str:
    """A path without its beginning."""
    return path[cut:].removeprefix(".") if cut else path
