"""Every way to get a file wrong: code, line, column, what is said; and nothing else is said.

The cases stand in corpus/malformed.yaml.
"""

import pytest

from tests.config.texts import PATH, corpus, errors, flat, marked, text_of


def read_case(case):
    """Return (name, text, [(code, words) of each error, then None if further errors follow], settings, flags)."""
    expected = [tuple(error) for error in case.get("errors", [case.get("error")])]
    settings, flags = case.get("set", []), case.get("flags", {})
    text = text_of(case)
    said = [*settings, *map(" ".join, flags.items())]
    short = case.get("strategy") or case.get("draw") or text
    name = case.get("name") or " ".join([short, *said] if text != flat({}) else said)
    return name, text, expected + [None] * case.get("more", False), settings, flags


CASES = [read_case(case) for case in corpus("malformed")]


def test_enough_cases_and_different_names():
    assert len(CASES) >= 380
    assert len({name for name, *_ in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("text", "expected", "settings", "flags"), [pytest.param(*case, id=name) for name, *case in CASES]
)
def test_code_place_and_words(text, expected, settings, flags):
    clean, marks = marked(text)
    places = [(PATH, *mark) for mark in marks]
    options = {**{f"--set #{number}": each for number, each in enumerate(settings, start=1)}, **flags}
    for path, written in options.items():
        options[path], marks = marked(written)
        places += [(path, *mark) for mark in marks]
    said = list(options.items())
    found = errors(clean, [each for _, each in said[: len(settings)]], said[len(settings) :])
    wanted = [item for item in expected if item]
    assert [diagnostic.code for diagnostic in found][: len(wanted)] == [code for code, _ in wanted]
    assert [(each.path, each.line, each.column) for each in found][: len(wanted)] == places
    for diagnostic, (_, phrase) in zip(found, wanted, strict=False):
        assert phrase in f"{diagnostic.message} | {diagnostic.hint}"
    assert len(found) == len(wanted) or None in expected


def test_all_errors_at_once_in_the_order_of_the_file():
    changes = {
        "data": "{examples: §-5}",
        "sampling": "{scheme: poisson, rate: §2}",
        "mechanism": "{noise_multiplier: §x, §l2_norm_clip: 1}",
        "privacy": "{adjacency: §none-at-all, delta: §'1e-5'}",
    }
    text, places = marked(flat(changes))
    found = errors(text)
    assert [(diagnostic.line, diagnostic.column) for diagnostic in found] == places
    assert [diagnostic.code for diagnostic in found] == ["DPC106", "DPC106", "DPC102", "DPC101", "DPC104", "DPC102"]
