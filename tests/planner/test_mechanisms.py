"""Plans of any mechanism: every accountant, another library, binomial sums, and what is refused."""

import math
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution as google

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.errors import UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, Exponential, RandomizedResponse, RdpTable, Zcdp
from dpcalc.planner.compare import compare
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.thinning import thinned

ADD, REPLACE, ZERO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
FIXED, POISSON = Fixed(size=50), Poisson(probability=Fraction(1, 100))
EXAMPLES = {
    "gaussian": Gaussian(noise_multiplier=2.0),
    "laplace": Laplace(noise_multiplier=2.0),
    "randomized-response": RandomizedResponse(truth_probability=0.75),
    "approximate-dp": ApproximateDp(epsilon=0.5, delta=1e-9),
    "zcdp": Zcdp(rho=0.1),
    "discrete-gaussian": DiscreteGaussian(noise_multiplier=2.0),
    "discrete-laplace": DiscreteLaplace(noise_multiplier=2.0),
    "exponential": Exponential(epsilon=0.5),
    "rdp-curve": RdpTable(curve=((2.0, 0.2), (8.0, 0.8), (64.0, 6.4))),
}


def phase(mechanism, *levels, clip=None, steps=20):
    clip = len(levels) if clip is None else clip
    return Phase(name=mechanism.name, hierarchy=Hierarchy(levels=levels), mechanism=mechanism, clip=clip, steps=steps)


def flat(scheme, *, count=1000, held=1):
    return Level(name="record", count=count, scheme=scheme, redraw_every=held)


def plan(*phases, adjacency=ADD, unit=1, group_size=1):
    return Plan(phases=phases, unit=unit, adjacency=adjacency, delta=1e-5, group_size=group_size)


def epsilon(*phases, adjacency=ADD, unit=1, method="auto"):
    return guarantee(plan(*phases, adjacency=adjacency, unit=unit), method=method).epsilon


GRID = {"value_discretization_interval": 1e-5}


def google_epsilon(*parts, grid=1e-4):
    """Of the other library, composed call by call: it forgets the count of some mechanisms."""
    total = google.identity(value_discretization_interval=grid)
    for part, count in parts:
        for _ in range(count):
            total = total.compose(part)
    return total.get_epsilon_for_delta(1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize(("sigma", "scale", "truth", "steps"), thinned([(5.0, 8.0, 0.6, 3), (20.0, 30.0, 0.55, 10)], 1))
def test_three_mechanisms_exchanged_records(sigma, scale, truth, steps):
    """Nothing sampled: sensitivities 2 and 2, and the answers; both upper ends, and ours from below."""
    run = plan(
        phase(Gaussian(noise_multiplier=sigma), flat(All()), steps=steps),
        phase(Laplace(noise_multiplier=scale), flat(All()), steps=steps),
        phase(RandomizedResponse(truth_probability=truth), flat(All()), steps=steps),
        adjacency=REPLACE,
    )
    theirs = google_epsilon(
        (google.from_gaussian_mechanism(sigma, sensitivity=2.0, **GRID), steps),
        (google.from_laplace_mechanism(scale, sensitivity=2.0, **GRID), steps),
        (google.from_randomized_response(2 * (1 - truth), 2, **GRID), steps),
        grid=1e-5,
    )
    assert guarantee(run).epsilon == pytest.approx(theirs, rel=1e-4)
    trees = [*composed(run).steps.values()]
    assert max(epsilon_bounds(counts, delta=run.delta, sides=(LOWER,))[0] for counts in trees) <= theirs


def binomial_delta(epsilon, truth, steps):
    """Answers of one record against the other: steps independent bits."""
    total = 0.0
    for true in range(steps + 1):
        p = math.comb(steps, true) * truth**true * (1 - truth) ** (steps - true)
        q = math.comb(steps, true) * truth ** (steps - true) * (1 - truth) ** true
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_answers_against_the_binomial_sum(steps):
    found = epsilon(phase(RandomizedResponse(truth_probability=0.6), flat(All()), steps=steps), adjacency=REPLACE)
    assert binomial_delta(found, 0.6, steps) <= 1e-5
    assert binomial_delta(found * (1 - 1e-3), 0.6, steps) > 1e-5


def test_held_draws_of_answers_against_the_binomial_sum():
    """Whoever answers is known: delta(eps) averaged over how many of the two draws hold the record."""
    held = 5
    level = flat(Poisson(probability=Fraction(1, 4)), held=held)
    mechanism = RandomizedResponse(truth_probability=0.6)
    found = epsilon(phase(mechanism, level, steps=2 * held), adjacency=REPLACE)

    def delta(at):
        weights = {0: 9 / 16, 1: 6 / 16, 2: 1 / 16}
        return sum(weight * binomial_delta(at, 0.6, hits * held) for hits, weight in weights.items() if hits)

    assert delta(found) <= 1e-5
    assert delta(found * (1 - 1e-3)) > 1e-5


def test_contributions_and_the_draw_above():
    """Four records of a user are four clip norms; a tenth of the groups is drawn and revealed."""
    group = Level(name="group", count=10, scheme=Fixed(size=1))
    user = Level(name="user", count=20, scheme=All())
    record = Level(name="record", count=4, scheme=All())
    found = delta_of(
        plan(phase(Laplace(noise_multiplier=8.0), group, user, record, steps=1), unit=2), epsilon=0.2
    ).delta
    assert found == pytest.approx(-math.expm1((0.2 - 0.5) / 2) / 10, rel=1e-3)  # Laplace at distance 4 / 8


@pytest.mark.heavy
def test_with_next_to_no_noise_epsilon_is_a_large_number():
    """A step of losses of 1000, and of 500,000: it is drawn at least once, and at most always."""
    for mechanism, largest in ((Laplace(noise_multiplier=1e-3), 1e3), (DiscreteGaussian(noise_multiplier=1e-3), 5e5)):
        assert largest - 20 <= epsilon(phase(mechanism, flat(POISSON))) <= 10 * largest
    assert epsilon(phase(ApproximateDp(epsilon=0.1, delta=1e-2), flat(POISSON))) == math.inf


def test_zcdp_is_the_divergence_of_a_gaussian():
    """rho = 1 / (2 sigma^2) has the curve of Gaussian noise, known here at whole orders only."""
    gaussian = epsilon(phase(Gaussian(noise_multiplier=5.0), flat(All())), method="rdp")
    assert gaussian <= epsilon(phase(Zcdp(rho=0.02), flat(All()))) <= gaussian * 1.01
    assert epsilon(phase(Zcdp(rho=0.02, omega=4.0), flat(All()))) > gaussian


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (plan(phase(EXAMPLES["randomized-response"], flat(All()))), "replace-one"),
        (
            plan(
                phase(EXAMPLES["randomized-response"], flat(All()), Level(name="word", count=3, scheme=All())),
                adjacency=REPLACE,
            ),
            "to be protected, got record",
        ),
    ],
)
def test_refusals(run, words):
    with pytest.raises(UnsupportedError, match=words):
        guarantee(run)


@pytest.mark.heavy
def test_a_comparison_of_mixed_phases():
    phases = (phase(EXAMPLES["gaussian"], flat(FIXED)), phase(EXAMPLES["randomized-response"], flat(FIXED)))
    rows = {row.method: row for row in compare(plan(*phases, adjacency=REPLACE)) if row.bound != "flat Poisson"}
    assert rows["pld"].epsilon < rows["optimal"].epsilon < rows["basic"].epsilon
    flat_rows = [row for row in compare(plan(*phases, adjacency=REPLACE)) if row.bound == "flat Poisson"]
    assert len(flat_rows) == 2  # of several phases TF-Privacy has no statement
    assert all(row.epsilon is None and "Gaussian" in row.note for row in flat_rows)
    assert evaluate(plan(*phases, adjacency=REPLACE)).guarantee.epsilon_lower is None


@pytest.mark.heavy
def test_solving_for_noise():
    run = plan(phase(EXAMPLES["laplace"], flat(POISSON)))
    found = solve(run, "sigma", goal=EpsilonGoal(limit=0.1))
    assert 0.099 < guarantee(found.plan).epsilon <= 0.1
    with pytest.raises(UnsupportedError, match="solve for steps or rate"):
        solve(plan(phase(EXAMPLES["zcdp"], flat(POISSON))), "sigma", goal=EpsilonGoal(limit=0.1))
    steps = solve(plan(phase(EXAMPLES["exponential"], flat(POISSON))), "steps", goal=EpsilonGoal(limit=0.5)).value
    assert steps > 20


@pytest.mark.parametrize(("scheme", "adjacency"), [(All(), ADD), (POISSON, ADD), (FIXED, REPLACE)])
def test_a_curve_of_all_whole_orders_is_what_it_was_taken_from(scheme, adjacency):
    curve = tuple((float(order), 0.1 * order) for order in range(2, 257))
    table, zcdp = (
        epsilon(phase(one, flat(scheme), steps=100), adjacency=adjacency)
        for one in (RdpTable(curve=curve), Zcdp(rho=0.1))
    )
    assert table == pytest.approx(zcdp, rel=1e-3)
    few = epsilon(phase(RdpTable(curve=curve[:1] + curve[6:8]), flat(scheme), steps=100), adjacency=adjacency)
    assert few >= table * (1 - 1e-9)


def test_an_epsilon_beside_a_curve_helps():
    curve = ((2.0, 0.01), (4.0, 0.02))
    runs = [
        epsilon(phase(RdpTable(curve=curve, epsilon=pure), flat(scheme)), adjacency=REPLACE)
        for scheme in (All(), FIXED)
        for pure in (math.inf, 0.02)
    ]
    assert runs[1] < runs[0]
    assert runs[3] < runs[2]


def test_the_factor_of_the_poisson_bound():
    """Of Gaussian noise the odd moments are known, and the bound without the factor is exact: the golden pair."""
    curve = tuple((float(order), order / 32) for order in range(2, 257))
    run = [
        epsilon(phase(RdpTable(curve=curve, odd_moments=known), flat(POISSON), steps=10_000))
        for known in ("unknown", "nonnegative")
    ]
    exact = epsilon(phase(Gaussian(noise_multiplier=4.0), flat(POISSON), steps=10_000), method="rdp")
    assert run[0] > run[1]
    assert run[1] == pytest.approx(exact, rel=2e-3)
    assert run[1] >= exact


def test_a_curve_that_ends_below_order_2_knows_no_theorem_on_draws_but_that_a_draw_may_be_told():
    low, rate = RdpTable(curve=((1.5, 0.1),)), 0.01
    one_step = math.log1p(rate * math.expm1(0.5 * 0.1)) / 0.5
    told = RdpTable(curve=((1.5, one_step),))
    assert epsilon(phase(low, flat(POISSON))) == pytest.approx(epsilon(phase(told, flat(All()))), rel=1e-9)
