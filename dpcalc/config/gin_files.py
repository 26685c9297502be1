"""What a gin file binds: `${train.gin:DPOptimizer.noise_multiplier}`. The last binding counts, as gin has it."""

import ast
import re

from dpcalc.config.files import Refusal
from dpcalc.config.python_files import python_syntax
from dpcalc.config.source import Mark, Source, shortened
from dpcalc.config.tree import Document, Node, Scalar, Section, join

_BINDING = re.compile(r"(?P<selector>[\w./]+)(?P<equals>\s*=\s*)(?P<value>\S.*)")
_MAX_LINES = 100  # of one value
_MAX_PARTS = 20  # of one selector
WAY_OUT = "write a number there; what a macro, an `include` or a function gives is not known without running it"


def read_gin(source: Source) -> Document:
    """Return the bindings of a gin file as a tree; Refusal for includes, blocks, and what is no binding."""
    bindings: dict[str, tuple[str, Mark]] = {}
    number = 0
    while number < len(source.lines):
        line = source.lines[number]
        number += 1
        match = _BINDING.fullmatch(line.rstrip())
        if not line.strip() or line.lstrip().startswith("#") or re.match(r"(import|from)\s", line):
            continue
        if match is None or line.startswith("include ") or match["selector"].count(".") > _MAX_PARTS:
            what = "includes another file, which is not followed" if line.startswith("include") else "is no binding"
            raise Refusal("DPC110", f"line {number}: `{shortened(line.strip())}` {what}", WAY_OUT)
        value = match["value"]
        mark = Mark(source, number, match.start("value") + 1, len(value))
        for more in range(_MAX_LINES):
            try:
                python_syntax(re.sub(r"[%@](?=\w)", "", value))
                break
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                if more + 1 == _MAX_LINES or number >= len(source.lines):
                    raise Refusal("DPC110", f"line {mark.line}: the value cannot be read", WAY_OUT) from None
                value += f"\n{source.lines[number]}"
                number += 1
        bindings[match["selector"]] = value, mark

    refused: dict[str, Refusal] = {}
    defaults: dict[str, tuple[str, ...]] = {}
    tree: dict[str, object] = {}
    for selector in bindings:
        path = selector
        value, mark = _followed(bindings, selector)
        where = f"line {mark.line}, column {mark.column}: "
        text = _literal(value)
        if text is None:
            message = f"{where}`{shortened(value)}` is no literal of one line"
            refused[path] = Refusal("DPC110", message, WAY_OUT)
        # `a/Class.x`, `module.Class.x` and `Class.x` may be the same parameter.
        same = [x for x in bindings if x != selector and re.split("[./]", x)[-2:] == re.split("[./]", selector)[-2:]]
        if same and "." in selector:
            message = f"{where}`{shortened(same[0])}` in line {bindings[same[0]][1].line} may bind it, too"
            refused[path] = Refusal("DPC110", message, "bind it once")
        plain = text is not None and text[:1] not in {"'", '"'}
        text = text if text is None or plain else ast.literal_eval(text)
        defaults[path] = (selector,)
        level, parts = tree, selector.split(".")
        for part in parts[:-1]:
            below = level.setdefault(part, {})
            if not isinstance(below, dict):
                break
            level = below
        leaf = Scalar(text=text or "", plain=plain or text is None, mark=mark, key=None, path=path)
        if isinstance(level, dict) and not isinstance(level.get(parts[-1]), dict):
            level[parts[-1]] = leaf

    def section(entries: dict[str, object], path: str) -> Section:
        parts: dict[str, Node] = {}
        for key, below in entries.items():
            if isinstance(below, dict):
                parts[key] = section(below, join(path, key))
            elif isinstance(below, Scalar):
                parts[key] = below
        return Section(entries=parts, mark=Mark(source, 1, 1), key=None, path=path)

    return Document(section(tree, ""), refused, defaults)


def _followed(bindings: dict[str, tuple[str, Mark]], selector: str) -> tuple[str, Mark]:
    """Return the value of a selector, through macros of the same file: `Class.x = %SIGMA`, `SIGMA = 1.1`."""
    seen: set[str] = set()
    value, mark = bindings[selector]
    while value[:1] == "%" and value[1:] in bindings and value not in seen:
        seen.add(value)
        value, mark = bindings[value[1:]]
    return value, mark


def _literal(value: str) -> str | None:
    """Return a number, truth or text of one line as it is written; None for other values."""
    try:
        statement = python_syntax(value).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match statement:
        case [ast.Expr(value=ast.Constant(value=bool(truth)))]:
            return str(truth).lower()
        case [ast.Expr(value=ast.Constant(value=str() | int() | float()) as node)]:
            return value.encode()[node.col_offset : node.end_col_offset].decode() if "\n" not in value else None
        case [ast.Expr(value=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())) as node)]:
            return value.encode()[node.col_offset : node.end_col_offset].decode() if "\n" not in value else None
    return None
