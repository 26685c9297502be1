"""Files that references lead into (YAML, JSON, TOML) as marked trees, the references, and the section that is meant."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath

from dpcalc.config import scalars
from dpcalc.config.files import SUFFIXES, Files, Refusal, text_of
from dpcalc.config.hydra import RESOLVE, Hydra
from dpcalc.config.json_text import RepeatedKeyError, json_content
from dpcalc.config.messages import nearest, wrong_type_error
from dpcalc.config.overrides import parse_path
from dpcalc.config.source import MAX_SHOWN_LENGTH, ConfigError, Diagnostic, Mark, Source, error, shortened, source_of
from dpcalc.config.tree import (
    USER_KEY,
    Items,
    Node,
    Scalar,
    Section,
    entry,
    join,
    node_at,
    split_path,
    step_text,
    walk,
    with_path,
)
from dpcalc.config.words import no_number
from dpcalc.config.yaml_text import MAX_DEPTH, MAX_EVENTS, parse_yaml, tagged_paths
from dpcalc.records import dataclass

_MAX_TOML_LINES, _MAX_TOML_LINE = 5_000, 1_000  # lines whose places are looked for, and characters of one
MAX_DOTS = 500  # in a line of TOML; tomllib needs time quadratic in the parts of a dotted key


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole file, for references to look into.

    Attributes:
        tree: its content.
        tagged: dotted paths of values with a YAML tag, which are not followed: their meaning is unknown.
    """

    tree: Node
    tagged: frozenset[str] = frozenset()


class Number(str):
    """Text of a JSON or TOML number, exactly as written."""

    __slots__ = ()


def read_document(source: Source, suffix: str) -> Document:
    """Return a referenced file as a tree, read by its suffix as JSON, TOML or YAML; Refusal if it cannot be read.

    The document; what is not found in a JSON or TOML text has the place of what is around it.
    """
    try:
        return _parsed_document(source, suffix)
    except ConfigError as cause:
        first = cause.diagnostics[0]
        code = "DPC111" if first.code == "DPC111" else "DPC110"
        raise Refusal(code, f"cannot be read, line {first.line}: {first.message}", first.hint) from None
    except RecursionError:
        raise _too_large() from None
    except RepeatedKeyError as cause:
        message, _, way_out = str(cause).rpartition("; ")
        raise Refusal("DPC110", f"cannot be read as JSON: {message}", way_out) from None
    except ValueError as cause:  # of json, of tomllib, and of whole numbers without end
        raise Refusal("DPC110", f"cannot be read as {suffix[1:].upper()}: {cause}") from None


def _parsed_document(source: Source, suffix: str) -> Document:
    """Return a JSON, TOML or (any other suffix) YAML text as a tree; errors are those of the parsers."""
    if suffix == ".json":
        value = json_content(source.text, number=Number)
    elif suffix == ".toml":
        value = parse_toml(source)
    else:
        tree, flaws = parse_yaml(source)
        return Document(tree=tree, tagged=tagged_paths(flaws))
    places = _json_places(source) if suffix == ".json" else _toml_places(source)
    return Document(tree=_TreeBuilder(source, places).build(value, ""))


def _json_places(source: Source) -> dict[str, Mark]:
    """Return the places of the values of a JSON text, by dotted path, as YAML reads it; {} where it cannot."""
    # JSON is YAML but for tabs and a few escapes. Places say where a message appears, never what a value is.
    with suppress(ConfigError, RecursionError, ValueError):
        tree, _ = parse_yaml(replace(source, text=source.text.replace("\t", " ")))
        return {path: replace(node.mark, source=source) for path, node in walk(tree, "")}
    return {}


def _toml_places(source: Source) -> dict[str, Mark]:
    """Return the places of the values of a TOML text, by dotted path: of tables, and of what a line assigns."""
    import tomllib

    places: dict[str, Mark] = {}
    tables = Counter[str]()  # how many of an array there have been
    around, quotes = "", ""
    for number, line in enumerate(source.lines[:_MAX_TOML_LINES], start=1):
        text, start = line.strip(), len(line) - len(line.lstrip())
        if text.startswith("#") or len(line) > _MAX_TOML_LINE:
            continue
        if quotes:  # inside a text of several lines
            quotes = "" if quotes in text else quotes
            continue
        left, equals, right = text.partition("=")
        while equals and left.count('"') % 2:  # the sign is in a quoted key
            more, equals, right = right.partition("=")
            left = f"{left}={more}"
        is_header = text.startswith("[") and not equals
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            node = tomllib.loads(text if is_header else f"{left}= 0")
            path, inner = "" if is_header else around, node
            while isinstance(inner, dict) and inner:
                ((name, inner),) = inner.items()
                path = join(path, name)
                if isinstance(inner, list):  # the header of the next table of an array
                    tables[path] += 1
                    inner = inner[0]
                if tables[path]:
                    path = f"{path}[{tables[path] - 1}]"
            column = start + 1 if is_header else start + len(left) + len(equals) + len(right) - len(right.lstrip()) + 1
            if is_header or equals:
                places.setdefault(path, Mark(source, number, column, max(1, len(text) - column + start + 1)))
            around = path if is_header else around
        for mark in ('"""', "'''"):
            quotes = mark if right.count(mark) % 2 else quotes
    return places


def parse_toml(source: Source) -> dict[str, object]:
    """Return a TOML text as dictionaries, with floats as Number; Refusal for a line with too many points."""
    if any(line.count(".") > MAX_DOTS for line in source.lines):
        raise Refusal("DPC111", f"has a line with more than {MAX_DOTS} points", "refer to a smaller file")
    import tomllib

    return tomllib.loads(source.text, parse_float=Number)


class _TreeBuilder:
    """Translation of what a JSON or TOML parser returns into a tree; these parsers do not report places."""

    def __init__(self, source: Source, places: Mapping[str, Mark]) -> None:
        self._places = {"": Mark(source, 1, 1), **places}
        self._count = 0

    def build(self, value: object, path: str, depth: int = 0, around: str = "") -> Node:
        """Return a JSON or TOML value as a tree; Refusal if it is too large or nested too deeply."""
        # JSON has no aliases, but a small file can still nest deeply or hold many values: the limits are those of YAML.
        self._count += 1
        if self._count > MAX_EVENTS or depth > MAX_DEPTH:
            raise _too_large()
        known = path if path in self._places else around
        mark = self._places[known]
        if isinstance(value, dict):
            entries = {
                str(key): self.build(below, join(path, str(key)), depth + 1, known) for key, below in value.items()
            }
            return Section(entries=entries, mark=mark, key=None, path=path)
        if isinstance(value, list):
            items = tuple(self.build(below, f"{path}[{index}]", depth + 1, known) for index, below in enumerate(value))
            return Items(items=items, mark=mark, key=None, path=path)
        return self._scalar(value, path, mark)

    def _scalar(self, value: object, path: str, mark: Mark) -> Scalar:
        """Return a JSON or TOML value as YAML would read it: null as "", True as "true", a text as quoted."""
        is_plain = value is None or isinstance(value, Number | bool | int)
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return Scalar(text=text, plain=is_plain, mark=mark, key=None, path=path)


def _too_large() -> Refusal:
    """Return the refusal for a file with too many parts or too much nesting."""
    message = f"has more than {MAX_EVENTS} parts, or more than {MAX_DEPTH} levels of nesting"
    return Refusal("DPC111", message, "refer to a smaller file")


# A config may be a section of a training config.


SECTION = "dpcalc"
KEY = "--key"
NO_TOML = "a config is YAML or JSON; write `key: value` in the place of TOML's `key = value`"
_TOML = re.compile(r"\s*[\w.-]+ *= *\S")


@dataclass(frozen=True, kw_only=True)
class ConfigPart:
    """The part of a file that is the config: a `dpcalc:` section, or what `--key` names, or the whole file.

    Attributes:
        root: the part as if it were a file of its own, paths beginning there.
        keys: path of the part in the file as keys and indices, () for the whole file.
        path: the same as a dotted path, "" for the whole file.
    """

    root: Section
    keys: tuple[str | int, ...]
    path: str


def config_part(tree: Node, key: str) -> ConfigPart:
    """Return the part of a file that is the config; ConfigError if it is absent or no mapping.

    Dotted paths in it begin at its own top.
    """
    node, keys = _named_part(tree, key) if key else _default_part(tree)
    if not isinstance(node, Section):
        raise ConfigError([_no_mapping_error(node)])
    root = replace(node, path="", entries={key: with_path(value, key) for key, value in node.entries.items()})
    return ConfigPart(root=root, keys=keys, path=node.path)


def _default_part(tree: Node) -> tuple[Node, tuple[str | int, ...]]:
    """Return the section `dpcalc` of a file and its path as keys; without it the whole file and ()."""
    section = entry(tree, SECTION)
    if section is None:
        return tree, ()
    return section, (SECTION,)


def _named_part(tree: Node, key: str) -> tuple[Node, tuple[str | int, ...]]:
    """Return the node that `--key` names, and its keys; ConfigError for no path (DPC100) or no node (DPC103)."""
    source = source_of(key, KEY)
    keys, marks = parse_path(source.text, source)
    node = tree
    for step, mark in zip(keys, marks, strict=True):
        below = node_at(node, step)
        if below is None:
            message = f"there is no {step_text(step)} in {f'`{node.path}`' if node.path else 'the file'}"
            raise ConfigError([error("DPC103", mark, message, "--key names a section of the file")])
        node = below
    return node, keys


def _no_mapping_error(node: Node) -> Diagnostic:
    """Return the error (DPC102) of a config that is no mapping, with a hint that fits its text."""
    wrong = wrong_type_error(node, "a mapping of keys")
    if isinstance(node, Scalar) and _TOML.match(node.text):
        return replace(wrong, hint=NO_TOML)
    beginning = "write `version: 1` and sections below it; `dpcalc init` writes a config"
    return wrong if node.path else replace(wrong, hint=beginning)


# References `${...}` in a config: to values in the same file or in another one of the repository.

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
        """Start with no reference followed."""
        self.faults: dict[Mark, Diagnostic] = {}
        self.ends: dict[str, tuple[str, str]] = {}
        self._files = files
        self._hydra = Hydra(main.tree, files)
        self._documents = {"": main}

    def resolved(self, node: Node) -> Node:
        """Return the tree with references replaced by values, not below `x-` keys; wrong ones stay, with a fault each.

        The tree; a value from elsewhere has the place of its reference. Errors are added to `faults`.
        """
        if isinstance(node, Scalar):
            return self._referenced_value(node) if MARKER in node.text else node
        if isinstance(node, Items):
            return replace(node, items=tuple(self.resolved(item) for item in node.items))
        entries = {
            key: value if key.startswith(USER_KEY) else self.resolved(value) for key, value in node.entries.items()
        }
        return replace(node, entries=entries)

    def _referenced_value(self, node: Scalar) -> Scalar:
        """Return the value of a reference with the reference's place, noting its end; a wrong one, noting its fault."""
        try:
            target, self.ends[node.path] = self._end_of_chain(node.text)
        except Refusal as cause:
            message = f"`{node.path}` is the reference `{shortened(node.text)}`: {cause.message}"
            self.faults[node.mark] = error(cause.code, node.mark, message, cause.hint)
            return node
        return replace(target, mark=node.mark, key=node.key, path=node.path, origin=target.key or target.mark)

    def _end_of_chain(self, text: str) -> tuple[Scalar, tuple[str, str]]:
        """Return the value at the end of a chain of references, and its (file, path); Refusal if it has no end."""
        # The trail ends cycles; it has (file, path) pairs, since the same path can stand in several files.
        trail: list[tuple[str, str]] = []
        place = written = ""
        while True:
            name, path = _split_reference(text)
            if name:
                above = posixpath.dirname(place) if place else str(self._files.folder)
                written = posixpath.normpath(posixpath.join(above, name))
                place = self._open_document(name, place)
            if (place, path) in trail:
                raise Refusal("DPC111", "it leads back to itself", "write the value in one of the places")
            if len(trail) >= MAX_CHAIN:
                raise Refusal("DPC111", f"the chain has more than {MAX_CHAIN} references", "refer to the value itself")
            trail.append((place, path))
            target = self._scalar_at(place, path)
            try:
                is_option = self._hydra.refuse_other_value(written, place, _reference_keys(path))
                if is_option and MARKER in target.text:
                    message = f"it holds `{shortened(target.text)}`, which Hydra reads from the whole config"
                    raise Refusal("DPC110", message, f"refer to the value itself, or {RESOLVE}")
            except Refusal as cause:
                shown = f"`{shortened(name)}`: " if name else ""
                raise Refusal(cause.code, f"{shown}{cause.message}", cause.hint) from None
            if MARKER not in target.text:
                return target, (place, path)
            text = target.text

    def _open_document(self, name: str, holder: str) -> str:
        """Return the canonical name of a file that `holder` names, read if it is new; Refusal if it cannot be."""
        try:
            place = self._files.locate(name, holder)
            known = self._documents.get(place)
            self._documents[place] = known or self._read_document(place)
        except Refusal as cause:
            raise Refusal(cause.code, f"`{shortened(name)}` {cause.message}", cause.hint) from None
        return place

    def _read_document(self, place: str) -> Document:
        """Read and parse a located file, without keeping it; Refusal if it is unreadable or one more than MAX_FILES."""
        if len(self._documents) > MAX_FILES:
            raise Refusal("DPC111", f"is one of more than {MAX_FILES} files", "collect the values in fewer files")
        return read_document(text_of(self._files, place), PurePosixPath(place).suffix.lower())

    def _scalar_at(self, place: str, path: str) -> Scalar:
        """Return the scalar at a path of an open file; Refusal if it has no value or its path leads through a tag."""
        document = self._documents[place]
        node, current = document.tree, ""
        for key in _reference_keys(path):
            node, current = self._step_down(node, current, key, document)
        return _scalar_with_value(node)

    def _step_down(self, node: Node, current: str, key: str | int, document: Document) -> tuple[Node, str]:
        """Return the child at a key, and its dotted path; Refusal if it is missing, repeated, or has a tag."""
        key = _list_index(key) if isinstance(node, Items) else key
        if isinstance(node, Section) and key in node.repeated:
            raise Refusal("DPC110", f"{step_text(key)} stands there more than once", "delete all but one")
        below = node_at(node, key)
        if below is None:
            where = f"`{current}`" if current else "the file"
            hint = self._missing_key_hint(node, key, document.tree)
            raise Refusal("DPC110", f"there is no {step_text(key)} in {where}", hint)
        path = f"{current}[{key}]" if isinstance(key, int) else join(current, key)
        if path in document.tagged:
            raise Refusal("DPC110", f"`{path}` has a tag, which is not followed", "remove the `!...` there")
        return below, path

    def _missing_key_hint(self, node: Node, key: str | int, root: Node) -> str:
        """Return a hint at Hydra if the file has its `defaults`, else at the most similar key, "" if there is none."""
        if isinstance(entry(root, "defaults"), Items):
            return HYDRA_HINT
        names = tuple(node.entries) if isinstance(node, Section) and len(self.faults) < MAX_SUGGESTIONS else ()
        near = nearest(str(key), names)
        return f"did you mean `{near}`?" if near else ""


def _reference_keys(path: str) -> tuple[str | int, ...]:
    """Return the keys and indices in the path of a reference; Refusal if it is relative, empty or malformed."""
    steps, read = split_path(path)
    if path.startswith("."):
        raise Refusal("DPC110", "relative references are not followed", "write the path from the top of the file")
    if not steps or read < len(path):
        raise Refusal("DPC110", f"`{shortened(path)}` is no path of keys", _FORM)
    return tuple(step.key for step in steps)


def _scalar_with_value(node: Node) -> Scalar:
    """Return the referenced scalar or further reference; Refusal if it is no scalar, empty, or still to be given."""
    if not isinstance(node, Scalar):
        raise Refusal("DPC110", f"it leads to {scalars.describe(node)}, not to one value", "refer to a key in it")
    if node.text == "???":
        raise Refusal("DPC110", "it leads to `???`, a value still to be given", "write the value there")
    if MARKER not in node.text and scalars.value(node) is None:
        raise Refusal("DPC110", "it leads to nothing: no value is written there", "write the value there")
    return node


def unresolved_errors(root: Node, faults: Mapping[Mark, Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the error of each scalar that is a wrong reference, `???`, a number beyond limits, or empty."""
    nodes = (node for _, node in walk(root, "") if isinstance(node, Scalar))
    errors = (faults.get(node.mark) or _value_error(node) for node in nodes)
    yield from (each for each in errors if each is not None)


def _value_error(node: Scalar) -> Diagnostic | None:
    """Return the error of a scalar that is `???` (DPC110), beyond the limits of numbers (DPC106) or empty (DPC102)."""
    if node.text == "???":
        return error("DPC110", node.mark, f"`{node.path}` is `???`, a value still to be given", "write the value")
    reason = scalars.limit_violation(node.text) if node.plain else ""
    if reason:
        message = f"`{node.path}` is {node.text[:MAX_SHOWN_LENGTH]}: {reason}"
        hint = no_number(node.path.rpartition(".")[2], node.text) or "write a plain number"
        return error("DPC106", node.mark, message, hint)
    if scalars.value(node) is not None:
        return None
    message = f"`{node.path}` is empty"
    hint = no_number(node.path.rpartition(".")[2], node.text) or "give it a value, or delete the line"
    return _split_number_error(node) or error("DPC102", node.anchor, message, hint)


def _split_number_error(empty: Scalar) -> Diagnostic | None:
    """Return the error of an empty value that is the end of a number, as in `{steps: 5,000}`; else None."""
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
    """Split a reference `${file:path}` into its file ("" for the same one) and path; Refusal for other texts."""
    body = text.strip()
    if len(body) > MAX_REFERENCE:
        raise Refusal("DPC110", f"it has more than {MAX_REFERENCE} characters", _FORM)
    inner = body.removeprefix(MARKER).removesuffix("}")
    if len(inner) != len(body) - 3 or "{" in inner or "}" in inner:
        raise Refusal("DPC110", "a reference is the whole value, with none inside", _FORM)
    name, colon, path = inner.rpartition(":")
    if colon and not name.lower().endswith(SUFFIXES):
        raise _resolver_refusal(name.partition(":")[0].strip())
    return name.strip(), path.strip()


def _resolver_refusal(resolver: str) -> Refusal:
    """Return the refusal of a reference such as `${oc.env:NAME}`, with a hint at Hydra for one of its resolvers."""
    message = f"resolvers such as `{shortened(resolver)}` are not run, and a file ends in .yaml, .yml, .json or .toml"
    return Refusal("DPC110", message, HYDRA_HINT if resolver.startswith(_HYDRA_RESOLVERS) else _FORM)


def _list_index(key: str | int) -> str | int:
    """Return a text of digits as an index, as OmegaConf writes `a.0`; other keys unchanged."""
    if not isinstance(key, str) or not key.isascii() or not key.isdigit():
        return key
    # Six digits without leading zeros are more than any list has, and keep `int` from reading a number without end.
    return int(key.lstrip("0")[:6] or 0)
