"""The public cost of PATE: what one teacher can change, how often it is too low, and what it may rest on."""

import inspect
import itertools
import math

import numpy as np
import pytest

from dpcalc import pate as pate_release
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.mechanisms.black_box import ConfidentGNMax, GNMax, LNMax, Votes, other_wins_bound
from dpcalc.pate import ReleaseTerms, data_independent_guarantee, draw_sanitised_epsilon, noisy_epsilon, release_terms
from tests.oracles.ballots import ensemble, neighbours, outcomes, synthetic

CHECKED = [
    ConfidentGNMax(noise_multiplier=2.0, threshold=5.0, threshold_noise_multiplier=3.0),
    ConfidentGNMax(noise_multiplier=4.0, threshold=8.0, threshold_noise_multiplier=10.0),
]
AGGREGATIONS = [
    LNMax(gamma=0.05),
    LNMax(gamma=0.7),
    GNMax(noise_multiplier=4.0),
    GNMax(noise_multiplier=40.0),
    GNMax(noise_multiplier=0.4),
    CHECKED[1],
]
TERMS = ReleaseTerms(order=9.0, smoothness=0.03, noise=5.0)


def drawn(aggregation, votes, *, seed, chosen=TERMS, delta=1e-5):
    return draw_sanitised_epsilon(aggregation, votes, chosen, delta=delta, rng=np.random.default_rng(seed))


def pieces(aggregation, votes):
    """(f, S, places) of some votes."""
    costs, places = pate_release._divergence_grid(aggregation, votes, TERMS.order)
    smooth = pate_release._smooth_sensitivity(costs, places, TERMS.smoothness)
    return float(costs[tuple(places)].sum()), smooth, places


def random_votes(rng, *, queries, labels, teachers):
    skew = rng.choice([0.1, 1.0, 20.0])
    rows = [rng.multinomial(teachers, rng.dirichlet(np.full(labels, skew))) for _ in range(queries)]
    return Votes(counts=np.array(rows), teachers=teachers)


def moved(rng, votes):
    """One teacher chooses anew in every query."""
    counts = votes.counts.copy()
    for row in counts:
        giver = rng.choice(np.flatnonzero(row))
        if rng.integers(2):
            giver = int(row.argmax())
        row[giver] -= 1
        row[rng.integers(row.size)] += 1
    return Votes(counts=counts, teachers=votes.teachers)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("labels", [2, 3, 10])
def test_one_teacher_changes_as_little_as_is_claimed(aggregation, labels):
    rng = np.random.default_rng(labels)
    for _ in range(12):
        here = random_votes(
            rng, queries=20, labels=labels, teachers=int(rng.choice([3, 20, 250][: 2 if aggregation in CHECKED else 3]))
        )
        there = moved(rng, here)
        (f, smooth, places), (other, other_smooth, other_places) = pieces(aggregation, here), pieces(aggregation, there)
        assert (np.abs(places - other_places).max(axis=1) <= (2 * pate_release._CELLS_PER_VOTE + 1, 1)).all()
        assert abs(f - other) <= min(smooth, other_smooth) * (1 + 1e-9) + 1e-300
        if max(smooth, other_smooth) > 0:
            assert abs(math.log(smooth / other_smooth)) <= TERMS.smoothness * (1 + 1e-9)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_public_sum_is_not_below_the_private_one(aggregation):
    votes = synthetic(50)
    chances = other_wins_bound(aggregation, votes)
    ahead, _ = aggregation.log_moments(chances, votes.top, np.array([TERMS.order - 1]))
    private = float(ahead.sum()) / (TERMS.order - 1)
    assert private * (1 - 1e-9) <= pieces(aggregation, votes)[0] <= 1.3 * private + 1e-200


def test_it_is_rarely_below_what_the_labels_cost():
    delta = 0.5
    f, smooth, _ = pieces(GNMax(noise_multiplier=40.0), synthetic(50))
    z, c = TERMS.order - 1, TERMS.cost
    floor = f + c + math.log(z / (z + 1)) - (math.log(0.8 * delta) + math.log(z + 1)) / z
    assert floor > 0
    rng = np.random.default_rng(8)
    found = [noisy_epsilon(f, smooth, TERMS, delta=delta, rng=rng)[0] for _ in range(2000)]
    too_low = sum(one < floor - 1e-12 for one in found)
    assert 50 <= too_low <= 2000 * 2 * 0.05  # delta/10 for each of the two numbers


def test_noise_is_as_told():
    rng = np.random.default_rng(9)
    found = [noisy_epsilon(0.4, 0.01, TERMS, delta=1e-5, rng=rng) for _ in range(2000)]
    scales = np.array([spread for _, spread in found])
    assert np.std(np.log(scales)) == pytest.approx(TERMS.smoothness * TERMS.noise, rel=0.1)
    assert (scales >= 0.01 * TERMS.noise).all()  # at delta 1e-5 never below S(D)
    rest = np.array([epsilon for epsilon, _ in found]) / scales
    assert np.std(rest - np.mean(rest)) > 0.9
    assert drawn(GNMax(noise_multiplier=40.0), synthetic(9), seed=1) != drawn(
        GNMax(noise_multiplier=40.0), synthetic(9), seed=2
    )


def test_terms_are_chosen_without_the_votes():
    assert "votes" not in inspect.signature(release_terms).parameters
    chosen = release_terms(GNMax(noise_multiplier=40.0), 1000, target=4.0, delta=1e-5)
    assert chosen.cost == pytest.approx(0.4)
    assert 1 < chosen.order < 20
    some, many = (
        release_terms(GNMax(noise_multiplier=40.0), queries, target=None, delta=1e-5) for queries in (1000, 90_000)
    )
    assert 0.4 < some.cost < 0.5
    assert many == release_terms(GNMax(noise_multiplier=40.0), 90_000, target=5.0, delta=1e-5)


def test_agreeing_teachers_have_a_small_public_cost():
    agreeing = ensemble([[245, 3, 2, 0]] * 500)
    aggregation = GNMax(noise_multiplier=30.0)
    chosen = release_terms(aggregation, 500, target=4.0, delta=1e-5)
    found = drawn(aggregation, agreeing, seed=1, chosen=chosen)
    assert chosen.cost < found[0] < 0.6 * data_independent_guarantee(aggregation, 500, delta=1e-5).epsilon


def histograms(teachers, labels):
    """All ways to vote on one query."""
    rows = itertools.product(range(teachers + 1), repeat=labels)
    return [row for row in rows if sum(row) == teachers]


def within_reach(teachers):
    """For all votes on two queries with three labels: what one teacher can make of them, and f."""
    rows = histograms(teachers, 3)
    one = {row: [row, *map(tuple, neighbours(row))] for row in rows}
    return {pair: list(itertools.product(*(one[row] for row in pair))) for pair in itertools.product(rows, rows)}


@pytest.mark.parametrize(
    "aggregation", [CHECKED[0], ConfidentGNMax(noise_multiplier=0.7, threshold=3.0, threshold_noise_multiplier=0.9)]
)
def test_smooth_sensitivity_of_all_votes_of_a_few_teachers(aggregation):
    """The largest change by one teacher of what d teachers can make of the votes, by trying all."""
    beta, moves = 0.2, within_reach(4)
    costs = {}
    for pair in moves:
        lattice, places = pate_release._divergence_grid(aggregation, ensemble(pair), TERMS.order)
        smooth = pate_release._smooth_sensitivity(lattice, places, beta)
        costs[pair] = (float(lattice[tuple(places)].sum()), smooth)
    local = {pair: max(abs(costs[pair][0] - costs[to][0]) for to in moves[pair]) for pair in moves}
    widest, exact = dict(local), dict(local)
    for distance in range(1, 5):
        widest = {pair: max(widest[to] for to in moves[pair]) for pair in moves}
        exact = {pair: max(exact[pair], math.exp(-beta * distance) * widest[pair]) for pair in moves}
    assert all(exact[pair] <= costs[pair][1] * (1 + 1e-12) for pair in moves)
    assert all(
        abs(math.log(costs[pair][1] / costs[to][1])) <= beta * (1 + 1e-9) for pair in moves for to in moves[pair]
    )
    assert max(exact.values()) > 0.2 * max(smooth for _, smooth in costs.values())


@pytest.mark.parametrize("aggregation", CHECKED)
@pytest.mark.parametrize("row", [(9, 1, 0), (6, 4, 0), (5, 3, 2), (10, 0, 0)])
def test_the_cost_of_checked_votes_against_all_outcomes(aggregation, row):
    """Renyi divergence of "no answer, or which" between these votes and those one teacher can make of them."""
    costs, places = pate_release._divergence_grid(aggregation, ensemble([row]), TERMS.order)
    own = outcomes(row, aggregation)
    for other in (outcomes(each, aggregation) for each in neighbours(row)):
        exact = np.logaddexp.reduce(TERMS.order * own - (TERMS.order - 1) * other) / (TERMS.order - 1)
        assert exact <= costs[tuple(places)][0] * (1 + 1e-9) + 1e-6


def test_a_public_cost_of_checked_answers():
    """Where most queries are answered by agreeing teachers it is below what holds whatever the votes are."""
    confident = ConfidentGNMax(noise_multiplier=30.0, threshold=150.0, threshold_noise_multiplier=60.0)
    chosen = release_terms(confident, 500, target=4.0, delta=1e-5)
    found = drawn(confident, ensemble([[245, 3, 2, 0]] * 500), seed=1, chosen=chosen)
    assert chosen.cost < found[0] < 0.6 * data_independent_guarantee(confident, 500, delta=1e-5).epsilon


def test_too_many_teachers_whose_votes_are_checked():
    confident = ConfidentGNMax(noise_multiplier=400.0, threshold=500.0, threshold_noise_multiplier=100.0)
    with pytest.raises(UnsupportedError, match="at most 707 teachers"):
        drawn(confident, ensemble([[900, 100]]), seed=1)


@pytest.mark.parametrize("wrong", [{"order": 1.0}, {"smoothness": 0.0}, {"noise": math.inf}])
def test_terms_without_meaning(wrong):
    with pytest.raises(InputError, match="expected"):
        ReleaseTerms(**{"order": 9.0, "smoothness": 0.03, "noise": 5.0, **wrong})


def test_no_release_where_nothing_costs_anything():
    with pytest.raises(InputError, match="epsilon above 0, got 0; publish that one"):
        release_terms(GNMax(noise_multiplier=1e6), 1, target=None, delta=1e-5)
