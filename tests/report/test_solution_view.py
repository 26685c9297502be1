from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcalc.planner.search import EpsilonGoal
from dpcalc.report.evaluation import comparison_output
from dpcalc.report.fields import plain_lines
from dpcalc.report.rounding import rounded_down, rounded_up, rounded_up_within
from dpcalc.report.solution import delta_output, no_solution_output, solution_output, with_safe_decimal
from dpcalc.sampling.schemes import Poisson
from tests.report.samples import GUARANTEE, PLAN
from tests.report.solutions import (
    CERTAIN,
    DELTA,
    EVERY_RATE,
    FACTOR,
    MEETS,
    NEVER,
    NOISE,
    NONE,
    RATE,
    SIZE,
    STEPS,
    TWO,
    sampled,
    solution,
    with_noise,
)
from tests.report.statements import loaded


def solved(found):
    return solution_output("solve", found, loaded(), written=())


@pytest.mark.parametrize(
    ("found", "headline"),
    [
        (NOISE, "noise_multiplier >= 3.47913   gives epsilon <= 2.00 (fails at 3.47906)"),
        (STEPS, "steps <= 39871   gives epsilon <= 2.00 (fails at 39872)"),
        (SIZE, "size <= 67   gives epsilon <= 2.00 (fails at 68)"),
        (RATE, "rate <= 0.00431   gives epsilon <= 2.00 (fails at 0.00431044)"),
        (EVERY_RATE, "rate <= 1.0   gives epsilon <= 0.500 (nothing beyond it fails)"),
        (FACTOR, "noise_multiplier factor >= 0.5   gives epsilon <= 2.00 (fails at 0.49999)"),
    ],
)
def test_headlines(found, headline):
    assert solved(found).headline == headline


def test_an_epsilon_within_an_odd_target_is_not_shown_above_it():
    found = replace(NOISE, reached=1.9968, goal=EpsilonGoal(limit=1.997))
    facts = dict(plain_lines(solved(found).fields))
    assert (facts["solution.epsilon"], facts["epsilon"]) == ("1.997", "1.997")


@given(st.floats(1e-6, 1e6), st.floats(1, 2))
@example(1.9968, 1.0001)
def test_up_to_is_between_the_bound_and_the_limit(value, ratio):
    limit = value * ratio
    assert Decimal(repr(value)) <= Decimal(rounded_up_within(value, limit)) <= Decimal(repr(limit))


@given(st.fractions(min_value=Fraction(1, 10**15), max_value=1), st.integers(1, 17))
def test_rationals_are_rounded_exactly(value, digits):
    down, up = Fraction(rounded_down(value, digits=digits)), Fraction(rounded_up(value, digits=digits))
    assert down <= value <= up
    assert (up - down) * 10 ** (digits - 1) <= up


def asked(answers):
    """An accountant with prepared answers, and the plans it was asked about."""
    plans = []

    def ask(plan):
        plans.append(plan)
        epsilon = answers.pop(0)
        return epsilon, replace(GUARANTEE, epsilon=epsilon)

    return ask, plans


def test_noise_is_rounded_up_and_asked_about_again():
    raw = solution("noise_multiplier", 3.4791234567, 3.479, plan=with_noise(PLAN, 3.4791234567))
    ask, plans = asked([1.9999])
    found = with_safe_decimal(raw, PLAN, ask)
    assert (found.value, found.reached, found.guarantee.epsilon) == (3.47913, 1.9999, 1.9999)
    assert plans == [found.plan] == [with_noise(PLAN, 3.47913)]


def test_more_digits_where_six_miss_the_target():
    raw = solution("noise_multiplier", 3.4791234567, 3.479, plan=with_noise(PLAN, 3.4791234567))
    ask, plans = asked([2.0001, 1.99999])
    assert with_safe_decimal(raw, PLAN, ask).value == 3.47912346
    assert len(plans) == 2


def test_the_value_itself_where_no_rounding_meets_the_target():
    raw = solution("noise_multiplier", 3.4791234567, 3.479, plan=with_noise(PLAN, 3.4791234567))
    ask, _ = asked([2.0001, 2.0001])
    assert with_safe_decimal(raw, PLAN, ask) == raw


def test_a_rate_is_rounded_down():
    raw = solution("rate", Fraction(0.0043104321), Fraction(0.00432), plan=sampled(Fraction(0.0043104321)))
    ask, plans = asked([1.9999])
    found = with_safe_decimal(raw, sampled("0.01"), ask)
    assert found.value == Fraction("0.00431043")
    assert plans == [sampled("0.00431043")]


def test_a_factor_is_rounded_up_and_multiplies_what_there_was():
    raw = replace(FACTOR, value=0.4999912345, plan=with_noise(TWO, 3.0, 3.0))
    before = with_noise(TWO, 1.3, 6.0)
    ask, plans = asked([1.9999])
    found = with_safe_decimal(raw, before, ask)
    assert found.value == 0.499992
    assert plans == [with_noise(TWO, 0.6499896, 2.999952)]


@pytest.mark.parametrize("place", [0, 1])
def test_only_the_solved_phase_changes_where_another_has_the_same_noise(place):
    noises = [3.4791234567, 3.4791234567]
    raw = replace(solution("noise_multiplier", noises[0], 3.479, plan=with_noise(TWO, *noises)), phase=place)
    ask, plans = asked([1.9999])
    found = with_safe_decimal(raw, TWO, ask)
    noises[place] = 3.47913
    assert plans == [found.plan] == [with_noise(TWO, *noises)]


@pytest.mark.parametrize("place", [0, 1])
def test_only_the_solved_level_changes_where_another_has_the_same_rate(place):
    rates = [Fraction(0.0043104321)] * 2
    (phase,) = PLAN.phases

    def drawn(rates):
        levels = (
            replace(level, scheme=Poisson(probability=rate))
            for level, rate in zip(phase.hierarchy.levels, rates, strict=True)
        )
        return replace(PLAN, phases=(replace(phase, hierarchy=replace(phase.hierarchy, levels=tuple(levels))),))

    raw = replace(solution("rate", rates[0], Fraction(0.00432), plan=drawn(rates)), level=place)
    ask, plans = asked([1.9999])
    found = with_safe_decimal(raw, PLAN, ask)
    rates[place] = Fraction("0.00431043")
    assert plans == [found.plan] == [drawn(rates)]


@pytest.mark.parametrize("found", [STEPS, SIZE])
def test_whole_numbers_stay(found):
    assert with_safe_decimal(found, PLAN, None) == found


def test_a_short_value_is_not_asked_about_again():
    assert with_safe_decimal(NOISE, PLAN, None) == replace(NOISE, reached=MEETS.epsilon)


@pytest.mark.parametrize(
    ("found", "text"), [(NOISE, "3.47913"), (STEPS, "39871"), (SIZE, "67"), (RATE, "0.00431"), (EVERY_RATE, "1.0")]
)
def test_the_bare_value_is_the_one_of_the_headline(found, text):
    assert solved(found).quiet_text == f"{text}\n"
    assert f" {text} " in solved(found).headline


def test_no_solution():
    view = no_solution_output("solve", NONE, loaded())
    assert view.headline == "no value of size gives epsilon <= 2.0   delta = 1e-05"
    assert dict(view.rows())["best"] == "size 1 gives epsilon <= 2.0003"
    assert dict(plain_lines(no_solution_output("solve", NEVER, loaded()).fields))["best.epsilon"] == "inf"


def test_delta_is_rounded_up_and_its_lower_end_down():
    assert delta_output(DELTA, loaded()).headline == "delta <= 4.37e-6   (at least 5.53e-7)   epsilon = 1.0"
    assert delta_output(CERTAIN, loaded()).headline == "delta <= 1.00   epsilon = 1.0"
    assert [delta_output(each, loaded()).quiet_text for each in (DELTA, CERTAIN)] == ["4.36123e-6\n", "1.00000\n"]


def test_a_group_is_named_wherever_somebody_is():
    config = loaded(replace(PLAN, group_size=3))
    views = [delta_output(DELTA, config), no_solution_output("solve", NONE, config)]
    assert {dict(view.rows())["protects"] for view in views} == {"a group of 3 (example), add-remove"}
    assert dict(plain_lines(views[0].fields))["group_size"] == "3"
    assert comparison_output((), config).table.headline.startswith("a group of 3 (example), add-remove")
