"""What runs cost, and how costs compare: each row of costs.yaml is a config, changes of it, and claims about them."""

import json
import math
from copy import deepcopy
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import NormalDist

import pytest
import yaml

import dpcalc
from dpcalc.config.load import load_text
from dpcalc.errors import InputError, NoSolution
from dpcalc.planner.compare import cross_checks, gdp_row, tool_rows
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.planner.published import strong_composition_row
from dpcalc.planner.solve import AttackGoal, EpsilonGoal, solve
from dpcalc.planner.statement import statement
from tests.oracles.exact_gaussian import exact_epsilon
from tests.thinning import thinned

ROWS = yaml.safe_load(Path(__file__).with_name("costs.yaml").read_text(encoding="utf-8"))
CONFIGS, KEYS, REFUSED = ROWS.pop("configs"), ROWS.pop("keys"), ROWS.pop("refused")


GOALS = [
    {"limit": 0.05, "false_positive_rate": 0.01},
    {"limit": 0.2},
]  # what an attacker may reach: a detection, an advantage


class Cost(float):
    """The upper bound on epsilon of a plan, and whatever else it is asked."""

    def __new__(cls, plan, **options):
        bound = guarantee(plan, **options)
        made = super().__new__(cls, bound.epsilon)
        made.plan, made.bound, made.noted = plan, bound, " ".join(bound.notes)
        return made

    @cached_property
    def found(self):
        return dpcalc.epsilon(self.plan)

    @property
    def lower(self):
        return self.found.epsilon_lower

    @cached_property
    def evaluation(self):
        return evaluate(self.plan)

    def tool(self, *names):
        """The row of what a tool prints, or of the central limit, with this method or bound, or both."""
        rows = (*tool_rows(self.plan), gdp_row(self.plan), strong_composition_row(self.plan))
        return next(row for row in rows if {*names} <= {row.method, row.bound})

    @cached_property
    def statement(self):
        return statement(self.plan)

    @property
    def checks(self):
        return cross_checks(self.plan)

    @property
    def sampling(self):
        """The draws of the first phase in words."""
        return self.evaluation.phases[0].sampling

    @property
    def said(self):
        return " ".join(self.evaluation.assumptions)

    def notes(self, words):
        """The epsilons of each note with these words, or its text if it has none."""
        return [note.epsilons or note.text for note in self.evaluation.notes if words in note.text]

    def by(self, method):
        return guarantee(self.plan, method=method).epsilon

    def delta(self, at):
        return dpcalc.delta(self.plan, epsilon=at)

    def risk(self, *rates):
        return dpcalc.risk(self.plan, false_positive_rates=rates)

    @cached_property
    def rows(self):
        return dpcalc.compare(self.plan)

    def row(self, *names):
        """The row with this method or bound, or both."""
        (row,) = (row for row in self.rows if {*names} <= {row.method, row.bound})
        return row

    def solved(self, quantity, target):
        return dpcalc.solve(self.plan, quantity, target_epsilon=target)

    def curve(self, kind, *grid, **options):
        return dpcalc.curve(self.plan, kind, **({"grid": grid} if grid else {}), **options)

    def lines(self, kind, *grid, **options):
        """The places along y of each line of a curve."""
        return [line.ys for line in self.curve(kind, *grid, **options).series]

    def meets(self, quantity, epsilon=None, **attack):
        """A solution for an epsilon, or for what an attacker may reach."""
        return solve(self.plan, quantity, goal=AttackGoal(**attack) if attack else EpsilonGoal(limit=epsilon))


def planned(config, *changes):
    """The plan of a config, or one of `configs`, with dotted keys set; `keys` has short names, None drops a key."""
    config = deepcopy(CONFIGS[config] if isinstance(config, str) else config)
    for key, value in (item for each in changes for item in each.items()):
        if key == "counts":
            for level, count in zip(config["data"]["levels"], value, strict=True):
                level["count"] = count
            continue
        first, dot, others = key.partition(".")
        *path, last = f"{KEYS.get(first, first)}{dot}{others}".split(".")
        section = config
        for name in path:
            section = section[int(name)] if isinstance(section, list) else section.setdefault(name, {})
        section[last] = deepcopy(value)
        if value is None:
            del section[last]
    return load_text(json.dumps(config), path="run.yaml").plan


def cases():
    """A case for each row and each combination of what it tries."""
    for name, row in ROWS.items():
        each = row.get("each", {})  # a list of changes, or lists of values by key
        tried = (
            each if isinstance(each, list) else [dict(zip(each, one, strict=True)) for one in product(*each.values())]
        )
        marks = [getattr(pytest.mark, mark) for mark in row.get("marks", "").split()]
        several = [pytest.param(row, one, id=" ".join([name, *map(str, one.values())]), marks=marks) for one in tried]
        yield from thinned(several, row.get("keep", len(several)))


@pytest.mark.parametrize(("row", "tried"), [*cases()])
def test_costs(row, tried, monkeypatch):
    given = row["config"], row.get("set", {})
    costs = {name: Cost(planned(*given, tried, changes)) for name, changes in row["plans"].items()}

    def gaussian(mu):
        return float(exact_epsilon(1, 1 / mu, next(iter(costs.values())).plan.delta))

    known = {"isclose": math.isclose, "expm1": math.expm1, "inf": math.inf, "sqrt": math.sqrt, "gaussian": gaussian}
    known |= {"Cost": Cost, "normal": NormalDist(), "floor": math.floor, "goals": GOALS}
    for name, (limits, asked) in row.get("short", {}).items():
        with monkeypatch.context() as patched:
            for place, units in limits.items():
                patched.setattr(f"dpcalc.{place}", units)
            costs[name] = eval(asked, known | costs)  # noqa: S307  our own
    for claim in row["claims"]:
        assert eval(claim, known | costs), (claim, costs)  # noqa: S307  our own


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name, monkeypatch):
    row = REFUSED[name]
    for place, units in row.get("limits", {}).items():
        monkeypatch.setattr(f"dpcalc.{place}", units)
    with pytest.raises((InputError, NoSolution), match=row["words"]):
        eval(row.get("ask", "cost"), {"cost": Cost(planned(row["config"], row["set"])), "dpcalc": dpcalc})  # noqa: S307  our own
