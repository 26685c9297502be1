"""`data.tree`: nested counts in the config itself or in a JSON file beside it."""

import json
from collections.abc import Callable
from fractions import Fraction
from itertools import islice

from dpcalc.config import scalars
from dpcalc.config.diagnostics import Diagnostic
from dpcalc.config.formats import Table
from dpcalc.config.messages import unexpected
from dpcalc.config.named_files import MAX_FAULTS, named_file
from dpcalc.config.nodes import Items, Node, Section, entry
from dpcalc.config.repository import Files, Refusal
from dpcalc.config.source import Mark, error
from dpcalc.sampling.trees import Fault, Tree, faults, grown, indexed

MAX_TREE_BYTES = 16 * 1024 * 1024
FILE_KEYS = ("levels", "tree")
_SHAPE = "a list of counts nested by level such as [[4, 2, 3], [4, 5]], or {file: counts.json}"

Found = tuple[Tree | None, tuple[Diagnostic, ...]]


def data_tree(root: Section, names: tuple[str, ...], files: Files) -> Found:
    """The tree of a config.

    Args:
        root: the file.
        names: of the levels, outermost first; () while they are not known.
        files: where a tree of its own file is.

    Returns:
        The tree, or None and every error; None and no error where there is none.
    """
    node = entry(entry(root, "data"), "tree") if names else None
    if isinstance(node, Items):
        return _grown(_counts(node), names, lambda fault: _inline(node, fault))
    if isinstance(node, Section):
        return _of_file(node, names, files)
    return None, () if node is None else (unexpected(node, _SHAPE),)


def _grown(counts: object, names: tuple[str, ...], worded: Callable[[Fault], Diagnostic]) -> Found:
    """The tree of nested counts, or its first faults in words."""
    found = tuple(worded(fault) for fault in islice(faults(counts, names), MAX_FAULTS))
    return (None, found) if found else (grown(counts, names), ())


def _counts(node: Node) -> object:
    """Nested counts as the file says them; what is no whole number stays the word that it is."""
    if isinstance(node, Items):
        return [_counts(item) for item in node.items]
    if isinstance(node, Section):
        return "a mapping"
    number = scalars.value(node)
    return number.numerator if isinstance(number, Fraction) and number.denominator == 1 else node.text


def _inline(tree: Items, fault: Fault) -> Diagnostic:
    """A fault at its place in the config."""
    node: Node = tree
    for index in fault.at:
        node = node.items[index] if isinstance(node, Items) else node
    return _worded(fault, node.anchor, f"`{tree.path}{indexed(fault.at)}`")


def _worded(fault: Fault, mark: Mark, place: str) -> Diagnostic:
    """A fault as an error."""
    return error("DPC106" if fault.is_amount else "DPC102", mark, f"{place} must be {fault.text}", fault.hint)


def _of_file(node: Section, names: tuple[str, ...], files: Files) -> Found:
    """The tree in a file."""
    name, wrong = named_file(node, "JSON")
    if name is None:
        return None, wrong
    try:
        counts = _without_levels(_content(name.text, files), names)
    except Refusal as cause:
        return None, (error(cause.code, name.mark, f"`{node.path}.file`: `{name.text}` {cause.message}", cause.hint),)
    return _grown(counts, names, lambda fault: _worded(fault, name.mark, f"`{name.text}`: tree{indexed(fault.at)}"))


def _content(name: str, files: Files) -> object:
    """What a JSON file says."""
    place = files.locate(name, "")
    if not place.lower().endswith(".json"):
        raise Refusal("DPC110", "is no JSON file", "nested lists of counts, such as [[4, 2, 3], [4, 5]]")
    try:
        return json.loads(files.content(place, limit=MAX_TREE_BYTES).decode("utf-8-sig"), object_pairs_hook=Table)
    except RecursionError:
        raise Refusal("DPC111", "is nested too deeply", "a list for each level, and no deeper") from None
    except ValueError as cause:  # also bytes that are no UTF-8, and numbers without end
        raise Refusal("DPC110", f"cannot be read as JSON: {cause}") from None


def _without_levels(content: object, names: tuple[str, ...]) -> object:
    """The counts in a file, which may say for which levels they are."""
    if not isinstance(content, Table):
        return content
    for key in (*content.repeated, *(key for key in content if key not in FILE_KEYS)):
        raise Refusal("DPC101", f"has an unknown or repeated key `{key[:40]}`", f"it may say {' and '.join(FILE_KEYS)}")
    if "tree" not in content:
        raise Refusal("DPC103", "has no `tree`", 'write {"levels": ["user", "example"], "tree": [3, 5, 4]}')
    levels = content.get("levels", list(names))
    if levels != list(names):
        hint = "`data.levels` and the file must name the same levels in the same order"
        raise Refusal("DPC107", f"is for other levels than {', '.join(names)}", hint)
    return content["tree"]
