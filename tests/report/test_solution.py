"""Solved values are short decimals on the safe side, and their results name them as they can be written."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcalc.planner.search import EpsilonGoal
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
from tests.report.test_results import parsed, plain, solved


@pytest.mark.parametrize(
    ("found", "headline", "values"),
    [
        (NOISE, "noise_multiplier >= 3.47913   gives epsilon <= 2.00 (fails at 3.47906)", (3.47913, 3.479061234)),
        (STEPS, "steps <= 39871   gives epsilon <= 2.00 (fails at 39872)", (39_871, 39_872)),
        (SIZE, "size <= 67   gives epsilon <= 2.00 (fails at 68)", (67, 68)),
        (RATE, "rate <= 0.00431   gives epsilon <= 2.00 (fails at 0.00431044)", (0.00431, 0.00431043215)),
        (EVERY_RATE, "rate <= 1.0   gives epsilon <= 0.500 (nothing beyond it fails)", (1.0, None)),
        (FACTOR, "noise_multiplier factor >= 0.5   gives epsilon <= 2.00 (fails at 0.49999)", (0.5, 0.49999)),
    ],
)
def test_a_solution_in_every_form(found, headline, values):
    output = solved(found)
    document = parsed(output)
    printed = document["solution"]
    assert output.headline == headline
    assert (printed["value"], printed["fails_at"]) == values
    assert type(printed["value"]) is type(values[0])
    assert printed["epsilon"] == document["guarantee"]["epsilon"]
    assert f" {output.quiet_text.strip()} " in headline
    assert set(document) == set(parsed(no_solution_output("solve-rate", NONE, loaded())))


def test_an_epsilon_within_an_odd_target_is_not_shown_above_it():
    facts = dict(plain(solved(replace(NOISE, reached=1.9968, goal=EpsilonGoal(limit=1.997)))))
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


def asked(raw, before, *answers):
    """What `with_safe_decimal` finds with an accountant of prepared answers, and the plans that were asked about."""
    plans, left = [], list(answers)

    def ask(plan):
        plans.append(plan)
        epsilon = left.pop(0)
        return epsilon, replace(GUARANTEE, epsilon=epsilon)

    return with_safe_decimal(raw, before, ask), plans


RAW = solution("noise_multiplier", 3.4791234567, 3.479, plan=with_noise(PLAN, 3.4791234567))


def test_noise_is_rounded_up_and_asked_about_again():
    found, plans = asked(RAW, PLAN, 1.9999)
    assert (found.value, found.reached, found.guarantee.epsilon) == (3.47913, 1.9999, 1.9999)
    assert plans == [found.plan] == [with_noise(PLAN, 3.47913)]


def test_more_digits_where_six_miss_the_target_or_the_value_itself():
    found, plans = asked(RAW, PLAN, 2.0001, 1.99999)
    assert (found.value, len(plans)) == (3.47912346, 2)
    assert asked(RAW, PLAN, 2.0001, 2.0001)[0] == RAW


def test_a_rate_is_rounded_down():
    raw = solution("rate", Fraction(0.0043104321), Fraction(0.00432), plan=sampled(Fraction(0.0043104321)))
    found, plans = asked(raw, sampled("0.01"), 1.9999)
    assert found.value == Fraction("0.00431043")
    assert plans == [sampled("0.00431043")]


def test_a_factor_is_rounded_up_and_multiplies_what_there_was():
    raw = replace(FACTOR, value=0.4999912345, plan=with_noise(TWO, 3.0, 3.0))
    found, plans = asked(raw, with_noise(TWO, 1.3, 6.0), 1.9999)
    assert found.value == 0.499992
    assert plans == [with_noise(TWO, 0.6499896, 2.999952)]


@pytest.mark.parametrize("place", [0, 1])
def test_only_the_solved_phase_changes_where_another_has_the_same_noise(place):
    noises = [3.4791234567, 3.4791234567]
    raw = replace(solution("noise_multiplier", noises[0], 3.479, plan=with_noise(TWO, *noises)), phase=place)
    found, plans = asked(raw, TWO, 1.9999)
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

    found, plans = asked(
        replace(solution("rate", rates[0], Fraction(0.00432), plan=drawn(rates)), level=place), PLAN, 1.9999
    )
    rates[place] = Fraction("0.00431043")
    assert plans == [found.plan] == [drawn(rates)]


@pytest.mark.parametrize("found", [STEPS, SIZE, replace(NOISE, reached=MEETS.epsilon)])
def test_whole_numbers_and_short_values_stay(found):
    assert with_safe_decimal(found, PLAN, None) == found


def test_no_solution():
    output = no_solution_output("solve", NONE, loaded())
    assert output.headline == "no value of size gives epsilon <= 2.0   delta = 1e-05"
    assert dict(output.rows)["best"] == "size 1 gives epsilon <= 2.0003"
    never = no_solution_output("solve", NEVER, loaded())
    assert dict(plain(never))["best.epsilon"] == "inf"
    assert [parsed(each)["best"]["epsilon"] for each in (output, never)] == [2.0003, None]


def test_delta_is_rounded_up_and_its_lower_end_down():
    delta, certain = (delta_output(each, loaded()) for each in (DELTA, CERTAIN))
    assert delta.headline == "delta <= 4.37e-6   (at least 5.53e-7)   epsilon = 1.0"
    assert certain.headline == "delta <= 1.00   epsilon = 1.0"
    assert (delta.quiet_text, certain.quiet_text) == ("4.36123e-6\n", "1.00000\n")


def test_the_results_of_a_solver_name_what_was_written():
    written = ("a.yaml:4: noise_multiplier: 3.47913",)
    assert parsed(solution_output("solve-sigma", NOISE, loaded(), written=written))["written"] == list(written)
