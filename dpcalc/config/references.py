"""What a file leaves unresolved."""

from collections.abc import Iterator

from dpcalc.config import scalars
from dpcalc.config.diagnostics import Diagnostic
from dpcalc.config.nodes import Items, Node, Scalar, entry, walk
from dpcalc.config.source import error

_HYDRA = "this looks like an unresolved Hydra config: let Hydra write the resolved one (`--cfg job --resolve`)"


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
