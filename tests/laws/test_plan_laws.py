"""What every plan's cost must satisfy, whatever the bound, over random plans.

Where two plans are compared, one costs no more than the other by the law; then the certified lower end of the first is
not above the certified upper end of the second, and the moment bounds, which are smooth, are in order to round-off.
"""

import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from dpcalc.accountants import ACCOUNTANTS, accountant_of
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.errors import ConvergenceError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import repeated
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.laws.law import law
from tests.oracles.exact_gaussian import exact_epsilon

ROUND_OFF = 1e-9  # of a moment bound: its moments are good to 1e-12, its order to 1e-4
PAID = 1e-4  # pld spends part of delta on rare losses and on round-off
NOISE = st.floats(0, 2).map(lambda x: 10**x)
STEPS = st.floats(0, 5).map(lambda x: int(10**x))
DELTA = st.floats(-12, -2).map(lambda x: 10**x)


@st.composite
def schemes(draw, count):
    if draw(st.booleans()):
        return Poisson(probability=Fraction(draw(st.integers(1, 1000)), 1000 * draw(st.sampled_from([1, 100]))))
    return Fixed(size=draw(st.integers(1, max(1, count - 1))))


@st.composite
def plans(draw, phases=1, levels=2):
    """One level or more, any relation, unit and clipping level."""
    counts = [draw(st.sampled_from([5, 100, 10_000])), draw(st.integers(2, 9)), 3][: draw(st.integers(1, levels))]
    unit, clip = draw(st.integers(1, len(counts))), draw(st.integers(0, len(counts)))

    def phase(n):
        levels = [Level(name=f"level {i}", count=c, scheme=draw(schemes(c))) for i, c in enumerate(counts)]
        hierarchy, noise = Hierarchy(levels=tuple(levels)), Gaussian(noise_multiplier=draw(NOISE))
        return Phase(name=f"phase {n}", hierarchy=hierarchy, mechanism=noise, clip=clip, steps=draw(STEPS))

    return Plan(
        phases=tuple(phase(n) for n in range(phases)),
        unit=unit,
        adjacency=draw(st.sampled_from(Adjacency)),
        delta=draw(DELTA),
    )


def changed(plan, **changes):
    """The first phase otherwise."""
    return replace(plan, phases=(replace(plan.phases[0], **changes), *plan.phases[1:]))


def with_scheme(plan, number, scheme):
    levels = list(plan.phases[0].hierarchy.levels)
    levels[number] = replace(levels[number], scheme=scheme)
    return changed(plan, hierarchy=Hierarchy(levels=tuple(levels)))


def ends(plan):
    """Certified ends of the costlier direction's epsilon; the law holds for every direction, so for the largest."""
    found = [*composed(plan).steps.values()]
    try:
        both = [
            epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER)) if counts else (0.0, 0.0) for counts in found
        ]
    except ConvergenceError:
        return math.inf, 0.0
    return max(upper for upper, _ in both), max(lower for _, lower in both)


def delta_ends(counts, epsilon):
    """Certified ends of delta, all of [0, 1] where there are none."""
    try:
        return delta_bounds(counts, epsilon=epsilon, sides=(UPPER, LOWER))
    except ConvergenceError:
        return 1.0, 0.0


def costs_no_more(cheap, dear):
    assert ends(cheap)[1] <= ends(dear)[0]
    small, large = (guarantee(plan, method="rdp").epsilon for plan in (cheap, dear))
    assert small <= large * (1 + ROUND_OFF) + 1e-12


@pytest.mark.heavy
@law(plans(), st.floats(1.01, 10))
def test_epsilon_falls_in_noise(plan, factor):
    noise = plan.phases[0].mechanism.noise_multiplier
    costs_no_more(changed(plan, mechanism=Gaussian(noise_multiplier=noise * factor)), plan)


@pytest.mark.heavy
@law(plans(), st.floats(1.1, 1e4))
def test_epsilon_falls_in_delta(plan, factor):
    costs_no_more(replace(plan, delta=min(plan.delta * factor, 0.5)), plan)


@pytest.mark.heavy
@law(plans(), st.integers(1, 1000))
def test_epsilon_rises_in_steps(plan, more):
    costs_no_more(plan, changed(plan, steps=plan.phases[0].steps + more))


@pytest.mark.heavy
@law(plans(), st.integers(1, 1000))
def test_epsilon_rises_in_a_poisson_rate(plan, thousandths):
    number = plan.unit - 1  # below it a larger rate changes no distance, above it the law is not claimed
    scheme = plan.phases[0].hierarchy.levels[number].scheme
    assume(number == 0 and isinstance(scheme, Poisson))
    rate = min(Fraction(1), scheme.probability + Fraction(thousandths, 1000))
    assume(rate < 1)
    costs_no_more(plan, with_scheme(plan, number, Poisson(probability=rate)))


@pytest.mark.heavy
@law(plans(), st.integers(1, 1000))
def test_epsilon_rises_in_a_fixed_size_below_the_count(plan, more):
    level = plan.phases[0].hierarchy.levels[0]
    assume(plan.unit == 1 and isinstance(level.scheme, Fixed))
    size = level.scheme.size + more
    assume(size < level.count)
    costs_no_more(plan, with_scheme(plan, 0, Fixed(size=size)))


@law(plans())
def test_n_steps_are_n_copies_of_one(plan):
    few = changed(plan, steps=min(plan.phases[0].steps, 200))
    for counts in composed(few).steps.values():
        ((curve, count),) = counts.items()
        assert repeated({curve: 1}, count) == counts
    split = replace(few, phases=(replace(few.phases[0], name="first"), replace(few.phases[0], name="second")))
    whole = changed(few, steps=2 * few.phases[0].steps)
    assert guarantee(split).epsilon == guarantee(whole).epsilon


@pytest.mark.heavy
@law(plans(phases=2))
def test_the_order_of_phases_is_irrelevant(plan):
    turned = replace(plan, phases=plan.phases[::-1])
    for name in ("rdp", "moments"):
        here, there = (guarantee(p, method=name).epsilon for p in (plan, turned))
        assert here == pytest.approx(there, rel=1e-9, abs=1e-12)
    upper, lower = ends(plan)
    upper_turned, lower_turned = ends(turned)
    assert max(lower, lower_turned) <= min(upper, upper_turned)


@pytest.mark.heavy
@law(plans(), plans())
def test_a_phase_without_steps_or_draws_costs_nothing(plan, other):
    hierarchy = plan.phases[0].hierarchy
    never = Level(name="level 0", count=hierarchy.levels[0].count, scheme=Poisson(probability=Fraction(0)))
    without = replace(plan.phases[0], name="idle", steps=0, mechanism=other.phases[0].mechanism)
    idle = replace(without, steps=1000, hierarchy=Hierarchy(levels=(never, *hierarchy.levels[1:])))
    longer = replace(plan, phases=(without, *plan.phases, idle))
    assert guarantee(longer).epsilon == guarantee(plan).epsilon
    assert guarantee(replace(plan, phases=(without,))).epsilon == 0
    assert guarantee(replace(plan, phases=(replace(idle, mechanism=Gaussian(noise_multiplier=0.0)),))).epsilon == 0


@law(plans())
def test_rate_one_is_no_sampling(plan):
    for number in range(len(plan.phases[0].hierarchy.levels)):
        count = plan.phases[0].hierarchy.levels[number].count
        drawn = [Poisson(probability=Fraction(1)), Fixed(size=count), All()]
        first, *rest = (guarantee(with_scheme(plan, number, scheme)).epsilon for scheme in drawn)
        assert rest == [first, first]


@law(DELTA, STEPS, st.floats(-1, 1), st.sampled_from(Adjacency))
def test_without_sampling_the_exact_gaussian_is_inside(delta, steps, exponent, adjacency):
    level = Level(name="record", count=100, scheme=All())
    shift = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    sigma = shift * math.sqrt(steps) / 10**exponent
    phase = Phase(
        name="all",
        hierarchy=Hierarchy(levels=(level,)),
        mechanism=Gaussian(noise_multiplier=sigma),
        clip=1,
        steps=steps,
    )
    upper, lower = ends(Plan(phases=(phase,), unit=1, adjacency=adjacency, delta=delta))
    exact = exact_epsilon(steps, sigma / shift, delta)
    assert lower <= exact <= upper
    assert upper - lower <= max(1e-3 * exact, 1e-6)


@pytest.mark.heavy
@law(plans(), st.lists(st.floats(-3, 1), min_size=2, max_size=2), few=3)
def test_delta_lies_in_the_unit_interval_and_falls(plan, exponents):
    epsilons = sorted(10**x for x in exponents)
    for counts in composed(plan).steps.values():
        found = [delta_ends(counts, e) for e in epsilons]
        assert all(0 <= lower <= upper <= 1 for upper, lower in found)
        assert all(later[1] <= earlier[0] for earlier, later in pairwise(found))


@law(plans())
def test_delta_at_the_certified_epsilon_is_no_larger(plan):
    """delta(upper end of epsilon) <= delta <= delta(lower end of epsilon), each by its own certified end."""
    for counts in composed(plan).steps.values():
        try:
            upper, lower = epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER))
        except ConvergenceError:
            continue
        assert delta_ends(counts, upper)[1] <= plan.delta
        if lower:
            assert delta_ends(counts, lower)[0] >= plan.delta


# Its D'||D direction has losses of at most -log(1 - 1/30).
BOUNDED = Plan(
    phases=(
        Phase(
            name="phase",
            hierarchy=Hierarchy(levels=(Level(name="outer", count=2, scheme=Poisson(probability=Fraction(1, 30))),)),
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
@law(plans(phases=2, levels=3), few=5, examples=[BOUNDED])
def test_the_order_of_accountants(plan):
    """pld lower <= all, pld upper <= rdp <= rdp-classic <= moments, optimal <= min(basic, advanced)."""
    for counts in filter(None, composed(plan).steps.values()):
        found = {}
        for name in ACCOUNTANTS:
            try:
                found[name] = accountant_of(name)(counts, delta=plan.delta).epsilon
            except ConvergenceError:
                assert name in {"pld", "optimal"}
        with suppress(ConvergenceError):
            upper, lower = epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER))
            assert lower <= upper
            assert lower <= min(found.values()) * (1 + ROUND_OFF)
            assert upper <= min(found["rdp"], found.get("optimal", math.inf)) * (1 + PAID) + PAID
            assert lower <= inversion(counts, delta=plan.delta) * (1 + ROUND_OFF) + ROUND_OFF
            assert inversion(counts, delta=plan.delta) <= upper * (1 + ROUND_OFF) + ROUND_OFF
        assert found["rdp"] <= found["rdp-classic"] * (1 + ROUND_OFF) + ROUND_OFF
        assert found["rdp-classic"] <= found["moments"] * (1 + ROUND_OFF) + ROUND_OFF
        if "optimal" in found:
            assert found["optimal"] <= min(found["basic"], found["advanced"]) * (1 + ROUND_OFF) + ROUND_OFF
