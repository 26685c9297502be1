"""The language of names and docstrings, as docs/glossary.md and CONTRIBUTING.md ask for it."""

import ast
import re
from pathlib import Path

import pytest

from dpcalc.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2] / "dpcalc"
CHECKED = (  # packages, and modules of the top level, that keep the rules
    "accountants",
    "arrays",
    "_version",
    "api",
    "amplification",
    "audit",
    "charts",
    "cli",
    "config",
    "errors",
    "gate",
    "guarantee",
    "losses",
    "mechanisms",
    "numerics",
    "pate",
    "planner",
    "report",
    "sampling",
    "scan",
    "simulation",
    "imports",
    "plans",
    "sweep",
    "training",
    "work",
)

RIDDLES = re.compile(
    r"(What|How|Whether|Who|Whose|Where|When|Which|That|The same|As|Likewise|Keep|About|Of|Only|Nobody|It|Such)\b"
)
BANNED = frozenset(
    [
        "one",
        "found",
        "asked",
        "told",
        "tell",
        "said",
        "rest",
        "away",
        "here",
        "there",
        "wanted",
        "wish",
        "neglect",
        "held",
        "company",
        "beside",
        "under",
        "stretch",
        "put",
        "exchanged",
        "bare",
        "beyond",
        "pretend",
        "agreed",
        "foreign",
        "strange",
        "rhythm",
        "rhythms",
        "least",
        "most",
    ]
)
FILE_LINES, FUNCTION_LINES = 500, 50
CLI = {name.replace("-", "_") for name in COMMANDS} | {
    "import_",
    "add",
    "show",
    "check",
}  # the last three below `ledger`

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(package: str) -> list[Path]:
    alone = ROOT / f"{package}.py"
    return [alone] if alone.is_file() else sorted((ROOT / package).rglob("*.py"))


def definitions(node: ast.AST) -> list[ast.AST]:
    return [each for each in ast.walk(node) if isinstance(each, Function | ast.ClassDef)]


def parameters(function: Function) -> list[str]:
    listed = function.args
    every = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs]
    return [each.arg for each in every if each.arg not in {"self", "cls"}]


def is_command(function: ast.AST, path: Path) -> bool:
    """A function whose docstring is a help page, and whose options have help texts in the place of Args."""
    return isinstance(function, Function) and path.parent == ROOT / "cli" and function.name in CLI


def length(function: Function, *, with_signature: bool) -> int:
    """Lines of a function without its docstring."""
    documented = ast.get_docstring(function) is not None and len(function.body) > 1
    end_of_docstring = function.body[0].end_lineno if documented else function.body[0].lineno - 1
    signature = function.body[0].lineno - function.lineno
    return function.end_lineno - end_of_docstring + (signature if with_signature else 0)


def needs_sections(function: ast.AST) -> bool:
    marks = {ast.unparse(each).split("(")[0] for each in getattr(function, "decorator_list", ())}
    return isinstance(function, Function) and not function.name.startswith("_") and "overload" not in marks


def raises(function: Function) -> bool:
    return any(isinstance(each, ast.Raise) and each.exc is not None for each in ast.walk(function))


def names_exception(docstring: str) -> bool:
    """The contract of the first line names what is raised, or a section does."""
    first, _, below = docstring.partition("\n")
    return "Raises:" in below or re.search(r"Errors?\b|Refusal|NoSolution|ExceptionGroup", first) is not None


def language_problems(path: Path) -> list[str]:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    problems = [] if source.count("\n") <= FILE_LINES else [f"more than {FILE_LINES} lines"]
    for node in [tree, *definitions(tree)]:
        name, text = getattr(node, "name", "module"), ast.get_docstring(node) or ""
        if RIDDLES.match(text):
            problems.append(f"{name}: docstring starts with {text.split()[0]!r}")
        command = is_command(node, path)
        if isinstance(node, Function) and length(node, with_signature=not command) > FUNCTION_LINES:
            problems.append(f"{name}: more than {FUNCTION_LINES} lines")
        if command:
            continue
        if needs_sections(node) and text and len(parameters(node)) > 1 and "Args:" not in text:
            problems.append(f"{name}: two parameters or more, and no Args")
        if needs_sections(node) and text and raises(node) and not names_exception(text):
            problems.append(f"{name}: raises, and does not name the exception")
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.name for node in definitions(tree)}
    return problems + [f"the name {name!r}" for name in sorted(names) if name.strip("_") in BANNED]


@pytest.mark.parametrize("package", CHECKED)
def test_docstrings_and_names_keep_to_the_language(package):
    problems = {str(path.relative_to(ROOT)): language_problems(path) for path in modules(package)}
    assert not {path: found for path, found in problems.items() if found}


def test_riddles_and_banned_names_are_found(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(
        '"""What it is."""\n\ndef first(one, two):\n    """Return a sum."""\n    raise ValueError(one + two)\n',
        encoding="utf-8",
    )
    assert language_problems(path) == [
        "module: docstring starts with 'What'",
        "first: two parameters or more, and no Args",
        "first: raises, and does not name the exception",
        "the name 'one'",
    ]
