"""The pages of the theory are what the code cites: every cited statement is there, every test that they name exists."""

import re
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from tests.cli.statements import CHECKS, PAGES, ROOT, citations, order, statements, table

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
