"""Every way to get a file wrong: code, line, column, what is said; and nothing else is said.

The cases stand in corpus/malformed.yaml.
"""

from pathlib import Path

import pytest
import yaml

from tests.config.texts import CLASSES, FLAT, NESTED, errors, flat, marked, varied

BASES = {"flat": FLAT, "nested": NESTED, "classes": CLASSES}


def read_case(case):
    """Return (name, text, [(code, words) of each error, then None if further errors follow])."""
    text = case.get("text")
    if text is None:
        (base,) = BASES.keys() & case.keys()
        text = varied(BASES[base], case[base])
    expected = [tuple(error) for error in case.get("errors", [case.get("error")])]
    return case["name"], text, expected + [None] * case.get("more", False)


CORPUS = Path(__file__).parent / "corpus" / "malformed.yaml"
CASES = [read_case(case) for case in yaml.safe_load(CORPUS.read_text(encoding="utf-8"))]


def test_enough_cases_and_different_names():
    assert len(CASES) >= 250
    assert len({name for name, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(text, expected, id=name) for name, text, expected in CASES]
)
def test_code_place_and_words(text, expected):
    clean, places = marked(text)
    found = errors(clean)
    wanted = [item for item in expected if item]
    assert [diagnostic.code for diagnostic in found][: len(wanted)] == [code for code, _ in wanted]
    assert [(diagnostic.line, diagnostic.column) for diagnostic in found][: len(wanted)] == places
    for diagnostic, (_, phrase) in zip(found, wanted, strict=False):
        assert phrase in f"{diagnostic.message} | {diagnostic.hint}"
    assert len(found) == len(wanted) or None in expected


def test_all_errors_at_once_in_the_order_of_the_file():
    text, places = marked(
        flat(
            {
                "data": "{examples: §-5}",
                "sampling": "{scheme: poisson, rate: §2}",
                "mechanism": "{noise_multiplier: §x, §l2_norm_clip: 1}",
                "privacy": "{adjacency: §none-at-all, delta: §'1e-5'}",
            }
        )
    )
    found = errors(text)
    assert [(diagnostic.line, diagnostic.column) for diagnostic in found] == places
    assert [diagnostic.code for diagnostic in found] == ["DPC106", "DPC106", "DPC102", "DPC101", "DPC104", "DPC102"]
