"""What every mechanism's cost must satisfy, under every scheme, relation and group, over random plans.

Laws as in `test_plan_laws`; of mechanisms that are known by their divergences alone only the moment bounds are asked.
"""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, Exponential, RandomizedResponse, RdpTable, Zcdp
from dpcalc.mechanisms.kinds import MECHANISMS as REGISTERED
from dpcalc.mechanisms.kinds import mechanism_class
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.statement import unsampled_epsilon
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle, WithReplacement
from tests.laws.law import law


def table(rho):
    return RdpTable(curve=tuple((float(order), rho * order) for order in (2, 3, 4, 8, 16, 64, 300)))


CLOSE = 1e-5  # of chords, of orders that are found to four digits
NOISE = st.floats(0, 1).map(lambda x: 10**x)
MECHANISMS = {
    "laplace": st.builds(Laplace, noise_multiplier=NOISE),
    "discrete-laplace": st.builds(DiscreteLaplace, noise_multiplier=NOISE),
    "discrete-gaussian": st.builds(DiscreteGaussian, noise_multiplier=NOISE),
    "randomized-response": st.builds(RandomizedResponse, truth_probability=st.floats(0.5, 0.9)),
    "approximate-dp": st.builds(ApproximateDp, epsilon=st.floats(0.01, 1), delta=st.sampled_from([0.0, 1e-10])),
    "zcdp": st.builds(Zcdp, rho=st.floats(1e-4, 0.5)),
    "exponential": st.builds(Exponential, epsilon=st.floats(0.01, 1)),
    "rdp-curve": st.floats(1e-4, 0.5).map(table),
}


def weaker(mechanism, factor):
    """One that tells less."""
    match mechanism:
        case Laplace() | DiscreteLaplace() | DiscreteGaussian():
            return replace(mechanism, noise_multiplier=mechanism.noise_multiplier * factor)
        case RandomizedResponse():
            return replace(mechanism, truth_probability=0.5 + (mechanism.truth_probability - 0.5) / factor)
        case Zcdp():
            return replace(mechanism, rho=mechanism.rho / factor)
        case RdpTable():
            return table(mechanism.curve[0][1] / 2 / factor)
        case _:
            return replace(mechanism, epsilon=mechanism.epsilon / factor)


def test_every_mechanism_is_here():
    boxes = {name: mechanism_class(name).__mro__ for name in REGISTERED}
    registered = {name for name, bases in boxes.items() if "BlackBox" in {base.__name__ for base in bases}}
    assert MECHANISMS.keys() == registered - {"pure-dp"}  # another way to write approximate-dp


MOST_REMOVED = 4  # units of the largest group of a law, and one more


@st.composite
def plans(draw, *, levels=2, groups=True):
    """One phase of any mechanism; a group has room."""
    mechanism = draw(MECHANISMS[draw(st.sampled_from(sorted(MECHANISMS)))])
    counts = [draw(st.sampled_from([8, 200])), draw(st.integers(4, 9))][: draw(st.integers(1, levels))]
    unit, relation = draw(st.integers(1, len(counts))), draw(st.sampled_from(Adjacency))
    if isinstance(mechanism, RandomizedResponse):
        unit, relation = len(counts), Adjacency.REPLACE_ONE
    shuffled = draw(st.integers(1, 8))  # as a level; mostly none
    found = []
    for number, count in enumerate(counts, start=1):
        size = st.integers(1, max(1, count - 4))
        kinds = [Fixed(size=draw(size)), Poisson(probability=Fraction(draw(st.integers(1, 99)), 100)), All()]
        kinds.append(WithReplacement(size=draw(st.integers(1, 6))))
        scheme = draw(st.sampled_from(kinds))
        if number <= shuffled <= len(counts):
            scheme = Shuffle(size=draw(size)) if number == shuffled else All()
        found.append(Level(name=f"level {number}", count=count, scheme=scheme))
    protected = found[unit - 1]
    if isinstance(protected.scheme, Shuffle) and (protected.count - 1) % protected.scheme.size < MOST_REMOVED:
        relation = Adjacency.ZERO_OUT if relation is Adjacency.ADD_REMOVE else relation  # a pass would lose a step
    hierarchy, steps = Hierarchy(levels=tuple(found)), draw(st.integers(1, 60))
    phase = Phase(name="phase", hierarchy=hierarchy, mechanism=mechanism, clip=len(counts), steps=steps)
    size = draw(st.sampled_from([1, 1, 2, 3])) if groups else 1
    return Plan(phases=(phase,), unit=unit, adjacency=relation, delta=1e-6, group_size=size)


def changed(plan, **changes):
    return replace(plan, phases=(replace(plan.phases[0], **changes), *plan.phases[1:]))


def epsilon(plan, method="rdp"):
    return guarantee(plan, method=method).epsilon


def costs_no_more(cheap, dear):
    small, large = epsilon(cheap), epsilon(dear)
    assert small <= large * (1 + CLOSE) + 1e-9
    if cheap.knows_losses and large < math.inf:
        assert least(cheap) <= epsilon(dear, "auto") * (1 + CLOSE) + 1e-9


def least(plan):
    """The certified lower end of what the bound says."""
    found = [*composed(plan).steps.values()]
    try:
        return max(epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER))[1] for counts in found if counts)
    except ConvergenceError:
        return 0.0


@pytest.mark.heavy
@law(plans(), st.floats(1.05, 5))
def test_epsilon_falls_where_a_mechanism_tells_less(plan, factor):
    costs_no_more(changed(plan, mechanism=weaker(plan.phases[0].mechanism, factor)), plan)


@law(plans(), st.integers(1, 50))
def test_epsilon_rises_in_steps(plan, more):
    costs_no_more(plan, changed(plan, steps=plan.phases[0].steps + more))


@pytest.mark.heavy
@law(plans(), st.integers(1, 50))
def test_epsilon_rises_in_a_poisson_rate(plan, hundredths):
    levels = list(plan.phases[0].hierarchy.levels)
    at = next((i for i, one in enumerate(levels[: plan.unit]) if isinstance(one.scheme, Poisson)), None)
    assume(at is not None and levels[at].scheme.probability < 1)
    rate = min(Fraction(99, 100), levels[at].scheme.probability + Fraction(hundredths, 100))
    levels[at] = replace(levels[at], scheme=Poisson(probability=rate))
    assume(rate >= plan.phases[0].hierarchy.levels[at].scheme.probability)
    costs_no_more(plan, changed(plan, hierarchy=Hierarchy(levels=tuple(levels))))


@pytest.mark.heavy
@law(plans(groups=False))
def test_larger_groups_cost_no_less(plan):
    costs_no_more(plan, replace(plan, group_size=2))
    if plan.unit == 1:
        costs_no_more(replace(plan, group_size=2), replace(plan, group_size=3))


@pytest.mark.heavy
@law(plans(groups=False))
def test_replacing_a_unit_covers_all_that_is_in_it(plan):
    """Of noise on a sum; under other mechanisms one unit of any level is one change."""
    mechanism, schemes = plan.phases[0].mechanism, [x.scheme for x in plan.phases[0].hierarchy.levels]
    assume(plan.unit == 2 and isinstance(mechanism, Laplace | DiscreteLaplace | DiscreteGaussian))
    assume(all(isinstance(scheme, Fixed | Poisson | All) for scheme in schemes))
    costs_no_more(plan, replace(plan, unit=1, adjacency=Adjacency.REPLACE_ONE))


@pytest.mark.heavy
@law(plans())
def test_sampling_never_costs(plan):
    assert epsilon(plan, "auto") <= unsampled_epsilon(plan) * (1 + 1e-4) + 1e-9


@pytest.mark.heavy
@law(plans())
def test_the_order_of_accountants(plan):
    found = {}
    for method in ACCOUNTANTS:
        try:
            found[method] = epsilon(plan, method)
        except (UnsupportedError, ConvergenceError):
            assert method == "pld" or not plan.knows_losses
    assert found["rdp"] <= found["rdp-classic"] * (1 + CLOSE) + 1e-9
    assert found["rdp-classic"] <= found["moments"] * (1 + CLOSE) + 1e-9
    if plan.knows_losses:
        assert least(plan) <= min(found.values()) * (1 + CLOSE) + 1e-9
        assert found["optimal"] <= min(found["basic"], found["advanced"]) * (1 + 1e-6) + 1e-9
        assert found.get("pld", 0.0) <= min(found["rdp"], found["optimal"]) * (1 + 1e-4) + 1e-9


@pytest.mark.heavy
@law(plans(groups=False))
def test_the_lower_end_is_below_and_tight_where_it_says_so(plan):
    found = evaluate(plan).guarantee
    if found.epsilon_lower is not None:
        assert found.epsilon_lower <= found.epsilon
        if found.tight and plan.knows_losses:
            assert found.epsilon_lower >= 0.98 * found.epsilon - 0.01


@law(plans())
def test_phases_in_any_order_beside_a_gaussian_one(plan):
    hierarchy = plan.phases[0].hierarchy
    mechanism = Gaussian(noise_multiplier=20.0)
    beside = Phase(name="gaussian", hierarchy=hierarchy, mechanism=mechanism, clip=hierarchy.depth, steps=5)
    first = epsilon(replace(plan, phases=(beside, *plan.phases)))
    second = epsilon(replace(plan, phases=(*plan.phases, beside)))
    assert first == pytest.approx(second, rel=1e-9)
    assert max(epsilon(plan), epsilon(replace(plan, phases=(beside,)))) <= first * (1 + CLOSE) + 1e-9


@law(plans())
def test_a_phase_without_steps_costs_nothing(plan):
    idle = replace(plan.phases[0], name="idle", steps=0)
    assert epsilon(replace(plan, phases=(*plan.phases, idle))) == epsilon(plan)
    assert epsilon(replace(plan, phases=(idle,))) == 0
