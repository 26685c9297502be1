"""What a gin file binds: `${train.gin:DPOptimizer.noise_multiplier}`. The last binding counts, as gin has it.

An `include` is followed if exactly one file of the repository can be meant: gin looks from the folder of the run, which
may be that of the file or any one above it.
"""

import ast
import posixpath
import re
from pathlib import Path

from dpcalc.config.files import Files, Refusal, refusal_at, text_of
from dpcalc.config.python_names import literal_text, python_syntax
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Node, Scalar, nested

_BINDING = re.compile(r"(?P<selector>[\w./]+)(?P<equals>\s*=\s*)(?P<value>\S.*)")
_MAX_LINES = 100  # of one value
_MAX_MORE = 2_000  # lines of a file that go on with a value: each is tried
_MAX_BINDINGS = 3_000
_MAX_PARTS = 20  # of one selector
_MAX_MACROS = 20  # one behind the other, a circle too
_MAX_INCLUDED = 16  # files
_INCLUDE = re.compile(r"""include\s+(?P<quote>['"])(?P<name>[\w./-]+)(?P=quote)\s*(#.*)?""")
WAY_OUT = "write a number there; what a macro or a function gives is not known without running it"

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
            refused[selector] = refusal_at(mark, f"`{shortened(value)}` is no literal of one line", WAY_OUT)
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
                raise Refusal("DPC111", f"line {number}: includes lead back, or are more than {_MAX_INCLUDED}", WAY_OUT)
            trail.append(other.path)
            _bind(other, files, bindings, trail)
            continue
        if match is None or line.startswith("include ") or match["selector"].count(".") > _MAX_PARTS:
            what = "includes another file in an unusual way" if line.startswith("include") else "is no binding"
            raise Refusal("DPC110", f"line {number}: `{shortened(line.strip())}` {what}", WAY_OUT)
        selector, value = match["selector"], match["value"]
        mark = Mark(source, number, match.start("value") + 1, len(value))
        first = number
        while _syntax(re.sub(r"[%@](?=\w)", "", value)) is None:
            tried += 1
            if number >= len(source.lines) or number - first + 1 == _MAX_LINES or tried > _MAX_MORE:
                raise Refusal("DPC110", f"line {mark.line}: the value cannot be read", WAY_OUT)
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
        raise Refusal("DPC110", message, WAY_OUT)
    return text_of(files, places.pop())


def _syntax(value: str) -> ast.Module | None:
    try:
        return python_syntax(value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
