"""The table of statements, docs/theory/statements.md: each one with code and tests."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "theory.md", *sorted((ROOT / "docs" / "theory").glob("*.md"))]
KINDS = "Definition|Theorem|Lemma|Example|Remark"
CHECKS = yaml.safe_load((Path(__file__).parent / "statements.yaml").read_text(encoding="utf-8"))
CITATION = re.compile(rf"docs/theory\.md,\s+(?:#\s+)?((?:(?:{KINDS}) \d+\.\d+(?:,\s+|\s+and\s+)?)+)")


def order(number):
    return tuple(map(int, number.split(".")))


def statements(page):
    """(anchor, kind, number, title) of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf'^### <a id="([\d.]+)"></a>({KINDS}) ([\d.]+)\. (\S.*)', text, flags=re.MULTILINE)


def citations(text):
    """(kind, number, the function or class that cites it) of a module."""
    for found in CITATION.finditer(text):
        above = re.findall(r"^(?:    )?(?:def|class) (\w+)", text[: found.start()], flags=re.MULTILINE)
        for kind, number in re.findall(rf"({KINDS}) (\d+\.\d+)", found[1]):
            yield kind, number, above[-1] if above else ""


def listed(places):
    return "; ".join(f"`{path}`" + "".join(f" `{name}`" for name in names if name) for path, names in places.items())


def table():
    """The text of the page."""
    code = {}
    for path in sorted((ROOT / "dpcalc").rglob("*.py")):
        for _, number, name in citations(path.read_text(encoding="utf-8")):
            names = code.setdefault(number, {}).setdefault(path.relative_to(ROOT).as_posix(), [])
            names += [] if name in names else [name]
    rows = [
        "# Statements, code, tests",
        "",
        "Written by `pytest --renew tests/cli/test_theory.py` from the pages of the [theory](../theory.md), from what",
        "the code cites, and from `tests/cli/statements.yaml`, which names the tests.",
        "",
        "| statement | code that cites it | tests |",
        "|---|---|---|",
    ]
    where = {number: (page, kind, title) for page in PAGES for _, kind, number, title in statements(page)}
    for number in sorted(where, key=order):
        page, kind, title = where[number]
        href = f"../theory.md#{number}" if page.name == "theory.md" else f"{page.name}#{number}"
        cells = listed(code.get(number, {})) or "-", listed(CHECKS.get(number) or {}) or "-"
        rows.append(f"| [{kind} {number}]({href}). {title} | {cells[0]} | {cells[1]} |")
    return "\n".join(rows) + "\n"
