"""References `${...}` in a config: to values in the same file or in another one of the repository."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from dpcalc.config import scalars
from dpcalc.config.documents import Document, read_document
from dpcalc.config.files import SUFFIXES, Files, Refusal, text_of
from dpcalc.config.source import MAX_SHOWN_LENGTH, Diagnostic, Mark, error, shortened
from dpcalc.config.tree import USER_KEY, Items, Node, Scalar, Section, entry, join, node_at, split_path, step_text, walk
from dpcalc.config.vocabulary import nearest

MAX_CHAIN = 8  # references from a value to its end
MAX_FILES = 16  # that the references of one config lead into
MAX_REFERENCE = 400  # characters of a reference
MAX_SUGGESTIONS = 20  # references whose misspelt key is compared with others, at 1 ms each; the first ones suffice
MARKER = "${"
HYDRA_HINT = "this looks like an unresolved Hydra config: let Hydra write the resolved one (`--cfg job --resolve`)"
_HYDRA_RESOLVERS = ("hydra", "oc.")  # how the names of their resolvers begin
_FORM = "write `${section.key}`, or `${conf/train.yaml:section.key}` for another file"
_BEFORE_COMMA = re.compile("(?<![0-9])([0-9]{1,3}),$")
_THOUSANDS = re.compile("[0-9]{3}(?![0-9])")


class References:
    """Reader of the references of one config.

    Attributes:
        faults: error of each reference that leads nowhere, by its place.
        ends: origin of each value that was followed, by its dotted path: (canonical name of another file, or "" for the
            config's own; dotted path there).
    """

    def __init__(self, main: Document, files: Files) -> None:
        """Start with no reference followed.

        Args:
            main: the whole file of the config; references without a file name look into it.
            files: reader of other files.
        """
        self.faults: dict[Mark, Diagnostic] = {}
        self.ends: dict[str, tuple[str, str]] = {}
        self._files = files
        self._documents = {"": main}

    def resolved(self, node: Node) -> Node:
        """Return a tree with references replaced by values, but below `x-`; a wrong one stays, its error in `faults`.

        Args:
            node: the tree; values of `x-` keys stay as they are.

        Returns:
            The tree; a value from elsewhere has the place of its reference. A reference that leads nowhere stays, and
            its error is added to `faults`.
        """
        if isinstance(node, Scalar):
            return self._follow(node) if MARKER in node.text else node
        if isinstance(node, Items):
            return replace(node, items=tuple(self.resolved(item) for item in node.items))
        entries = {
            key: value if key.startswith(USER_KEY) else self.resolved(value) for key, value in node.entries.items()
        }
        return replace(node, entries=entries)

    def _follow(self, node: Scalar) -> Scalar:
        """Return the value that a reference leads to; the reference itself, with a fault added, if there is none."""
        try:
            target, self.ends[node.path] = self._end_of_chain(node.text)
        except Refusal as cause:
            message = f"`{node.path}` is the reference `{shortened(node.text)}`: {cause.message}"
            self.faults[node.mark] = error(cause.code, node.mark, message, cause.hint)
            return node
        return replace(target, mark=node.mark, key=node.key, path=node.path, origin=target.key or target.mark)

    def _end_of_chain(self, text: str) -> tuple[Scalar, tuple[str, str]]:
        """Return (value at a chain's end, (file, path) there); Refusal: cycle, dead end, over MAX_CHAIN references."""
        # The trail ends cycles; it has (file, path) pairs, since the same path can stand in several files.
        trail: list[tuple[str, str]] = []
        place = ""
        while True:
            name, path = _split_reference(text)
            place = self._open_document(name, place) if name else place
            if (place, path) in trail:
                raise Refusal("DPC111", "it leads back to itself", "write the value in one of the places")
            if len(trail) >= MAX_CHAIN:
                raise Refusal("DPC111", f"the chain has more than {MAX_CHAIN} references", "refer to the value itself")
            trail.append((place, path))
            target = self._scalar_at(place, path)
            if MARKER not in target.text:
                return target, (place, path)
            text = target.text

    def _open_document(self, name: str, holder: str) -> str:
        """Return the canonical name of a file that a reference names, read on first use; Refusal if not allowed."""
        try:
            place = self._files.locate(name, holder)
            known = self._documents.get(place)
            self._documents[place] = known or self._read_document(place)
        except Refusal as cause:
            raise Refusal(cause.code, f"`{shortened(name)}` {cause.message}", cause.hint) from None
        return place

    def _read_document(self, place: str) -> Document:
        """Return another file as a tree; Refusal if it is one of more than MAX_FILES, or cannot be read."""
        if len(self._documents) > MAX_FILES:
            raise Refusal("DPC111", f"is one of more than {MAX_FILES} files", "collect the values in fewer files")
        return read_document(text_of(self._files, place), PurePosixPath(place).suffix.lower())

    def _scalar_at(self, place: str, path: str) -> Scalar:
        """Return the scalar at a dotted path of a file read before; Refusal if there is none, or no value in it.

        Raises:
            Refusal: the path is malformed, leads nowhere, or to something that is not one value.
        """
        document = self._documents[place]
        steps, read = split_path(path)
        if path.startswith("."):
            raise Refusal("DPC110", "relative references are not followed", "write the path from the top of the file")
        if not steps or read < len(path):
            raise Refusal("DPC110", f"`{shortened(path)}` is no path of keys", _FORM)
        node, current = document.tree, ""
        for step in steps:
            node, current = _step_down(
                node, current, step.key, document.tree, suggest=len(self.faults) < MAX_SUGGESTIONS
            )
            if current in document.tagged:
                raise Refusal("DPC110", f"`{current}` has a tag, which is not followed", "remove the `!...` there")
        if not isinstance(node, Scalar):
            raise Refusal("DPC110", f"it leads to {scalars.describe(node)}, not to one value", "refer to a key in it")
        if node.text == "???":
            raise Refusal("DPC110", "it leads to `???`, a value still to be given", "write the value there")
        if MARKER not in node.text and scalars.value(node) is None:
            raise Refusal("DPC110", "it leads to nothing: no value is written there", "write the value there")
        return node


def unresolved(root: Node, faults: Mapping[Mark, Diagnostic]) -> Iterator[Diagnostic]:
    """Yield an error for each scalar that is a wrong reference, `???`, empty or a number beyond limits.

    Args:
        root: the tree; values of `x-` keys are skipped.
        faults: errors of references by their place.
    """
    for _, node in walk(root, ""):
        if not isinstance(node, Scalar):
            continue
        path = node.path
        reason = scalars.limit_violation(node.text) if node.plain else ""
        if node.mark in faults:
            yield faults[node.mark]
        elif node.text == "???":
            yield error("DPC110", node.mark, f"`{path}` is `???`, a value still to be given", "write the value")
        elif reason:
            yield error(
                "DPC106", node.mark, f"`{path}` is {node.text[:MAX_SHOWN_LENGTH]}: {reason}", "write a plain number"
            )
        elif scalars.value(node) is None:
            yield _split_number_error(node) or error(
                "DPC102", node.anchor, f"`{path}` is empty", "give it a value, or delete the line"
            )


def _split_number_error(empty: Scalar) -> Diagnostic | None:
    """Return the error for an empty value that is the end of `{steps: 5,000}`, cut at its comma; else None."""
    mark = empty.key
    if mark is None or mark.line > len(mark.source.lines):
        return None
    # YAML makes `5,000` in braces the value 5 and an empty key `000`: the digits on both sides of the comma are looked
    # up.
    line, start = mark.source.lines[mark.line - 1], mark.column - 1
    after, before = _THOUSANDS.match(line, start), _BEFORE_COMMA.search(line[:start])
    if after is None or before is None:
        return None
    number = f"{before[1]},{after[0]}"
    message = f"`{number}` is cut in two: a comma ends a value in braces"
    return error("DPC102", empty.anchor, message, f"write {number.replace(',', '_')}")


def _split_reference(text: str) -> tuple[str, str]:
    """Return (file, or "" for this one; path) of `${file:path}`; Refusal for any other form and resolvers."""
    body = text.strip()
    if len(body) > MAX_REFERENCE:
        raise Refusal("DPC110", f"it has more than {MAX_REFERENCE} characters", _FORM)
    inner = body.removeprefix(MARKER).removesuffix("}")
    if len(inner) != len(body) - 3 or "{" in inner or "}" in inner:
        raise Refusal("DPC110", "a reference is the whole value, with none inside", _FORM)
    name, colon, path = inner.rpartition(":")
    if colon and not name.lower().endswith(SUFFIXES):
        resolver = name.partition(":")[0].strip()
        message = (
            f"resolvers such as `{shortened(resolver)}` are not run, and a file ends in .yaml, .yml, .json or .toml"
        )
        raise Refusal("DPC110", message, HYDRA_HINT if resolver.startswith(_HYDRA_RESOLVERS) else _FORM)
    return name.strip(), path.strip()


def _step_down(node: Node, current: str, key: str | int, root: Node, *, suggest: bool) -> tuple[Node, str]:
    """Return (child of a tree, its dotted path), a list's also for a text such as "0"; Refusal if none or repeated.

    Args:
        node: the current value.
        current: its dotted path.
        key: the next key or 0-based index.
        root: the whole file, to recognise a Hydra config.
        suggest: add the most similar key to the refusal.

    Raises:
        Refusal: there is no such key, or it is repeated.
    """
    # OmegaConf writes `a.0`; six digits are more than any list has, and keep `int` from reading a number without end.
    if isinstance(node, Items) and isinstance(key, str) and key.isascii() and key.isdigit():
        key = int(key[:6])
    if isinstance(node, Section) and key in node.repeated:
        raise Refusal("DPC110", f"{step_text(key)} stands there more than once", "delete all but one")
    below = node_at(node, key)
    if below is not None:
        return below, f"{current}[{key}]" if isinstance(key, int) else join(current, key)
    near = nearest(str(key), tuple(node.entries)) if suggest and isinstance(node, Section) else ""
    hint = HYDRA_HINT if isinstance(entry(root, "defaults"), Items) else f"did you mean `{near}`?" if near else ""
    where = f"`{current}`" if current else "the file"
    raise Refusal("DPC110", f"there is no {step_text(key)} in {where}", hint)
