"""Delta, attackers, comparisons, curves in Python; nested plans without a file; results as dicts and in notebooks."""

import json
import math
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import dpcalc
from dpcalc import compare, curve, delta, epsilon, load, plan, risk, solve
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind, Result, Row, html_table, shown_number

SAMPLES = Path(__file__).parents[2] / "sample_configs"
PATH = str(SAMPLES / "mnist_dpsgd.yaml")
FLAGS = ["--no-config", "--sample-rate", "0.1", "--noise-multiplier", "2", "--steps", "10", "--delta", "1e-5"]
RUN = plan(sample_rate=0.1, noise_multiplier=2.0, steps=10, delta=1e-5)
CLINIC = {
    "levels": {"task": 1200, "example": 20},
    "sampling": {"task": {"scheme": "fixed", "size": 32}, "example": {"scheme": "fixed", "size": 5}},
    "unit": "example",
    "clip": "task",
    "noise_multiplier": 6.0,
    "steps": 10_000,
    "delta": 1e-5,
}


def test_delta_is_what_is_printed(printed):
    shown = printed("delta", PATH, "--epsilon", "1")["guarantee"]
    result = delta(PATH, epsilon=1).to_dict()
    assert (result["delta"], result["delta_lower"]) == (shown["delta"], shown["delta_lower"])
    with pytest.raises(InputError, match="epsilon: expected a finite number >= 0"):
        delta(PATH, epsilon=-1)


def test_risk_is_what_is_printed(printed):
    shown = printed("risk", *FLAGS, "--prior", "0.1", "--fpr", "0.01")
    result = risk(RUN, prior=0.1, false_positive_rates=[0.01])
    assert json.dumps(shown).count(json.dumps(result.advantage)) >= 1
    told = result.to_dict()
    assert told["prior"] == 0.1
    assert [each["false_positive_rate"] for each in told["detections"]] == [0.01]
    with pytest.raises(InputError, match="prior"):
        risk(PATH, prior=2)


@pytest.mark.heavy
def test_a_comparison_is_what_is_printed(printed):
    shown = printed("compare", *FLAGS)["rows"]
    rows = compare(RUN, unit="example")
    assert [row["epsilon"] for row in rows.to_dict()["rows"]] == [row["epsilon"] for row in shown]
    assert [row.method for row in rows] == [row["method"] for row in shown]
    assert len(rows) == len(shown)
    assert rows[0].valid


def test_a_curve_is_what_is_printed(printed):
    shown = printed("curve", "steps", PATH, "--range", "100,200", "--method", "rdp")
    chart = curve(PATH, "steps", grid=[200, 100], methods=["rdp"])
    (line,) = chart.series
    assert list(line.xs) == [100, 200]
    assert all(json.dumps(y) in json.dumps(shown) for y in line.ys)
    told = json.loads(json.dumps(chart.to_dict()))
    assert told["series"][0]["kind"] == "upper"
    assert chart.picture("svg").startswith(b"<?xml")
    with pytest.raises(InputError, match="kind: expected one of steps"):
        curve(PATH, "noise")


@pytest.mark.heavy
def test_unit_and_group_reach_every_question():
    run = plan(scheme="all", dataset_size=10, noise_multiplier=3, steps=4, delta=1e-5)
    for number in (
        lambda **more: delta(run, epsilon=2, **more).delta,
        lambda **more: risk(run, **more).advantage,
        lambda **more: curve(run, "steps", grid=[4], **more).series[0].ys[0],
    ):
        assert number(unit="example") == number() < number(group_size=2)
        with pytest.raises(InputError, match="unit: expected one of example"):
            number(unit="user")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: epsilon(RUN, steps=1.5),
            "steps: expected a whole number from 0 to 10, the length of the run, got 1.5",
        ),
        (
            lambda: epsilon(RUN, steps="3"),
            "steps: expected a whole number from 0 to 10, the length of the run, got '3'",
        ),
        (lambda: epsilon(RUN, delta="x"), "delta: expected a number, got 'x'"),
        (lambda: epsilon(RUN, group_size=1.5), "group_size: expected a whole number >= 1, got 1.5"),
        (lambda: epsilon(RUN, group_size=0), "group_size: expected"),
        (lambda: epsilon(None), "plan: expected a plan of `load` or `plan`, or the path of a config, got None"),
        (lambda: load(None), "path: expected the name of a config file, or a mapping, got None"),
        (lambda: plan(sample_rate=0.1, steps=[1], delta=1e-5), "steps: expected a number, got [1]"),
        (lambda: plan(levels=["a"], steps=1, delta=1e-5), "levels: expected a mapping with a key for each level, got"),
        (lambda: delta(RUN, epsilon="1"), "epsilon: expected a number, got '1'"),
        (lambda: delta(RUN, epsilon=None), "epsilon: expected a number, got None"),
        (lambda: delta(RUN, epsilon=10**400), "epsilon: expected a number, got 1000"),
        (lambda: solve(RUN, "sigma", target_epsilon="a"), "target_epsilon: expected a number, got 'a'"),
        (lambda: risk(RUN, prior="a"), "prior: expected a number, got 'a'"),
        (lambda: risk(RUN, false_positive_rates=0.01), "false_positive_rates: expected a sequence of numbers such as"),
        (lambda: risk(RUN, false_positive_rates=["a"]), "false_positive_rates: expected a number, got 'a'"),
        (lambda: risk(RUN, baselines=0.1), "baselines: expected a sequence of numbers such as [0.01, 0.1], got 0.1"),
        (lambda: curve(RUN, "steps", grid=5), "grid: expected a sequence of numbers"),
        (lambda: curve(RUN, "steps", grid="12"), "grid: expected a sequence of numbers"),
        (
            lambda: curve(RUN, "steps", methods="pld"),
            "methods: expected a sequence of names such as ['pld'], got 'pld'",
        ),
    ],
)
def test_values_of_a_wrong_type_are_refused_in_one_sentence(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_numbers_of_numpy_are_taken():
    assert epsilon(RUN, steps=np.int64(3), group_size=np.int8(1)) == epsilon(RUN, steps=3)


def test_a_nested_plan_is_that_of_its_file():
    of_file = load(SAMPLES / "clinic_maml.yaml")
    (phase,), (stated,) = of_file.phases, plan(**CLINIC).phases
    assert stated.hierarchy == phase.hierarchy
    assert (stated.mechanism, stated.clip, stated.steps) == (phase.mechanism, phase.clip, phase.steps)
    assert epsilon(plan(**CLINIC), steps=500) == epsilon(of_file, steps=500)
    ranged = plan(**CLINIC | {"levels": {"task": 1200, "example": {"min": 5, "max": 20}}})
    assert ranged.phases[0].hierarchy.level(2).min_count == 5


def test_a_nested_plan_without_noise_is_for_solving():
    run = plan(**{name: value for name, value in CLINIC.items() if name != "noise_multiplier"})
    found = solve(run, "sigma", target_epsilon=2)
    assert found.value == solve(SAMPLES / "clinic_maml.yaml", "sigma", target_epsilon=2).value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dataset_size": 3}, "expected dataset_size in `levels` or `sampling`"),
        ({"sample_rate": 0.1}, "expected sample_rate in `levels` or `sampling`"),
        ({"scheme": "fixed"}, "expected scheme in `levels` or `sampling`"),
        ({"levels": None}, "data"),
        ({"sampling": None}, "sampling"),
        ({"unit": "tsak"}, "task"),
        ({"levels": None, "sampling": None}, "expected `levels` beside `unit` or `clip`"),
    ],
)
def test_nested_plans_say_what_is_wrong(change, words):
    with pytest.raises(InputError, match=words):
        plan(**CLINIC | change)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: epsilon(PATH, target_delta=1e-5), r"epsilon\(\) got .*dpcalc calls this delta"),
        (lambda: epsilon(PATH, noise_mult=1), "give noise_multiplier to `plan`"),
        (lambda: epsilon(PATH, num_microbatches=1), "moves by up to 2 clip norms"),
        (lambda: solve(PATH, "sigma", target_eps=1), r"solve\(\) got .*dpcalc calls this target_epsilon"),
        (lambda: solve(PATH, "sigma", max_grad_norm=1), "leave it out"),
        (lambda: delta(PATH, epsilon=1, sample_rate=1), "give sample_rate to `plan`"),
        (lambda: risk(PATH, accountant="rdp"), r"risk\(\)"),
        (lambda: compare(PATH, max_examples_per_user=2), "dpcalc calls this group_size"),
        (lambda: curve(PATH, "steps", l2_norm_clip=1), "leave it out"),
        (lambda: plan(delta=1e-5, target_epsilon=1), "solve.plan, 'sigma', target_epsilon="),
    ],
)
def test_names_of_other_tools_are_recognised_everywhere(call, words):
    with pytest.raises(TypeError, match=words):
        call()


# Results


class Cells(HTMLParser):
    """The texts of the cells of a table."""

    def __init__(self, text):
        super().__init__()
        self.texts = []
        self.feed(text)

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.heavy
def test_results_are_shown_in_notebooks_rounded_to_the_safe_side():
    run, guarantee = RUN, epsilon(RUN)
    cells = Cells(guarantee._repr_html_()).texts
    assert "Guarantee" in cells
    up, down = (float(cells[cells.index(name) + 1]) for name in ("epsilon", "epsilon_lower"))
    assert guarantee.epsilon <= up <= guarantee.epsilon * (1 + 1e-5)
    assert guarantee.epsilon_lower * (1 - 1e-5) <= down <= guarantee.epsilon_lower
    results = [delta(run, epsilon=1), risk(run), compare(run), curve(run, "steps", grid=[1, 10]), guarantee]
    results.append(solve(run, "sigma", target_epsilon=2))
    for result in results:
        picture, table, rest = result._repr_html_().partition("<table><tr><th>")
        assert table
        assert rest.endswith("</table>")
        assert picture == "" or (
            result is results[3] and picture.startswith('<img alt="chart" src="data:image/svg+xml')
        )
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False))


def test_texts_in_tables_are_escaped():
    assert html_table(("<b>",), [("a & <script>",)]) == (
        "<table><tr><th>&lt;b&gt;</th></tr><tr><td>a &amp; &lt;script&gt;</td></tr></table>"
    )
    row = Row(method="<x>", bound="b", epsilon=math.inf, kind=Kind.UPPER, valid=True)
    assert "<x>" not in row._repr_html_()
    assert row.to_dict()["epsilon"] is None


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("epsilon", 0.12345678, "0.123457"),
        ("epsilon_lower", 0.12345678, "0.123456"),
        ("epsilon", 2.0, "2"),
        ("delta", 1e-5, "0.00001"),
        ("epsilon", math.inf, "inf"),
        ("lower bound", 1 / 3, "0.333333"),
    ],
)
def test_numbers_in_notebooks(name, number, text):
    assert shown_number(name, number) == text
    assert (float(text) >= number) or "lower" in name


def test_plain_values_of_every_kind():
    solution = solve(
        plan(sample_rate=Fraction(1, 97), noise_multiplier=2, steps=10, delta=1e-5), "rate", target_epsilon=1
    )
    assert isinstance(solution, Result)
    assert isinstance(solution.to_dict()["value"], float)
    assert isinstance(dpcalc.epsilon(solution.plan), Result)


@pytest.mark.parametrize("scheme", ["fixed", "shuffle", "with-replacement"])
def test_a_curve_over_a_size_that_cannot_grow(scheme):
    """A parent may have a single example, so that a draw of one example has no larger size to show."""
    run = plan(
        levels={"user": 50, "example": {"min": 1, "max": 8}},
        sampling={"user": {"scheme": "all"}, "example": {"scheme": scheme, "size": 1}},
        unit="user",
        noise_multiplier=1.0,
        steps=10,
        delta=1e-5,
    )
    line = curve(run, "rate").series[0]
    assert set(line.xs) == {1.0}
    assert set(line.ys) == {epsilon(run).epsilon}


def test_a_curve_over_small_batches_has_each_size_once():
    run = plan(scheme="fixed", batch_size=4, dataset_size=1000, noise_multiplier=2.0, steps=10, delta=1e-5)
    sizes = curve(run, "rate").series[0].xs
    assert sizes[0] == 1
    assert len(set(sizes)) == len(sizes)
