"""The hash is of the meaning: what may change it, and what may not."""

import hashlib
from itertools import combinations

import pytest

from dpcalc.config.load import load_text
from tests.config.texts import DIFFERENT, flat


def digest(text):
    return load_text(text, path="f").config_hash


BASE = digest(flat({}))


def test_it_is_sha256_in_hex():
    assert len(BASE) == 64
    assert set(BASE) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n" + flat({}),
        flat({}).replace("\n", "\n\n").replace(": {", ":   {"),
        "".join(reversed(flat({}).splitlines(keepends=True))),
        flat({}).replace("\n", "\r\n"),
        flat({"accounting": "{method: auto}", "name": "another", "x-owner": "me"}),
    ],
)
def test_what_does_not_count(text):
    assert digest(text) == BASE


def test_everything_else_counts():
    digests = [digest(text) for text in DIFFERENT]
    for (first, one), (second, other) in combinations(enumerate(digests), 2):
        assert one != other, (DIFFERENT[first], DIFFERENT[second])


def test_it_is_the_same_for_ever():
    """Lock files outlive updates: this text, written by hand, may only change with the format of the lock file."""
    content = (
        '{"adjacency":"add-remove","budget":null,"delta":"0x1.0c6f7a0b5ed8dp-20","method":"auto","phases":['
        '{"clip":1,"levels":[{"amount":"8/1875","count":60000,"name":"example","scheme":"poisson"}],'
        '"max_grad_norm":"0x1.0000000000000p+0","mechanism":"gaussian","noise_multiplier":"0x1.199999999999ap+0",'
        '"steps":100}],"unit":1}'
    )
    assert hashlib.sha256(content.encode()).hexdigest() == BASE
