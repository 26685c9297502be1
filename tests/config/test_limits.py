"""Small files that ask for much work end at once, with a sentence."""

import time

import pytest

from tests.config.texts import errors, flat

BOMB = "x-a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"x-{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "x-a: &a {k: 1}\n" + "".join(
    f"x-{name}: &{name} {{<<: [{','.join([f'*{before}'] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
CHAIN = "x-a0: &a0 [1]\n" + "".join(f"x-a{index + 1}: &a{index + 1} [*a{index}]\n" for index in range(60))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 250_000, "DPC111"),
        ("{" * 250_000, "DPC111"),
        ("- " * 125_000, "DPC111"),
        ("? " * 125_000, "DPC111"),
        ("{a: " * 60_000, "DPC111"),
        ("\n".join(" " * depth + "a:" for depth in range(300)), "DPC111"),
        ("[" + "1," * 20_000 + "]", "DPC111"),
        ("a: 1\n" * 10_000, "DPC111"),
        (BOMB, "DPC111"),
        (MERGE_BOMB, "DPC111"),
        (CHAIN, "DPC111"),
        ("a: &a {b: *a}", "DPC111"),
        ("a: &a {<<: *a}", "DPC111"),
        ("a: &a [&b [*a, *b]]", "DPC111"),
        ("%YAML 1." + "9" * 5000 + "\n--- a", "DPC100"),
        (
            flat(
                {
                    "sampling": "{" + ", ".join(f"l{i}: 1" for i in range(4000)) + "}",
                    "phases": "[" + "{name: x}, " * 900 + "]",
                }
            ),
            "DPC111",
        ),
    ],
)
def test_refused_quickly(text, code):
    start = time.process_time()
    found = errors(text)
    assert [error.code for error in found] == [code]
    assert time.process_time() - start < 5  # seconds; a tenth of a second is usual, without limits it is minutes


@pytest.mark.heavy
def test_many_mistakes_are_all_told_quickly():
    start = time.process_time()
    found = errors(flat({}) + "\n" + "".join(f"stepss{index}: 1\n" for index in range(9000)))
    assert sum(error.code == "DPC101" for error in found) == 9000
    assert time.process_time() - start < 30


def test_sixteen_levels_are_enough():
    levels = ", ".join(f"{{name: l{index}, count: 2}}" for index in range(17))
    found = errors(flat({"data": f"{{levels: [{levels}]}}", "sampling": "{l0: {scheme: all}}"}))
    assert [(error.code, error.line, error.column) for error in found] == [("DPC106", 2, 8)]
