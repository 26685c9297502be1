"""The hash is of the meaning: what may change it, and what may not."""

import hashlib
from itertools import combinations

import pytest

from dpcalc.config.load import load_text
from tests.config.texts import classes, flat, nested


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
        flat({"privacy": "{delta: 0.000_001, adjacency: add-remove}"}),
        flat({"privacy": "\n  delta: 1.0e-6\n  adjacency: 'add-remove'"}),
        flat({"privacy": "{delta: 1e-6}"}),
        flat({"data": "{examples: 6e4}"}),
        flat({"data": "{levels: [{name: example, count: 60000}]}"}),
        flat({"sampling": "{example: {expected: 256, scheme: poisson}}"}),
        flat({"sampling": "{scheme: poisson}", "training": "{steps: 100, batch_size: 256}"}),
        flat({"training": None, "phases": "[{training: {steps: 100}}]"}),
        flat({"mechanism": "{noise_multiplier: 1.10, max_grad_norm: 1, clip: example, type: gaussian}"}),
        flat({"mechanism": "{noise_multiplier: 1.1, also: []}"}),
        flat({"accounting": "{method: auto}", "name": "another", "x-owner": "me"}),
        flat({"privacy": "{delta: 1e-6, group_size: 1}"}),
        flat({"sampling": "{scheme: poisson, expected: 256, redraw_every: 1}"}),
        flat({"training": "{epochs: 0.425}"}),  # 0.425 * 60000 / 256 = 99.609375: 100 steps
    ],
)
def test_what_does_not_count(text):
    assert digest(text) == BASE


def test_a_full_fixed_draw_is_all():
    assert digest(flat({"sampling": "{scheme: fixed, size: 60_000}"})) == digest(flat({"sampling": "{scheme: all}"}))


DIFFERENT = [
    flat({}),
    flat({"data": "{examples: 60_001}"}),
    flat({"data": "{levels: [{name: image, count: 60_000}]}"}),
    flat({"sampling": "{scheme: poisson, expected: 257}"}),
    flat({"sampling": "{scheme: fixed, size: 256}"}),
    flat({"sampling": "{scheme: all}"}),
    flat({"mechanism": "{noise_multiplier: 1.1000000000000001}"}).replace("1.1000000000000001", "1.1000000000000003"),
    flat({"mechanism": "{noise_multiplier: 1.1, max_grad_norm: 2}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, clip: batch}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, also: {noise_multiplier: 20}}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, also: {noise_multiplier: 21}}"}),
    flat({"mechanism": "{noise_multiplier: 1.1, also: [{noise_multiplier: 20}, {noise_multiplier: 20}]}"}),
    *(
        flat({"mechanism": f"{{type: rdp-curve, curve: {points}}}"})
        for points in ("[[2, 0.1]]", "[[2, 0.2]]", "[[3, 0.1]]", "[[2, 0.1], [3, 0.1]]", "[[2, 0.1]], epsilon: 9")
    ),
    flat({"mechanism": "{type: rdp-curve, curve: [[2, 0.1]], odd_moments: nonnegative}"}),
    flat({"training": "{steps: 101}"}),
    flat({"training": None, "phases": "[{training: {steps: 50}}, {training: {steps: 50}}]"}),
    flat({"privacy": "{delta: 1e-7}"}),
    flat({"privacy": "{delta: 1e-6, adjacency: replace-one}"}),
    flat({"budget": "{epsilon: 3}"}),
    flat({"budget": "{epsilon: 3, max_increase_pct: 0}"}),
    flat({"accounting": "{method: pld}"}),
    nested({}),
    nested({"privacy": "{unit: task, delta: 1e-6}"}),
    flat({"privacy": "{delta: 1e-6, group_size: 2}"}),
    flat({"privacy": "{delta: 1e-6, group_size: 3}"}),
    flat({"sampling": "{scheme: poisson, expected: 256, redraw_every: 10}"}),
    flat({"sampling": "{scheme: poisson, expected: 256, redraw_every: 5}"}),
    *(flat({"sampling": f"{{scheme: poisson, expected: 256, max_batch_size: {most}}}"}) for most in (300, 301, 59_999)),
    flat({"sampling": "{scheme: with-replacement, size: 256}"}),
    flat({"sampling": "{scheme: with-replacement, size: 257}"}),
    flat({"sampling": "{scheme: shuffle, size: 256}"}),
    flat({"sampling": "{scheme: shuffle, size: 257}"}),
    flat({"sampling": "{scheme: shuffle, size: 256, drop_last: true}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 25}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 26}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 25, assignment: held}"}),
    flat({"sampling": "{scheme: random-allocation, times: 25}"}),
    flat({"sampling": "{scheme: random-allocation, times: 26}"}),
    nested({"sampling": "{task: {scheme: all}}", "mechanism": "{noise_multiplier: 6}"}),
    *(
        classes({"sampling": f"{{episodes: {{tasks: {tasks}, ways: {ways}, shots: {shots}, queries: {queries}}}}}"})
        for tasks, ways, shots, queries in [(4, 5, 1, 15), (5, 5, 1, 15), (4, 6, 1, 15), (4, 5, 2, 15), (4, 5, 1, 14)]
    ),
    classes({"sampling": "{class: {scheme: all}}", "mechanism": "{noise_multiplier: 6, clip: class}"}),
]


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
