"""`{file: name}`: a part of a config that stands in a data file of its own."""

from dpcalc.config import scalars
from dpcalc.config.diagnostics import Diagnostic
from dpcalc.config.messages import missing, unexpected
from dpcalc.config.nodes import USER_KEY, Scalar, Section
from dpcalc.config.source import error

MAX_FAULTS = 10  # shown of one data file


def named_file(node: Section, kind: str) -> tuple[Scalar | None, tuple[Diagnostic, ...]]:
    """The name of the file.

    Args:
        node: what stands in the place of the data.
        kind: of the file, "JSON".

    Returns:
        The name as written, or None and the error.
    """
    name = node.entries.get("file")
    for key, value in node.entries.items():
        if key != "file" and not key.startswith(USER_KEY):
            message = f"unknown key `{key}` in `{node.path}`"
            return None, (error("DPC101", value.key or value.anchor, message, "it takes `file`, or is a list"),)
    if name is None:
        return None, (missing(node, "file"),)
    if not isinstance(name, Scalar) or not isinstance(scalars.value(name), str):
        return None, (unexpected(name, f"the name of a {kind} file"),)
    return name, ()
