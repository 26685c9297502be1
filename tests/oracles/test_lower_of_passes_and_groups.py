"""Lower bounds where a clipped vector can lose all its records in a pass, and of groups of unequal members."""

import itertools
from fractions import Fraction
from math import comb, exp, log

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from dpcalc.guarantee import Adjacency
from dpcalc.planner.composition import protected_units
from dpcalc.planner.lower_end import delta_lower, epsilon_lower, needs_zero_others
from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.paths import co_sampled_with
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle, WithReplacement
from tests.runs import of_tree, run_of

EPSILONS = (0.02, 0.4, 1.5)
NEVER = 1 + 1e-9  # relative slack of two float64 evaluations


def plan_of(hierarchy, *, steps=1, sigma=1.0, **more):
    return run_of(hierarchy, steps=steps, noise=sigma, **more)


def hockey_stick(mixture, epsilon, sigma):
    """The larger divergence of a mixture of Gaussians around centers of one sign and a single one around 0."""

    def log_ratio(x):
        return log(sum(p * exp((x * h - h * h / 2) / sigma**2) for h, p in mixture.items()))

    def upper_tails(x):
        return sum(p * ndtr((h - x) / sigma) for h, p in mixture.items()), ndtr(-x / sigma)

    found = 0.0
    if log_ratio(-60.0) < epsilon < log_ratio(60.0):
        above, none = upper_tails(brentq(lambda x: log_ratio(x) - epsilon, -60.0, 60.0, xtol=1e-14))
        found = above - exp(epsilon) * none
    if log_ratio(-60.0) < -epsilon:
        above, none = upper_tails(brentq(lambda x: log_ratio(x) + epsilon, -60.0, 60.0, xtol=1e-14))
        found = max(found, (1 - none) - exp(epsilon) * (1 - above))
    return found


def shuffles():
    """(schemes, count of each level, clipping level): the protected unit, of the last level, is alone in its batch."""
    one, each = Shuffle(size=1), All()
    yield (one,), (2,), 0
    yield (one,), (5,), 0
    yield (one, each), (2, 1), 0
    yield (Shuffle(size=1, drop_last=True), each), (3, 1), 0
    yield (each, each, one), (2, 1, 2), 1
    yield (one, one), (2, 2), 1


@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE])
@pytest.mark.parametrize("case", range(6))
def test_a_batch_of_nothing_but_the_protected_unit_is_zero_without_it(case, adjacency):
    """With the order revealed, one batch of a pass is one clip norm in D and zero in D': no data set costs more."""
    schemes, counts, clip = list(shuffles())[case]
    if adjacency is Adjacency.ADD_REMOVE and not isinstance(schemes[-1], All):
        pytest.skip("removing a unit makes the pass shorter")
    triples = zip("abc", counts, schemes, strict=False)
    hierarchy = Hierarchy(levels=tuple(Level(name=name, count=n, scheme=one) for name, n, one in triples))
    steps = 1
    for n, scheme in zip(counts, schemes, strict=True):
        steps *= n if isinstance(scheme, Shuffle) else 1
    plan = plan_of(hierarchy, unit=len(schemes), clip=clip, adjacency=adjacency, steps=steps)
    for epsilon in EPSILONS:
        assert delta_lower(plan, epsilon=epsilon) <= hockey_stick({1: 1.0}, epsilon, 1.0) * NEVER
    assert delta_lower(plan, epsilon=0.02) > 0


@pytest.mark.parametrize("size", [1, 2])
def test_a_fixed_draw_of_one_unit_below_a_shuffle(size):
    """Two sites in turn, one of their two users drawn: a zeroed user who is drawn leaves a vector of zero."""
    levels = (
        Level(name="site", count=2, scheme=Shuffle(size=size)),
        Level(name="user", count=2, scheme=Fixed(size=1)),
    )
    plan = plan_of(Hierarchy(levels=levels), unit=2, clip=0, adjacency=Adjacency.ZERO_OUT, steps=2 // size)
    # Size 1: by convexity half of one clip norm. Size 2: the other site's user turns the vector around.
    shift = 1.0 if size == 1 else 2.0
    for epsilon in EPSILONS:
        assert 0 < delta_lower(plan, epsilon=epsilon) <= 0.5 * hockey_stick({shift: 1.0}, epsilon, 1.0) * NEVER


TREES = ([[2], [1, 1]], [[1, 1], [2]], [[2, 1], [1]], [[1], [1, 1, 1]], [[1, 1], [1, 1]])


@pytest.mark.parametrize("rate", [Fraction(9, 10), Fraction(1, 2)])
@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE])
@pytest.mark.parametrize("tree", TREES)
def test_a_group_costs_what_its_members_hold_together(tree, adjacency, rate):
    """Two units, all there are: each vector is drawn by itself, and no data set costs more than all of them at 1."""
    names = ("site", "user", "record")
    hierarchy = of_tree(tree_of(tree, names), names, (All(), Poisson(probability=rate), All()))
    vectors, sigma = sum(map(len, tree)), 2.0
    plan = plan_of(hierarchy, unit=1, clip=2, adjacency=adjacency, group_size=2, sigma=sigma)
    together = {h: comb(vectors, h) * float(rate**h * (1 - rate) ** (vectors - h)) for h in range(vectors + 1)}
    truths = [hockey_stick(together, epsilon, sigma) for epsilon in EPSILONS]
    lowers = [delta_lower(plan, epsilon=epsilon) for epsilon in EPSILONS]
    assert all(low <= truth * NEVER for low, truth in zip(lowers, truths, strict=True))
    assert lowers[0] > 0
    found = epsilon_lower(plan)
    assert found is not None
    assert found[1] == (len(tree[0]) == len(tree[1]))


@pytest.mark.parametrize("sizes", [[2, 1], [1, 2], [3, 1], [2, 2]])
@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE])
def test_a_group_of_units_with_unequal_chances_of_any_record(sizes, adjacency):
    """Each user is one vector, empty where none of the records is drawn."""
    rate, sigma, names = Fraction(3, 4), 1.0, ("user", "record")
    hierarchy = of_tree(tree_of(sizes, names), names, (All(), Poisson(probability=rate)))
    plan = plan_of(hierarchy, unit=1, clip=1, adjacency=adjacency, group_size=2, sigma=sigma)
    together = {0: 0.0, 1: 0.0, 2: 0.0}
    for shown in itertools.product((0, 1), repeat=2):
        chances = [1 - (1 - rate) ** n if some else (1 - rate) ** n for n, some in zip(sizes, shown, strict=True)]
        together[sum(shown)] += float(chances[0] * chances[1])
    for epsilon in EPSILONS:
        assert 0 < delta_lower(plan, epsilon=epsilon) <= hockey_stick(together, epsilon, sigma) * NEVER


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_group_of_which_many_are_surely_drawn_costs_as_much_as_is_said(epsilon):
    # So many that nobody is drawn with a probability below 2^-2048, from which on the counts are not exact.
    size, rate = 3000, Fraction(1, 2)
    levels = (Level(name="example", count=10_000, scheme=Poisson(probability=rate)),)
    plan = plan_of(
        Hierarchy(levels=levels), unit=1, clip=1, adjacency=Adjacency.ADD_REMOVE, group_size=size, sigma=float(size)
    )
    law = {h / size: float(binom.pmf(h, size, float(rate))) for h in range(1200, 1801)}
    truth = hockey_stick(law, epsilon, 1.0)
    assert 0.5 * truth <= delta_lower(plan, epsilon=epsilon) <= truth * NEVER


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("sizes", "is_rough"),
    [((20_000, 2), True), ((2, 20_000), True), ((20_000,), None), ((300,), False), ((300, 300), False)],
)
def test_others_contribute_nothing_where_copies_are_known_from_below_alone(sizes, is_rough, adjacency):
    # Others take the places of the copies that a lower law leaves out, and could hide a larger number better.
    levels = tuple(
        Level(name=f"level {at}", count=10, scheme=WithReplacement(size=size)) for at, size in enumerate(sizes)
    )
    plan = plan_of(Hierarchy(levels=levels), unit=len(sizes), clip=len(sizes), adjacency=adjacency)
    (unit,) = protected_units(plan)
    co_sampled = co_sampled_with(plan.phases[0].hierarchy, unit.paths[0], clip=len(sizes))
    # In a single draw one of P and Q is a point, but for zero-out.
    expected = adjacency is Adjacency.ZERO_OUT if is_rough is None else is_rough
    assert needs_zero_others(co_sampled, plan) is expected


@pytest.mark.parametrize(
    ("records", "rate", "sigma", "truth"),
    [
        # By mpmath, of {-1: 1 - e, 0: e} against {1: 1 - e, 0: e}; e = 2^-60 is lost beside 1 as a float.
        (60, Fraction(1, 2), 0.15, 91.47255),
        # -log Pr[no record] and the epsilon of a Gaussian at distance 1: Pr[no record] is below 2^-256.
        (600, Fraction(3, 10), 0.05, 600 * log(1 / 0.7) + 284.392),
    ],
)
def test_a_user_who_is_hardly_ever_empty_is_hidden_by_that(records, rate, sigma, truth):
    levels = (
        Level(name="user", count=10, scheme=All()),
        Level(name="record", count=records, scheme=Poisson(probability=rate)),
    )
    plan = plan_of(Hierarchy(levels=levels), unit=1, clip=1, adjacency=Adjacency.REPLACE_ONE, sigma=sigma)
    found = epsilon_lower(plan)
    assert found is not None
    assert found.value <= truth


def test_a_group_that_is_missed_with_a_chance_below_any_float_has_finite_losses():
    levels = (Level(name="example", count=100_000, scheme=Poisson(probability=Fraction(99, 100))),)
    plan = plan_of(Hierarchy(levels=levels), unit=1, clip=1, adjacency=Adjacency.REPLACE_ONE, group_size=200, sigma=2.0)
    found = epsilon_lower(plan)
    assert found is not None
    assert found.value <= 6303.14  # by mpmath, of the number drawn against its negative
