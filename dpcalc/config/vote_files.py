"""`mechanism.votes`: where the votes of the teachers are. They are private: only whoever asks about them reads them."""

from dpcalc.config import scalars
from dpcalc.config.diagnostics import Diagnostic
from dpcalc.config.messages import unexpected
from dpcalc.config.nodes import Node, Scalar, entry
from dpcalc.config.repository import Files, Refusal
from dpcalc.config.source import error

ENDINGS = (".npy", ".csv", ".tsv")


def votes_name(mechanism: Node | None, files: Files) -> tuple[str, tuple[Diagnostic, ...]]:
    """The name of the file with the votes.

    Args:
        mechanism: its section.
        files: where the file is.

    Returns:
        The name as written, "" without one, and what is wrong with it.
    """
    node = entry(mechanism, "votes")
    if node is None:
        return "", ()
    if not isinstance(node, Scalar) or not isinstance(scalars.value(node), str):
        return "", (unexpected(node, "the name of a file such as votes.npy"),)
    place = f"`{node.path}`: `{node.text}`"
    if not node.text.lower().endswith(ENDINGS):
        hint = "a row for each query, a column for each label, the teachers that chose it"
        return "", (error("DPC110", node.mark, f"{place} is no file *{', *'.join(ENDINGS)}", hint),)
    try:
        files.locate(node.text, "")
    except Refusal as cause:
        return "", (error(cause.code, node.mark, f"{place} {cause.message}", cause.hint),)
    return node.text, ()
