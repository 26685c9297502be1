"""Files that references lead into (YAML, JSON, TOML) as marked trees, the references, and the section that is meant."""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import PurePosixPath
from typing import NamedTuple

from dpcalc.config import scalars
from dpcalc.config.files import SUFFIXES, Files, Refusal, text_of
from dpcalc.config.hydra import RESOLVE, Hydra
from dpcalc.config.messages import nearest, wrong_type_error
from dpcalc.config.overrides import parse_path
from dpcalc.config.source import (
    MAX_SHOWN_LENGTH,
    ConfigError,
    Diagnostic,
    Mark,
    Source,
    config_error,
    error,
    shortened,
    source_of,
)
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
from dpcalc.errors import InputError

_MAX_TOML_LINES, _MAX_TOML_LINE = 5_000, 1_000  # lines whose places are looked for, and characters of one
MAX_DOTS = 500  # in a line of TOML; tomllib needs time quadratic in the parts of a dotted key


class Document(NamedTuple):
    """A whole file, and the dotted paths of values with a YAML tag, which references do not follow."""

    tree: Node
    tagged: frozenset[str] = frozenset()


# JSON and TOML.


class RepeatedKeyError(InputError):
    """A JSON object gives a key more than once."""


def json_content(text: str, *, number: Callable[[str], object] | None = None) -> object:
    """Return the content of a JSON text; RepeatedKeyError, with the lines of the key, if an object repeats one."""

    def object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            names = [name for name, _ in pairs]
            key = next(name for name, count in Counter(names).items() if count > 1)
            # The decoder tells no places: the lines are looked up, unless the key is written with escapes.
            found = [text.count("\n", 0, at.start()) + 1 for at in re.finditer(rf'"{re.escape(key)}"\s*:', text)]
            lines = f" (see lines {', '.join(map(str, found[:5]))})" if len(found) > 1 else ""
            raise RepeatedKeyError(f"the key `{shortened(key)}` stands there more than once{lines}; delete all but one")
        return entries

    return json.loads(text, parse_float=number, parse_int=number, parse_constant=number, object_pairs_hook=object_of)


class Number(str):
    """Text of a JSON or TOML number, exactly as written."""

    __slots__ = ()


def read_document(source: Source, suffix: str) -> Document:
    """Return a referenced file as a tree, read by its suffix as JSON, TOML or YAML; Refusal if it cannot be read.

    What is not found in a JSON or TOML text has the place of what is around it.
    """
    limits = f"has more than {MAX_EVENTS} parts, or more than {MAX_DEPTH} levels of nesting"
    too_large = Refusal("DPC111", limits, "refer to a smaller file")
    values = count(1)

    def tree_of(value: object, path: str, depth: int, around: Mark) -> Node:
        # JSON has no aliases, but a small file can still nest deeply or hold many values: the limits are those of YAML.
        if next(values) > MAX_EVENTS or depth > MAX_DEPTH:
            raise too_large
        mark = places.get(path, around)
        if isinstance(value, dict):
            parts = {str(key): tree_of(below, join(path, str(key)), depth + 1, mark) for key, below in value.items()}
            return Section(entries=parts, mark=mark, key=None, path=path)
        if isinstance(value, list):
            items = tuple(tree_of(below, f"{path}[{index}]", depth + 1, mark) for index, below in enumerate(value))
            return Items(items=items, mark=mark, key=None, path=path)
        # As YAML would read it: null as "", True as "true", a text as quoted.
        is_plain = value is None or isinstance(value, Number | bool | int)
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return Scalar(text=text, plain=is_plain, mark=mark, key=None, path=path)

    try:
        if suffix not in {".json", ".toml"}:
            tree, flaws = parse_yaml(source)
            return Document(tree, tagged_paths(flaws))
        content: object = json_content(source.text, number=Number) if suffix == ".json" else parse_toml(source)
        places = {} if suffix == ".json" else _toml_places(source)
        # JSON is YAML but for tabs and a few escapes. Places say where a message appears, never what a value is.
        if suffix == ".json":
            with suppress(ConfigError, RecursionError, ValueError):
                tree, _ = parse_yaml(replace(source, text=source.text.replace("\t", " ")))
                places = {path: replace(node.mark, source=source) for path, node in walk(tree, "")}
        return Document(tree_of(content, "", 0, Mark(source, 1, 1)))
    except ConfigError as cause:
        first = cause.diagnostics[0]
        code = "DPC111" if first.code == "DPC111" else "DPC110"
        raise Refusal(code, f"cannot be read, line {first.line}: {first.message}", first.hint) from None
    except RecursionError:
        raise too_large from None
    except RepeatedKeyError as cause:
        message, _, way_out = str(cause).rpartition("; ")
        raise Refusal("DPC110", f"cannot be read as JSON: {message}", way_out) from None
    except ValueError as cause:  # of json, of tomllib, and of whole numbers without end
        raise Refusal("DPC110", f"cannot be read as {suffix[1:].upper()}: {cause}") from None


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


# A config may be a section of a training config.


SECTION = "dpcalc"
KEY = "--key"
NO_TOML = "a config is YAML or JSON; write `key: value` in the place of TOML's `key = value`"
_TOML = re.compile(r"\s*[\w.-]+ *= *\S")


def config_part(tree: Node, key: str) -> tuple[Section, tuple[str | int, ...]]:
    """Return the part of a file that is the config, as if it were a file of its own, and its path in the file.

    That is what `--key` names, else the section `dpcalc`, else the whole file; ConfigError if it is no mapping.
    """
    node, section = tree, entry(tree, SECTION)
    keys: tuple[str | int, ...] = ()
    if key:
        source = source_of(key, KEY)
        keys, marks = parse_path(source.text, source)
        for step, mark in zip(keys, marks, strict=True):
            below = node_at(node, step)
            if below is None:
                message = f"there is no {step_text(step)} in {f'`{node.path}`' if node.path else 'the file'}"
                raise config_error("DPC103", mark, message, "--key names a section of the file")
            node = below
    elif section is not None:
        node, keys = section, (SECTION,)
    if isinstance(node, Section):
        parts = {key: with_path(value, key) for key, value in node.entries.items()}
        return replace(node, path="", entries=parts), keys
    wrong = wrong_type_error(node, "a mapping of keys")
    if isinstance(node, Scalar) and _TOML.match(node.text):
        wrong = replace(wrong, hint=NO_TOML)
    elif not keys:
        beginning = "write `version: 1` and sections below it; `dpcalc init` writes a config"
        wrong = replace(wrong, hint=beginning)
    raise ConfigError([wrong])


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
    """Reader of the references of one config."""

    def __init__(self, main: Document, files: Files) -> None:
        self.faults: dict[Mark, Diagnostic] = {}  # of each reference that leads nowhere, by its place
        # Of each value that was followed, by its dotted path: (canonical name of another file, or "" for the config's
        # own; dotted path there).
        self.ends: dict[str, tuple[str, str]] = {}
        self._files = files
        self._hydra = Hydra(main.tree, files)
        self._documents = {"": main}

    def resolved(self, node: Node) -> Node:
        """Return the tree with references replaced by values, not below `x-` keys; wrong ones stay, with a fault each.

        A value from elsewhere has the place of its reference.
        """
        if isinstance(node, Items):
            return replace(node, items=tuple(self.resolved(item) for item in node.items))
        if isinstance(node, Section):
            parts = node.entries.items()
            resolved = {key: value if key.startswith(USER_KEY) else self.resolved(value) for key, value in parts}
            return replace(node, entries=resolved)
        if MARKER not in node.text:
            return node
        try:
            target, self.ends[node.path] = self._end_of_chain(node.text)
        except Refusal as cause:
            message = f"`{node.path}` is the reference `{shortened(node.text)}`: {cause.message}"
            self.faults[node.mark] = error(cause.code, node.mark, message, cause.hint)
            return node
        return replace(target, mark=node.mark, key=node.key, path=node.path, origin=target.start)

    def _end_of_chain(self, text: str) -> tuple[Scalar, tuple[str, str]]:
        """Return the value at the end of a chain of references, and its (file, path); Refusal if it has no end."""
        # The trail ends cycles; it has (file, path) pairs, since the same path can stand in several files.
        trail: list[tuple[str, str]] = []
        place = written = ""
        while True:
            body = text.strip()
            if len(body) > MAX_REFERENCE:
                raise Refusal("DPC110", f"it has more than {MAX_REFERENCE} characters", _FORM)
            inner = body.removeprefix(MARKER).removesuffix("}")
            if len(inner) != len(body) - 3 or "{" in inner or "}" in inner:
                raise Refusal("DPC110", "a reference is the whole value, with none inside", _FORM)
            name, colon, path = inner.rpartition(":")
            if colon and not name.lower().endswith(SUFFIXES):
                resolver = name.partition(":")[0].strip()
                message = f"resolvers such as `{shortened(resolver)}` are not run, and a file ends in .yaml, .yml, "
                hint = HYDRA_HINT if resolver.startswith(_HYDRA_RESOLVERS) else _FORM
                raise Refusal("DPC110", f"{message}.json or .toml", hint)
            name, path = name.strip(), path.strip()
            if name:
                above = posixpath.dirname(place) if place else str(self._files.folder)
                written = posixpath.normpath(posixpath.join(above, name))
                try:
                    place = self._files.locate(name, place)
                    if place not in self._documents:
                        if len(self._documents) > MAX_FILES:
                            hint = "collect the values in fewer files"
                            raise Refusal("DPC111", f"is one of more than {MAX_FILES} files", hint)
                        suffix = PurePosixPath(place).suffix.lower()
                        self._documents[place] = read_document(text_of(self._files, place), suffix)
                except Refusal as cause:
                    raise Refusal(cause.code, f"`{shortened(name)}` {cause.message}", cause.hint) from None
            if (place, path) in trail:
                raise Refusal("DPC111", "it leads back to itself", "write the value in one of the places")
            if len(trail) >= MAX_CHAIN:
                raise Refusal("DPC111", f"the chain has more than {MAX_CHAIN} references", "refer to the value itself")
            trail.append((place, path))
            steps, read = split_path(path)
            if path.startswith("."):
                raise Refusal(
                    "DPC110", "relative references are not followed", "write the path from the top of the file"
                )
            if not steps or read < len(path):
                raise Refusal("DPC110", f"`{shortened(path)}` is no path of keys", _FORM)
            keys = tuple(key for key, _, _ in steps)
            target = self._scalar_at(self._documents[place], keys)
            try:
                if self._hydra.refuse_other_value(written, place, keys) and MARKER in target.text:
                    message = f"it holds `{shortened(target.text)}`, which Hydra reads from the whole config"
                    raise Refusal("DPC110", message, f"refer to the value itself, or {RESOLVE}")
            except Refusal as cause:
                shown = f"`{shortened(name)}`: " if name else ""
                raise Refusal(cause.code, f"{shown}{cause.message}", cause.hint) from None
            if MARKER not in target.text:
                return target, (place, path)
            text = target.text

    def _scalar_at(self, document: Document, keys: tuple[str | int, ...]) -> Scalar:
        """Return the scalar at a path, maybe a further reference; Refusal if it has no value, or a tag on its way."""
        node, current = document.tree, ""
        for key in keys:
            if isinstance(node, Items) and isinstance(key, str) and key.isascii() and key.isdigit():
                # OmegaConf writes `a.0`. Six digits without leading zeros are more than any list has, and keep `int`
                # from reading a number without end.
                key = int(key.lstrip("0")[:6] or 0)  # noqa: PLW2901
            if isinstance(node, Section) and key in node.repeated:
                raise Refusal("DPC110", f"{step_text(key)} stands there more than once", "delete all but one")
            below = node_at(node, key)
            if below is None:
                if isinstance(entry(document.tree, "defaults"), Items):
                    hint = HYDRA_HINT
                else:
                    names = node.entries if isinstance(node, Section) and len(self.faults) < MAX_SUGGESTIONS else ()
                    near = nearest(str(key), tuple(names))
                    hint = f"did you mean `{near}`?" if near else ""
                where = f"`{current}`" if current else "the file"
                raise Refusal("DPC110", f"there is no {step_text(key)} in {where}", hint)
            node, current = below, f"{current}[{key}]" if isinstance(key, int) else join(current, key)
            if current in document.tagged:
                raise Refusal("DPC110", f"`{current}` has a tag, which is not followed", "remove the `!...` there")
        if not isinstance(node, Scalar):
            raise Refusal("DPC110", f"it leads to {scalars.describe(node)}, not to one value", "refer to a key in it")
        if node.text == "???":
            raise Refusal("DPC110", "it leads to `???`, a value still to be given", "write the value there")
        if MARKER not in node.text and scalars.value(node) is None:
            raise Refusal("DPC110", "it leads to nothing: no value is written there", "write the value there")
        return node


def unresolved_errors(root: Node, faults: Mapping[Mark, Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the error of each scalar that is a wrong reference, `???`, a number beyond limits, or empty."""
    for _, node in walk(root, ""):
        if not isinstance(node, Scalar):
            continue
        reason = scalars.limit_violation(node.text) if node.plain else ""
        advice = no_number(node.path.rpartition(".")[2], node.text)
        if node.mark in faults:
            yield faults[node.mark]
        elif node.text == "???":
            yield error("DPC110", node.mark, f"`{node.path}` is `???`, a value still to be given", "write the value")
        elif reason:
            message = f"`{node.path}` is {node.text[:MAX_SHOWN_LENGTH]}: {reason}"
            yield error("DPC106", node.mark, message, advice or "write a plain number")
        elif scalars.value(node) is None:
            # YAML makes `5,000` in braces the value 5 and an empty key `000`: digits on both sides of a comma.
            key, lines, start = node.start, node.start.source.lines, node.start.column - 1
            line = lines[key.line - 1] if node.key and key.line <= len(lines) else ""
            before, after = _BEFORE_COMMA.search(line[:start]), _THOUSANDS.match(line, start)
            if before and after:
                number = f"{before[1]},{after[0]}"
                message = f"`{number}` is cut in two: a comma ends a value in braces"
                yield error("DPC102", node.anchor, message, f"write {number.replace(',', '_')}")
            else:
                yield node.fault("DPC102", "is empty", advice or "give it a value, or delete the line")
