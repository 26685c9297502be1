"""`dpcalc simulate`: every scheme drawn index by index against its computed law, and what is wrong is found."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dpcalc.audit import simulate
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.cli.solving import FLAT, facts
from tests.thinning import thinned

PLANS = yaml.safe_load(Path(__file__).with_name("simulate.yaml").read_text(encoding="utf-8"))
NAMES = ("user", "session", "example")
SMALL = ("--draws", "3000")
pytestmark = pytest.mark.usefixtures("fresh_caches")


def found(ended):
    return json.loads(ended.out)


def plan(levels, *, tree=None, episodes=None, unit=1, clip=None, **privacy):
    """The text of a config."""
    named = [(name, *level) for name, level in zip(NAMES, levels, strict=False)]
    counts = [{"name": name} | ({"count": count} if count else {}) for name, count, *_ in named]
    drawn = {"episodes": episodes} if episodes else {name: draw for name, _, draw in named}
    parts = ("task", NAMES[1]) if episodes else NAMES
    clipped = {"noise_multiplier": 8} | ({"clip": parts[clip - 1]} if clip else {})
    sections = {
        "version": 1,
        "data": {"levels": counts} | ({"tree": tree} if tree else {}),
        "sampling": drawn,
        "mechanism": clipped,
        "training": {"steps": 60},
        "privacy": {"unit": NAMES[unit - 1], "adjacency": "replace-one", "delta": 1e-4} | privacy,
    }
    return json.dumps(sections).replace("1e-09", "1.0e-9")


@pytest.fixture
def checks(real, file):
    """The checks of a plan of the table, by their quantity."""

    def of(name, draws=4000):
        ended = real("simulate", str(file(plan(**PLANS[name]))), "--seed", "11", "--draws", str(draws), "--json")
        answer = found(ended)
        assert ended.code == (0 if answer["agrees"] else 1)
        return {check["quantity"]: check for check in answer["checks"]}

    return of


@pytest.mark.parametrize("name", thinned(PLANS, 8))
def test_what_is_drawn_agrees_with_what_is_computed(checks, name):
    assert [each for each in checks(name).values() if not each["agrees"]] == []


def test_what_is_compared(real, file):
    ended = real("simulate", str(file()), *SMALL, "--json")
    assert ended.code == 0
    answer = found(ended)
    assert (answer["command"], answer["agrees"], answer["seed"]) == ("simulate", True, 1)
    quantities = [check["quantity"] for check in answer["checks"]]
    assert quantities == ["inclusion of one example", "share of example drawn", "batch size (example)"]
    for check in answer["checks"]:
        assert check["observed_lower"] <= check["observed"] <= check["observed_upper"]
        assert check["observed_lower"] <= check["computed_upper"]
        assert check["computed_lower"] <= check["observed_upper"]
    assert answer["checks"][0]["computed_upper"] == 0.01
    assert answer["checks"][2]["computed_upper"] == 10


def test_laws_of_some_draws(checks):
    held = checks("held", draws=60_000)
    once, ever = held["inclusion of one session"], held["inclusion of one session in any of 6 steps"]
    assert once["computed_lower"] == pytest.approx(2 / 10 * 2 / 5)
    assert ever["computed_lower"] == pytest.approx(2 / 10 * (1 - (3 / 5) ** 6))
    assert ever["draws"] == 10_000
    assert ever["observed_upper"] < 1 - (1 - 2 / 10 * 2 / 5) ** 6  # what draws of both levels in every step would give
    turn = checks("shuffle")
    assert turn["inclusion of one user in a pass"]["observed"] == 1  # everything has its turn
    batch = turn["batch size (user)"]
    assert (batch["note"], batch["observed"]) == ("from 3 to 4", pytest.approx(23 / 6))
    certain = checks("a batch of a certain size", draws=100)["batch size (session)"]
    assert (certain["computed_lower"], certain["computed_upper"]) == (6.0, 6.0)  # once 12.000000000000002
    smallest = checks("records of the smallest class")["inclusion of one session"]
    assert smallest["computed_lower"] == pytest.approx(1 - (1 - 2 / 5 * 2 / 3) ** 3)
    for name in ("again", "fixed", "all"):  # levels that no round reaches contradict nothing
        rare = checks(f"never reached, {name}", draws=100)
        assert all(check["agrees"] for check in rare.values())
        assert [check["observed"] for key, check in rare.items() if key.startswith("batch size")] == [0.0]


@pytest.mark.parametrize("name", ["again", "nested group", "held", "record of built tasks"])
def test_a_wrong_law_is_found(checks, name, monkeypatch):
    distribution = simulate.member_distribution

    def rarer(*arguments):
        claimed, *rest = distribution(*arguments)
        return ({count: p * (1 if count == 0 else Fraction(3, 4)) for count, p in claimed.items()}, *rest)

    monkeypatch.setattr(simulate, "member_distribution", rarer)
    wrong = [quantity for quantity, check in checks(name, draws=90_000).items() if not check["agrees"]]
    assert wrong
    assert wrong[0].startswith("inclusion of ")


@pytest.mark.parametrize(
    ("sampling", "limits", "why"),
    [
        ("any-order", "min_separation: 2", "the config states limits alone"),
        ("cyclic-poisson, rate: 0.2, groups: 4", "", "the training code splits the units into groups"),
        ("balls-in-bins, bins: 8, assignment: held", "", ""),
    ],
)
def test_batches_are_drawn_where_the_scheme_says_who_is_in_a_step(real, file, sampling, limits, why):
    strategy = "{type: matrix-factorization, strategy: {toeplitz: [1, 1]}, noise_multiplier: 1.5, LIMITS}"
    text = FLAT.replace("1_000", "40").replace("{noise_multiplier: 1.1}", strategy.replace("LIMITS", limits))
    text = text.replace("{scheme: poisson, rate: 0.01}", f"{{scheme: {sampling}}}").replace("500", "20")
    ended = real("simulate", str(file(text)), "--draws", "300", "--json")
    assert ended.code == 0
    assert bool(found(ended)["checks"]) is not bool(why)
    told = f"no batches of training are drawn: {why}; `audit-sampler` tests a log"
    assert found(ended)["notes"] == ([told] if why else [])


def wrong(real, file, text=FLAT):
    """The quantities that are contradicted."""
    words = ("simulate", str(file(text)), "--draws", "20000")
    plain, ended = real(*words), real(*words, "--json")
    assert (plain.code, facts(plain)["agrees"], "NOT the same" in plain.out) == (1, "no", True)
    assert (ended.code, found(ended)["agrees"]) == (1, False)
    return [check["quantity"] for check in found(ended)["checks"] if not check["agrees"]]


def test_a_wrong_rate_is_found(real, file, monkeypatch):
    monkeypatch.setattr(Poisson, "rate", lambda self, _: self.probability / 2)
    assert wrong(real, file) == ["inclusion of one example"]


@pytest.mark.heavy
def test_a_sampler_that_draws_too_often_is_found(real, file, monkeypatch):
    fixed = FLAT.replace("{scheme: poisson, rate: 0.01}", "{scheme: fixed, size: 10}")
    monkeypatch.setattr(Fixed, "rate", lambda self, count: Fraction(self.size, 2 * count))
    assert wrong(real, file, fixed) == ["inclusion of one example"]
