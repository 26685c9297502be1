"""Where dp_accounting and prv_accountant are right, all three agree to what each can resolve."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as google
from dp_accounting.rdp import RdpAccountant

from dpcalc.config.load import load
from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import composed_moments
from dpcalc.mechanisms.additive import Laplace
from dpcalc.mechanisms.black_box import RandomizedResponse
from dpcalc.planner.composition import FORWARD, composed
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import theorem_3_row
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.oracles.exact_gaussian import exact_epsilon
from tests.oracles.test_capped import flat_plan
from tests.peers.settings import (
    NEIGHBORS,
    ROWS,
    Flat,
    exact_gaussian,
    fixed,
    flat,
    google_pld,
    google_rdp,
    google_slack,
    our_rdp,
    ours,
    plan,
    prv,
)
from tests.thinning import thinned

RESOLVED = 1e-3  # relative: the slack of dp_accounting's grid where we call the two in agreement

POISSON, OTHER_RELATIONS, PRV = ([flat(*row) for row in ROWS[name]] for name in ("poisson", "other relations", "prv"))


def assert_pld_agrees(theirs, interval, slack):
    """Pessimistic as it is, theirs is not below our lower end, and above our upper end by their grid at most."""
    lower, upper = interval
    assert slack < RESOLVED * lower
    assert lower <= theirs <= upper + slack


@pytest.mark.heavy
@pytest.mark.parametrize("run", thinned(POISSON + OTHER_RELATIONS, 5), ids=str)
def test_dp_accounting_pld(run):
    assert_pld_agrees(google_pld(run), ours(run.plan), google_slack(run))


FIXED_RUNS = [(600, 60_000, Flat("1/100", 4, 10_000, 1e-5)), (20, 1_000, Flat("1/50", 2, 1_000, 1e-5))]


@pytest.mark.parametrize(("size", "count", "run"), thinned(FIXED_RUNS, 1))
def test_fixed_batches_cost_what_poisson_costs_at_half_the_noise(size, count, run):
    """A removed example is replaced in the batch by a sibling: Lebeda et al. 2024 (2405.20769)."""
    halved = replace(run, sigma=run.sigma / 2)
    assert_pld_agrees(google_pld(halved), ours(fixed(size, count, run)), google_slack(halved))


@pytest.mark.heavy
def test_users_of_eight_records_in_fixed_batches_cost_sixteen_times_the_shift():
    run = Flat("1/100", 20, 2_000, 1e-6)
    users = plan(
        Level(name="user", count=5_000, scheme=Fixed(size=50)), Level(name="record", count=8, scheme=All()), run=run
    )
    by_user = replace(users, unit=1)
    scaled = replace(run, sigma=run.sigma / 16)
    assert_pld_agrees(google_pld(scaled), ours(by_user), google_slack(scaled))


def test_theorem_3_is_the_flat_pair_at_the_product_of_rates():
    run = Flat("1/200", 6, 20_000, 1e-5)
    nested = plan(
        Level(name="task", count=200, scheme=Fixed(size=4)),
        Level(name="example", count=20, scheme=Fixed(size=5)),
        run=run,
    )
    flat = replace(run, sigma=run.sigma / 2)
    printed = theorem_3_row(nested).epsilon
    assert_pld_agrees(google_pld(flat), (printed * (1 - 1e-4), printed), google_slack(flat))


@pytest.mark.heavy
def test_two_phases_compose():
    warm_up, main = Flat("256/60000", 1.3, 3_516, 1e-5), Flat("1024/60000", 1.0, 586, 1e-5)
    phases = tuple(replace(run.plan.phases[0], name=name) for name, run in (("warm-up", warm_up), ("main", main)))
    both = Plan(phases=phases, unit=1, adjacency=Adjacency.ADD_REMOVE, delta=1e-5)
    theirs = PLDAccountant()
    for run in (warm_up, main):
        theirs.compose(run.event, run.steps)
    # each phase alone decides at a larger order than both together
    assert_pld_agrees(theirs.get_epsilon(1e-5), ours(both), google_slack(warm_up) + google_slack(main))


@pytest.mark.parametrize("run", POISSON, ids=str)
def test_dp_accounting_rdp_is_never_tighter_and_close(run):
    """Same divergences, same conversion: what differs is that our order is continuous, theirs from a list."""
    theirs = google_rdp(run)
    mine = our_rdp(run.plan)
    assert ours(run.plan)[0] <= mine <= theirs * (1 + 1e-9)
    assert theirs <= 1.02 * mine


@pytest.mark.parametrize("run", POISSON, ids=str)
def test_renyi_divergences_of_whole_orders(run):
    """D||D', the larger direction and the only one dp_accounting computes."""
    orders = [2, 3, 8, 20, 64]
    theirs = RdpAccountant(orders).compose(run.event, run.steps).rdp
    z = np.array(orders) - 1.0
    mine, _ = composed_moments(composed(run.plan).steps[FORWARD], max_order=63.0).cumulants(z)
    assert mine / z == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-12])
@pytest.mark.parametrize("mu", [0.5, 1, 4])
def test_closed_forms_of_the_gaussian(mu, delta):
    assert dp_accounting.get_epsilon_gaussian(1 / mu, delta) == pytest.approx(exact_gaussian(mu, delta), rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("run", thinned(PRV, 1), ids=str)
def test_prv_accountant_interval_holds_ours(run):
    low, high = prv(run)
    lower, upper = ours(run.plan)
    assert low <= lower <= upper <= high
    assert math.isclose(high - low, 0.02, rel_tol=0.05)  # its interval, a hundred times ours
    assert upper - lower < 1e-3 * upper


@pytest.mark.heavy
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("draw", "sigma"), [((4_000, Fraction(1, 100), 50), 1.0), ((30, Fraction(1, 6), 5), 2.0)])
def test_cut_batches_cost_no_more_than_dp_accounting_says(adjacency, draw, sigma):
    """It takes the pair of replace-one for full batches under every relation."""
    count, rate, cap = draw
    event = dp_event.TruncatedSubsampledGaussianDpEvent(count, float(rate), cap, sigma)
    accountant = PLDAccountant(NEIGHBORS[adjacency], value_discretization_interval=1e-3)
    theirs = accountant.compose(event, 100).get_epsilon(1e-5)
    mine = evaluate(flat_plan(*draw, sigma=sigma, steps=100, adjacency=str(adjacency))).guarantee
    assert mine.epsilon_lower <= mine.epsilon <= theirs
    if count == 4_000:  # where rates are small their pair is nearly that of the adjacency, zero-out excepted
        assert theirs <= mine.epsilon * (1.3 if adjacency is Adjacency.ZERO_OUT else 1.01)


@pytest.mark.heavy
@pytest.mark.parametrize(("members", "rate", "sigma", "steps"), [(5, "256/60000", 3.0, 4000), (3, "1/20", 10.0, 500)])
def test_groups_under_one_poisson_draw_are_its_mixtures_of_gaussians(members, rate, sigma, steps):
    q = Fraction(rate)
    chances = [float(math.comb(members, k) * q**k * (1 - q) ** (members - k)) for k in range(members + 1)]
    event = dp_event.MixtureOfGaussiansDpEvent(sigma, [float(k) for k in range(members + 1)], chances)
    theirs = PLDAccountant(value_discretization_interval=1e-4).compose(event, steps).get_epsilon(1e-5)
    level = Level(name="example", count=60_000, scheme=Poisson(probability=q))
    mine = evaluate(replace(plan(level, run=Flat(rate, sigma, steps, 1e-5)), group_size=members)).guarantee
    assert mine.tight
    assert mine.epsilon_lower <= theirs <= mine.epsilon * (1 + 1e-3)


@pytest.mark.heavy
@pytest.mark.parametrize(("sigma", "scale", "truth", "steps"), thinned([(5.0, 8.0, 0.6, 3), (20.0, 30.0, 0.55, 10)], 1))
def test_three_mechanisms_exchanged_records(sigma, scale, truth, steps):
    """Nothing sampled: sensitivities 2 and 2, and the answers; composed call by call, as some counts are forgotten."""
    run = Flat("1", sigma, steps, 1e-5, Adjacency.REPLACE_ONE)
    noises = None, Laplace(noise_multiplier=scale), RandomizedResponse(truth_probability=truth)
    plans = [plan(Level(name="record", count=1000, scheme=All()), run=run, mechanism=noise) for noise in noises]
    phases = tuple(replace(each.phases[0], name=f"{at}") for at, each in enumerate(plans))
    grid, total = {"value_discretization_interval": 1e-5}, google.identity(value_discretization_interval=1e-5)
    for part in (
        google.from_gaussian_mechanism(sigma, sensitivity=2.0, **grid),
        google.from_laplace_mechanism(scale, sensitivity=2.0, **grid),
        google.from_randomized_response(2 * (1 - truth), 2, **grid),
    ):
        for _ in range(steps):
            total = total.compose(part)
    theirs = total.get_epsilon_for_delta(1e-5)
    assert guarantee(replace(plans[0], phases=phases)).epsilon == pytest.approx(theirs, rel=1e-4)


# Sample configs against numbers that others give, or that are known exactly.


def of_sample(name, *assignments):
    path = Path(__file__).parents[2] / "sample_configs" / f"{name}.yaml"
    return guarantee(load(str(path), assignments=assignments).plan).epsilon


def test_a_draw_held_for_ten_steps_is_one_draw_of_less_noise():
    held = of_sample("held_tasks")
    assert held == pytest.approx(google_pld(Flat("1/10", 12 / math.sqrt(10), 200, 1e-5)), rel=1e-3)
    assert held > google_pld(Flat("1/10", 12, 2000, 1e-5)) * 1.01  # what ten steps of rate 0.1 would say


@pytest.mark.parametrize(("relation", "distance"), [("replace-one", 2), ("zero-out", 1)])
def test_an_epoch_of_a_shuffle_is_one_release(relation, distance):
    exact = float(exact_epsilon(10, 10.0 / distance, 1e-5))
    assert exact <= of_sample("mnist_shuffle", f"privacy.adjacency={relation}") <= exact * (1 + 1e-4)


def test_one_task_a_step_is_one_draw_of_a_record():
    """A clipped task that holds the record, 5/64 * 16/600 = 1/480, changes as one of 480 that is replaced does."""
    built = of_sample("mini_imagenet_5way_1shot", "sampling.episodes.tasks=1")
    level = ("data.levels[0].count=1", "data.levels[1].count=480", "sampling.class.scheme=all")
    drawn = ("sampling.image.scheme=fixed", "sampling.image.size=1", "mechanism.clip=image")
    flat = of_sample("mini_imagenet_5way_1shot", *level, *drawn, "privacy.adjacency=replace-one")
    assert built == pytest.approx(flat, rel=1e-9)


def test_a_group_of_five():
    assert of_sample("mnist_group") == pytest.approx(1.848027, rel=1e-4)  # by inversion of its characteristic function
    in_fixed = of_sample("mnist_group", "sampling.scheme=fixed", "training.batch_size=256")
    assert 2.4108 <= in_fixed <= 3.1716 * (1 + 1e-3)  # what an actual data set costs, and the bound


def test_one_draw_with_replacement_is_one_draw():
    once = ("mnist_with_replacement", "training.batch_size=1", "training.epochs=0.01")
    assert of_sample(*once) == pytest.approx(of_sample(*once, "sampling.scheme=fixed"), rel=1e-9)
