"""Steps whose losses are so large that 1 - e^-loss has lost them: ends of epsilon against sums with 50 digits."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.amplification.any_mechanism import step_pair
from dpcalc.amplification.bound import CountPair, MissedBatch, StepBound
from dpcalc.amplification.data_sets import data_set_atoms
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.sampling.schemes import All
from tests.oracles.exact_losses import DIGITS, composed_delta, glued_losses, mixed, pair_losses, whole_noise
from tests.runs import run_of
from tests.thinning import thinned

KINDS = {"discrete-laplace": DiscreteLaplace, "discrete-gaussian": DiscreteGaussian}
BLOCKS = [(0, 12), *(pytest.param(block, 200, marks=pytest.mark.slow) for block in range(1, 6))]
"""(seed, problems): by default, and in the slow suite."""


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(DIGITS):
        yield


def changes_of(mechanism):
    return lambda changes: mechanism.pair(changes) if changes else Loss()


def random_bound(rng, most):
    """(bound, laws ahead, laws back): one of the forms of the one-step bound, by centers on a line."""
    eta = Fraction(int(rng.integers(1, 1000)), 10 ** int(rng.integers(3, 9)))
    form = rng.choice(["unsampled", "missed", "mixture", "replaced"])
    if form == "unsampled":
        shift = int(rng.integers(1, most + 1))
        bound = StepBound(inclusion=Fraction(1), shift=shift, missed=())
        pair = {0: Fraction(1)}, {shift: Fraction(1)}
        return bound, pair, pair
    if form == "missed":
        return random_misses(rng, most, eta)
    counts = sorted({int(x) for x in rng.integers(1, most + 1, size=2)})
    law = {0: 1 - eta, **{h: eta / len(counts) for h in counts}}
    if form == "mixture":
        pair = {-h: p for h, p in law.items()}, {0: Fraction(1)}
        return CountPair(law=tuple(law.items()), shift=1, both_ways=False), pair, pair[::-1]
    pair = {-h: p for h, p in law.items()}, dict(law)
    return CountPair(law=tuple(law.items()), shift=2, both_ways=True), pair, pair[::-1]


def random_misses(rng, most, eta):
    """Two levels, the unit and what stands in for it one contribution each; the four rows of relation and scheme."""
    shift, near, near_swapped, drop = [(2, 2, 0, 0), (1, 1, 0, 1), (1, 2, 1, 1), (2, 2, 2, 0)][rng.integers(4)]
    above = int(rng.integers(2, most + 2))
    first = Fraction(int(rng.integers(0, 100)), 100) * (1 - eta)
    missed = (first, 1 - eta - first)
    far = (above, near), (above - drop, near_swapped)
    bound = StepBound(inclusion=eta, shift=shift, missed=tuple(map(MissedBatch, missed, *far)))
    laws = []
    for distances in far:
        common = {}
        for weight, distance in zip(missed, distances, strict=True):
            common[distance] = common.get(distance, 0) + weight
        laws.append(tuple({**common, c: common.get(c, 0) + eta} for c in (0, shift)))
    return bound, *laws


def random_problem(rng):
    """A step with losses from 1 to about 700, few enough outcomes, and what is asked of it."""
    kind = str(rng.choice([*KINDS]))
    most = int(rng.integers(1, 4))
    largest = float(np.exp(rng.uniform(0, np.log(700))))
    scale = most / largest if kind == "discrete-laplace" else most / math.sqrt(2 * largest)
    bound, ahead, back = random_bound(rng, most)
    delta = float(np.exp(rng.uniform(np.log(1e-30), np.log(0.5))))
    steps = int(rng.integers(1, 4)) if kind == "discrete-laplace" else 1
    return kind, scale, bound, (ahead, back), delta, steps


def exact_losses(kind, scale, laws):
    """(loss, P mass) of the bound in both directions."""
    centers = sorted({c for pair in laws for law in pair for c in law})
    ahead, back = (tuple(mixed(law, kind, scale, centers) for law in pair) for pair in laws)
    return glued_losses(ahead, back), glued_losses(back, ahead)


def check_upper(problem):
    """No more delta than asked for at the upper end, and little below it there is more."""
    kind, scale, bound, laws, delta, steps = problem
    pair = step_pair(bound, changes_of(KINDS[kind](noise_multiplier=scale)))
    for one, exact in zip((pair, pair.swapped), exact_losses(kind, scale, laws), strict=True):
        (upper,) = epsilon_bounds({one: steps}, delta=delta, sides=(UPPER,))
        case = kind, scale, bound, delta, steps, upper
        assert math.isfinite(upper), case
        assert composed_delta(exact, steps, mpmath.mpf(upper)) <= delta, case
        below = mpmath.mpf(upper) * (1 - mpmath.mpf("5e-4")) - mpmath.mpf("3e-6")
        assert below <= 0 or composed_delta(exact, steps, below) >= delta * (1 - 1e-9), case


@pytest.mark.parametrize(("block", "number"), BLOCKS)
def test_an_upper_end_has_no_more_than_its_delta(block, number):
    """And little below it there is more."""
    rng = np.random.default_rng([13, block])
    for _ in range(number):
        check_upper(random_problem(rng))


def test_an_upper_end_between_losses_whose_last_digits_are_rounded():
    """Largest losses of 2e-8, one of which comes out 9e-16 too small: once a delta 1.7e-5 above the one asked for."""
    rng = np.random.default_rng([13, 5])
    *_, problem = (random_problem(rng) for _ in range(196))
    assert problem[0] == "discrete-gaussian"
    check_upper(problem)


def test_an_order_at_which_round_off_hides_the_best_one():
    """Above 1e15 the sign of a derivative is round-off; the search once went up and down there without end."""
    rng = np.random.default_rng([13, 5])
    *_, problem = (random_problem(rng) for _ in range(27))
    assert problem[0] == "discrete-laplace"
    check_upper(problem)


def flat_plan(mechanism, *, scheme=None, steps=1, group=1, **more):
    return run_of((1000, scheme or All()), mechanism=mechanism, steps=steps, group_size=group, **more)


def laplace_end(pure, delta):
    """Epsilon of one step of Laplace noise: delta(eps) = 1 - e^((eps - L) / 2)."""
    return mpmath.mpf(pure) + 2 * mpmath.log1p(-mpmath.mpf(delta))


def discrete_end(scale, steps, delta):
    """(log of how far epsilon is below the largest loss, that loss) of steps of discrete Laplace noise."""
    loss = 1 / mpmath.mpf(scale)
    losses = [(loss, 1 / (1 + mpmath.exp(-loss))), (-loss, mpmath.exp(-loss) / (1 + mpmath.exp(-loss)))]
    top = steps * loss
    return mpmath.findroot(
        lambda x: mpmath.log(composed_delta(losses, steps, top - mpmath.exp(x)) / delta), mpmath.log(delta)
    ), top


@pytest.mark.parametrize("noise", [2.0, 0.3, 0.0277, 0.026723677, 0.0267, 0.02, 0.005, 0.0015])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-10, 1e-40])
def test_a_step_of_laplace_noise_has_its_closed_form(noise, delta):
    exact = max(mpmath.mpf(0), laplace_end(1 / mpmath.mpf(noise), delta))
    upper, lower = ends_of(flat_plan(Laplace(noise_multiplier=noise), delta=delta))
    assert lower <= exact <= upper <= exact * (1 + mpmath.mpf("1e-6"))
    assert lower >= exact * (1 - mpmath.mpf("1e-3"))


@pytest.mark.parametrize(("group", "delta"), [(30, 1e-5), (36, 1e-5), (38, 1e-9), (50, 1e-5), (400, 1e-20)])
def test_a_group_under_laplace_noise_has_its_closed_form(group, delta):
    exact = laplace_end(group, delta)
    upper, lower = ends_of(flat_plan(Laplace(noise_multiplier=1.0), delta=delta, group=group))
    assert lower <= exact <= upper <= exact * (1 + mpmath.mpf("1e-6"))
    assert lower >= exact * (1 - mpmath.mpf("1e-3"))


@pytest.mark.parametrize("noise", [0.7, 0.0274, 0.026723677, 0.01, 0.0015])
@pytest.mark.parametrize(("steps", "delta"), [(1, 1e-5), (1, 1e-12), (3, 1e-5), (10, 1e-5)])
def test_steps_of_discrete_laplace_noise_have_their_sum(noise, steps, delta):
    log_short, top = discrete_end(noise, steps, delta)
    exact = top - mpmath.exp(log_short)
    upper, lower = ends_of(flat_plan(DiscreteLaplace(noise_multiplier=noise), steps=steps, delta=delta))
    assert lower <= exact <= upper <= exact * (1 + mpmath.mpf("1e-6"))
    assert steps > 1 or lower >= exact * (1 - mpmath.mpf("1e-6"))


@pytest.mark.parametrize("pure", [26.0, 37.0, 38.0, 50.0, 80.0, 99.0, 700.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-30])
def test_pure_privacy_is_no_less_than_it_says(pure, delta):
    """The worst such step answers one bit: delta(eps) = p (1 - e^(eps - pure)), p = 1 / (1 + e^-pure)."""
    true = 1 / (1 + mpmath.exp(-mpmath.mpf(pure)))
    exact = mpmath.mpf(pure) + mpmath.log(1 - delta / true)
    found = guarantee(flat_plan(ApproximateDp(epsilon=pure), delta=delta)).epsilon
    assert exact <= found <= pure * (1 + 1e-15)


@pytest.mark.parametrize(
    ("sigma", "group"), [(1.0, 6), (1.0, 8), (2.0, 12), (5.0, 30), (0.5, 10), (0.05, 1), (0.05, 30), (1.0, 60)]
)
@pytest.mark.parametrize("delta", [1e-5, 1e-20])
def test_a_group_under_discrete_gaussian_noise_has_its_sum(sigma, group, delta):
    rows = whole_noise("discrete-gaussian", sigma, [0, group], reach=math.ceil(15 * sigma))
    losses = pair_losses(*rows)
    upper, lower = ends_of(flat_plan(DiscreteGaussian(noise_multiplier=sigma), delta=delta, group=group))
    assert composed_delta(losses, 1, mpmath.mpf(upper)) <= delta
    assert composed_delta(losses, 1, mpmath.mpf(lower)) >= delta * (1 - mpmath.mpf("1e-12"))
    assert lower >= upper * (1 - 1e-3)


@pytest.mark.parametrize(("truth", "categories"), [(0.999999993, 1000), (1 - 1e-12, 2), (0.9, 3)])
@pytest.mark.parametrize(("steps", "group", "delta"), [(2, 1, 3.17e-5), (1, 3, 1e-9), (3, 2, 1e-30)])
def test_randomized_responses_have_their_sum(truth, categories, steps, group, delta):
    mechanism = RandomizedResponse(truth_probability=truth, categories=categories)
    true = mpmath.mpf(truth)
    false = (1 - true) / (categories - 1)
    p = [true, false, *([false] * min(categories - 2, 1))]
    q = [false, true, *([false] * min(categories - 2, 1))]
    one = pair_losses(p[:2], q[:2])
    one = [*one, (mpmath.mpf(0), 1 - true - false)] if categories > 2 else one
    found = guarantee(
        flat_plan(mechanism, steps=steps, delta=delta, adjacency=Adjacency.REPLACE_ONE, group=group)
    ).epsilon
    assert composed_delta(one, steps * group, mpmath.mpf(found)) <= delta
    assert composed_delta(one, steps * group, mpmath.mpf(found) * (1 - mpmath.mpf("1e-4"))) >= delta


@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize("block", thinned(range(10), 4))
def test_a_lower_end_of_a_data_set_has_its_delta(kind, block):
    """Mixtures of the noise on both sides."""
    rng = np.random.default_rng([17, block])
    largest = float(np.exp(rng.uniform(0, np.log(700))))
    scale = 3 / largest if kind == "discrete-laplace" else 3 / math.sqrt(2 * largest)
    rate = Fraction(int(rng.integers(1, 1000)), 10 ** int(rng.integers(3, 7)))
    p, q = {0: 1 - rate, int(rng.integers(1, 4)): rate}, {0: 1 - rate, -int(rng.integers(0, 3)): rate}
    q = q if len(q) == 2 else {0: Fraction(1)}
    exact = pair_losses(*(mixed(law, kind, scale, sorted({*p, *q})) for law in (p, q)))
    pair = data_set_atoms(KINDS[kind](noise_multiplier=scale), p, q)
    for steps, delta in itertools.product((1, 2), (1e-3 * float(rate), 1e-20)):
        (lower,) = epsilon_bounds({pair: steps}, delta=delta, sides=(LOWER,))
        assert not lower or composed_delta(exact, steps, mpmath.mpf(lower)) >= delta * (1 - mpmath.mpf("1e-9"))


def ends_of(plan):
    """(upper end, lower end) as they are printed."""
    return guarantee(plan).epsilon, epsilon_lower(plan)[0]


def test_a_data_set_with_chances_below_any_float_and_centers_far_apart():
    """The weight of one center is no float; the noise around it is some cells of many points each."""
    tiny = Fraction(1, 10**400)
    atoms = data_set_atoms(DiscreteGaussian(noise_multiplier=8.0), {0: 1 - tiny, 70_000: tiny}, {0: Fraction(1)})
    assert atoms.infinity_mass == 0 or atoms.infinity_mass < 1e-300
    assert sum(math.exp(log) for log in atoms.log_masses) == pytest.approx(1, abs=1e-11)
    likely = [loss for loss, log in zip(atoms.losses, atoms.log_masses, strict=True) if log > -40]
    assert likely
    assert max(map(abs, likely)) < 1e-11
