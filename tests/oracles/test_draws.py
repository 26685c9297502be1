"""The enumeration and its integrals against hand calculation and each other."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tests.oracles.brute_force import ADD_REMOVE, REPLACE_ONE, Experiment, fixed, outcomes, poisson
from tests.oracles.draws import Draw, Run, episode_run, episodes, group_run, histories
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick, hockey_stick_in_plane
from tests.oracles.joint import Adaptive, divergences
from tests.oracles.multistage import (
    constructed,
    cut_short,
    data_sets,
    group,
    held,
    random_problem,
    shuffled,
    truth_of,
    unequal_group,
)

HALF = Fraction(1, 2)


@pytest.mark.parametrize("flavour", [group, unequal_group, held, shuffled, cut_short, constructed])
def test_histories_are_complete_and_have_the_promised_length(flavour):
    rng = np.random.default_rng(1)
    for _ in range(10):
        problem = random_problem(rng, flavour, most_outcomes=200)
        run = problem.run
        assert [sum(side) for side in run.probabilities] == [1, 1]
        assert {matrix.shape[1] for matrix in run.incidence} == {problem.kept or problem.steps}


def members_in(history, members):
    return tuple(sum(unit in members for unit, _ in step) for step in history)


def law_of_members(tree, members, steps=1):
    law = Counter()
    for chance, history in histories(tree, steps):
        law[members_in(history, members)] += chance
    return law


def test_one_plain_step_is_what_the_other_enumerator_finds():
    tree = (Draw(3, "fixed", 2), Draw(2, "poisson", Fraction(1, 4)))
    other = {outcome: chance for chance, outcome in outcomes((fixed(2, 3), poisson(Fraction(1, 4), 2)))}
    assert {history[0]: chance for chance, history in histories(tree, 1)} == other


def test_a_group_under_a_fixed_draw_is_hypergeometric():
    law = law_of_members((Draw(5, "fixed", 2),), {(0,), (1,)})
    assert law == {(0,): Fraction(3, 10), (1,): Fraction(6, 10), (2,): Fraction(1, 10)}


def test_a_unit_drawn_with_replacement_is_binomial_and_its_copies_draw_for_themselves():
    tree = (Draw(3, "again", 2), Draw(2, "fixed", 1))
    law = law_of_members(tree, {(0,)})
    assert law == {(0,): Fraction(4, 9), (1,): Fraction(4, 9), (2,): Fraction(1, 9)}
    record = ((0, 0), ())
    both = sum(p for p, (step,) in histories(tree, 1) if [drawn for _, drawn in step].count((record,)) == 2)
    assert both == Fraction(1, 9) * Fraction(1, 4)


def test_a_held_draw_stays_and_the_one_below_changes():
    tree = (Draw(2, "fixed", 1, every=2), Draw(2, "fixed", 1))
    found = histories(tree, 2)
    assert {tuple(step[0][0] for step in history) for _, history in found} == {((0,),) * 2, ((1,),) * 2}
    assert Counter(p for p, _ in found) == {Fraction(1, 8): 8}
    assert law_of_members(tree, {(0,)}, steps=4) == {
        (a, a, b, b): Fraction(1, 4) for a in (0, 1) for b in (0, 1)
    }  # redrawn after the second step


def test_a_pass_draws_every_unit_once():
    for _, history in histories((Draw(5, "shuffle", 2),), 3):
        assert sorted(unit for step in history for unit, _ in step) == [(i,) for i in range(5)]
        assert [len(step) for step in history] == [2, 2, 1]
    law = law_of_members((Draw(5, "shuffle", 2),), {(0,)}, steps=3)
    assert law == {(1, 0, 0): Fraction(2, 5), (0, 1, 0): Fraction(2, 5), (0, 0, 1): Fraction(1, 5)}


def test_a_pass_of_the_smaller_data_set_has_as_many_steps():
    run = group_run((Draw(3, "shuffle", 1),), [(0,)], 1, ADD_REMOVE, steps=3)
    assert run.incidence[1].sum(axis=2).tolist() == [[1, 1, 0]] * 2


def test_constructed_tasks_hold_a_record_with_the_product_of_its_rates():
    law = Counter()
    for chance, (step,) in episodes(4, 3, 2, 1, 2):
        law[sum(((0, 0), ()) in records for task in step for _, records in task)] += chance
    rate = Fraction(1, 4) * Fraction(2, 3)
    assert law == {0: (1 - rate) ** 2, 1: 2 * rate * (1 - rate), 2: rate**2}


def test_what_is_clipped_in_a_constructed_step():
    sizes = {
        clip: episode_run((3, 2, 2, 2, 1), [(0,)], clip, REPLACE_ONE).incidence[0].sum(axis=2) for clip in (0, 1, 2)
    }
    assert {clip: set(total.ravel()) for clip, total in sizes.items()} == {0: {1}, 1: {2}, 2: {4}}


def test_keys_are_those_of_the_other_enumerator():
    tree, mine = (fixed(1, 2), fixed(1, 3)), (Draw(2, "fixed", 1), Draw(3, "fixed", 1))
    for clip in (0, 1, 2):
        other, run = Experiment(tree, 2, clip, REPLACE_ONE), group_run(mine, [(0, 0)], clip, REPLACE_ONE)
        assert set(run.keys) == set(other.keys)
    assert isinstance(run, Run)


def random_pair(rng, dimensions):
    weights = [rng.dirichlet(np.ones(5)) for _ in range(2)]
    return weights, [rng.uniform(-2, 2, (5, dimensions)) for _ in range(2)]


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(2))
def test_the_plane_agrees_with_the_slow_integrator(seed):
    weights, means = random_pair(np.random.default_rng(seed), 2)
    p, q = (Mixture(w, m) for w, m in zip(weights, means, strict=True))
    epsilons = [0.0, 0.4]
    slow = [hockey_stick_in_plane(*pair, 1.2, epsilons, 8) for pair in ((p, q), (q, p))]
    assert divergences(weights, means, 1.2, epsilons, per_sigma=64) == pytest.approx(np.array(slow), rel=1e-3)


def test_means_on_a_line_in_many_dimensions_are_a_line():
    rng = np.random.default_rng(3)
    weights, places = random_pair(rng, 1)
    direction = rng.normal(size=4)
    direction /= np.linalg.norm(direction)
    p, q = (Mixture.on_line(w, m[:, 0]) for w, m in zip(weights, places, strict=True))
    line = [hockey_stick(p, q, 0.9, [0.0, 0.7]), hockey_stick(q, p, 0.9, [0.0, 0.7])]
    found = divergences(weights, [m * direction + 1.5 for m in places], 0.9, [0.0, 0.7])
    assert found == pytest.approx(np.array(line), rel=1e-8)


def test_three_steps_of_one_shift_are_one_step_of_a_larger_one():
    weights, means = [np.ones(1), np.ones(1)], [np.zeros((1, 3)), np.ones((1, 3))]
    p, q = Mixture.on_line([1], [0]), Mixture.on_line([1], [math.sqrt(3)])
    assert divergences(weights, means, 1.0, [0.5])[0] == pytest.approx(hockey_stick(p, q, 1.0, [0.5]), rel=1e-10)


def test_what_is_projected_away_only_lowers_the_value():
    """One of three coordinates moves: no more can be found than if it were known which."""
    weights, means = [np.full(3, 1 / 3), np.ones(1)], [4 * np.eye(3), np.zeros((1, 3))]
    p, q = Mixture.on_line([1], [0]), Mixture.on_line([1], [4])
    revealed = hockey_stick(p, q, 1.0, [0.5])[0]
    assert 0.1 < divergences(weights, means, 1.0, [0.5])[0, 0] < revealed


@pytest.mark.heavy
def test_an_adversary_without_a_choice_gains_nothing_and_one_with_a_choice_can():
    run = group_run((Draw(3, "poisson", HALF, every=2),), [(0,)], 1, REPLACE_ONE, steps=2)
    rng = np.random.default_rng(0)
    for values in data_sets(run, rng, extreme=2, random=1, in_plane=0):
        first, second = (tuple(m[:, t] @ values[t] for m in run.incidence) for t in (0, 1))
        joint = truth_of(run, values, 1.3, [0.3], per_sigma=128)
        for direction in (0, 1):
            alone = Adaptive(run.weights(), first, [second], 1.3).divergence(0.3, direction)
            assert alone == pytest.approx(joint[direction, 0], rel=1e-6, abs=1e-12)
            turned = tuple(-m for m in second)
            chosen = Adaptive(run.weights(), first, [second, turned], 1.3).divergence(0.3, direction)
            assert chosen >= alone * (1 - 1e-9) - 1e-15
