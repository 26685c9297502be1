"""Samples with random changes through `epsilon --json`: an answer or a reason, never an internal error."""

from collections import Counter

import pytest

from tests.sweeps.mutated_configs import answer, numbered

SEED = 1


def run(folder, first, count):
    codes = Counter()
    for place in range(first, first + count):
        wrong, code, _ = answer(numbered(SEED, place), folder)
        assert not wrong, f"mutant {place}"
        codes[code] += 1
    assert codes[0] > count / 20
    assert codes[2] > count / 20


def test_a_mutant_does_not_depend_on_those_before_it():
    """Once a change went into a value that later mutants share; by number 1631 it held itself."""
    alone = numbered(SEED, 1631)
    for place in range(1500, 1631):
        numbered(SEED, place)
    assert numbered(SEED, 1631) == alone


@pytest.mark.heavy
def test_mutated_configs(tmp_path):
    run(tmp_path, 100_000, 40)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(200))
def test_twenty_thousand_mutated_configs(block, tmp_path):
    run(tmp_path, 100 * block, 100)
