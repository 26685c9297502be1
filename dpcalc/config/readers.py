"""Files that references lead into, as marked trees: one reader for each kind of file, in one table by its ending."""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, count

from dpcalc.config.command_lines import read_shell
from dpcalc.config.files import Files, Refusal
from dpcalc.config.gin_files import read_gin
from dpcalc.config.other_files import WAYS
from dpcalc.config.python_files import read_python
from dpcalc.config.source import ConfigError, Mark, Source, shortened, source_of, whole_file
from dpcalc.config.tree import Document, Items, Node, Scalar, Section, join, walk
from dpcalc.config.yaml_text import MAX_DEPTH, MAX_EVENTS, Flaw, parse_yaml, tagged_paths
from dpcalc.errors import InputError

MAX_DOTS = 500  # in a line of TOML; tomllib needs time quadratic in the parts of a dotted key


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


def _read_data(source: Source, suffix: str) -> Document:
    """Return a JSON or TOML file as a tree; Refusal if it cannot be read.

    What is not found in a JSON text has the place of what is around it.
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
            return Section(entries=parts, mark=mark, path=path)
        if isinstance(value, list):
            items = tuple(tree_of(below, f"{path}[{index}]", depth + 1, mark) for index, below in enumerate(value))
            return Items(items=items, mark=mark, path=path)
        # As YAML would read it: null as "", True as "true", a text as quoted.
        is_plain = value is None or isinstance(value, Number | bool | int)
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return Scalar(text=text, plain=is_plain, mark=mark, path=path)

    try:
        content: object = json_content(source.text, number=Number) if suffix == ".json" else parse_toml(source)
        places = _json_places(source) if suffix == ".json" else _toml_places(source)
        return Document(tree_of(content, "", 0, Mark(source, 1, 1)))
    except RecursionError:
        raise too_large from None
    except RepeatedKeyError as cause:
        message, _, way_out = str(cause).rpartition("; ")
        raise Refusal("DPC110", f"cannot be read as JSON: {message}", way_out) from None
    except ValueError as cause:  # of json, of tomllib, and of whole numbers without end
        raise Refusal("DPC110", f"cannot be read as {suffix[1:].upper()}: {cause}") from None


def document_of(tree: Node, flaws: tuple[Flaw, ...]) -> Document:
    """Return a YAML file as references see it: values with a tag are not followed."""
    way_out = "remove the `!...` there"
    message = "`{}` has a tag, which is not followed"
    return Document(tree, {path: Refusal("DPC110", message.format(path), way_out) for path in tagged_paths(flaws)})


def _read_yaml(source: Source, number: int = 0) -> Document:
    """Return a YAML file as a tree, the document of this number if it is not 0; Refusal if it cannot be read."""
    try:
        return document_of(*parse_yaml(source, number))
    except ConfigError as cause:
        first = cause.diagnostics[0]
        code = "DPC111" if first.code == "DPC111" else "DPC110"
        raise Refusal(code, f"cannot be read, line {first.line}: {first.message}", first.hint) from None


def _json_places(source: Source) -> dict[str, Mark]:
    """Return the places of the values of a JSON text, by dotted path, as YAML reads it; {} where it cannot."""
    # JSON is YAML but for tabs and a few escapes. Places say where a message appears, never what a value is.
    with suppress(ConfigError, RecursionError, ValueError):
        tree, _ = parse_yaml(replace(source, text=source.text.replace("\t", " ")))
        return {path: replace(node.mark, source=source) for path, node in walk(tree, "")}
    return {}


_OF_OTHER_LANGUAGES = {"bash", "sh", "html", "markdown", "latex", "svg", "writefile"}  # cells
_QUIET = {"matplotlib", "pip", "conda", "load_ext", "autoreload", "tensorboard"}  # magics that bind no name


def _read_notebook(source: Source) -> Document:
    """Return what the code cells of a notebook state as one Python file with the lines of the notebook.

    What is bound up to the end of the cell that is tagged `parameters` is a default: papermill binds it again after it.
    """
    way_out = "let Jupyter save it, with a line for each line of code"
    try:
        content: object = json_content(source.text)
    except (ValueError, RecursionError) as cause:
        raise Refusal("DPC110", f"cannot be read as JSON: {cause}", way_out) from None
    places, lines, last, tagged = _json_places(source), [""] * len(source.lines), 0, 0
    cells = content.get("cells") if isinstance(content, dict) else None
    for number, cell in enumerate(cells if isinstance(cells, list) else ()):
        code = cell.get("source") if isinstance(cell, dict) and cell.get("cell_type") == "code" else []
        texts = code if isinstance(code, list) else [code]
        magic = re.match(r"%%(\w+)(?!.*\s-)", str(next(iter(texts), "")))  # `%%bash --out S` binds a name
        for at, text in enumerate(texts if magic is None or magic[1] not in _OF_OTHER_LANGUAGES else ()):
            mark = places.get(f"cells[{number}].source[{at}]")
            is_line = (
                isinstance(text, str) and "\n" not in text.rstrip("\n") and (text[-1:] == "\n" or text is texts[-1])
            )
            if mark is None or not is_line or mark.line <= last:
                raise Refusal("DPC110", f"has code in cell {number + 1} that is not written line by line", way_out)
            last, line = mark.line, text.rstrip("\n")
            if line.lstrip()[:1] in {"!", "%"}:
                word = re.match(r"\s*%%?(\w*)", line)
                is_quiet = word is None or word[1] in _QUIET or line.strip() in {"%%time", "%%capture"}
                if "get_ipython" in line or not is_quiet:
                    raise Refusal("DPC110", f"line {last} has `{shortened(line.strip())}`, which may bind any name")
                line = re.sub(r"\S.*", "pass", line)
            lines[last - 1] = line
        if isinstance(cell, dict) and '"parameters"' in json.dumps(cell.get("metadata")):
            tagged = last
    if "get_ipython" in source.text:
        raise Refusal("DPC110", "calls `get_ipython`, which may bind any name")
    document = read_python(source_of("\n".join(lines), source.path))
    given = {
        path: (f"-p {path}",)
        for path, node in walk(document.tree, "")
        if node.mark.line <= tagged and path.partition(".")[0] not in {"flags", "calls"}
    }
    return document._replace(defaults={**document.defaults, **given})


_SPACE = re.compile(r"[ \t\n]*(?:#[^\n]*\n?[ \t\n]*)*")
_TOML_TEXT = re.compile(r""""{3}(?:[^\\]|\\.)*?"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""", re.DOTALL)
_TOML_WORD = re.compile(r"[^\s,\]}#=.]+")
_TOML_PLAIN = re.compile(r"[^,\]}#\n]*")


def _toml_places(source: Source) -> dict[str, Mark]:
    """Return the places of all values of a valid TOML text, by dotted path."""
    import tomllib

    text = "\n".join(source.lines)
    starts = [0, *accumulate(len(line) + 1 for line in source.lines)]
    places: dict[str, Mark] = {}
    tables = Counter[str]()  # how many of an array there have been
    at = 0

    def note(path: str, start: int, stop: int) -> None:
        line = bisect_right(starts, start)
        width = min(stop, starts[line] - 1) - start
        places.setdefault(path, Mark(source, line, start - starts[line - 1] + 1, max(1, width)))

    def skip() -> str:
        nonlocal at
        found = _SPACE.match(text, at)
        at = found.end() if found else at
        return text[at : at + 1]

    def key() -> list[str]:
        nonlocal at
        parts = []
        while True:
            skip()
            found = _TOML_TEXT.match(text, at) or _TOML_WORD.match(text, at)
            if found is None:
                raise ValueError(at)
            (name,) = tomllib.loads(f"{found.group()} = 0")
            parts.append(name)
            at = found.end()
            if skip() != ".":
                return parts
            at += 1

    def value(path: str) -> None:
        nonlocal at
        sign, start = skip(), at
        if sign == "[":
            at += 1
            number = 0
            while skip() not in {"]", ""}:
                value(f"{path}[{number}]")
                number += 1
                at += skip() == ","
            at += 1
        elif sign == "{":
            at += 1
            while skip() not in {"}", ""}:
                assignment(path)
                at += skip() == ","
            at += 1
        else:
            found = _TOML_TEXT.match(text, at) or _TOML_PLAIN.match(text, at)
            at = found.end() if found else at
        note(path, start, start + len(text[start:at].rstrip()))

    def assignment(around: str) -> None:
        nonlocal at
        path = around
        for part in key():
            path = join(path, part)
        at += 1  # the `=`
        value(path)

    around = ""
    with suppress(ValueError, RecursionError):  # places say where a message appears, never what a value is
        while sign := skip():
            if sign != "[":
                assignment(around)
                continue
            start, brackets = at, 2 if text.startswith("[[", at) else 1
            at += brackets
            path, parts = "", key()
            for number, part in enumerate(parts, 1):
                path = join(path, part)
                tables[path] += brackets == 2 and number == len(parts)
                if tables[path]:
                    path = f"{path}[{tables[path] - 1}]"
            around = path
            skip()
            at += brackets
            note(path, start, at)
    return places


def parse_toml(source: Source) -> dict[str, object]:
    """Return a TOML text as dictionaries, with floats as Number; Refusal for a line with too many points."""
    if any(line.count(".") > MAX_DOTS for line in source.lines):
        raise Refusal("DPC111", f"has a line with more than {MAX_DOTS} points", "refer to a smaller file")
    import tomllib

    return tomllib.loads(source.text, parse_float=Number)


READERS: dict[str, Callable[[Source], Document]] = {
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": lambda source: _read_data(source, ".json"),
    ".toml": lambda source: _read_data(source, ".toml"),
    ".py": read_python,
    ".ipynb": _read_notebook,
    ".gin": read_gin,
    ".sh": read_shell,
    ".bash": read_shell,
}
"""A reader for each ending of a file; each raises Refusal for a file that it cannot read."""


def read_config(source: Source) -> tuple[Node, tuple[Flaw, ...]]:
    """Return the tree of a file that holds a config, TOML by its ending, else YAML, and its flaws; ConfigError."""
    if source.path.lower().endswith((".py", ".ipynb", ".gin", ".sh", ".bash")):
        raise whole_file(source.path, "DPC101", "this is no dpcalc config", WAYS)
    if not source.path.lower().endswith(".toml"):
        return parse_yaml(source)
    try:
        return _read_data(source, ".toml").tree, ()
    except Refusal as cause:
        code = "DPC111" if cause.code == "DPC111" else "DPC100"
        raise whole_file(source.path, code, cause.message, cause.hint) from None


def read_document(source: Source, suffix: str, number: int = 0, files: Files | None = None) -> Document:
    """Return a referenced file as a tree, of YAML the document of this number from 1; Refusal if it cannot be read.

    `files` is where a gin file finds what it includes.
    """
    if not number:
        return read_gin(source, files) if suffix == ".gin" else READERS[suffix](source)
    if READERS[suffix] is not _read_yaml:
        raise Refusal("DPC110", "has no documents to number", "`#2` names the second document of a YAML file")
    return _read_yaml(source, number)
