"""One call reports every error in the sections; without any, one call reports every contradiction between them."""

import copy
import json
from itertools import combinations

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from tests.config.texts import corpus
from tests.thinning import thinned

ROWS = corpus("all_errors")
MISTAKES, CONTRADICTIONS, HIDING = ROWS["mistakes"], ROWS["between sections"], set(map(tuple, ROWS["hiding"]))


def errors(*names):
    """The errors, without their places, of a config with mistakes."""
    config = copy.deepcopy(ROWS["base"])
    for name in names:
        path, *value = MISTAKES[name]
        *sections, key = path.split(".")
        section = config
        for each in sections:
            section = section[int(each) if each.isdigit() else each]
        if value:
            section[key] = copy.deepcopy(value[0])
        else:
            del section[key]
    with pytest.raises(ConfigError) as raised:
        load_text(json.dumps(config), path="x.yaml")
    return {(each.code, each.message) for each in raised.value.diagnostics}


PAIRS = [
    pair
    for pair in combinations(MISTAKES, 2)
    if MISTAKES[pair[0]][0] != MISTAKES[pair[1]][0] and not {pair, pair[::-1]} <= HIDING  # which mend each other
]


@pytest.mark.parametrize("number", thinned(range(40), 3))
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
