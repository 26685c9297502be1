"""Phases with correlated noise: one Gaussian, or Poisson steps; against closed forms, quadrature and plain DP-SGD."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq

from dpcalc.amplification.correlated import correlated_fault
from dpcalc.errors import InputError, KeyedInputError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.mechanisms.matrix_factorization import (
    IDENTITY,
    Matrix,
    MatrixFactorization,
    PrefixSum,
    Toeplitz,
    Tree,
    banded_square_root,
)
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.statement import chain_epsilon, group_epsilon
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level
from dpcalc.sampling.schemes import (
    SCHEMES,
    All,
    AnyOrder,
    BallsInBins,
    CyclicPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Shuffle,
    WithReplacement,
)
from tests.oracles.exact_gaussian import exact_epsilon

ZERO, ADD, REPLACE = Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
FALLING = Toeplitz(coefficients=(1.0, 0.5, 0.25))
DENSE = Matrix(name="c.npy", digest="0", entries=np.tril(np.random.default_rng(2).uniform(0.1, 1, (10, 10))))


def phase(mechanism, steps, scheme=None, **more):
    level = Level(name="record", count=6000, scheme=scheme or AnyOrder())
    return Phase(name="p", hierarchy=Hierarchy(levels=(level,)), mechanism=mechanism, clip=1, steps=steps, **more)


def noise(strategy, multiplier=4.0, *, times=None, apart=None, **more):
    return MatrixFactorization(
        strategy=strategy, noise_multiplier=multiplier, max_participations=times, min_separation=apart, **more
    )


def plan(*phases, adjacency=ZERO, delta=1e-6, **more):
    return Plan(phases=phases, unit=1, adjacency=adjacency, delta=delta, **more)


def gaussian_epsilon(mu):
    return float(exact_epsilon(1, 1 / mu, 1e-6))


@pytest.mark.parametrize(
    ("mechanism", "steps", "mu"),
    [
        (noise(FALLING, times=3, apart=4), 12, math.sqrt(3.9375 / 1.3125) / 4),
        (noise(FALLING, times=3, apart=2), 12, math.sqrt(4.9375 / 1.3125) / 4),
        (noise(Toeplitz(coefficients=(1e30, 0.5e30, 0.25e30)), times=3, apart=2), 12, math.sqrt(4.9375 / 1.3125) / 4),
        (noise(PrefixSum(), times=3, apart=4), 12, math.sqrt(56 / 12) / 4),
        (
            noise(Toeplitz(coefficients=(1, 0.5, 0.25, 0.125)), times=10, apart=10),
            100,
            math.sqrt(13.28125 / 1.328125) / 4,
        ),
        (noise(Toeplitz(coefficients=(0.5, 0.25)), times=1), 12, 1 / 4),
        (noise(Tree(), 10.0, times=1), 1024, 0.331662),
        (noise(Tree(restart_every=1024), 10.0, apart=1024), 10_240, 1.0488),
        (noise(banded_square_root(2), apart=2), 4, math.sqrt(2 * 1.25 / 1.25) / 4),
        (noise(FALLING, apart=4, participation="fixed-epochs"), 12, math.sqrt(3) / 4),
    ],
)
def test_a_phase_is_one_gaussian(mechanism, steps, mu):
    result = evaluate(plan(phase(mechanism, steps))).guarantee
    assert result.epsilon == pytest.approx(gaussian_epsilon(mu), rel=1e-5 if steps > 1000 else 1e-8)
    assert result.epsilon_lower == pytest.approx(result.epsilon, rel=1e-8)
    assert result.epsilon_lower <= result.epsilon


def test_replaced_units_cost_twice_the_sensitivity_and_groups_as_many_times():
    mechanism = noise(FALLING, 20.0, times=3, apart=2)
    mu = math.sqrt(4.9375 / 1.3125) / 20
    for adjacency, size, factor in ((REPLACE, 1, 2), (ZERO, 3, 3), (ADD, 2, 2), (REPLACE, 2, 4)):
        result = guarantee(plan(phase(mechanism, 12), adjacency=adjacency, group_size=size))
        assert result.epsilon == pytest.approx(gaussian_epsilon(factor * mu), rel=1e-8 if size == 1 else 1e-4)
        assert result.epsilon >= gaussian_epsilon(factor * mu)


def test_phases_and_other_sums_add_their_squares():
    correlated = phase(noise(FALLING, 8.0, times=3, apart=2, also=(6.0,)), 12)
    plain = replace(phase(Gaussian(noise_multiplier=5.0), 3, All()), name="q")
    mu = math.sqrt(4.9375 / 1.3125 * (1 / 64 + 1 / 36) + 3 / 25)
    assert guarantee(plan(correlated, plain)).epsilon == pytest.approx(gaussian_epsilon(mu), rel=1e-8)


def test_units_of_a_level_that_is_clipped():
    user, record = (Level(name=name, count=50, scheme=All()) for name in ("user", "record"))
    hierarchy = Hierarchy(levels=(replace(user, scheme=AnyOrder()), record))
    mechanism = noise(FALLING, 4.0, times=3, apart=4)
    run = Phase(name="p", hierarchy=hierarchy, mechanism=mechanism, clip=1, steps=12)
    users = replace(plan(run), unit=1)
    assert guarantee(users).epsilon == pytest.approx(gaussian_epsilon(math.sqrt(3) / 4), rel=1e-8)
    # A record inside a clipped user can turn the user's vector around.
    assert guarantee(replace(users, unit=2)).epsilon == pytest.approx(gaussian_epsilon(math.sqrt(3) / 2), rel=1e-8)


def test_a_bound_that_is_not_attained_is_not_called_tight():
    run = plan(phase(noise(DENSE, 10.0, times=3, apart=2), 10))
    result = evaluate(run).guarantee
    assert result.epsilon_lower < result.epsilon * 0.999
    value, is_tight = epsilon_lower(run)
    assert not is_tight
    # What the earliest or any later fixed pattern of equal contributions costs.
    norms = [
        np.linalg.norm(DENSE.entries[:, list(places)].sum(axis=1))
        for places in itertools.combinations(range(10), 3)
        if min(np.diff(places)) >= 2
    ]
    column = np.max(np.linalg.norm(DENSE.entries, axis=0))
    assert value <= gaussian_epsilon(max(norms) / column / 10) <= result.epsilon


def test_the_first_steps_of_a_matrix_keep_its_noise():
    """A curve over steps: the first 4 rows, with noise relative to the largest column of all 10."""
    run = plan(phase(noise(DENSE, 4.0, times=1), 4))
    first = np.max(np.linalg.norm(DENSE.entries[:4, :4], axis=0)) / np.max(np.linalg.norm(DENSE.entries, axis=0))
    assert guarantee(run).epsilon == pytest.approx(gaussian_epsilon(first / 4), rel=1e-8)
    with pytest.raises(InputError, match="at most 10, the rows of the strategy, got 11"):
        guarantee(plan(phase(noise(DENSE, 4.0, times=1), 11)))


# Cyclic Poisson draws.


@pytest.mark.parametrize("adjacency", [ZERO, ADD, REPLACE])
@pytest.mark.parametrize(("steps", "groups"), [(40, 4), (41, 4), (40, 3), (5, 9)])
def test_cyclic_draws_are_poisson_steps(steps, groups, adjacency):
    rate = Fraction(1, 50)
    cyclic = plan(
        phase(noise(FALLING, 1.5), steps, CyclicPoisson(probability=rate, groups=groups)), adjacency=adjacency
    )
    poisson = plan(
        phase(Gaussian(noise_multiplier=1.5), math.ceil(steps / groups), Poisson(probability=rate)), adjacency=adjacency
    )
    assert guarantee(cyclic).epsilon == pytest.approx(guarantee(poisson).epsilon, rel=1e-9)
    assert epsilon_lower(cyclic)[0] <= guarantee(cyclic).epsilon


def test_cyclic_draws_below_the_groups():
    levels = (
        Level(name="user", count=500, scheme=CyclicPoisson(probability=Fraction(1, 10), groups=5)),
        Level(name="record", count=20, scheme=Poisson(probability=Fraction(1, 4))),
    )
    cyclic = Phase(name="p", hierarchy=Hierarchy(levels=levels), mechanism=noise(FALLING, 2.0), clip=2, steps=50)
    drawn = (replace(levels[0], scheme=Poisson(probability=Fraction(1, 10))), levels[1])
    plain = replace(cyclic, hierarchy=Hierarchy(levels=drawn), mechanism=Gaussian(noise_multiplier=2.0), steps=10)
    for unit in (1, 2):
        one, other = (Plan(phases=(x,), unit=unit, adjacency=ADD, delta=1e-6) for x in (cyclic, plain))
        assert guarantee(one).epsilon == pytest.approx(guarantee(other).epsilon, rel=1e-9)


@pytest.mark.heavy
def test_cyclic_draws_under_a_matrix_against_quadrature():
    """Two groups, four steps, all outputs: no group costs more than the bound, and one nearly as much."""
    banded = np.array([[1.0, 0, 0, 0], [0.5, 0.8, 0, 0], [0, 0.3, 1.0, 0], [0, 0, 0.5, 0.6]])
    deviation = 1.2 * np.max(np.linalg.norm(banded, axis=0))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    outputs = deviation * np.array(list(itertools.product(nodes, repeat=4)))
    masses = np.prod(list(itertools.product(weights, repeat=4)), axis=1) / (2 * np.pi) ** 2
    scheme = CyclicPoisson(probability=Fraction(2, 5), groups=2)
    run = plan(phase(noise(Matrix(name="b.npy", digest="1", entries=banded), 1.2), 4, scheme))
    ratios = 0.6 + 0.4 * np.exp((outputs @ banded - (banded**2).sum(axis=0) / 2) / deviation**2)
    for epsilon in (0.3, 1.0):
        bound = delta_of(run, epsilon=epsilon)
        shown = [np.maximum(ratios[:, group::2].prod(axis=1) - math.exp(epsilon), 0) for group in (0, 1)]
        most = max(float(masses @ each) for each in shown)
        assert bound.delta * 0.9 <= most <= bound.delta * 1.02
        assert bound.delta_lower <= most * 1.02


def test_the_overlap_of_groups_is_refused():
    mechanism, scheme = noise(FALLING, 2.0), CyclicPoisson(probability=Fraction(1, 10), groups=4)
    with pytest.raises(UnsupportedError, match="whose groups may part the members"):
        guarantee(plan(phase(mechanism, 8, scheme), group_size=2))
    # The statement takes the chain of single units instead.
    single = plan(phase(mechanism, 8, scheme))
    assert group_epsilon(single, 2) == chain_epsilon(single, 2) > guarantee(single).epsilon


def test_a_group_in_batches_that_are_clipped_as_a_whole_is_refused():
    """Members in different batches turn both around: once they cost as much as one."""
    clipped = replace(phase(noise(IDENTITY, 4.0, times=1), 10), clip=0)
    assert guarantee(plan(clipped)).epsilon == pytest.approx(gaussian_epsilon(0.5), rel=1e-6)
    with pytest.raises(UnsupportedError, match="members in different batches turn each of them around"):
        guarantee(plan(clipped, group_size=2))


CYCLIC = CyclicPoisson(probability=Fraction(1, 10), groups=2)


@pytest.mark.parametrize(
    ("mechanism", "scheme", "text"),
    [
        (noise(FALLING), Poisson(probability=Fraction(1, 10)), "sampling.record.scheme is `poisson`"),
        (noise(FALLING), Fixed(size=10), "sampling.record.scheme is `fixed`"),
        (noise(FALLING), WithReplacement(size=10), "sampling.record.scheme is `with-replacement`"),
        (noise(FALLING), Shuffle(size=500), "sampling.record.scheme is `shuffle`"),
        (noise(FALLING), RandomAllocation(times=2, steps=12), "sampling.record.scheme is `random-allocation`"),
        (noise(FALLING), All(), "sampling.record.scheme is `all`"),
        (noise(FALLING), BallsInBins(bins=6), "sampling.record.scheme is `balls-in-bins`"),
        (noise(FALLING, times=1, participation="fixed-epochs"), AnyOrder(), "mechanism lacks `min_separation`"),
        (noise(PrefixSum()), CYCLIC, "sampling.record.groups is 2, fewer than the 12 bands"),
        (noise(Tree()), CYCLIC, "mechanism.strategy is `tree`"),
        (noise(IDENTITY, apart=3), CYCLIC, "mechanism.min_separation is for `any-order`"),
        (Gaussian(noise_multiplier=1.0), CYCLIC, "sampling.record.scheme is `cyclic-poisson`, which goes with"),
    ],
)
def test_what_nothing_is_proved_for_is_refused(mechanism, scheme, text):
    with pytest.raises(KeyedInputError) as error:
        guarantee(plan(phase(mechanism, 12, scheme)))
    assert str(error.value).startswith(text)
    assert "; " in str(error.value)


def test_every_scheme_has_a_bound_or_is_refused():
    refused = {"poisson", "fixed", "with-replacement", "shuffle", "random-allocation", "all"}
    schemes = (CyclicPoisson(probability=Fraction(1, 10), groups=3), BallsInBins(bins=6, is_held=True), AnyOrder())
    assert {scheme.name for scheme in schemes} | refused == SCHEMES.keys()
    for scheme in schemes:
        mechanism = noise(FALLING, apart=3) if scheme == AnyOrder() else noise(FALLING)
        assert 0 < guarantee(plan(phase(mechanism, 12, scheme))).epsilon < 10
    with pytest.raises(KeyedInputError, match=r"state mechanism type gaussian"):
        guarantee(plan(phase(noise(IDENTITY), 12, Poisson(probability=Fraction(1, 10)))))
    with pytest.raises(KeyedInputError, match=r"say `balls-in-bins` with `bins` the steps of the phase"):
        guarantee(plan(phase(noise(FALLING), 12, RandomAllocation(times=1, steps=12))))


def test_levels_that_do_not_go_with_batches_in_any_order():
    mechanism = noise(FALLING, times=1)
    outer = Level(name="user", count=50, scheme=AnyOrder())
    for scheme, key in (
        (Poisson(probability=Fraction(1, 2)), "sampling.record"),
        (AnyOrder(), "sampling.record.scheme"),
        (CYCLIC, "sampling.record.scheme"),
    ):
        levels = (outer, Level(name="record", count=20, scheme=scheme))
        assert correlated_fault(mechanism, Hierarchy(levels=levels), 12).key == key
    classes = tuple(Level(name=name, count=20, scheme=All()) for name in ("class", "image"))
    built = Hierarchy(levels=classes, episodes=Episodes(tasks=1, ways=2, shots=1, queries=1))
    assert correlated_fault(mechanism, built, 12).key == "sampling.episodes"


# Solvers and other questions.


def test_solvers_meet_the_target():
    run = plan(phase(noise(FALLING, 1.0, times=3, apart=2), 12))
    found = solve(run, "sigma", goal=EpsilonGoal(limit=2.0))
    mu = brentq(lambda x: gaussian_epsilon(x) - 2, 0.01, 5)
    assert found.value == pytest.approx(math.sqrt(4.9375 / 1.3125) / mu, rel=1e-3)
    assert found.plan.phases[0].mechanism.strategy == FALLING
    assert guarantee(found.plan).epsilon <= 2
    found = solve(plan(phase(noise(IDENTITY, 10.0, apart=5), 12)), "steps", goal=EpsilonGoal(limit=2.0))
    times = math.floor((10 * mu) ** 2)
    assert found.value == 5 * times  # the first step of one more participation is the 5 * times + 1st
    with pytest.raises(UnsupportedError, match="whose cost is proved to rise"):
        solve(plan(phase(noise(DENSE, 10.0, times=1), 10)), "steps", goal=EpsilonGoal(limit=2.0))


FRESH = BallsInBins(bins=12)


@pytest.mark.parametrize(
    ("strategy", "scheme", "quantity", "value"),
    [
        (FALLING, FRESH, "steps", 12),  # a second pass would be chosen anew
        (FALLING, FRESH, "rate", 12),  # of fewer bins there would be several passes
        (FALLING, BallsInBins(bins=4, is_held=True), "rate", 3),  # of fewer the bands overlap
        (PrefixSum(), CyclicPoisson(probability=Fraction(1, 9), groups=30), "steps", 30),  # as many bands as steps
    ],
)
def test_solvers_stay_where_a_bound_is_proved(strategy, scheme, quantity, value):
    found = solve(plan(phase(noise(strategy, 4.0), 12, scheme)), quantity, goal=EpsilonGoal(limit=90.0))
    assert (found.value, found.fails_at) == (value, None)
    assert guarantee(found.plan).epsilon < 90
