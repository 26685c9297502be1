"""Random configs through `epsilon`: an answer or a reason, and never below what an actual pair of data sets costs."""

import contextlib
import json

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from dpcalc.planner.evaluate import evaluate
from tests.oracles import config_data_sets
from tests.sweeps.random_configs import generator, random_config

SEED = 1
TIGHT = 1e-3  # relative distance of the ends that `tight` may hide, at the very most


def answered(config):
    """The guarantee of a config, or None where it is refused."""
    with contextlib.suppress(ConfigError, InputError):
        return evaluate(load_text(json.dumps(config), path="f.yaml").plan).guarantee
    return None


def check(config):
    found = answered(config)
    if found is None:
        return False
    assert found.epsilon >= 0
    if found.epsilon_lower is not None:
        assert found.epsilon_lower <= found.epsilon
        assert not found.tight or found.epsilon - found.epsilon_lower <= TIGHT * found.epsilon
    if oracle := config_data_sets.epsilon(config):
        exact, error, costliest = oracle
        assert found.epsilon * (1 + 1e-9) >= exact - error
        if costliest and found.epsilon_lower is not None:
            assert found.epsilon_lower <= exact + error
    return True


def run(first, count):
    answers = sum(check(random_config(generator(SEED, place))) for place in range(first, first + count))
    assert answers >= count / 2


@pytest.mark.heavy
def test_random_configs():
    run(100_004, 10)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_two_thousand_random_configs(block):
    run(20 * block, 20)
