"""The pages of the theory are what the code cites: every cited statement is there, every test that they name exists.

docs/theory/statements.md is made here: each statement with its code and its tests.
"""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

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


ALL = [(kind, number) for page in PAGES for _, kind, number, _ in statements(page)]
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@EACH_PAGE
def test_statements_are_numbered_once_and_in_order(page):
    numbers = [number for _, _, number, _ in statements(page)]
    assert [anchor for anchor, _, _, _ in statements(page)] == numbers
    assert len(re.findall(r"^### ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)) == len(numbers)
    assert all(order(one) < order(other) for one, other in pairwise(numbers))


def test_every_claim_names_the_tests_that_check_it():
    assert len(ALL) == len(set(ALL)) > 100
    assert not [number for kind, number in ALL if kind in ("Theorem", "Lemma", "Example") and not CHECKS.get(number)]
    assert set(CHECKS) <= {number for _, number in ALL}


def test_the_tests_that_are_named_exist():
    """As functions, or as rows of a table."""
    for path, name in {(path, name) for places in CHECKS.values() for path, names in places.items() for name in names}:
        line = rf"^{name}:" if path.endswith(".yaml") else rf"^def {name}\b"
        assert re.search(line, (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE), (path, name)


def test_every_citation_of_a_docstring_exists():
    for path in (ROOT / "dpcalc").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found = {(kind, number) for kind, number, _ in citations(text)}
        assert found <= set(ALL), path
        assert bool(found) == ("docs/theory.md" in text), path


def test_the_table_of_statements_is_current(same_as_file):
    same_as_file(table(), ROOT / "docs" / "theory" / "statements.md")


def test_every_statement_has_an_anchor_on_the_first_page():
    anchors = re.findall(r'<a id="([\d.]+)"></a>', PAGES[0].read_text(encoding="utf-8"))
    assert sorted(anchors, key=order) == sorted((number for _, number in ALL), key=order)


def test_every_link_to_a_statement_leads_to_it():
    anchors = {page: set(re.findall(r'<a id="([^"]+)"></a>', page.read_text(encoding="utf-8"))) for page in PAGES}
    for page in [*(ROOT / "docs").glob("*.md"), *PAGES[1:]]:
        for path, anchor in re.findall(r"\]\(([^)#\s]*)#(\d+\.\d+)\)", page.read_text(encoding="utf-8")):
            assert anchor in anchors[(page.parent / path).resolve() if path else page], (page, path, anchor)


@EACH_PAGE
def test_formulas_are_written_for_both_renderers(page):
    """On GitHub Markdown comes first: it may find nothing of its own between two $, and some macros are forbidden."""
    text = page.read_text(encoding="utf-8")
    for block in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        is_formula = False
        for part in block.children or ():
            assert part.type in ("text", "softbreak") or not is_formula, (part, block.content)
            is_formula ^= part.content.replace("$$", "$").count("$") % 2 if part.type == "text" else 0
        assert not is_formula, block.content
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", text)
    for before, formula, after in re.findall(r"(?s)(.)\$\$?([^$]+)\$\$?(?=(.))", text):
        assert not re.search(r"[<>|*~]|\\[^a-zA-Z ]|\\(operatorname|mbox|phantom|color|def|newcommand)\b", formula), (
            formula
        )
        assert not re.match(r"[\w-]", before), formula
        assert not re.match(r"\w", after), formula
