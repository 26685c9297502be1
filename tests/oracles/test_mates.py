"""Bounds that are averaged over what is drawn beside the unit: golden numbers, conditions, and enumerated data sets."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.amplification import any_mechanism, mates
from dpcalc.amplification.bound import Average, StepBound
from dpcalc.amplification.data_sets import Contributions
from dpcalc.amplification.random_contents import averaged_unit_bound
from dpcalc.amplification.schedule import step_profile
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcalc.planner import lower_end
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.counts import binomial
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.paths import path_above_all, path_table, worst_paths
from dpcalc.sampling.schemes import All, Fixed, Poisson
from dpcalc.sampling.sums import independent_sum
from dpcalc.work import allowance
from tests.oracles.adversary import excess, truth_of
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS, REPLACE_ONE, ZERO_OUT
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick
from tests.oracles.mates import hierarchy_of, largest_ratio, own_bound, random_question, role_patterns, unit_ratios
from tests.oracles.other_noise import discrete_gaussian_cells, discrete_laplace_cells, hockey_sticks, laplace_cells
from tests.oracles.unequal import UnequalExperiment
from tests.thinning import thinned

NEVER = 1 + 1e-9
HALF, FIFTH, OFTEN = Fraction(1, 2), Fraction(1, 5), Fraction(9, 10)


def levels(*draws):
    names = [f"level {number}" for number in range(1, len(draws) + 1)]
    return Hierarchy(
        levels=tuple(
            Level(name=name, count=count, scheme=scheme, redraw_every=every[0] if every else 1)
            for name, (count, scheme, *every) in zip(names, draws, strict=True)
        )
    )


def bound_of(hierarchy, *, unit, clip, relation=ADD_REMOVE):
    (path,) = path_table([(hierarchy, clip)], unit=unit).paths(0)
    return averaged_unit_bound(hierarchy, path, clip=clip, adjacency=Adjacency(relation))


def told(bound):
    """The average of Theorem 6.9, without that of Theorem 6.15."""
    return Average(parts=tuple((chance, replace(part, shared=())) for chance, part in bound.parts))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("outer", "epsilons"),
    [
        pytest.param(Poisson(probability=Fraction(1, 50)), (1.1682, 1.1085), id="poisson"),
        pytest.param(Fixed(size=4), (2.2621, 2.1531), id="fixed"),
    ],
)
def test_the_golden_numbers(outer, epsilons):
    """4 of 200 tasks, 5 of 20 records expected, sigma 6, 20,000 steps, delta 1e-5: computed by another program."""
    bound = bound_of(levels((200, outer), (20, Poisson(probability=Fraction(1, 4)))), unit=2, clip=2)
    profile = step_profile(told(bound), noise_multiplier=6.0)
    found = [epsilon_bounds({p: 20_000}, delta=1e-5, sides=(UPPER,))[0] for p in (profile, profile.swapped)]
    assert found == pytest.approx(epsilons, abs=3e-4)


def averaged_by_hand(rates, count, sigma, epsilon, *, is_fixed):
    """D||D' of section 6.9 for a record below one random level, from binomial laws and integrals of mixtures."""
    (r_1, r_2), total = map(float, rates), 0.0
    for w in range(count):
        here = binom.pmf(w, count - 1, r_2)
        stand_ins = {s: binom.pmf(s, count, r_2) for s in range(count + 1)} if is_fixed else {0: 1.0}
        missed = [((1 - r_1) * p, 1 + w + s) for s, p in stand_ins.items()] + [(r_1 * (1 - r_2), 1)]
        weights, places = [v for v, _ in missed], [d for _, d in missed]
        p = Mixture.on_line([r_1 * r_2, *weights], [0, *places])
        q = Mixture.on_line([r_1 * r_2, *weights], [1, *places])
        total += here * hockey_stick(p, q, sigma, [epsilon])[0]
    return total


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("sigma", [0.8, 3.0])
def test_the_average_is_the_one_of_the_theorem(is_fixed, sigma):
    outer = Fixed(size=3) if is_fixed else Poisson(probability=Fraction(3, 10))
    bound = bound_of(levels((10, outer), (9, Poisson(probability=FIFTH))), unit=2, clip=2)
    profile = step_profile(told(bound), noise_multiplier=sigma)
    for epsilon in (0.0, 0.02, 0.3):
        by_hand = averaged_by_hand((Fraction(3, 10), FIFTH), 9, sigma, epsilon, is_fixed=is_fixed)
        assert by_hand * (1 - 1e-9) <= profile.delta(epsilon) <= by_hand * 1.003


def shared_by_hand(rates, count, sigma, epsilon, *, is_fixed, is_swapped):
    """Theorem 6.15 for a record below one random level, by a sum over a line on which the missed batches are at 0."""
    (r_1, r_2), y = map(float, rates), np.linspace(-60, 60, 120_001)

    def at(place):
        return np.exp(-(((y - place) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))

    alpha, eta, total = math.exp(epsilon), r_1 * r_2, np.zeros(y.size)
    for w in range(count):
        with_x, without = at(w + 1 if not is_swapped else w - 1), at(w)
        missed = (alpha - 1) * r_1 * (1 - r_2) * without
        gained = eta * (with_x - alpha * without) if not is_swapped else eta * (without - alpha * with_x)
        total += binom.pmf(w, count - 1, r_2) * np.maximum(gained - missed, 0.0)
    stand_ins = {s: binom.pmf(s, count, r_2) for s in range(count + 1)} if is_fixed else {0: 1.0}
    total -= (alpha - 1) * (1 - r_1) * sum(p * at(-s) for s, p in stand_ins.items())
    return float(np.maximum(total, 0.0).sum() * (y[1] - y[0]))


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("sigma", [0.8, 3.0])
def test_missed_batches_are_shared_among_the_draws_of_the_mates(is_fixed, sigma):
    outer = Fixed(size=3) if is_fixed else Poisson(probability=Fraction(3, 10))
    bound = bound_of(levels((10, outer), (9, Poisson(probability=FIFTH))), unit=2, clip=2)
    ours = step_profile(bound, noise_multiplier=sigma)
    before, lowered = step_profile(told(bound), noise_multiplier=sigma), False
    for epsilon in (0.0, 0.02, 0.1, 0.3, 0.6):
        for is_swapped in (False, True):
            options = {"is_fixed": is_fixed, "is_swapped": is_swapped}
            by_hand = shared_by_hand((Fraction(3, 10), FIFTH), 9, sigma, epsilon, **options)
            mine, first = ((loss.swapped if is_swapped else loss).delta(epsilon) for loss in (ours, before))
            assert by_hand * (1 - 1e-6) <= mine <= min(by_hand * 1.005 + 1e-9, first * (1 + 1e-6))
            lowered |= mine < 0.95 * first
    assert lowered or sigma < 1


def shared_twice_by_hand(patients, sigma, epsilon, *, is_swapped):
    """Theorem 6.15 for a visit (rate 1/5) of a patient among 5 in a clinic (rate 3/10), by a sum over a line."""
    (rate, in_place), y, total = patients, np.linspace(-40, 60, 40_001), 0.0

    def at(place):
        return np.exp(-(((y - place) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))

    alpha, r_1, r_3 = math.exp(epsilon), 0.3, 0.2
    eta = r_1 * rate * r_3
    visits, stand_in = (binom.pmf(np.arange(7), count, r_3) for count in (5, 6))
    one = stand_in if in_place else (1 - rate) * np.eye(1, 7)[0] + rate * stand_in
    beside = np.ones(1)
    for _ in range(1 if in_place else 4):  # one of two that are drawn, or any of the four others
        beside = np.convolve(beside, one)
    for more, p in enumerate(beside):
        inner = np.zeros(y.size)
        for w, q in enumerate(visits):
            without, with_x = at(more + w), at(more + w + (-1 if is_swapped else 1))
            gained = eta * (with_x - alpha * without) if not is_swapped else eta * (without - alpha * with_x)
            inner += q * np.maximum(gained - (alpha - 1) * r_1 * rate * (1 - r_3) * without, 0.0)
        others = sum(c * at(more - z) for z, c in enumerate(stand_in)) if in_place else at(more)
        total = total + p * np.maximum(inner - (alpha - 1) * r_1 * (1 - rate) * others, 0.0)
    return float(np.maximum(total - (alpha - 1) * (1 - r_1) * at(0), 0.0).sum() * (y[1] - y[0]))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("patients", "known"),
    [(Fixed(size=2), (0.4, True)), (Poisson(probability=Fraction(2, 5)), (0.4, False))],
    ids=["fixed", "poisson"],
)
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_missed_batches_are_shared_at_two_ancestors(patients, known, sigma):
    clinics = 10, Poisson(probability=Fraction(3, 10))
    bound = bound_of(levels(clinics, (5, patients), (6, Poisson(probability=FIFTH))), unit=3, clip=3)
    ours, before = (step_profile(each, noise_multiplier=sigma) for each in (bound, told(bound)))
    lowered = 1.0
    for epsilon, is_swapped in product((0.0, 0.01, 0.05, 0.15, 0.4), (False, True)):
        by_hand = shared_twice_by_hand(known, sigma, epsilon, is_swapped=is_swapped)
        mine, first = ((loss.swapped if is_swapped else loss).delta(epsilon) for loss in (ours, before))
        assert by_hand * (1 - 1e-6) <= mine <= min(by_hand * 1.02 + 1e-9, first * (1 + 1e-6))
        lowered = min(lowered, mine / first if first > 1e-9 else 1.0)
    assert lowered < 0.95


@pytest.mark.heavy
@pytest.mark.parametrize("epsilon", [0.03, 0.3, 0.6])
def test_no_mass_is_lost_where_mates_turn_the_batch_millions_of_deviations_away(epsilon):
    """The place where a half-line begins is known to a float's last digit: it lost .7 % of delta here (.003933)."""
    visits, rate, line, sigma = 10_000_000, Fraction(1, 50), Fraction(9, 10), 0.6
    schemes = (Fixed(size=1), Poisson(probability=rate), Poisson(probability=line))
    counts = zip("abc", (2, visits, 2), schemes, strict=True)
    hierarchy = Hierarchy(levels=tuple(Level(name=name, count=count, scheme=draw) for name, count, draw in counts))
    phase = Phase(name="all", hierarchy=hierarchy, mechanism=Gaussian(noise_multiplier=sigma), clip=3, steps=1)
    plan = Plan(phases=(phase,), unit=3, adjacency=Adjacency.ADD_REMOVE, delta=1e-9)
    # The record and its mate contribute +1, other visits of the clinic 0, and the other clinic lies far away.
    drawn = np.array([0.98, 0.02])
    p = drawn @ [[1, 0, 0], [0.01, 0.18, 0.81]]
    q = drawn @ [[1, 0, 0], [0.1, 0.9, 0]]
    grid = np.linspace(-8, 10, 2_000_001)
    densities = np.exp(-((grid[:, None] - np.arange(3)) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    truth = np.maximum(densities @ (p - math.exp(epsilon) * q), 0).sum() * (grid[1] - grid[0]) / 2
    assert truth * (1 - 1e-9) <= delta_of(plan, epsilon=epsilon).delta <= 1.001 * truth


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("users", "rate", "sigma"), [(2, 0.1, 0.5), (4, 0.2, 0.7), (3, 0.5, 2.0)])
def test_a_user_of_random_contents_is_attained(users, rate, sigma, relation):
    """One of some users, two records each; with the contents of both told a removed one costs up to 4.6 times that."""
    phase = Phase(
        name="all",
        hierarchy=levels((users, Fixed(size=1)), (2, Poisson(probability=Fraction(rate).limit_denominator(10)))),
        mechanism=Gaussian(noise_multiplier=sigma),
        clip=2,
        steps=1,
    )
    plan = Plan(phases=(phase,), unit=1, adjacency=Adjacency(relation), delta=1e-5)
    ahead, back = composed(plan).steps.values()
    law = binom.pmf(range(3), 2, rate)
    for counts, is_back in ((ahead, False), (back, True)):
        # The other users are on the side of what makes an output less likely: of x in D'||D of zeroed ones.
        others = 1 if is_back and relation == ZERO_OUT else -1
        x = -1 if is_back and relation == REPLACE_ONE else 1
        in_place = {ADD_REMOVE: others, ZERO_OUT: 0, REPLACE_ONE: -x}[relation]
        p, q = (
            Mixture.on_line(
                [*((1 - 1 / users) * law), *(law / users)], [*(others * np.arange(3)), *(side * np.arange(3))]
            )
            for side in (x, in_place)
        )
        (loss,) = counts
        for epsilon in (0.02, 0.1, 0.5):
            one, other = (q, p) if is_back else (p, q)
            assert loss.delta(epsilon) == pytest.approx(
                hockey_stick(one, other, sigma, [epsilon])[0], rel=1e-9, abs=1e-15
            )


@pytest.mark.parametrize("block", thinned(range(4), 1))
def test_no_data_set_exceeds_the_bound(block):
    rng = np.random.default_rng([block, 31])
    for _ in range(4):
        question = random_question(rng, most_outcomes=300)
        ratio, values = largest_ratio(question, rng, climbing=False, most_patterns=12)
        assert ratio <= NEVER, (question, values)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(30))
def test_no_data_set_exceeds_the_bound_at_length(block):
    rng = np.random.default_rng([block, 32])
    for _ in range(20):
        question = random_question(rng)
        ratio, values = largest_ratio(question, rng, climbing=True, most_patterns=27)
        assert ratio <= NEVER, (question, values)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_no_data_set_exceeds_the_bound_in_ten_thousand_hierarchies(block):
    """200 in each block; a third of them are attained to 0.1 %."""
    ratios = []
    for number in range(200):
        rng = np.random.default_rng([number, block, 77])
        question = random_question(rng, most_outcomes=60)
        ratios.append(largest_ratio(question, rng, climbing=False, most_patterns=9, randoms=1)[0])
        assert ratios[-1] <= NEVER, question
    assert sum(ratio > 0.999 for ratio in ratios) > 40


def without_the_place_of_the_removed(self, case, *others):
    """The centre of D'||D as if a stand-in brought no more than the removed unit held."""
    contents = min(case.contents, case.contents_swapped)
    return CORRECT_BOUND(self, replace(case, contents_swapped=contents), *others)


def each_ancestor_by_itself(*arguments):
    """The laws of what is drawn under each ancestor, in the joint law that is wrong: large with small."""
    joint = CORRECT_JOINT(*arguments)
    columns = [sorted((beside[k], chance) for chance, beside in joint) for k in range(2)]
    outer, inner = columns[0], columns[1][::-1]
    parts = []
    while outer and inner:
        (w_1, left), (w_2, right) = outer.pop(0), inner.pop(0)
        chance = min(left, right)
        parts.append((chance, (w_1, w_2)))
        outer = [(w_1, left - chance), *outer] if left > chance else outer
        inner = [(w_2, right - chance), *inner] if right > chance else inner
    return tuple(parts)


CORRECT_BOUND, CORRECT_JOINT = mates.Surroundings._bound, mates._joint_mates
COUNTEREXAMPLES = {
    "D' holds a stand-in where the unit was": (
        (mates.Surroundings, "_bound", without_the_place_of_the_removed),
        ([[2, 2], [3, 1], [4, 2]], [("fixed", 1), ("fixed", 1), ("poisson", FIFTH)]),
        ((2, 1), 3, ADD_REMOVE, 0.8168),
        1.05,
    ),
    "ancestors share their mates": (
        (mates, "_joint_mates", each_ancestor_by_itself),
        ([[2, 2], [2, 2]], [("fixed", 1), ("fixed", 1), ("poisson", HALF)]),
        ((0, 0, 0), 3, ZERO_OUT, 3.735),
        1.5,
    ),
}


def largest_excess(tree, draws, question):
    unit, clip, relation, sigma = question
    hierarchy = hierarchy_of(tree, draws)
    table = path_table([(hierarchy, clip)], unit=len(unit))
    paths = [table.paths(row)[0] for row in range(len(table.counts))]
    path = next(path for path in paths if path.place in {unit, ()})
    epsilons = np.log1p(float(path.inclusion(len(unit))) * np.expm1(np.array([0.3, 1.0, 2.0, 3.5]) / sigma))
    options = {"clip": clip, "relation": relation, "sigma": sigma, "epsilons": epsilons}
    bound = own_bound(hierarchy, path, **options)
    experiment = UnequalExperiment(tree, draws, unit, clip, relation)
    truths = [truth_of(experiment, values, sigma, epsilons) for values in role_patterns(experiment)]
    return max(excess(truth, bound, epsilons) for truth in truths)


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_each_condition_of_the_average_is_needed(name, monkeypatch):
    wrong, (tree, draws), question, at_least = COUNTEREXAMPLES[name]
    assert largest_excess(tree, draws, question) <= NEVER
    monkeypatch.setattr(*wrong)
    averaged_unit_bound.cache_clear()
    try:
        assert largest_excess(tree, draws, question) > at_least
    finally:
        averaged_unit_bound.cache_clear()


def test_a_stand_in_depends_on_the_units_that_are_drawn():
    """Users of 1, 2, 3 records, two drawn, the first zeroed: the one left out is not independent of the batch."""
    tree, draws, sigma, epsilon = [1, 2, 3], [("fixed", 2), ("all", None)], 4.0, 0.934816
    worst = 0.0
    independent = []
    for unit in range(3):
        experiment = UnequalExperiment(tree, draws, (unit,), 2, ZERO_OUT)
        others = [records for user, records in enumerate(tree) if user != unit]
        own = tree[unit]
        terms = [(1 / 6, s) for s in others]
        p = Mixture.on_line([2 / 3, *(v for v, _ in terms)], [0, *(s for _, s in terms)])
        q = Mixture.on_line([2 / 3, *(v for v, _ in terms)], [own, *(s for _, s in terms)])
        independent.append(hockey_stick(p, q, sigma, [epsilon])[0])
        truths = [truth_of(experiment, v, sigma, np.array([epsilon]))[1, 0] for v in role_patterns(experiment)]
        hierarchy = hierarchy_of(tree, draws)
        table = path_table([(hierarchy, 2)], unit=1)
        paths = [table.paths(row)[0] for row in range(len(table.counts))]
        path = next(path for path in paths if path.place == (unit,))
        bound = own_bound(hierarchy, path, clip=2, relation=ZERO_OUT, sigma=sigma, epsilons=[epsilon])
        assert max(truths) <= bound[1, 0] * NEVER
        worst = max(worst, *(truth / independent[-1] for truth in truths))
    assert worst > 1.4


def test_draws_of_another_rhythm_are_at_their_largest():
    """Averaged: what is drawn afresh with the unit. Held longer above it, or drawn faster below it: the maximum."""
    half = Poisson(probability=HALF)
    fast = levels((9, Fixed(size=3), 4), (6, Fixed(size=2), 4), (5, half, 1))
    together = levels((9, Fixed(size=3), 4), (6, Fixed(size=2), 4), (5, half, 4))
    (path,) = path_table([(fast, 3)], unit=2).paths(0)
    assert mates.surroundings(fast, path, clip=3, max_mates=100).is_certain
    assert not mates.surroundings(together, path, clip=3, max_mates=100).is_certain


def test_without_random_numbers_the_bound_is_that_of_the_largest_distances():
    fixed = levels((9, Fixed(size=3)), (6, Fixed(size=2)), (5, All()))
    for relation, clip in product((ADD_REMOVE, ZERO_OUT, REPLACE_ONE), (1, 2, 3)):
        assert isinstance(bound_of(fixed, unit=3, clip=clip, relation=relation), StepBound)


def test_the_average_is_never_above_the_largest_distances():
    rng = np.random.default_rng(8)
    for _ in range(25):
        _, _, hierarchy, path, unit, clip, relation, sigma = random_question(rng, 10**9)
        bound = averaged_unit_bound(hierarchy, path, clip=clip, adjacency=Adjacency(relation))
        if isinstance(bound, mates.MatesAverage) and path.inclusion(len(unit)):
            averaged, largest = (step_profile(b, noise_multiplier=sigma) for b in (bound, bound.largest))
            for epsilon in (0.0, 0.01, 0.1, 1.0):
                if isinstance(bound.largest, StepBound):
                    assert averaged.delta(epsilon) <= largest.delta(epsilon) * 1.002 + 1e-15
                    assert averaged.swapped.delta(epsilon) <= largest.swapped.delta(epsilon) * 1.002 + 1e-15


@pytest.mark.parametrize("sigma", [6.0, 40.0])
def test_merged_parts_are_an_upper_bound_and_hardly_looser(sigma):
    """Epsilon rises by less than 1 %."""
    hierarchy = levels((40, Poisson(probability=FIFTH)), (120, Poisson(probability=FIFTH)))
    bound = bound_of(hierarchy, unit=2, clip=2)
    merged = mates.merge_close_parts(bound, noise_multiplier=sigma)
    assert len(merged.parts) < len(bound.parts)
    assert sum(chance for chance, _ in merged.parts) == 1
    ours, exact = (step_profile(told(b), noise_multiplier=sigma) for b in (merged, bound))
    for epsilon in (0.0, 0.001, 0.01, 0.1):
        for a, b in ((ours, exact), (ours.swapped, exact.swapped)):
            assert b.delta(epsilon) * (1 - 1e-9) <= a.delta(epsilon)
    found, reached = (epsilon_bounds({p: 1000}, delta=1e-5, sides=(UPPER,))[0] for p in (ours, exact))
    assert reached * (1 - 1e-6) <= found <= reached * 1.01


def test_many_units_take_little_work():
    hierarchy = levels((1_000, Fixed(size=50)), (10_000, Poisson(probability=Fraction(1, 100))))
    with allowance(5e8):
        step_profile(bound_of(hierarchy, unit=2, clip=2), noise_multiplier=30.0)


@pytest.mark.parametrize("seed", range(40))
def test_a_sum_of_independent_counts_is_an_upper_bound(seed):
    """Every tail against exact fractions."""
    rng = np.random.default_rng(seed)
    number, rate = int(rng.integers(0, 9)), Fraction(int(rng.integers(0, 5)), 4)
    weights = {int(count): int(rng.integers(1, 9)) for count in rng.integers(0, 7, 3)}
    each = {count: Fraction(weight, sum(weights.values())) for count, weight in weights.items()}
    term = {0: 1 - rate}
    for count, chance in each.items():
        term[count] = term.get(count, Fraction(0)) + rate * chance
    exact = {0: Fraction(1)}
    for _ in range(number):
        before, exact = exact, {}
        for (x, p), (y, q) in product(before.items(), term.items()):
            exact[x + y] = exact.get(x + y, Fraction(0)) + p * q
    found = independent_sum(each, number, rate=rate)
    assert sum(found.values()) == 1
    assert min(found.values()) > 0
    for least in range(60):
        tail, allowed = (sum((p for k, p in law.items() if k >= least), Fraction(0)) for law in (exact, found))
        assert tail <= allowed <= tail * (1 + Fraction(3, 10**7)) + Fraction(1, 10**58)


def test_wide_sums_are_upper_bounds():
    """Beyond what one float array holds counts are rounded up: mean and tails against the normal limit."""
    each = binomial(600, Fraction(1, 20))
    found = independent_sum(each, 100_000, rate=HALF)
    mean = sum(count * float(chance) for count, chance in found.items())
    assert sum(found.values()) == 1
    assert mean >= 100_000 * 15
    assert len(found) <= 8_300
    for deviations in (-2.0, 0.0, 3.0, 6.0):
        point = 1_500_000 + deviations * math.sqrt(100_000 * (0.5 * (28.5 + 900) - 225))
        assert float(sum(p for k, p in found.items() if k >= point)) >= math.erfc(deviations / math.sqrt(2)) / 2 * 0.99


@pytest.mark.heavy
def test_other_tasks_turned_against_the_record_cost_more_than_silent_ones():
    """4 of 200 tasks, poisson records: mates with the record, all other tasks against it; and not the golden 1.7936.

    That number belongs to one drawn task: the noise of the other three hides the record.
    """
    hierarchy = levels((200, Fixed(size=4)), (20, Poisson(probability=Fraction(1, 4))))
    gaussian = Gaussian(noise_multiplier=6.0)
    phase = Phase(name="all", hierarchy=hierarchy, mechanism=gaussian, clip=2, steps=20_000)
    plan = Plan(phases=(phase,), unit=2, adjacency=Adjacency.ADD_REMOVE, delta=1e-5)
    masses = binom.pmf(np.arange(21), 20, 0.25)
    mates_masses = binom.pmf(np.arange(20), 19, 0.25)
    three = np.convolve(np.convolve(masses, masses), masses)[::-1]  # sums -60 .. 0
    four = np.convolve(three[::-1], masses)[::-1]  # sums -80 .. 0
    with_task = np.convolve(three, mates_masses)  # sums -60 .. 19
    p, q = np.zeros(101), np.zeros(101)  # sums -80 .. 20
    for side, included in ((p, 0.25), (q, 0.0)):
        side[:81] += 0.98 * four
        side[20:100] += 0.02 * (1 - included) * with_task
        side[21:101] += 0.02 * included * with_task
    centers = np.arange(-80, 21)
    (each,) = lower_end._data_set(plan, phase, composed(plan).units[0]).observations
    for law, expected in zip(each.pair(Contributions((1, -1))), (p, q), strict=True):
        assert [float(law.get(-c, 0)) for c in centers] == pytest.approx(expected, rel=1e-9, abs=1e-18)
    value, is_tight = epsilon_lower(plan)
    assert not is_tight
    assert 1.357 < value < 1.361  # a little more in the plane


CELLS = {
    Laplace: partial(laplace_cells, steps=1),
    DiscreteLaplace: discrete_laplace_cells,
    DiscreteGaussian: discrete_gaussian_cells,
}


def ratio_under_noise(kind, rng, *, most_outcomes, most_patterns):
    """(largest truth / bound of an average under noise on sums, bound / that of the largest numbers)."""
    while True:
        tree, draws, hierarchy, path, unit, clip, relation, scale = random_question(rng, most_outcomes)
        bound = averaged_unit_bound(hierarchy, path, clip=clip, adjacency=Adjacency(relation))
        if isinstance(bound, mates.MatesAverage) and path.inclusion(len(unit)):
            break
    atoms, largest = (any_mechanism._step_loss(kind(noise_multiplier=scale), b) for b in (bound, bound.largest))
    eta = float(path.inclusion(len(unit)))
    epsilons = np.array([0.0, *(math.log1p(eta * math.expm1(e / scale)) for e in (0.1, 0.4, 0.8, 1.5))])
    allowed, plain = (np.array([[a.delta(e) for e in epsilons] for a in (b, b.swapped)]) for b in (atoms, largest))
    experiment = UnequalExperiment(tree, draws, unit, clip, relation)
    patterns = list(role_patterns(experiment))
    rng.shuffle(patterns)
    worst = 0.0
    for values in patterns[:most_patterns]:
        p, q = experiment.mixtures(values)
        rows = CELLS[kind](np.concatenate([p.means, q.means]), scale)
        laws = p.weights @ rows[: len(p.means)], q.weights @ rows[len(p.means) :]
        truth = hockey_sticks(*laws, epsilons)
        worst = max(worst, float(((truth - 1e-13) / np.maximum(allowed, 1e-13)).max()))
    return worst, float((np.maximum(allowed, 1e-13) / np.maximum(plain, 1e-13)).min())


@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.name)
def test_no_data_set_exceeds_the_average_under_other_noise(kind):
    rng = np.random.default_rng(12)
    results = [ratio_under_noise(kind, rng, most_outcomes=300, most_patterns=12) for _ in range(6)]
    assert max(ratio for ratio, _ in results) <= NEVER
    assert min(gain for _, gain in results) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("block", range(5))
def test_no_data_set_exceeds_the_average_under_other_noise_at_length(kind, block):
    rng = np.random.default_rng([block, 13])
    results = [ratio_under_noise(kind, rng, most_outcomes=1000, most_patterns=27) for _ in range(60)]
    assert max(ratio for ratio, _ in results) <= NEVER
    assert max(ratio for ratio, _ in results) > 0.99


@pytest.mark.parametrize("kind", CELLS, ids=lambda kind: kind.name)
def test_other_noise_is_averaged_too(kind):
    """Poisson below a fixed draw: epsilon falls to 2/3 and less of that with the largest numbers."""
    hierarchy = levels((200, Fixed(size=4)), (20, Poisson(probability=Fraction(1, 4))))
    phase = Phase(name="all", hierarchy=hierarchy, mechanism=kind(noise_multiplier=10.0), clip=2, steps=500)
    plan = Plan(phases=(phase,), unit=2, adjacency=Adjacency.ADD_REMOVE, delta=1e-5)
    (each_unit,) = composed(plan).units
    bound = each_unit.bounds[0]
    assert isinstance(bound, mates.MatesAverage)
    loss = any_mechanism._step_loss(phase.mechanism, bound.largest)
    largest = max(epsilon_bounds({side: 500}, delta=1e-5, sides=(UPPER,))[0] for side in (loss, loss.swapped))
    assert guarantee(plan).epsilon < 2 / 3 * largest


def test_costly_averages_keep_one_part_of_each_kind():
    """And not the cost of a step that surely draws the unit."""
    hierarchy = levels((200, Fixed(size=4)), (60, Poisson(probability=FIFTH)), (60, Poisson(probability=FIFTH)))
    bound = bound_of(hierarchy, unit=2, clip=3)
    laplace = Laplace(noise_multiplier=300.0)
    few = mates.with_few_parts(bound)
    assert len(few.parts) < len(bound.largest.parts)
    with allowance(1e7):
        costly = any_mechanism._step_loss(laplace, bound)
    exact = any_mechanism._step_loss(laplace, few)
    for epsilon in (0.0, 0.001, 0.1):
        assert costly.delta(epsilon) == exact.delta(epsilon)
    assert costly.delta(0.001) < laplace.pair(bound.max_shift).delta(0.001) / 20


def test_noise_that_is_not_gaussian_keeps_its_amplification():
    """An average of hundreds of parts would exceed the work on a step, and then nothing would be amplified."""
    half = Poisson(probability=Fraction(1, 10))
    hierarchy = levels((10, Fixed(size=2)), (50, half), (20, Poisson(probability=FIFTH)))
    phase = Phase(name="all", hierarchy=hierarchy, mechanism=Laplace(noise_multiplier=20.0), clip=3, steps=2_000)
    plan = Plan(phases=(phase,), unit=3, adjacency=Adjacency.ADD_REMOVE, delta=1e-5)
    assert guarantee(plan).epsilon < 0.1


def test_many_different_units_share_an_average():
    """That of a path above all of theirs: no unit's data set exceeds it."""
    rng = np.random.default_rng(4)
    ratios = []
    while len(ratios) < 12:
        tree, draws, hierarchy, path, unit, clip, relation, sigma = random_question(rng, 150)
        ways = worst_paths([(hierarchy, clip)], unit=len(unit))
        (shared,) = path_above_all(ways)
        bound = averaged_unit_bound(hierarchy, shared, clip=clip, adjacency=Adjacency(relation))
        if len(ways) == 1 or not isinstance(bound, mates.MatesAverage) or not path.inclusion(len(unit)):
            continue
        epsilons = np.log1p(float(path.inclusion(len(unit))) * np.expm1(np.array([0.3, 1.0, 2.0]) / sigma))
        profile = step_profile(bound, noise_multiplier=sigma)
        allowed = np.array([[side.delta(float(e)) for e in epsilons] for side in (profile, profile.swapped)])
        experiment = UnequalExperiment(tree, draws, unit, clip, relation)
        patterns = list(role_patterns(experiment))
        rng.shuffle(patterns)
        ratios.append(max(excess(truth_of(experiment, v, sigma, epsilons), allowed, epsilons) for v in patterns[:9]))
    assert max(ratios) <= NEVER


def test_no_unit_costs_more_than_those_that_are_composed():
    """Paths are left out for what they can miss in all; averages and joint distances also see how it is shared out."""
    ratios = [unit_ratios(np.random.default_rng([number, 5])) for number in range(4)]
    assert max(map(max, ratios)) <= NEVER


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_unit_costs_more_than_those_that_are_composed_at_length(block):
    ratios = [unit_ratios(np.random.default_rng([number, block, 6])) for number in range(100)]
    assert max(map(max, ratios)) <= NEVER


@pytest.mark.heavy
def test_three_levels_of_different_sizes_are_averaged():
    """(K): .648."""
    tree = [[r] * n for r, n in ((6, 4), (9, 5), (12, 6), (15, 7))]
    hierarchy = hierarchy_of(tree, [("fixed", 2), ("fixed", 2), ("poisson", FIFTH)])
    phase = Phase(name="all", hierarchy=hierarchy, mechanism=Gaussian(noise_multiplier=8.0), clip=3, steps=200)
    assert guarantee(Plan(phases=(phase,), unit=3, adjacency=Adjacency.ADD_REMOVE, delta=1e-5)).epsilon < 0.48
