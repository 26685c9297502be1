"""What a gin file binds: `${train.gin:DPOptimizer.noise_multiplier}`. The last binding counts, as gin has it."""

import ast
import re

from dpcalc.config.files import Refusal, refusal_at
from dpcalc.config.python_files import literal_text, python_syntax
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Node, Scalar, nested

_BINDING = re.compile(r"(?P<selector>[\w./]+)(?P<equals>\s*=\s*)(?P<value>\S.*)")
_MAX_LINES = 100  # of one value
_MAX_MORE = 2_000  # lines of a file that go on with a value: each is tried
_MAX_BINDINGS = 3_000
_MAX_PARTS = 20  # of one selector
WAY_OUT = "write a number there; what a macro, an `include` or a function gives is not known without running it"


def read_gin(source: Source) -> Document:
    """Return the bindings of a gin file as a tree; Refusal for includes, blocks, and what is no binding."""
    bindings: dict[str, tuple[str, Mark]] = {}
    # `a/Class.x`, `module.Class.x` and `Class.x` may be the same parameter.
    alike: dict[tuple[str, ...], list[str]] = {}
    number = tried = 0
    while number < len(source.lines):
        line = source.lines[number]
        number += 1
        match = _BINDING.fullmatch(line.rstrip())
        if not line.strip() or line.lstrip().startswith("#") or re.match(r"(import|from)\s", line):
            continue
        if match is None or line.startswith("include ") or match["selector"].count(".") > _MAX_PARTS:
            what = "includes another file, which is not followed" if line.startswith("include") else "is no binding"
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
        if selector not in bindings:
            alike.setdefault(tuple(re.split("[./]", selector)[-2:]), []).append(selector)
        bindings[selector] = value, mark
        if len(bindings) > _MAX_BINDINGS:
            raise Refusal("DPC111", f"has more than {_MAX_BINDINGS:,} bindings", "refer to a smaller file")

    refused: dict[str, Refusal] = {}
    leaves: dict[tuple[str, ...], Node] = {}
    for selector, (value, mark) in bindings.items():
        seen: set[str] = set()
        while value[:1] == "%" and value[1:] in bindings and value not in seen:  # a macro: `Class.x = %SIGMA`
            seen.add(value)
            value, mark = bindings[value[1:]]  # noqa: PLW2901
        tree = _syntax(value)
        statement = tree.body[0] if tree and len(tree.body) == 1 else None
        found = (
            literal_text(statement.value, [value]) if isinstance(statement, ast.Expr) and "\n" not in value else None
        )
        if found is None:
            refused[selector] = refusal_at(mark, f"`{shortened(value)}` is no literal of one line", WAY_OUT)
        same = alike[tuple(re.split("[./]", selector)[-2:])]
        if len(same) > 1 and "." in selector:
            other = same[0] if same[0] != selector else same[1]
            message = f"`{shortened(other)}` in line {bindings[other][1].line} may bind it, too"
            refused[selector] = refusal_at(mark, message, "bind it once")
        text, plain = found or ("", True)
        leaves[tuple(selector.split("."))] = Scalar(text=text, plain=plain, mark=mark, key=None, path=selector)
    return Document(nested(leaves, Mark(source, 1, 1)), refused, {selector: (selector,) for selector in bindings})


def _syntax(value: str) -> ast.Module | None:
    try:
        return python_syntax(value)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
