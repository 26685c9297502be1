"""Files that references lead into, as marked trees: one reader for each kind of file, in one table by its ending.

An `include` is followed if exactly one file of the repository can be meant: gin looks from the folder of the run, which
may be that of the file or any one above it.
"""

import ast
import json
import posixpath
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, count
from pathlib import Path
from typing import NamedTuple

from dpcalc.config.files import Files, Refusal, refusal_at, text_of
from dpcalc.config.messages import WAYS
from dpcalc.config.python_files import read_python
from dpcalc.config.python_names import literal_text, python_syntax
from dpcalc.config.source import ConfigError, Mark, Source, shortened, source_of, whole_file
from dpcalc.config.tree import (
    MAX_DEPTH,
    MAX_EVENTS,
    Document,
    Flaw,
    Items,
    Node,
    Scalar,
    Section,
    join,
    nested,
    parse_yaml,
    tagged_paths,
    walk,
)
from dpcalc.errors import InputError

_BINDING = re.compile(r"(?P<selector>[\w./]+)(?P<equals>\s*=\s*)(?P<value>\S.*)")
_MAX_LINES = 100  # of one value
_MAX_MORE = 2_000  # lines of a file that go on with a value: each is tried
_MAX_BINDINGS = 3_000
_MAX_PARTS = 20  # of one selector
_MAX_MACROS = 20  # one behind the other, a circle too
_MAX_INCLUDED = 16  # files
_INCLUDE = re.compile(r"""include\s+(?P<quote>['"])(?P<name>[\w./-]+)(?P=quote)\s*(#.*)?""")
OF_GIN = "write a number there; what a macro or a function gives is not known without running it"

_Bindings = dict[str, tuple[str, Mark]]  # the text of the value by selector


def read_gin(source: Source, files: Files | None = None) -> Document:
    """Return the bindings of a gin file as a tree; Refusal for blocks, for what is no binding, and unclear includes."""
    bindings: _Bindings = {}
    _bind(source, files, bindings, [source.path])
    # `a/Class.x`, `module.Class.x` and `Class.x` may be the same parameter; `X/gin.macro.value` is the macro X.
    alike: dict[tuple[str, ...], list[str]] = {}
    for selector in bindings:
        alike.setdefault(_parameter(selector), []).append(selector)
    refused: dict[str, Refusal] = {}
    leaves: dict[tuple[str, ...], Node] = {}
    for selector, (value, mark) in bindings.items():
        seen, name, same = list[str](), selector, alike[_parameter(selector)]
        while value[:1] == "%" and value[1:] in bindings and len(seen) < _MAX_MACROS:  # `Class.x = %SIGMA`
            seen.append(value)
            if len(same) == 1:
                name, same = value[1:], alike[_parameter(value[1:])]
            value, mark = bindings[value[1:]]  # noqa: PLW2901
        tree = _syntax(value)
        statement = tree.body[0] if tree and len(tree.body) == 1 else None
        found = (
            literal_text(statement.value, [value]) if isinstance(statement, ast.Expr) and "\n" not in value else None
        )
        if found is None:
            refused[selector] = refusal_at(mark, f"`{shortened(value)}` is no literal of one line", OF_GIN)
        if len(same) > 1:
            other = same[0] if same[0] != name else same[1]
            message = f"`{shortened(other)}` in line {bindings[other][1].line} may bind it, too"
            refused[selector] = refusal_at(mark, message, "bind it once")
        text, plain = found or ("", True)
        leaves[tuple(selector.split("."))] = Scalar(text=text, plain=plain, mark=mark, path=selector)
    return Document(nested(leaves, Mark(source, 1, 1)), refused, {selector: (selector,) for selector in bindings})


def _parameter(selector: str) -> tuple[str, ...]:
    """Return what a selector binds, without its scope and module."""
    parts = re.split("[./]", selector)
    if "." not in selector or parts[-2:] == ["macro", "value"]:
        return (re.sub(r"/(gin\.)?macro\.value$", "", selector).rpartition("/")[2],)
    return tuple(parts[-2:])


def _bind(source: Source, files: Files | None, bindings: _Bindings, trail: list[str]) -> None:
    """Add the bindings of a file and of those that it includes, a later one in the place of an earlier one."""
    number = tried = 0
    while number < len(source.lines):
        line = source.lines[number]
        number += 1
        match = _BINDING.fullmatch(line.rstrip())
        if not line.strip() or line.lstrip().startswith("#") or re.match(r"(import|from)\s", line):
            continue
        include = _INCLUDE.fullmatch(line.rstrip())
        if include is not None:
            other = _included(include["name"], source, files)
            if other.path in trail or len(trail) >= _MAX_INCLUDED:
                raise Refusal("DPC111", f"line {number}: includes lead back, or are more than {_MAX_INCLUDED}", OF_GIN)
            trail.append(other.path)
            _bind(other, files, bindings, trail)
            continue
        if match is None or line.startswith("include ") or match["selector"].count(".") > _MAX_PARTS:
            what = "includes another file in an unusual way" if line.startswith("include") else "is no binding"
            raise Refusal("DPC110", f"line {number}: `{shortened(line.strip())}` {what}", OF_GIN)
        selector, value = match["selector"], match["value"]
        mark = Mark(source, number, match.start("value") + 1, len(value))
        first = number
        while _syntax(re.sub(r"[%@](?=\w)", "", value)) is None:
            tried += 1
            if number >= len(source.lines) or number - first + 1 == _MAX_LINES or tried > _MAX_MORE:
                raise Refusal("DPC110", f"line {mark.line}: the value cannot be read", OF_GIN)
            value += f"\n{source.lines[number]}"
            number += 1
        bindings[selector] = value, mark
        if len(bindings) > _MAX_BINDINGS:
            raise Refusal("DPC111", f"has more than {_MAX_BINDINGS:,} bindings", "refer to a smaller file")


def _included(name: str, source: Source, files: Files | None) -> Source:
    """Return the file that a name in an `include` means; Refusal if none or several can be meant."""
    folder, places = posixpath.dirname(source.path), set[str]()
    while files is not None and Path(folder).is_relative_to(files.top):
        try:
            place = files.locate(name, posixpath.join(folder, "holder"))
            text_of(files, place)
            places.add(place)
        except Refusal as cause:
            if not cause.message.startswith("no such file"):
                raise
        if Path(folder) == Path(files.top):
            break
        folder = posixpath.dirname(folder)
    if files is None or len(places) != 1:
        found = "no file of the repository" if not places else f"{len(places)} files of the repository"
        message = f"`include '{shortened(name)}'` may mean {found}: it depends on the folder of the run"
        raise Refusal("DPC110", message, OF_GIN)
    return text_of(files, places.pop())


def _syntax(value: str) -> ast.Module | None:
    try:
        return python_syntax(value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# Flags of command lines: in shell scripts, and in the texts and lists of YAML that hold a command. Nothing runs.


_WAY_OUT = "write the number there, or refer to the place that states it"
FLAGS = "flags"  # key below a text or a list that is a command
_MAX_MISSED = 20  # words that are looked for in vain, since the file has them with escapes
_MAX_OPTION = 100  # characters
_ENDS = ";&|()<>\n"  # operators of a shell, each of which ends a word
_NUMBER = re.compile(r"\s*[-+]?(\.?[0-9]|inf|nan)", re.IGNORECASE)
_BUILT = re.compile(r"-.*[$`*?~{]")  # an option that a shell makes: `--sig$X`, `--{n,sigma}=2`
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\]|:?[-=][^-}$`][^}$`]*)?\}|(\w+))")
_PATH = re.compile(rf"{_VARIABLE.pattern}/|[\w./]")
_SET = re.compile(r"(\w+)\+?=")
_SETTING = {"read", "mapfile", "readarray", "getopts", "printf", "source", ".", "xargs", "parallel"}
_HANDED = re.compile(r"\$\{?[@*]")  # the words of the one who runs a script
# Options inside a word.
_INSIDE = re.compile(
    r"(?<![\w-])(?:--([\w-]{1,100})(?=[= )`]|$)|-(\w)(?=[= ]*(?:[-+]?\.?[0-9]|inf|nan)))", re.IGNORECASE
)


class Word(NamedTuple):
    """A word of a command line."""

    text: str  # without quotes
    mark: Mark
    is_plain: bool = True  # False if a variable or a command stands in it, or it is an operator


def shell_words(lines: Iterable[str], source: Source) -> list[Word]:
    """Return the words of lines as a shell splits them, operators among them; Refusal for a quote that never ends."""
    words: list[Word] = []
    text, start, plain, quote = "", None, True, ""

    def end() -> None:
        nonlocal text, start, plain
        if start is not None:
            words.append(Word(text, replace(start, width=max(1, len(text))), plain))
        text, start, plain = "", None, True

    for number, line in enumerate(lines, 1):
        at, is_continued = 0, False
        while at < len(line):
            sign = line[at]
            if quote:
                if sign == quote:
                    quote = ""
                elif sign == "\\" and quote == '"' and line[at + 1 : at + 2] in {'"', "\\", "$", "`"}:
                    at += 1
                    text += line[at]
                else:
                    plain = plain and not (quote == '"' and sign in "$`")
                    text += sign
            elif sign == "#" and start is None:
                break
            elif sign == "\\" and at + 1 == len(line):
                is_continued = True
            elif sign in " \t":
                end()
            elif sign in _ENDS:
                end()
                words.append(Word(sign, Mark(source, number, at + 1), is_plain=False))
            else:
                start = start or Mark(source, number, at + 1)
                if sign in "'\"":
                    quote = sign
                elif sign == "\\":
                    at += 1
                    text += line[at]
                else:
                    plain = plain and sign not in "$`*?~[{"
                    text += sign
            at += 1
        if quote:
            text += "\n"
        elif not is_continued:
            end()
            words.append(Word("\n", Mark(source, number, len(line) + 1), is_plain=False))
    if quote:
        begun = start.line if start else 1
        raise Refusal("DPC110", f"cannot be split into words: the quote of line {begun} never ends", _WAY_OUT)
    end()
    return words


def read_shell(source: Source) -> Document:
    """Return the flags of a shell script, each of which must stand there once; Refusal if it has no words."""
    return flags_document(shell_words(source.lines, source), Mark(source, 1, 1), "")


def flags_document(words: list[Word], mark: Mark, path: str) -> Document:
    """Return the tree `flags: {name: value}` of the words of commands; names have `_` and are found with `-` too.

    Refused is an option that may be given again: inside another word (`A="--n 3"`), by a beginning of its name or its
    first letter with a number, which argparse and others take for it, or by a word behind it that the shell makes.
    """
    flags = Section(entries={}, mark=mark, path=join(path, FLAGS))
    leaves: dict[tuple[str, ...], Node] = {(FLAGS,): flags}
    refused: dict[str, Refusal] = {}
    handed: dict[str, tuple[str, ...]] = {}  # options before a "$@" of their command, which may give them again
    again: dict[str, Mark] = {}  # by a name or a beginning of one
    made: dict[str, Word] = {}  # options before a word of their command that may be any
    built: Word | None = None
    here: list[str] = []  # options of the command, and how many of them a "$@" followed already
    told = 0
    filled: Word | None = None
    outer: list[tuple[list[str], int]] = []  # those of the commands around it
    setting = {word.text for word in words} & _SETTING  # words that bind names in other ways than NAME=TEXT
    is_set: dict[str, bool] = {}  # names that the file binds: whether to plain words, paths and other names alone
    for word in words:
        found = _SET.match(word.text)
        name = found[1] if found else word.text if setting else ""
        text = word.text[found.end() :] if found else ""
        is_steady = word.is_plain or _PATH.match(text) or _VARIABLE.fullmatch(text)
        is_set[name] = bool(found and is_steady and is_set.get(name, True))
    before = Word("\n", mark)
    for word, after in zip(words, [*words[1:], Word("\n", mark)], strict=True):
        word = word._replace(text=word.text.replace("\\\n", ""))  # noqa: PLW2901  a line that goes on, in quotes
        option, equals, text = word.text.partition("=")
        built = built or (word if _BUILT.match(option) and (not word.is_plain or "{" in option) else None)
        is_end = not word.is_plain and word.text in ";&|\n" and not {before.text, after.text} & {"<", ">"}
        is_handed = not word.is_plain and _HANDED.match(word.text) is not None
        if word.text == "(":
            outer.append((here, told))
            here, told = [], 0
        elif word.text == ")" and outer:
            here, told = outer.pop()
        elif is_end:
            here, told, filled = [], 0, None
        elif word.text in {"xargs", "parallel"}:  # which put words behind those that stand here
            filled = word
        elif not word.is_plain and word.text[0] in "$`*?~[{" and not word.text.startswith("~/"):
            names = [x or y for x, y in _VARIABLE.findall(word.text)]
            rest = _VARIABLE.sub("", word.text)
            is_value = before.is_plain and before.text.startswith("-") and "=" not in before.text
            is_known = bool(names) and "IFS" not in is_set and not re.search(r"[$`*?~\[{]", rest)
            is_one = is_known and len(names) == 1 and not rest
            is_new = is_known and is_set.keys().isdisjoint(names)
            if is_handed or (is_new and is_one and not is_value and setting.isdisjoint({"source", "."})):
                handed |= dict.fromkeys(here[told:], ())
                told = len(here)
            elif not (is_new and is_value) and not (is_one and is_set.get(names[0])) and not _PATH.match(word.text):
                made |= dict.fromkeys(here, word)
                here, told = [], 0
        before = word
        if not option.startswith("--") or len(option) < 3:
            next_text = "0" if here and not after.is_plain and after.text not in _ENDS else after.text
            for found in _INSIDE.finditer(f"{word.text} {next_text if option.startswith('-') else ''}"):
                again.setdefault((found[1] or found[2]).replace("-", "_"), word.mark)
            continue
        keys = FLAGS, option[2:].replace("-", "_")
        place = join(path, ".".join(keys))
        value = word if equals else after
        text = text if equals else value.text
        at, problem = word.mark, ""
        is_made = not value.is_plain and value.text not in _ENDS
        if keys in leaves:
            problem = f"stands there more than once, in lines {leaves[keys].mark.line} and {word.mark.line}"
        elif is_made:
            at, problem = value.mark, f"is `{shortened(text)}`, which a shell makes a value of"
        elif text in _ENDS or text.startswith("--"):
            problem = "has no value"
        elif len(option) > _MAX_OPTION:
            problem = f"has more than {_MAX_OPTION} characters"
        if problem:
            refused.setdefault(place, refusal_at(at, f"`{shortened(option)}` {problem}", _WAY_OUT))
        if is_made or _NUMBER.match(text):
            again.setdefault(f"{keys[1]}=", word.mark)
        leaves.setdefault(keys, Scalar(text=text, mark=value.mark, path=place))
        here.append(place)
        made |= {place: filled} if filled else {}
    for (_, name), node in [each for each in leaves.items() if len(each[0]) == 2]:
        starts = (start for end in range(1, min(len(name), _MAX_OPTION)) for start in (name[:end], f"{name[:end]}="))
        found_again = again.get(name) or next((again[start] for start in starts if start in again), None)
        word_of = made.get(node.path, built)
        if found_again is not None or word_of is not None:
            said = f"in line {found_again.line}" if found_again else ""
            said = said or (f"by `{shortened(word_of.text)}` in line {word_of.mark.line}" if word_of else "")
            hint = f"put it last in its command, or {_WAY_OUT}" if node.path in made else _WAY_OUT
            problem = f"`--{shortened(name)}` may be given again {said}"
            refused.setdefault(node.path, refusal_at(node.mark, problem, hint))
    return Document(nested(leaves, mark, path), refused, handed)


def command_flags(node: Node) -> Document | None:
    """Return the flags of a text or a list of texts that holds a command line; None for other values."""
    if isinstance(node, Scalar):
        return flags_document(list(_words_of(node)), node.mark, node.path)
    if isinstance(node, Items) and node.items and all(isinstance(each, Scalar) for each in node.items):
        words = [word for each in node.items if isinstance(each, Scalar) for word in _words_of(each)]
        return flags_document(words, node.mark, node.path)
    return None


def _words_of(node: Scalar) -> Iterator[Word]:
    """Yield the words of a text, each at its place in the file if a line there has it as it is."""
    lines, at, missed = node.mark.source.lines, node.mark.line, 0
    for word in shell_words(node.text.split("\n"), node.mark.source):
        if word.text == "\n" and node.text.count("\n") == 0:
            continue  # the next item of the list goes on
        last = min(len(lines), at + 200) if missed < _MAX_MISSED else 0
        for number in range(at, last + 1):
            column = lines[number - 1].find(word.text, node.mark.column - 1 if number == node.mark.line else 0)
            if column >= 0:
                at = number
                yield word._replace(mark=Mark(node.mark.source, number, column + 1, max(1, len(word.text))))
                break
        else:
            missed += 1
            yield word._replace(mark=node.mark)


# Files that references lead into, as marked trees: one reader for each kind of file, in one table by its ending.


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
