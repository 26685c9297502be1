"""docs/theory.md is what the code cites: every cited statement is there, every module and test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
KINDS = "Definition|Theorem|Lemma|Example|Remark"
STATEMENTS = re.findall(rf'^### <a id="([\d.]+)"></a>({KINDS}) ([\d.]+)\. \S', PAGE, flags=re.MULTILINE)
NAMED = re.findall(r"^- (?:Code|Tests): (.*(?:\n  .*)*)", PAGE, flags=re.MULTILINE)


def named_files():
    """(path, names in it) as the page lists them: a path in backticks, followed by names in backticks."""
    for text in NAMED:
        path = ""
        for word in re.findall(r"`([^`]+)`", text):
            path = word if "/" in word else path
            yield path, "" if "/" in word else word


def citations(text):
    """(kind, number) of every statement that a text cites as a source."""
    lines = re.findall(rf"docs/theory\.md,\s+((?:(?:{KINDS}) \d+\.\d+(?:,\s+|\s+and\s+)?)+)", text)
    return [pair for line in lines for pair in re.findall(rf"({KINDS}) (\d+\.\d+)", line)]


def test_statements_are_numbered_once_and_in_order():
    numbers = [number for _, _, number in STATEMENTS]
    assert [anchor for anchor, _, _ in STATEMENTS] == numbers
    assert len(re.findall(r"^### ", PAGE, flags=re.MULTILINE)) == len(numbers) > 50
    order = [tuple(map(int, number.split("."))) for number in numbers]
    assert order == sorted(set(order))


def test_every_claim_names_the_tests_that_check_it():
    parts = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
    claims = [part for part in parts if re.match(r"\S+ \S+</a>(?:Theorem|Lemma|Example) ", part)]
    assert len(claims) > 50
    assert not [part.splitlines()[0] for part in claims if "\n- Tests: " not in part]


def test_what_the_page_names_exists():
    for path, name in set(named_files()):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^\s*(?:def|class) {name}\b", text, flags=re.MULTILINE), (path, name)


def test_every_citation_of_a_docstring_exists():
    for path in (ROOT / "dpcalc").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found = citations(text)
        assert set(found) <= {(kind, number) for _, kind, number in STATEMENTS}, path
        assert bool(found) == ("docs/theory.md" in text), path
