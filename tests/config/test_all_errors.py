"""One call reports every error in the sections; without any, one call reports every contradiction between them."""

import copy
import json
from itertools import combinations

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from tests.thinning import thinned

BASE = {
    "version": 1,
    "data": {"levels": [{"name": "task", "count": 1200}, {"name": "example", "count": 20}]},
    "sampling": {"task": {"scheme": "fixed", "size": 32}, "example": {"scheme": "poisson", "rate": 0.25}},
    "mechanism": {"noise_multiplier": 6.0, "max_grad_norm": 1.0, "clip": "task"},
    "training": {"steps": 1000},
    "privacy": {"unit": "example", "adjacency": "add-remove", "delta": 0.00001, "group_size": 2},
    "accounting": {"method": "pld"},
    "budget": {"epsilon": 2.0},
}
LEFT_OUT = object()
MISTAKES = {
    "version": ("version", "x"),
    "name": ("name", 3),
    "unknown key": ("foo", 3),
    "count": ("data.levels.0.count", -3),
    "inner count": ("data.levels.1.count", "many"),
    "scheme": ("sampling.task.scheme", "fixd"),
    "size": ("sampling.task.size", 0),
    "large size": ("sampling.task.size", 5000),
    "rate": ("sampling.example.rate", 1.5),
    "no rate": ("sampling.example.rate", LEFT_OUT),
    "two rates": ("sampling.example.expected", 5),
    "key of a draw": ("sampling.example.foo", 1),
    "no such level": ("sampling.exmaple", {"scheme": "all"}),
    "period": ("sampling.example.redraw_every", 3),
    "noise": ("mechanism.noise_multiplier", -1),
    "key of a mechanism": ("mechanism.l2_norm_clip", 1),
    "clip": ("mechanism.clip", "tsk"),
    "mechanism": ("mechanism.type", "gausian"),
    "norm": ("mechanism.max_grad_norm", -1),
    "two lengths": ("training.epochs", 3),
    "no length": ("training.steps", LEFT_OUT),
    "batch": ("training.batch_size", 3),
    "unit": ("privacy.unit", "exampel"),
    "every unit": ("privacy.unit", "all"),
    "no unit": ("privacy.unit", LEFT_OUT),
    "adjacency": ("privacy.adjacency", "add"),
    "delta": ("privacy.delta", 2),
    "no delta": ("privacy.delta", LEFT_OUT),
    "group": ("privacy.group_size", 0),
    "key of privacy": ("privacy.foo", 1),
    "method": ("accounting.method", "pdl"),
    "budget": ("budget.epsilon", -1),
    "tuning": ("tuning", {"distribution": "poisson", "mean": -10}),
    "phases": ("phases", [{"name": "a"}, {"name": "a"}]),
}
CONTRADICTIONS = {"large size", "no such level", "period", "clip", "unit", "every unit", "no unit", "phases"}
"""Mistakes between sections, each of them right by itself: they are told once all sections are."""
HIDING = {
    # what cannot be known: sizes without a count, keys without a type, two statements of which one is missing
    ("size", "scheme"),
    ("noise", "mechanism"),
    ("norm", "mechanism"),
    ("key of a mechanism", "mechanism"),
    ("no rate", "two rates"),
    ("two rates", "no rate"),
    ("no length", "two lengths"),
    ("two lengths", "no length"),
    ("no rate", "key of a draw"),  # of one draw the errors of its own keys come first
    ("period", "large size"),  # draws that do not fit the data fit no other draw either
}
"""(mistake, another one beside which it may go unsaid)."""


def errors(*names):
    """The errors, without their places, of a config with mistakes."""
    config = copy.deepcopy(BASE)
    for name in names:
        path, value = MISTAKES[name]
        *sections, key = path.split(".")
        section = config
        for each in sections:
            section = section[int(each) if each.isdigit() else each]
        if value is LEFT_OUT:
            del section[key]
        else:
            section[key] = copy.deepcopy(value)
    with pytest.raises(ConfigError) as raised:
        load_text(json.dumps(config), path="x.yaml")
    return {(each.code, each.message) for each in raised.value.diagnostics}


PAIRS = [
    pair
    for pair in combinations(MISTAKES, 2)
    if MISTAKES[pair[0]][0] != MISTAKES[pair[1]][0] and not {pair, pair[::-1]} <= HIDING  # which mend each other
]


@pytest.mark.parametrize("number", thinned(range(40), 8))
def test_two_mistakes_are_two_errors(number):
    for pair in PAIRS[number::40]:
        found = errors(*pair)
        for name, other in (pair, pair[::-1]):
            (own,) = errors(name)
            is_later = name in CONTRADICTIONS and other not in CONTRADICTIONS
            assert own in found or is_later or (name, other) in HIDING, f"{name} goes unsaid beside {other}"


@pytest.mark.parametrize(
    "names",
    [("noise", "scheme", "adjacency", "delta", "budget"), ("large size", "no such level", "clip", "unit", "phases")],
)
def test_five_mistakes_are_five_errors(names):
    assert errors(*names) == set().union(*map(errors, names))
