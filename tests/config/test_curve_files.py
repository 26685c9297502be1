"""`mechanism.curve`: divergences in the config or in a CSV file, and every way to get them wrong."""

import math
from pathlib import Path

import pytest

from dpcalc.config.data_files import MAX_POINTS
from dpcalc.config.edit import differences, with_difference
from dpcalc.config.load import load, load_text
from dpcalc.config.source import ConfigError
from tests.config.texts import corpus, flat

ROWS = corpus("curve_files")

FILE = flat({"mechanism": "{type: rdp-curve, curve: {file: curve.csv}}"})
INLINE = flat({"mechanism": "{type: rdp-curve, curve: [[2, 0.1], [4, 0.25], [32.5, 3]]}"})
CSV = "order,epsilon\n2,0.1\n4,0.25\n32.5,3\n"


@pytest.fixture
def file(tmp_path):
    def made(content, text=FILE):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "curve.csv").write_bytes(data)
        (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
        return str(tmp_path / "run.yaml")

    return made


def refusals(path):
    with pytest.raises(ConfigError) as caught:
        load(path)
    return caught.value.diagnostics


@pytest.mark.parametrize("content", ROWS["same"])
def test_a_file_says_what_an_inline_curve_says(file, content):
    found, inline = load(file(content)), load_text(INLINE, path="f")
    assert found.plan == inline.plan
    assert found.config_hash == inline.config_hash
    assert found.plan.phases[0].mechanism.curve == ((2.0, 0.1), (4.0, 0.25), (32.5, 3.0))


@pytest.mark.parametrize(
    ("content", "place", "code", "phrase"),
    [*ROWS["wrong"], (b"order,epsilon\n2,\xff\n", (2, 3), "DPC100", "is not UTF-8")],
)
def test_a_wrong_file_is_told_of_by_its_line(file, content, place, code, phrase):
    (found,) = refusals(file(content))
    assert found.path.endswith("curve.csv")
    assert (found.line, found.column, found.code) == (*place, code)
    assert phrase in found.message


def test_all_wrong_lines_are_told_of(file):
    found = refusals(file("order,epsilon\nx,y\n1,2\n5,0.2\n4,0.3\n"))
    assert [one.line for one in found] == [2, 2, 3, 5]


def test_long_curves(file):
    rows = "".join(f"{2 + number},{number}\n" for number in range(MAX_POINTS))
    assert len(load(file("order,epsilon\n" + rows)).plan.phases[0].mechanism.curve) == MAX_POINTS
    (found,) = refusals(file("order,epsilon\n" + rows + "1e6,1e6\n"))
    assert "1 to 1000 orders, got 1001" in found.message
    (found,) = refusals(file("order,epsilon\n" + "#" * 300_000))
    assert found.code == "DPC111"


@pytest.mark.parametrize(("name", "phrase"), ROWS["names"])
def test_other_names(file, name, phrase):
    (found,) = refusals(file(CSV, FILE.replace("curve.csv", name)))
    assert found.path.endswith("run.yaml")
    assert found.line == 4
    assert phrase in found.message


def test_a_phase_has_a_curve_of_its_own(file):
    phases = "[{training: {steps: 5}}, {mechanism: {curve: [[2, 0.5]]}}, {mechanism: {type: zcdp, rho: 0.1}}]"
    found = load(file(CSV, FILE + f"phases: {phases}\n")).plan.phases
    assert [getattr(phase.mechanism, "curve", ())[:1] for phase in found] == [((2.0, 0.1),), ((2.0, 0.5),), ()]


def test_a_changed_file_is_a_difference(file):
    old = load(file(CSV))
    new = load(file(CSV.replace("0.25", "0.2")))
    (one,) = differences(old, new)
    assert (one.key, one.is_claim) == ("mechanism.curve", True)
    assert one.new.endswith("(its content changed)")
    assert with_difference(old, new, one) == new.plan
    assert old.config_hash != new.config_hash
    steps = load(file(CSV.replace("0.25", "0.2"), FILE.replace("steps: 100", "steps: 101")))
    assert [one.key for one in differences(old, steps)] == ["training.steps", "mechanism.curve"]


@pytest.mark.parametrize(
    ("other", "key"),
    [
        ("phases: [{}, {mechanism: {type: zcdp, rho: RHO}}]\n", "phases[1].mechanism.rho"),
        ("phases: [{mechanism: {epsilon: RHO}}, {}]\n", "phases[0].mechanism.epsilon"),
        ("phases: [{mechanism: {curve: [[2, RHO]]}}, {}]\n", "phases[0].mechanism.curve[0][1]"),
    ],
)
def test_no_other_change_of_a_mechanism_hides_a_changed_file(file, other, key):
    """A pull request once hid a cheaper curve by another number of any phase."""
    text = FILE.replace("training: {steps: 100}\n", "training: {steps: 5}\n") + other
    old, new = (
        load(file(csv, text.replace("RHO", rho))) for csv, rho in ((CSV, "0.1"), (CSV.replace("0.25", "0.2"), "0.11"))
    )
    found = {one.key: one.is_claim for one in differences(old, new)}
    assert found["mechanism.curve"]
    assert key in found or len(found) == 2


def test_the_sample_is_the_sum_that_it_says_it_is():
    """Gaussian noise 4 and Laplace noise 10, rounded up to seven decimals."""
    (phase,) = load(str(Path(__file__).parents[2] / "sample_configs" / "known_curve" / "dpcalc.yaml")).plan.phases
    for a, epsilon in phase.mechanism.curve:
        laplace = a / (2 * a - 1) * math.exp((a - 1) / 10) + (a - 1) / (2 * a - 1) * math.exp(-a / 10)
        exact = a / 32 + math.log(laplace) / (a - 1)
        assert exact <= epsilon <= exact + 1.01e-7
