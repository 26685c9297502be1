import math
from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.guarantee import Kind
from dpcalc.planner.words import with_thousands_separators
from dpcalc.report.evaluation import evaluation_output
from dpcalc.report.fields import plain_lines
from dpcalc.report.guarantees import budget_used, quiet_line
from tests.report.samples import EVALUATION, GUARANTEE, INFINITE, PLAN
from tests.report.statements import loaded


def drawn(*, plan=PLAN, **changes):
    return evaluation_output(replace(EVALUATION, guarantee=replace(GUARANTEE, **changes)), loaded(plan))


@pytest.mark.parametrize(
    ("epsilon", "limit", "text"),
    [
        (0.946867, 2.0, "47.4% used"),
        (2.0, 2.0, "100% used"),
        (1.9999, 2.0, "99.995% used"),
        (2.00001, 2.0, "100.0005% used"),
        (5.0, 2.0, "250% used"),
        (math.inf, 2.0, "no finite epsilon"),
        (0.0, 0.0, "100% used"),
        (0.1, 0.0, "none allowed"),
    ],
)
def test_the_part_of_a_budget_that_is_used(epsilon, limit, text):
    assert budget_used(epsilon, limit) == text


def test_the_headline_shows_the_verdict():
    assert drawn(epsilon=1.9999).headline.startswith("epsilon <= 1.9999 ")
    assert drawn(epsilon=1.9999, plan=replace(PLAN, budget=None)).headline.startswith("epsilon <= 2.00 ")


def test_an_exceeded_budget_is_called_so():
    assert dict(drawn(epsilon=2.1).rows())["budget"] == "2.0, 105% used: exceeded"
    assert dict(plain_lines(drawn(epsilon=2.1).fields))["budget.ok"] == "no"


@pytest.mark.parametrize(
    ("kind", "beginning"),
    [
        (Kind.ESTIMATE, "epsilon ~ 0.947   (estimate)"),
        (Kind.LOWER, "epsilon >= 0.947   (lower)"),
        (Kind.AS_PUBLISHED, "epsilon = 0.947   (as-published)"),
    ],
)
def test_what_is_no_upper_bound_is_not_printed_as_one(kind, beginning):
    assert drawn(kind=kind).headline.startswith(beginning)


def test_a_group_is_named():
    assert dict(drawn(group_size=3).rows())["protects"] == "a group of 3 (example), add-remove"


def sampled(**changes):
    phase = replace(EVALUATION.phases[0], sampling="drawn", inclusion=Fraction(1, 4), **changes)
    return dict(evaluation_output(replace(EVALUATION, phases=(phase,)), loaded()).rows(verbose=True))


def test_draws_that_are_held_are_named():
    rows = sampled(hold=10)
    assert rows["sampling"] == "drawn; inclusion 1/4 in each draw for 10 steps"
    assert rows["distances"] == "2, 2, times the root of 10"


def test_draws_that_count_as_revealed_are_named():
    held = "given a draw of rate 1/10 that lasts 20 steps and is assumed public"
    assert sampled(revealed=((Fraction(1, 10), 20),))["sampling"] == f"drawn; inclusion 1/4, {held}"


def test_a_pass_is_named():
    assert sampled(steps_of_a_pass=235)["sampling"] == "drawn; inclusion 1/4 in each pass of 235 steps"


def test_no_draws_no_distances():
    phase = replace(EVALUATION.phases[0], distances=(), distances_swapped=())
    output = evaluation_output(replace(EVALUATION, phases=(phase,), alternatives=()), loaded())
    assert dict(output.rows(verbose=True))["distances"] == "none"
    assert "distances" not in dict(output.rows())
    assert dict(output.rows())["bound"] == "one-step bound"


@pytest.mark.parametrize(("epsilon", "text"), [(0.9468671, "0.946868"), (2.0, "2.00000"), (0.0, "0")])
def test_the_bare_number_is_never_below(epsilon, text):
    assert quiet_line(epsilon) == f"{text}\n"


def test_the_bare_number_may_be_infinite():
    assert evaluation_output(INFINITE, loaded()).quiet_text == "inf\n"


@pytest.mark.parametrize(
    ("text", "separated"),
    [
        ("10000 of 10000000 (user)", "10,000 of 10,000,000 (user)"),
        ("as published by Abadi et al. 2016, of 2016 users", "as published by Abadi et al. 2016, of 2,016 users"),
        (
            "`training.steps=5000`, 2024.yaml, runs/2024-11, a=5000",
            "`training.steps=5000`, 2024.yaml, runs/2024-11, a=5000",
        ),
        ("inclusion 1/1000, noise 1.12345, 0.0001", "inclusion 1/1000, noise 1.12345, 0.0001"),
    ],
)
def test_counts_have_separators_and_years_have_none(text, separated):
    assert with_thousands_separators(text) == separated
