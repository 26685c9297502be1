"""How large dpcalc and its tests are: lines, nodes, functions, classes, files, by package. It prints, and never fails.

    python -m tests.size [FOLDER]      # another checkout, to compare with

Four numbers together, since layout alone can change any one of them. Nodes are those of the syntax trees without
docstrings; nodes a line of code, with no docstring, comment or blank line counted, say whether code was only packed.
"""

import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

HEADER = ("package", "lines", "nodes", "functions", "classes", "files", "nodes/line")
KEPT = ("oracles", "laws", "hostile")  # folders of tests that are not meant to shrink
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def parsed(folder: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield path, text and tree of each Python file below a folder; those that are not Python are left out."""
    for path in sorted(folder.rglob("*.py")):
        try:
            text = path.read_text(encoding="utf-8")
            yield path.relative_to(folder), text, ast.parse(text)
        except (OSError, ValueError, SyntaxError) as error:
            sys.stderr.write(f"{path}: left out: {error}\n")


def measured(text: str, tree: ast.Module) -> tuple[int, ...]:
    """Return lines, nodes without docstrings, functions, classes, 1 file, and lines of code."""
    prose: set[int] = set()  # lines of texts that stand alone: docstrings, also those below a constant
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | FUNCTIONS) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    nodes = list(ast.walk(tree))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    functions = sum(isinstance(node, FUNCTIONS) for node in nodes)
    classes = sum(isinstance(node, ast.ClassDef) for node in nodes)
    return text.count("\n"), len(nodes), functions, classes, 1, len(code - prose)


def main() -> None:
    """Print the table of dpcalc, the lines of the tests, and how many names of dpcalc the tests import."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    packages: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for path, text, tree in parsed(root / "dpcalc"):
        row = packages[path.parts[0] if len(path.parts) > 1 else "(top)"]
        row[:] = map(sum, zip(row, measured(text, tree), strict=True))
    packages["all"] = [sum(column) for column in zip(*packages.values(), strict=True)] or [0] * 6
    table = ["{:14} {:>7} {:>8} {:>9} {:>8} {:>6} {:>11}".format(*HEADER)]
    for name, (*numbers, code) in packages.items():
        density = numbers[1] / max(code, 1)
        table.append("{:14} {:>7,} {:>8,} {:>9,} {:>8,} {:>6,} {:>11.1f}".format(name, *numbers, density))

    lines, others, names = 0, 0, set()
    for path, text, tree in parsed(root / "tests"):
        lines += text.count("\n")
        others += 0 if path.parts[0] in KEPT else text.count("\n")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "dpcalc":
                names.update(f"{node.module}.{each.name}" for each in node.names)
            elif isinstance(node, ast.Import):
                names.update(each.name for each in node.names if each.name.partition(".")[0] == "dpcalc")
    table.append(f"tests: {lines:,} lines, {others:,} without {', '.join(KEPT)}; {len(names)} names of dpcalc imported")
    sys.stdout.write("".join(f"{line}\n" for line in table))


if __name__ == "__main__":
    main()
