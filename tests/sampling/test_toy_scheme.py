"""A new scheme is one class: run as a program this file adds one, and every command must know it.

Each child throws a die and is drawn at a 1: a Poisson draw of rate 1 / sides, of which all numbers are known.
"""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc.records import dataclass
from dpcalc.sampling.schemes import SCHEMES, Independent


@dataclass(frozen=True, kw_only=True)
class Dice(Independent):
    """Each child is drawn at a 1 of a die of its own; a real scheme would declare a key for the number of sides."""

    name = "dice"
    keys = ("bins",)
    amount_key = "bins"
    bins: int

    @property
    def probability(self):
        return Fraction(1, self.bins)

    def words(self, level):
        return f"each of {level.count_words} ({level.name}) at a 1 of a die of {self.bins} sides"


CONFIG = """\
version: 1
data: {{levels: [{{name: user, count: 60}}, {{name: example, count: 5}}]}}
sampling: {{user: {user}, example: {{scheme: fixed, size: 2}}}}
mechanism: {{noise_multiplier: 3, clip: example}}
training: {{steps: 40}}
privacy: {{unit: {unit}, adjacency: {adjacency}, delta: 1e-5}}
"""
ROOT = Path(__file__).parents[2]
DICE, POISSON = "{scheme: dice, bins: 6}", "{scheme: poisson, rate: 1/6}"


def dpcalc(*arguments, text="", code=0):
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr or done.stdout
    return done.stdout


def configured(user, unit="user", adjacency="add-remove"):
    return CONFIG.format(user=user, unit=unit, adjacency=adjacency)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("unit", "adjacency"),
    [("user", "add-remove"), pytest.param("example", "replace-one", marks=pytest.mark.heavy)],
)
def test_epsilon_and_its_lower_end_are_those_of_the_same_law(unit, adjacency):
    toy, known = (
        json.loads(dpcalc("epsilon", "-", "--json", text=configured(user, unit, adjacency))) for user in (DICE, POISSON)
    )
    assert toy["phases"][0]["sampling"].startswith("each of 60 (user) at a 1 of a die of 6 sides; then ")
    assert toy["guarantee"]["epsilon_lower"] > 0
    assert toy["guarantee"] == known["guarantee"]


@pytest.mark.heavy
def test_a_simulation_agrees():
    assert "agrees" in dpcalc("simulate", "-", "--draws", "2000", text=configured(DICE))


@pytest.mark.heavy
def test_an_audit_tells_dice_from_a_fixed_size(tmp_path):
    import numpy as np

    rng, config = np.random.default_rng(5), tmp_path / "dice.yaml"
    config.write_text(configured(DICE))
    for fixed, code in ((False, 0), (True, 1)):
        batches = []
        for _ in range(40):
            users = rng.choice(60, 10, replace=False) if fixed else np.flatnonzero(rng.random(60) < 1 / 6)
            batches.append([[int(user), int(each)] for user in users for each in rng.choice(5, 2, replace=False)])
        log = "".join(f"{json.dumps(batch)}\n" for batch in batches)
        told = dpcalc("audit-sampler", str(config), "-", text=log, code=code)
        assert ("this is `fixed`, not `dice`" in told) is fixed


@pytest.mark.heavy
def test_config_and_schema_know_it():
    assert "user: {scheme: dice, bins: 6}" in dpcalc("show", "-", text=configured(DICE))
    assert '"dice"' in dpcalc("schema")


if __name__ == "__main__":
    SCHEMES[Dice.name] = Dice
    from dpcalc.__main__ import main

    main()
