"""Shuffles against every order there is: upper bounds, lower ends and what is called tight, each for itself."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import DiscreteLaplace, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.planner.composition import composed, protected_units
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.lower_end import delta_lower, epsilon_lower
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.words import assumptions
from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.schemes import All, Fixed, Shuffle
from tests.oracles.brute_force import ADD_REMOVE
from tests.oracles.multistage import bound, data_sets
from tests.oracles.other_noise import discrete_laplace_cells, hockey_sticks, mixtures
from tests.oracles.passes import Passes, Turns, random_passes, truth
from tests.oracles.test_counting_mechanisms import marked, of_units
from tests.oracles.test_other_noise import NOISE, with_mechanism
from tests.oracles.test_other_noise import worst_ratio as other_ratio
from tests.oracles.unequal import units
from tests.runs import of_tree, run_of
from tests.thinning import thinned

SLOW = pytest.mark.slow
NEVER = 1 + 1e-9  # relative slack of two float64 evaluations
ROUND_OFF = 1e-13


def is_answered(problem):
    """Whether the run is not refused; nothing is refused that does not remove."""
    if problem.relation != ADD_REMOVE:
        return True
    try:
        protected_units(problem.plan)
    except InputError:
        return False
    return True


def worst_ratio(problem, rng, **amounts):
    """Largest truth / bound of a run, with the values that reach it."""
    run, epsilons = problem.run, np.array([0.0, 0.04, 1 / problem.sigma, 1.5])
    allowed = np.maximum(bound(problem.plan, epsilons), ROUND_OFF)
    worst, at = 0.0, None
    for values in data_sets(run, rng, **amounts):
        ratio = ((truth(run, values, problem.sigma, epsilons) - ROUND_OFF) / allowed).max()
        if ratio > 0.999:  # in the plane the quick sum is good to three digits
            exact = truth(run, values, problem.sigma, epsilons, per_sigma=256)
            ratio = ((exact - ROUND_OFF) / allowed).max()
        if ratio > worst:
            worst, at = ratio, values
    return worst, at


def check_upper(rng, number, most_outcomes, **amounts):
    done = 0
    while done < number:
        problem = random_passes(rng, most_outcomes=most_outcomes)
        if not is_answered(problem):
            continue
        try:
            ratio, values = worst_ratio(problem, rng, **amounts)
        except OverflowError:  # nested passes have many more histories before they are merged than after
            continue
        assert ratio <= NEVER, (problem, ratio, values)
        done += 1


@pytest.mark.heavy
@pytest.mark.parametrize("block", thinned(range(3), 1))
def test_no_data_set_exceeds_the_bound_of_a_shuffle(block):
    check_upper(np.random.default_rng([block, 41]), 12, 300, extreme=4, random=1, in_plane=0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(60))
def test_no_data_set_exceeds_the_bound_of_a_shuffle_at_length(block):
    check_upper(np.random.default_rng([block, 43]), 15, 800, extreme=10, random=3, in_plane=1)


def simple_patterns(run, most=7):
    """Values -1, 0 or 1 by role; None where there are too many roles."""
    roles = list(dict.fromkeys(run.roles))
    if len(roles) > most:
        return
    for values in itertools.product([1.0, -1.0, 0.0], repeat=len(roles)):
        by_role = dict(zip(roles, values, strict=True))
        yield np.array([[by_role[role] for role in run.roles]] * run.steps)


def alike(problem):
    """The problem of each kind of units at the protected level: a lower end is that of the costliest."""
    if isinstance(problem.sizes, int) or len({*problem.sizes}) == 1:
        return [problem]
    first = {problem.sizes[unit[0]]: unit for unit in units(problem.sizes, len(problem.members[0]))}
    return [replace(problem, members=(unit,)) for unit in first.values()]


def best(problem, epsilon):
    """The most that any simple data set costs whichever unit is protected."""
    return max(best_of_unit(one, epsilon) for one in alike(problem))


def best_of_unit(problem, epsilon):
    """The same of one unit: all steps, or the sums over blocks of them."""
    run, found = problem.run, 0.0
    for values in simple_patterns(run):
        for block in range(problem.steps + 1):
            found = max(found, truth(run, values, problem.sigma, [epsilon], block=block).max())
    return found


def check_lower(rng, number, most_outcomes):
    """Lower ends that some data set reaches; at least a third of them say anything."""
    done = said = 0
    while done < number:
        problem = random_passes(rng, most_outcomes=most_outcomes, group=False)
        if problem.looks > 2 or not is_answered(problem):
            continue
        lower = delta_lower(problem.plan, epsilon=0.1)
        done += 1
        if lower > 1e-9:
            said += 1
            assert lower <= best(problem, 0.1) * (1 + 1e-6), problem
    assert said >= number / 3


@pytest.mark.heavy
def test_some_data_set_costs_as_much_as_the_lower_end_of_a_shuffle_says():
    check_lower(np.random.default_rng(47), 15, 200)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(30))
def test_some_data_set_costs_as_much_as_the_lower_end_of_a_shuffle_says_at_length(block):
    check_lower(np.random.default_rng([block, 53]), 15, 600)


def check_tight(rng, number, most_outcomes):
    """What is called tight costs some data set as much as the bound says, in the costlier direction."""
    done = 0
    while done < number:
        problem = random_passes(rng, most_outcomes=most_outcomes, group=False)
        if problem.steps > 2 or not is_answered(problem):
            continue
        found = epsilon_lower(problem.plan)
        if found is None or not found[1] or not bound(problem.plan, [0.1]).max():
            continue
        done += 1
        runs = [one.run for one in alike(problem)]
        most = max(
            truth(run, v, problem.sigma, [0.1], per_sigma=64).max() for run in runs for v in simple_patterns(run)
        )
        assert most == pytest.approx(bound(problem.plan, [0.1]).max(), rel=2e-3), problem


@pytest.mark.heavy
def test_a_shuffle_that_is_called_tight_is():
    check_tight(np.random.default_rng(59), 4, 200)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_shuffle_that_is_called_tight_is_at_length(block):
    check_tight(np.random.default_rng([block, 61]), 8, 800)


def is_answered_with(problem, mechanism):
    """The same of a mechanism that knows no distances between batches."""
    try:
        composed(with_mechanism(problem, mechanism)).steps  # noqa: B018
    except InputError:
        return problem.relation != ADD_REMOVE  # then to be asked again, and to fail
    return True


def few_outputs(rng, mechanism, most_steps):
    """A run whose outputs can be listed, and which is answered."""
    while True:
        problem = random_passes(rng, most_outcomes=120)
        if problem.steps <= most_steps and is_answered_with(problem, mechanism):
            return problem


AMOUNTS = [(0, 6), *(pytest.param(block, 40, marks=pytest.mark.slow) for block in range(1, 6))]
"""(seed, problems): by default, and in the slow suite."""


@pytest.mark.heavy
@pytest.mark.parametrize(("block", "number"), AMOUNTS)
@pytest.mark.parametrize("kind", NOISE, ids=lambda kind: kind.name)
def test_no_data_set_exceeds_the_bound_under_other_noise(kind, block, number):
    rng = np.random.default_rng([block, 67])
    for _ in range(number):
        problem = few_outputs(rng, kind(noise_multiplier=2.0), 3 if kind is DiscreteLaplace else 2)
        ratio, values = other_ratio(problem, kind, rng, extreme=4, random=1)
        assert ratio <= NEVER, (problem, values)


ONE_STEP = [  # sizes, draws, members of passes that have one step
    ([3], (Turns("drop", 1), Turns("fixed", 3)), ((0, 0), (0, 1))),
    ([3, 3], (Turns(), Turns("drop", 2)), ((0, 0), (1, 0))),
    ([3, 3, 3], (Turns("drop", 2), Turns("drop", 2)), ((0, 0), (1, 0))),
]


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", ADD_REMOVE])
@pytest.mark.parametrize(("sizes", "turns", "members"), ONE_STEP)
@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace], ids=lambda kind: kind.name)
def test_a_group_in_passes_of_one_step(kind, sizes, turns, members, relation):
    """Squared distances add up under Gaussian noise alone: other noise once took them as a distance of 1."""
    problem = Passes(sizes=sizes, turns=turns, members=members, clip=2, relation=relation, sigma=2.97, steps=1)
    ratio, values = other_ratio(problem, kind, np.random.default_rng(3), extreme=6, random=1)
    assert 0.5 < ratio <= NEVER, values


@pytest.mark.heavy
@pytest.mark.parametrize(("block", "number"), AMOUNTS)
def test_no_count_costs_more_than_what_is_promised_of_each_step(block, number):
    """Laplace noise of scale 1 / epsilon on a count of units is epsilon-DP, and told with probability delta else."""
    rng = np.random.default_rng([block, 71])
    for _ in range(number):
        epsilon, told = rng.uniform(0.2, 2), float(rng.choice([0.0, 0.02]))
        mechanism = ApproximateDp(epsilon=epsilon, delta=told)
        problem = of_units(few_outputs(rng, mechanism, 3))
        run, epsilons = problem.run, np.array([0.0, 0.05, 0.5 * epsilon, 1.5 * epsilon, 2.5 * epsilon])
        allowed = np.maximum(bound(with_mechanism(problem, mechanism), epsilons), ROUND_OFF)

        def cells(means, told=told, epsilon=epsilon):
            exact = (means[:, None] == np.unique(means)[None, :]).astype(float)
            return np.hstack([(1 - told) * discrete_laplace_cells(means, 1 / epsilon), told * exact])

        for counts in marked(run, rng):
            p, q = mixtures(run, np.array([counts] * run.steps), cells)
            assert ((hockey_sticks(p, q, epsilons) - ROUND_OFF) / allowed).max() <= NEVER, (problem, mechanism, counts)


def test_the_oracle_sees_a_pass_that_gets_shorter():
    """Three units, two in a batch: once said as if the second batch were released without anybody in it."""
    problem = Passes(3, (Turns("shuffle", 2),), ((0,),), 1, ADD_REMOVE, 1.0, 2)
    run = problem.run
    values = np.array([[-1.0 if role[0] == "unit" else 1.0 for role in run.roles]] * 2)
    assert truth(run, values, 1.0, [7.03], per_sigma=64).max() == pytest.approx(0.0280, rel=0.01)
    assert not is_answered(problem)


def planned(*levels, unit=1, sigma=10.0, steps=11, group=1, **more):
    """A run over levels of (count, scheme), every record clipped."""
    return run_of(*levels, unit=unit, noise=sigma, steps=steps, group_size=group, **more)


HUNDRED = Shuffle(size=100)
SHORTENED = [  # once .820, 1.77, .150, .100 and 4.98; the data set of ones costs 90.3 (Gaussian) and more
    planned((1001, HUNDRED)),
    planned((1002, HUNDRED), group=2),
    planned((1150, HUNDRED), group=50),
    planned((1001, HUNDRED), mechanism=Laplace(noise_multiplier=20.0)),
    planned((1001, HUNDRED), mechanism=ApproximateDp(epsilon=0.05, delta=0.0)),
    planned((101, Shuffle(size=20)), steps=100),
    planned((1000, Shuffle(size=100, drop_last=True))),
    planned((100, Shuffle(size=100, drop_last=True))),
    planned((9, Shuffle(size=1))),
    planned((50, All()), (101, Shuffle(size=10)), unit=2, mechanism=Laplace(noise_multiplier=20.0)),
    planned((50, All()), (101, Shuffle(size=10)), unit=2, group=2),
]


@pytest.mark.parametrize("plan", SHORTENED, ids=range(len(SHORTENED)))
def test_a_removal_that_shortens_passes_is_refused_with_a_way_out(plan):
    with pytest.raises(InputError, match=r"whose passes lose a step.*; use adjacency zero-out or replace-one"):
        guarantee(plan)
    assert guarantee(replace(plan, adjacency=Adjacency.ZERO_OUT)).epsilon < math.inf


@pytest.mark.parametrize("count", range(2, 40))
@pytest.mark.parametrize("drop_last", [False, True])
def test_what_is_refused_is_what_shortens_a_pass(count, drop_last):
    """Against counting the batches; each size that the error names is accepted."""
    for size in range(1, count + 1):
        for group in (1, 2, 5):
            lengths = [
                sum(1 for start in range(0, held, size) if start + size <= held or not drop_last)
                for held in (count, count - group)
            ]
            scheme = Shuffle(size=size, drop_last=drop_last)
            if group < count:
                assert scheme.changes_passes(count, count, group) == (lengths[0] != lengths[1])


def test_ranges_of_sizes_are_refused_where_any_of_them_is():
    for least, most, size, drop_last in itertools.product(range(3, 9), range(3, 12), (1, 2, 3), (False, True)):
        scheme = Shuffle(size=size, drop_last=drop_last)
        if least <= most:
            sizes = range(least, most + 1)
            assert scheme.changes_passes(least, most, 1) == any(scheme.changes_passes(n, n, 1) for n in sizes)


def test_a_removal_that_shifts_a_pass_below_is_refused():
    """Whom a pass leaves out, its own pass runs ahead in D': 600 steps at sigma 5 cost above 100, not 68.8."""
    levels = (101, Shuffle(size=100, drop_last=True)), (2, Shuffle(size=1))
    with pytest.raises(InputError, match=r"expected `drop_last: false` above another shuffle"):
        guarantee(planned(*levels, unit=1))
    assert guarantee(replace(planned(*levels, unit=1), adjacency=Adjacency.ZERO_OUT)).epsilon > 0


def test_sizes_that_the_refusal_names_are_accepted():
    plan = planned((1001, HUNDRED))
    with pytest.raises(InputError, match=r"set drop_last: true or take size 99$"):
        guarantee(plan)
    for scheme in (Shuffle(size=100, drop_last=True), Shuffle(size=99)):
        assert 0.8 < guarantee(planned((1001, scheme))).epsilon < 1.1
    with pytest.raises(InputError, match=r"take size 3$"):  # no smaller one is left
        guarantee(planned((9, Shuffle(size=1))))


@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("count", [2, 3])
def test_a_group_in_passes_costs_at_most_what_group_privacy_says(adjacency, count):
    """(e, d) of one unit is (k e, d (1 + e^e + ... + e^((k - 1) e))) of k, whatever a step does."""
    levels, options = (10, Shuffle(size=3, drop_last=True)), {"steps": 3, "adjacency": adjacency}
    for mechanism in (Laplace(noise_multiplier=2.0), ApproximateDp(epsilon=0.5, delta=0.0)):
        together = guarantee(planned(levels, mechanism=mechanism, group=count, **options)).epsilon
        growth = sum(math.exp(i * together / count) for i in range(count))
        alone = guarantee(planned(levels, mechanism=mechanism, delta=1e-5 / growth, **options)).epsilon
        assert together <= count * alone * (1 + 1e-9)


def test_passes_of_one_parent_are_covered_by_replacing_it():
    """The 101st record of a user: 100 others of +1 move by one turn. Once .385; that data set costs 1.77."""
    plan = planned((50, All()), (101, Shuffle(size=10)), unit=2, sigma=20.0)
    assert guarantee(plan).epsilon >= 1.77
    assert epsilon_lower(plan)[1] is False


def test_solvers_pass_over_sizes_that_are_refused():
    found = solve(planned((101, Shuffle(size=10)), steps=100), "rate", goal=EpsilonGoal(limit=5.0))
    assert 100 % found.value > 0  # a divisor of 100 leaves one of 101 for the last batch
    assert 100 % found.fails_at > 0
    assert guarantee(found.plan).epsilon <= 5.0
    group = solve(planned((1004, HUNDRED), sigma=100.0), "group", goal=EpsilonGoal(limit=50.0))
    assert (group.value, group.fails_at) == (3, None)


@pytest.mark.heavy
@pytest.mark.parametrize(("adjacency", "limit"), thinned([(Adjacency.ZERO_OUT, 1.4), (Adjacency.ADD_REMOVE, 2.2)], 1))
def test_the_largest_size_that_drops_its_last_batch(adjacency, limit):
    """Epsilon does not grow with the size: above half of the units a pass is one step, and leaves many out."""

    def run(size):
        scheme = Shuffle(size=size, drop_last=True)
        return planned((60, scheme), steps=20, sigma=8.0, adjacency=adjacency)

    found = solve(run(7), "rate", goal=EpsilonGoal(limit=limit))
    sizes = [size for size in range(1, 60) if adjacency is Adjacency.ZERO_OUT or 60 % size]
    meets = [size for size in sizes if guarantee(run(size)).epsilon <= limit]
    assert found.value == max(meets)
    assert found.fails_at == min(size for size in sizes if size > found.value)


def test_a_record_below_two_shuffles_has_its_turn_once_in_both():
    """A record is in 4 of 100 turns of its user at most: once 6.00, with a lower end of 3.70."""
    two, tall = Shuffle(size=2), {"unit": 2, "adjacency": Adjacency.ZERO_OUT, "delta": 0.01}
    plan = planned((4, two), (60, two), sigma=5.0, steps=200, **tall)
    exact = 4**0.5 / 5  # mu of four Gaussian releases
    revealed = next(x / 1000 for x in range(5000) if profile_of(exact, x / 1000) <= 0.01)
    assert guarantee(plan).epsilon == pytest.approx(revealed, abs=2e-3)
    assert epsilon_lower(plan)[0] <= 0.683
    assert delta_lower(planned((4, two), (6, two), sigma=1.0, steps=2, **tall), epsilon=0.5) <= 0.0692


def profile_of(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


@pytest.mark.heavy
@pytest.mark.parametrize("relation", list(Adjacency))
def test_passes_of_one_step_are_fixed_draws(relation):
    """Above half of the units: every pass is one batch, drawn afresh."""
    dropped = planned((1000, Shuffle(size=900, drop_last=True)), sigma=5.0, steps=100, adjacency=relation)
    fixed = planned((1000, Fixed(size=900)), sigma=5.0, steps=100, adjacency=relation)
    assert guarantee(dropped).epsilon == guarantee(fixed).epsilon
    assert epsilon_lower(dropped) == epsilon_lower(fixed)


def test_the_last_batch_dropped():
    """Data sets of others 0, or -1: once 6.58 and 19.7 where the steps really run were given."""
    thousand = planned((1000, Shuffle(size=900, drop_last=True)), sigma=5.0, steps=100, adjacency=Adjacency.ZERO_OUT)
    five = planned((5, Shuffle(size=3, drop_last=True)), sigma=0.5, steps=8, adjacency=Adjacency.ZERO_OUT, delta=1e-3)
    assert 8.83 <= epsilon_lower(thousand)[0] <= guarantee(thousand).epsilon <= 9.0
    assert 26.35 <= epsilon_lower(five)[0] <= guarantee(five).epsilon <= 26.7


def test_what_a_pass_needs_is_said():
    below = planned((4, Shuffle(size=2)), (7, Shuffle(size=3)), unit=2)
    assert [line for line in assumptions(below) if "goes on whenever that unit has its turn" in line]
    exact = "a pass of the other one has as many steps"
    assert [line for line in assumptions(planned((1000, HUNDRED))) if line.endswith(exact)]
    for plan in (planned((1000, HUNDRED), adjacency=Adjacency.ZERO_OUT), planned((50, All()), (101, HUNDRED), unit=2)):
        assert not [line for line in assumptions(plan) if line.endswith(exact)]


def of_sizes(problem_levels, sizes, **options):
    """A run over a tree of one or several parents."""
    plan = planned(*((max(len(sizes), *sizes), one) for one in problem_levels), **options)
    hierarchy = of_tree(tree_of(sizes, ["level 1", "level 2"]), ["level 1", "level 2"], problem_levels)
    return replace(plan, phases=(replace(plan.phases[0], hierarchy=hierarchy),))


EPSILONS = [0.1]
SMALL = {"unit": 2, "sigma": 3.0, "steps": 12}


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("clip", [1, 2])
@pytest.mark.parametrize("outer", [All(), Shuffle(size=2)], ids=["all", "shuffle"])
@pytest.mark.parametrize(
    "ends", [(5, 7, 3), *(pytest.param(ends, marks=SLOW) for ends in [(5, 5, 3), (4, 5, 4), (2, 9, 2), (7, 8, 4)])]
)
def test_sizes_between_two_ends_cost_no_less_than_each_of_them(outer, ends, clip, adjacency):
    least, most, size = ends
    inner = Shuffle(size=size, drop_last=True)
    levels = Level(name="a", count=3, scheme=outer), Level(name="b", count=most, min_count=least, scheme=inner)
    plan = planned((3, outer), (most, inner), adjacency=adjacency, **SMALL)
    plan = replace(plan, phases=(replace(plan.phases[0], clip=clip, hierarchy=Hierarchy(levels=levels)),))
    between = bound(plan, EPSILONS).max(axis=0)
    for count in range(least, most + 1):
        one = planned((3, outer), (count, inner), adjacency=adjacency, **SMALL)
        one = replace(one, phases=(replace(one.phases[0], clip=clip),))
        assert (bound(one, EPSILONS).max(axis=0) <= between * NEVER + ROUND_OFF).all()


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize("group", [1, pytest.param(2, marks=SLOW)])
@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize("outer", [All(), Shuffle(size=2), Shuffle(size=2, drop_last=True)])
def test_frames_put_together_cost_no_less_than_each_of_them(outer, adjacency, group, monkeypatch):
    inner = Shuffle(size=3, drop_last=True)
    sizes = [3, 4, 5, 7, 9]
    options = {"adjacency": adjacency, "group": group, **SMALL}
    tree = of_sizes((outer, inner), sizes, **options)
    apart = bound(tree, EPSILONS).max(axis=0)
    for size in sizes:
        alone = bound(planned((len(sizes), outer), (size, inner), **options), EPSILONS).max(axis=0)
        assert (alone <= apart * NEVER + ROUND_OFF).all()
    monkeypatch.setattr("dpcalc.sampling.paths.MAX_PATHS", 2)
    together = bound(tree, EPSILONS).max(axis=0)
    assert (apart <= together * NEVER + ROUND_OFF).all()


def test_a_refusal_of_very_large_batches_is_quick():
    """Once all sizes up to twice the stated one were put in order: gigabytes of them."""
    with pytest.raises(InputError, match=r"take size 99999999$"):
        guarantee(planned((10**9 + 1, Shuffle(size=10**8))))
