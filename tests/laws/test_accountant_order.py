"""Which accountant may be above which, over random plans.

pld lower <= inversion <= pld upper <= rdp <= rdp-classic <= moments,
optimal <= min(basic, advanced), and no bound below pld lower.
"""

from fractions import Fraction

import pytest
from hypothesis import strategies as st

from dpcalc.accountants import accountant_of
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.errors import ConvergenceError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.composition import composed, is_noiseless
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.laws.law import law

# a cell too wide for the tilt has an infinite price, and is cut; that is how it finds out
PAID = 1e-4  # pld spends part of delta on rare losses and on round-off
NUMERICAL = 1e-9

OUTER, INNER = st.sampled_from([2, 10, 1_000, 100_000]), st.sampled_from([2, 3, 10])
RATES = st.builds(Fraction, st.integers(1, 30), st.sampled_from([30, 300, 3_000, 100_000]))


@st.composite
def shapes(draw):
    """Names and counts of one to three levels."""
    return [("outer", draw(OUTER)), *((f"inner {n}", draw(INNER)) for n in range(draw(st.integers(0, 2))))]


@st.composite
def phases(draw, shape):
    levels = []
    for name, count in shape:
        draws = [st.builds(Poisson, probability=RATES), st.builds(Fixed, size=st.integers(1, min(count, 20)))]
        scheme = draw(st.one_of(*draws, *([] if count > 10 else [st.just(All())])))
        levels.append(Level(name=name, count=count, scheme=scheme))
    return Phase(
        name="phase",
        hierarchy=Hierarchy(levels=tuple(levels)),
        mechanism=Gaussian(noise_multiplier=10 ** draw(st.floats(0, 2.5))),
        clip=draw(st.integers(0, min(len(shape), 2))),
        steps=int(10 ** draw(st.floats(0, 5))),
    )


@st.composite
def plans(draw, most_phases=2):
    shape = draw(shapes())
    return Plan(
        phases=tuple(draw(phases(shape)) for _ in range(draw(st.integers(1, most_phases)))),
        unit=draw(st.integers(1, len(shape))),
        adjacency=draw(st.sampled_from(Adjacency)),
        delta=10 ** draw(st.floats(-12, -2)),
    )


def at_most(small, large, *, slack=NUMERICAL):
    return small <= large * (1 + slack) + slack


def directions(plan):
    """Steps of each direction that has any."""
    found = [] if is_noiseless(plan) else [*composed(plan).steps.values()]
    return [counts for counts in found if counts]


def bounds(plan, counts, *names):
    """Epsilon by accountants that always reach an answer."""
    return [accountant_of(name)(counts, delta=plan.delta).epsilon for name in names]


def ends_of(counts, delta):
    """Certified upper and lower end; None where there is none."""
    try:
        return epsilon_bounds(counts, delta=delta, sides=(UPPER, LOWER))
    except ConvergenceError:
        return None


# its D'||D direction has losses of at most -log(1 - 1/30)
BOUNDED = Plan(
    phases=(
        Phase(
            name="phase",
            hierarchy=Hierarchy(
                levels=(Level(name="outer", count=2, scheme=Poisson(probability=Fraction(1, 30))),),
            ),
            mechanism=Gaussian(noise_multiplier=1.0),
            clip=1,
            steps=31,
        ),
    ),
    unit=1,
    adjacency=Adjacency.ADD_REMOVE,
    delta=1e-5,
)


@pytest.mark.heavy
@law(plans(), few=5)
def test_moment_bounds(plan):
    for counts in directions(plan):
        rdp, classic, moments = bounds(plan, counts, "rdp", "rdp-classic", "moments")
        assert at_most(rdp, classic)
        assert at_most(classic, moments)


@pytest.mark.heavy
@law(plans(), few=5)
def test_the_certified_interval_is_below_every_other_bound(plan):
    for counts in directions(plan):
        ends = ends_of(counts, plan.delta)
        if ends is not None:
            upper, lower = ends
            assert lower <= upper
            assert at_most(upper, min(bounds(plan, counts, "rdp", "optimal")), slack=PAID)


@pytest.mark.heavy
@law(plans(), few=5, examples=[BOUNDED])
def test_inversion_lies_in_the_certified_interval(plan):
    for counts in directions(plan):
        ends = ends_of(counts, plan.delta)
        try:
            estimate = inversion(counts, delta=plan.delta)
        except ConvergenceError:
            continue
        if ends is not None:
            upper, lower = ends
            assert at_most(lower, estimate)
            assert at_most(estimate, upper)


@pytest.mark.heavy
@law(plans(), few=5)
def test_optimal_composition_is_never_above_basic_and_advanced(plan):
    for counts in directions(plan):
        optimal, basic, advanced = bounds(plan, counts, "optimal", "basic", "advanced")
        assert at_most(optimal, min(basic, advanced))
