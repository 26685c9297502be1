"""Where a peer is wrong: its number, live, beside ours, which brackets the exact one.

The rows of runs.yaml are of dp_accounting 0.6.0, prv_accountant 0.2.0, NumPy 2.4, SciPy 1.17; other versions of NumPy
move round-off to the other side of the truth. A row that fails because the peer moved is good news: delete it.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import composed_moments
from dpcalc.mechanisms.black_box import Exponential, RandomizedResponse
from dpcalc.planner.composition import FORWARD, composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, Poisson
from tests.peers.settings import (
    NEIGHBORS,
    ROWS,
    Flat,
    exact_gaussian,
    fixed,
    flat,
    google_fft,
    google_pld,
    google_rdp,
    ours,
    plan,
    prv,
)
from tests.thinning import thinned


def assert_wrong(theirs, row, lower, upper):
    """Theirs misses our certified interval on the side that the row says, by more than rounding."""
    if math.isinf(row["peer"]):
        assert math.isinf(theirs)
    elif row["spread"] is not None:
        assert theirs == pytest.approx(row["peer"], abs=row["spread"])
    if row["side"] == "below":
        assert theirs < lower * (1 - 2e-4)
    elif row["side"] == "off":
        assert not lower * (1 - 2e-4) <= theirs <= upper * (1 + 2e-4)
    else:
        assert theirs > max(1.05, row.get("times", 0)) * upper


def assert_brackets(lower, upper, exact):
    assert lower <= exact <= upper
    assert upper - lower < 1e-3 * exact


WRONG = [
    *thinned([("fft", row) for row in ROWS["fft"]], 2),
    *thinned([pytest.param("pld", row, marks=pytest.mark.heavy) for row in ROWS["pld"]], 2),
    *(pytest.param("rdp", row, marks=pytest.mark.heavy) for row in ROWS["rdp"]),
]


@pytest.mark.parametrize(("by", "row"), WRONG, ids=str)
def test_dp_accounting_is_off(by, row):
    run = flat(*row["run"])
    lower, upper = ours(run.plan)
    assert upper - lower < 1e-3 * upper
    if exact := row.get("exact") or ("mean" in row and exact_gaussian(row["mean"], run.delta)):
        assert_brackets(lower, upper, exact)
    assert_wrong({"fft": google_fft, "pld": google_pld, "rdp": google_rdp}[by](run), row, lower, upper)
    if run.adjacency is Adjacency.REPLACE_ONE:
        assert google_pld(run) == pytest.approx(exact, rel=1e-4)  # its other accountant knows


@pytest.mark.heavy
@pytest.mark.parametrize("row", thinned(ROWS["prv interval"], 1), ids=str)
def test_prv_accountant_interval_misses_the_exact_gaussian(row):
    run = flat(*row["run"])
    lower, upper = ours(run.plan)
    assert_brackets(lower, upper, exact_gaussian(row["mean"], run.delta))
    theirs = prv(run)
    assert theirs[0] == pytest.approx(row["low"], abs=row["spread"])
    assert_wrong(theirs[1], row, lower, upper)


def test_prv_accountant_prints_a_negative_lower_end():
    run = Flat("1e-9", 1, 100, 1e-6)
    assert prv(run)[0] == pytest.approx(-0.010, abs=1e-4)
    assert ours(run.plan) == (0, 0)


@pytest.mark.heavy
@pytest.mark.parametrize("row", ROWS["fixed"], ids=str)
def test_dp_accounting_fixed_batches_cost_an_actual_data_set_more_than_its_bound(row):
    """All others at -1, the record at +1 or -1: the flat Poisson pair at half the noise, by its own PLD."""
    run = flat(*row["run"])
    theirs = RdpAccountant(neighboring_relation=NEIGHBORS[run.adjacency]).compose(
        SampledWithoutReplacementDpEvent(1_000, 20, GaussianDpEvent(run.sigma)), run.steps
    )
    lower, upper = ours(fixed(20, 1_000, run))
    assert_wrong(theirs.get_epsilon(run.delta), row, lower, upper)
    by_pld = google_pld(Flat(run.rate, run.sigma / 2, run.steps, run.delta))
    assert by_pld == pytest.approx(row["data_set"], rel=1e-4)
    assert lower <= by_pld <= upper
    assert lower == pytest.approx(row["data_set"], rel=1e-4)


# q, sigma, order, relative excess of dp_accounting's series for a divergence of fractional order
FRACTIONAL = [("1/1000", 0.5, 1.5, 0.0989), ("256/60000", 0.6, 2.9, 0.0019), ("256/60000", 0.6, 2.5, 0.0062)]


@pytest.mark.parametrize(("rate", "sigma", "order", "excess"), FRACTIONAL)
def test_dp_accounting_divergences_of_fractional_order_are_too_large(rate, sigma, order, excess):
    run = Flat(rate, sigma, 1, 1e-5)
    exact = renyi_exact(run.q, sigma, order)
    (theirs,) = RdpAccountant([order]).compose(run.event, 1).rdp
    assert theirs / exact - 1 == pytest.approx(excess, rel=0.02)
    mine, _ = composed_moments(composed(run.plan).steps[FORWARD], max_order=order).cumulants(np.array([order - 1]))
    assert mine[0] / (order - 1) == pytest.approx(exact, rel=1e-9)


def renyi_exact(q, sigma, order):
    """Renyi divergence of (1 - q) N(0) + q N(1) from N(0) by quadrature at thirty digits."""
    with mpmath.workdps(30):
        q, sigma, order = mpmath.mpf(q), mpmath.mpf(sigma), mpmath.mpf(order)

        def integrand(y):
            ratio = 1 - q + q * mpmath.exp((2 * y - 1) / (2 * sigma**2))
            return mpmath.npdf(y, 0, sigma) * ratio**order

        bend = sigma**2 * mpmath.log((1 - q) / q) + mpmath.mpf(1) / 2
        cuts = [-12 * sigma, -4 * sigma, 0, *(bend + k * sigma / 2 for k in (-1, 0, 1, 4, 8, 16, 40))]
        return float(mpmath.log(mpmath.quad(integrand, sorted(cuts))) / (order - 1))


# Repetitions that dp_accounting forgets, however they are written. Release 0.6.0 forgets them for randomized response
# in the accountant of privacy loss distributions; the development version (commit b5b0286e, 2026-08-06) also for the
# exponential mechanism, which 0.6.0 does not have, in the one of Renyi divergences.
FORGOTTEN = 0.103501  # for 1, 2, 10 and 100 choices; composed one by one 0.103501, 0.203501, 0.615800 and 2.165698


def exact_delta(epsilon, steps, truth):
    """The losses of independent bits that are kept with probability `truth`, by the binomial sum."""
    ways = [math.comb(steps, true) for true in range(steps + 1)]
    p = [way * truth**true * (1 - truth) ** (steps - true) for true, way in enumerate(ways)]
    return math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, reversed(p), strict=True))


def of_survey(mechanism, steps):
    run = Flat("1", 1, steps, 1e-5, Adjacency.REPLACE_ONE)
    return guarantee(plan(Level(name="record", count=10, scheme=All()), run=run, mechanism=mechanism)).epsilon


@pytest.mark.parametrize(("steps", "true_epsilon"), [(2, 0.810903), (10, 4.052996), (100, 23.65424)])
def test_dp_accounting_forgets_repeated_answers(steps, true_epsilon):
    """True values: where the binomial sum is delta."""
    assert exact_delta(true_epsilon, steps, 0.6) <= 1e-5 < exact_delta(true_epsilon * (1 - 1e-5), steps, 0.6)
    assert of_survey(RandomizedResponse(truth_probability=0.6), steps) == pytest.approx(true_epsilon, rel=1e-4)
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE, value_discretization_interval=4e-3)
    answers = dp_event.RandomizedResponseDpEvent(noise_parameter=0.8, num_buckets=2)
    said = accountant.compose(answers, steps).get_epsilon(1e-5)
    assert said == pytest.approx(math.log(0.6 / 0.4), abs=4e-3)
    assert exact_delta(said, steps, 0.6) > 1000 * 1e-5


@pytest.mark.parametrize(("steps", "true_epsilon"), [(10, 0.491968), (100, 1.968131)])
def test_dp_accounting_forgets_repeated_choices(steps, true_epsilon):
    """True values: of an exponential mechanism with two answers, whose losses are plus or minus half its epsilon."""
    truth = 1 / (1 + math.exp(-0.05))
    assert exact_delta(true_epsilon, steps, truth) <= 1e-5 < exact_delta(true_epsilon * (1 - 1e-5), steps, truth)
    assert true_epsilon < of_survey(Exponential(epsilon=0.1), steps) < 1.3 * true_epsilon
    event = getattr(dp_event, "ExponentialMechanismDpEvent", None)
    said = FORGOTTEN if event is None else RdpAccountant().compose(event(0.1), steps).get_epsilon(1e-5)
    assert said == pytest.approx(FORGOTTEN, abs=1e-6)
    assert exact_delta(said, steps, truth) > 1000 * 1e-5


@pytest.mark.heavy
def test_one_flat_draw_at_the_product_of_rates_is_too_cheap_for_two_levels_clipped_per_task():
    """What people type instead; below what an actual data set costs, even where all is redrawn in every step."""
    tenth = Poisson(probability=Fraction(1, 10))
    levels = (Level(name="task", count=40, scheme=tenth), Level(name="example", count=20, scheme=tenth))
    two_levels = plan(*levels, run=Flat("1/100", 4, 1_000, 1e-6), clip=1)
    assert ours(two_levels)[0] > google_pld(Flat("1/100", 4, 1_000, 1e-6))


@pytest.mark.heavy
@pytest.mark.parametrize("delta", thinned([1e-14, 1e-15, 1e-30], 1))
def test_tiny_delta_by_prv_accountant(delta):
    run = Flat("1/100", 1, 1_000, delta)
    with pytest.raises(ValueError, match="Floating point errors"):
        prv(run)
    lower, upper = ours(run.plan)
    assert upper - lower < 1e-3 * upper
    assert upper < google_rdp(run)
