"""What PATE costs: against exact distributions of the winner, the published analyses, and laws."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from dpcalc.mechanisms.black_box import ConfidentGNMax, GNMax, LNMax, Votes, louder, other_wins_bound
from dpcalc.pate import (
    data_dependent_guarantee,
    data_independent_guarantee,
    max_queries,
    max_queries_by_votes,
    min_noise,
    published_rows,
)
from tests.oracles.ballots import ensemble, gaussian, laplace, log_winner, neighbours, synthetic

DELTA = 1e-5
ROWS = ([6, 2, 2], [8, 1, 1], [4, 3, 3], [9, 1, 0], [10, 0, 0], [5, 5, 0], [6, 4, 0], [30, 2, 1])
ORDERS = np.array([0.3, 1.0, 3.0, 10.0, 30.0])
NOISES = [
    (GNMax(noise_multiplier=2.0), gaussian(2.0)),
    (GNMax(noise_multiplier=0.8), gaussian(0.8)),
    (LNMax(gamma=0.5), laplace(2.0)),
    (LNMax(gamma=0.1), laplace(10.0)),
]
CONFIDENT = ConfidentGNMax(noise_multiplier=40.0, threshold=200.0, threshold_noise_multiplier=150.0)
ALL = [LNMax(gamma=0.05), GNMax(noise_multiplier=40.0), CONFIDENT]


def chances(aggregation, votes):
    return other_wins_bound(aggregation, votes)


def moment(log_p, log_q, z):
    return np.logaddexp.reduce((z + 1) * log_p - z * log_q)


@pytest.mark.heavy
@pytest.mark.parametrize(("aggregation", "noise"), NOISES, ids=[str(aggregation) for aggregation, _ in NOISES])
def test_no_neighbour_is_told_apart_better_than_the_bound_says(aggregation, noise):
    nearest = 0.0
    for row in ROWS:
        votes = ensemble([row])
        own = log_winner(row, noise)
        other_wins = math.exp(np.logaddexp.reduce(np.delete(own, np.argmax(row))))
        assert other_wins <= chances(aggregation, votes)[0] * (1 + 1e-6)
        for doubt in (chances(aggregation, votes), np.array([other_wins])):
            ahead, back = (each[0] for each in aggregation.log_moments(doubt, votes.top, ORDERS))
            for neighbour in neighbours(row):
                other = log_winner(neighbour, noise)
                for z, one, two in zip(ORDERS, ahead, back, strict=True):
                    for truth, bound in ((moment(own, other, z), one), (moment(other, own, z), two)):
                        assert truth <= bound * (1 + 1e-6) + 1e-12
                        nearest = max(nearest, truth / (bound + 1e-9))
    assert nearest > 0.5  # the bound is no more than twice what a data set attains


@pytest.mark.parametrize(
    "aggregation", [LNMax(gamma=0.05), GNMax(noise_multiplier=40.0), LNMax(gamma=1.0), GNMax(noise_multiplier=3.0)]
)
@pytest.mark.parametrize("lead", [0, 1, 7, 40])
def test_the_chance_that_one_label_overtakes_another(aggregation, lead):
    with mpmath.workdps(30):
        if isinstance(aggregation, GNMax):
            exact = mpmath.erfc(mpmath.mpf(lead) / (2 * aggregation.noise_multiplier)) / 2
        else:
            g = mpmath.mpf(aggregation.gamma)  # P(Z1 > lead + Z2), Laplace both
            tail = lambda x: mpmath.exp(-g * x) / 2 if x >= 0 else 1 - mpmath.exp(g * x) / 2  # noqa: E731
            density = lambda x: g / 2 * mpmath.exp(-g * abs(x))  # noqa: E731
            edges = [-mpmath.inf, -lead, 0, mpmath.inf] if lead else [-mpmath.inf, 0, mpmath.inf]
            exact = mpmath.quad(lambda x: tail(lead + x) * density(x), edges)
        assert aggregation.overtake_probability(np.array([float(lead)]))[0] == pytest.approx(float(exact), rel=1e-9)


@mpmath.workdps(40)
def test_the_check_of_confident_gnmax_is_exact():
    top = np.array([230, 200, 150, 40])
    silent = replace(CONFIDENT, noise_multiplier=1e9, threshold_noise_multiplier=20.0)  # labels that tell nothing
    ahead, back = silent.log_moments(np.full(4, 0.5), top, ORDERS)
    for row, count in enumerate(top):
        p = mpmath.ncdf((mpmath.mpf(int(count)) - 200) / 20)
        for place, z in enumerate(ORDERS):
            q = [mpmath.ncdf((mpmath.mpf(int(count)) + step - 200) / 20) for step in (-1, 0, 1)]
            one = max(mpmath.log(p ** (z + 1) / x**z + (1 - p) ** (z + 1) / (1 - x) ** z) for x in q)
            two = max(mpmath.log(x ** (z + 1) / p**z + (1 - x) ** (z + 1) / (1 - p) ** z) for x in q)
            assert float(one) <= ahead[row, place] <= float(one) * (1 + 1e-5) + 1e-13
            assert float(two) <= back[row, place] <= float(two) * (1 + 1e-5) + 1e-13


@mpmath.workdps(60)
def test_a_check_with_little_noise_far_from_the_threshold():
    sharp = replace(CONFIDENT, noise_multiplier=1e9, threshold_noise_multiplier=0.02)
    ahead, _ = sharp.log_moments(np.array([0.5]), np.array([199]), np.array([60.0]))
    p, q = mpmath.ncdf(mpmath.mpf(-50)), mpmath.ncdf(mpmath.mpf(-100))  # the neighbour with one vote less
    truth = mpmath.log(p**61 / q**60 + (1 - p) ** 61 / (1 - q) ** 60)
    other = mpmath.mpf(1) / 2  # and the one with a vote more, at the threshold
    truth = max(truth, mpmath.log(p**61 / other**60 + (1 - p) ** 61 / other**60))
    assert float(truth) <= ahead[0, 0] <= float(truth) * (1 + 1e-6)
    assert truth > 1e4


def test_confident_gnmax_that_always_or_never_answers():
    votes = synthetic(40)
    whole = data_dependent_guarantee(GNMax(noise_multiplier=40.0), votes, delta=DELTA).guarantee.epsilon
    always = replace(CONFIDENT, threshold=-1e6, threshold_noise_multiplier=100.0)
    never = replace(CONFIDENT, threshold=1e6, threshold_noise_multiplier=100.0)
    assert data_dependent_guarantee(always, votes, delta=DELTA).guarantee.epsilon == pytest.approx(whole, rel=1e-4)
    assert data_dependent_guarantee(never, votes, delta=DELTA).guarantee.epsilon < 0.02
    assert list(np.exp(always.log_check_probabilities(votes.top)[0])) == pytest.approx([1.0] * 40)
    assert list(np.exp(never.log_check_probabilities(votes.top)[0])) == pytest.approx([0.0] * 40)


# What TF-Privacy's research scripts (03035d5, 2026-04) print for synthetic(100) and synthetic(1000), delta 1e-5:
# pate_2017/analysis.py with 8 moments for LNMax; pate_2018/core.py for GNMax (data-independent, data-dependent).
RECORDED = [
    (100, LNMax(gamma=0.05), 5.302585092994046, 2.064316503252266),
    (1000, LNMax(gamma=0.05), 20.75646273248512, 7.610625876760011),
    (100, GNMax(noise_multiplier=40.0), 1.7590592937014984, 1.225314835309749),
    (1000, GNMax(noise_multiplier=40.0), 5.995927881104495, 4.40916202864441),
    (100, GNMax(noise_multiplier=100.0), 0.6886154548520655, 0.6886154548520658),
    (1000, GNMax(noise_multiplier=100.0), 2.2464690919019263, 2.2464690919019157),
]


@pytest.mark.parametrize(("queries", "aggregation", "whatever", "of_votes"), RECORDED)
def test_the_published_analyses(queries, aggregation, whatever, of_votes):
    rows = published_rows(aggregation, synthetic(queries), delta=DELTA)
    assert [row.epsilon for row in rows] == pytest.approx([whatever, of_votes], rel=1e-8)
    assert [str(row.kind) for row in rows] == ["as-published"] * 2
    assert data_independent_guarantee(aggregation, queries, delta=DELTA).epsilon < whatever
    assert data_dependent_guarantee(aggregation, synthetic(queries), delta=DELTA).guarantee.epsilon < of_votes


@mpmath.workdps(60)
@pytest.mark.parametrize(
    "aggregation",
    [GNMax(noise_multiplier=0.02), replace(CONFIDENT, threshold_noise_multiplier=0.01), GNMax(noise_multiplier=40.0)],
)
@pytest.mark.parametrize("delta", [1e-5, 1e-295])
def test_epsilon_beyond_the_floats_of_the_profile(aggregation, delta):
    check = (
        1 / mpmath.mpf(aggregation.threshold_noise_multiplier) ** 2 if isinstance(aggregation, ConfidentGNMax) else 0
    )
    mu = mpmath.sqrt(10 * (2 / mpmath.mpf(aggregation.noise_multiplier) ** 2 + check))
    epsilon = mpmath.mpf(data_independent_guarantee(aggregation, 10, delta=delta).epsilon)
    truth = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    assert truth <= delta
    assert epsilon < mu**2 / 2 + mu * mpmath.sqrt(-2 * mpmath.log(delta)) + 1e-6


@pytest.mark.parametrize("aggregation", ALL)
def test_laws(aggregation):
    votes = synthetic(60)

    def cost(changed, cast=votes, delta=DELTA):
        return data_dependent_guarantee(changed, cast, delta=delta).guarantee.epsilon

    here = cost(aggregation)
    assert 0 < here <= data_independent_guarantee(aggregation, 60, delta=DELTA).epsilon
    assert cost(aggregation, delta=1e-9) > here
    assert cost(aggregation, ensemble(votes.counts[:59].tolist())) < here
    assert cost(aggregation, ensemble(votes.counts[::-1].tolist())) == pytest.approx(here, rel=1e-12)
    assert cost(aggregation, Votes(counts=votes.counts[:, ::-1], teachers=250)) == pytest.approx(here, rel=1e-12)
    unanimous = ensemble([[250, 0, 0, 0]] * 60)
    split = ensemble([[126, 124, 0, 0]] * 60)
    assert cost(aggregation, unanimous) < here < cost(aggregation, split)
    assert (
        data_independent_guarantee(louder(aggregation, 1.1), 60, delta=DELTA).epsilon
        < data_independent_guarantee(aggregation, 60, delta=DELTA).epsilon
    )


@pytest.mark.parametrize("aggregation", ALL)
def test_what_a_budget_buys(aggregation):
    target = 1.5
    most = max_queries(aggregation, target=target, delta=DELTA)
    assert data_independent_guarantee(aggregation, most, delta=DELTA).epsilon <= target
    assert data_independent_guarantee(aggregation, most + 1, delta=DELTA).epsilon > target
    votes = synthetic(2000)
    fitting = max_queries_by_votes(aggregation, votes, target=target, delta=DELTA)
    assert most < fitting < 2000
    assert (
        data_dependent_guarantee(aggregation, ensemble(votes.counts[:fitting].tolist()), delta=DELTA).guarantee.epsilon
        <= target
    )
    more = ensemble(votes.counts[: math.ceil(1.02 * fitting)].tolist())
    assert data_dependent_guarantee(aggregation, more, delta=DELTA).guarantee.epsilon > target


@pytest.mark.parametrize("aggregation", ALL)
@pytest.mark.parametrize("target", [0.1, 3.0, 50.0])
def test_the_least_noise(aggregation, target):
    least = min_noise(aggregation, 1000, target=target, delta=DELTA)
    assert data_independent_guarantee(least, 1000, delta=DELTA).epsilon <= target
    assert data_independent_guarantee(louder(least, 1 - 1e-6), 1000, delta=DELTA).epsilon > target
