"""Dotted paths as users write them: `phases[0].training.steps`."""

import re
from dataclasses import dataclass

from dpcalc.config.nodes import Items, Node, Section

_PART = re.compile(r"(?P<key>[^.\[\]=\s]+)|\[(?P<index>[0-9]{1,6})\]")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One step of a path.

    Attributes:
        key: a name, or an index of a list.
        start: 0-based character of the path at which it begins.
        width: its characters.
    """

    key: str | int
    start: int
    width: int


def parts(text: str) -> tuple[tuple[Part, ...], int]:
    """The steps of a path.

    Args:
        text: what the user wrote.

    Returns:
        The steps, and how many characters of the text they explain: all of them in a good path.

    Example:
        >>> [part.key for part in parts("phases[0].training")[0]], parts("a..b")[1]
        (['phases', 0, 'training'], 2)
    """
    found: list[Part] = []
    position = 0
    while position < len(text):
        if found and text[position] == ".":
            position += 1
        match = _PART.match(text, position)
        if not match or (match["index"] is not None) == (not found or text[position - 1] == "."):
            break
        key = match["key"] if match["index"] is None else int(match["index"])
        found.append(Part(key=key, start=match.start(), width=len(match.group())))
        position = match.end()
    return tuple(found), position


def shown(key: str | int) -> str:
    """One step as a message names it."""
    return f"[{key}]" if isinstance(key, int) else f"`{key}`"


def child(node: Node | None, key: str | int) -> Node | None:
    """What stands one step below a node, None when nothing does."""
    if isinstance(key, int):
        return node.items[key] if isinstance(node, Items) and key < len(node.items) else None
    return node.entries.get(key) if isinstance(node, Section) else None
