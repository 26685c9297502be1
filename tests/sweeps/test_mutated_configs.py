"""Samples with random changes through `epsilon --json` and `check --json`: an answer or a reason, no internal error."""

from collections import Counter

import pytest

from tests.sweeps.mutated_configs import answer, gate_answers, numbered

SEED = 1


def run(folder, first, count):
    codes = Counter()
    for place in range(first, first + count):
        wrong, code, _ = answer(numbered(SEED, place), folder)
        assert not wrong, f"mutant {place}"
        codes[code] += 1
    assert codes[0] > count / 20
    assert codes[2] > count / 20


@pytest.mark.heavy
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


@pytest.mark.heavy
def test_mutated_configs_through_the_gate(tmp_path):
    wrong, verdicts = gate_answers([numbered(SEED, place) for place in range(200_000, 200_020)], tmp_path)
    assert not wrong
    assert verdicts["invalid"]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_five_thousand_mutated_configs_through_the_gate(block, tmp_path):
    texts = [numbered(SEED, place) for place in range(300_000 + 50 * block, 300_000 + 50 * (block + 1))]
    wrong, _ = gate_answers(texts, tmp_path)
    assert not wrong
