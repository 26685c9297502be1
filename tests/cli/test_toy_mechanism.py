"""Adding a mechanism takes one file and one line: a toy goes through the commands without any other change."""

import json
import math
from itertools import product

import pytest

from dpcalc.mechanisms.kinds import MECHANISMS

TOYS = "{type: toy, odds: 3}"
TOY = """version: 1
data: {examples: 1000}
sampling: {scheme: all}
mechanism: {type: toy, odds: 3}
training: {steps: 4}
privacy: {adjacency: replace-one, delta: 0.01}
budget: {epsilon: 5}
"""


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setitem(MECHANISMS, "toy", "tests.cli.toy_mechanism:Toy")


@pytest.fixture
def toy_run(real, tmp_path):
    """Run a command on the toy's config, with another mechanism if one is given."""

    def run(*arguments, mechanism=TOYS):
        (tmp_path / "toy.yaml").write_text(TOY.replace(TOYS, mechanism))
        return real(*arguments, "toy.yaml")

    return run


def exact_epsilon(odds, steps, delta):
    """The smallest epsilon whose hockey-stick divergence is delta, over every outcome of all steps."""
    outcomes = [(odds ** sum(bits) / (1 + odds) ** steps, sum(bits)) for bits in product((0, 1), repeat=steps)]

    def divergence(epsilon):
        return sum(max(0.0, p - math.exp(epsilon) * odds ** (steps - n) / (1 + odds) ** steps) for p, n in outcomes)

    low, high = 0.0, steps * math.log(odds)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if divergence(middle) > delta else (low, middle)
    return high


def test_epsilon_is_that_of_every_outcome(toy_run):
    ended = toy_run("epsilon", "--json")
    assert ended.code == 0, ended.err
    guarantee = json.loads(ended.out)["guarantee"]
    assert guarantee["epsilon"] == pytest.approx(exact_epsilon(3, 4, 0.01), rel=1e-3)
    assert guarantee["epsilon"] >= exact_epsilon(3, 4, 0.01)
    assert "the toy tosses its coin afresh in every step" in ended.out


@pytest.mark.parametrize(
    ("command", "mechanism", "code", "words"),
    [
        ("compare", TOYS, 0, ["method: pld"]),
        ("curve steps", TOYS, 0, ["4"]),
        ("check", TOYS, 0, ["epsilon"]),
        ("show", TOYS, 0, [f"mechanism: {TOYS}"]),
        ("statement", TOYS, 0, ["toy, odds 3"]),
        ("risk", TOYS, 0, ["advantage: "]),
        ("epsilon", "{type: toy, odds: 0.5}", 2, ["`mechanism.odds` must be from 1 to 1000, got the number 0.5"]),
        ("epsilon", "{type: toy}", 2, ["`mechanism.odds` is missing", "^ say the odds"]),
        (
            "epsilon",
            "{noise_multiplier: 1, odds: 3}",
            2,
            ["`odds` does not go with type `gaussian`", "^ `gaussian` "],
        ),
        ("epsilon", "{type: toi, odds: 3}", 2, ["got the string 'toi'", "^ did you mean `toy`?"]),
    ],
)
def test_other_commands_and_wrong_values(toy_run, command, mechanism, code, words):
    ended = toy_run(*command.split(), mechanism=mechanism)
    assert (ended.code, [each for each in words if each not in ended.out + ended.err]) == (code, []), ended


def test_schema_describes_it(real):
    schema = json.loads(real("schema").out)["$defs"]["Mechanism"]
    assert "toy" in schema["properties"]["type"]["anyOf"][0]["enum"]
    assert schema["properties"]["odds"]["description"] == "Odds of the true bit, for type toy."
    assert "| `mechanism.odds` | number, 1 to 1000 |" in real("schema", "--markdown").out
