"""Our reading of words against hand-written values; where YAML 1.1 differs is the point."""

from fractions import Fraction

import pytest

from tests.config.texts import errors, flat, plan

EXACT = [
    ("1e4", 10_000),
    ("1E4", 10_000),
    ("1e+4", 10_000),
    ("10_000", 10_000),
    ("+10000", 10_000),
    ("10000.", 10_000),
    ("10000.0", 10_000),
    ("1_0.0e3", 10_000),
    ("0", 0),
    ("-0", 0),
]


@pytest.mark.parametrize(("written", "steps"), EXACT)
def test_whole_numbers(written, steps):
    assert plan(flat({"training": f"{{steps: {written}}}"})).steps == steps


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("1e-5", Fraction(1, 100_000)),
        ("0.00001", Fraction(1, 100_000)),
        ("1", Fraction(1)),
        ("0.004_266", Fraction(4266, 1_000_000)),
    ],
)
def test_rates_are_exact_decimals(written, rate):
    loaded = plan(flat({"sampling": f"{{scheme: poisson, rate: {written}}}"}))
    assert loaded.phases[0].hierarchy.level(1).rate == rate


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("1/97", Fraction(1, 97)),
        ("512 / 50_000", Fraction(512, 50_000)),
        ("'1/97'", Fraction(1, 97)),  # as JSON has to write it
        ("1/1", Fraction(1)),
        (f"1/{10**15}", Fraction(1, 10**15)),
    ],
)
def test_rates_are_exact_quotients(written, rate):
    loaded = plan(flat({"sampling": f"{{scheme: poisson, rate: {written}}}"}))
    assert loaded.phases[0].hierarchy.level(1).rate == rate


@pytest.mark.parametrize(
    "written", ["1/0", "0/5", "-1/97", "1/-97", "01/97", "1/97/2", "1.0/97", "1/9_", "1//9", "x/9"]
)
def test_what_is_no_quotient(written):
    (error,) = errors(flat({"sampling": f"{{scheme: poisson, rate: {written}}}"}))
    assert (error.code, error.line) == ("DPC102", 3)
    assert f"got the string '{written}'" in error.message


def test_a_quotient_too_long_to_be_taken():
    (error,) = errors(flat({"sampling": f"{{scheme: poisson, rate: 1/{'9' * 80}}}"}))
    assert error.code == "DPC102"


@pytest.mark.parametrize("name", ["data", "training", "mechanism"])
def test_quotients_are_for_probabilities(name):
    key = {"data": "examples", "training": "steps", "mechanism": "noise_multiplier"}[name]
    (error,) = errors(flat({name: f"{{{key}: 8/2}}"}))
    assert (error.code, "rates and probabilities may be quotients" in error.hint) == ("DPC102", True)


def test_delta_as_a_quotient_is_the_nearest_float():
    assert plan(flat({"privacy": "{delta: 1/60_000}"})).delta == 1 / 60_000


@pytest.mark.parametrize(("written", "value"), [("1e-5", 1e-5), ("1.0e-5", 1e-5), ("0.00001", 1e-5), ("3e-6", 3e-6)])
def test_delta_is_the_nearest_float(written, value):
    assert plan(flat({"privacy": f"{{delta: {written}}}"})).delta == value


@pytest.mark.parametrize(
    "written",
    [
        "010",
        "0_1",
        "_1",
        "1_",
        "1__0",
        "0x10",
        "0b1",
        "0o7",
        "1:30",
        "1e",
        "e5",
        ".",
        "+",
        "1.2.3",
        "1,5",
        "١",
        "2024-01-01",
        "=",
    ],
)
def test_what_is_no_number(written):
    (error,) = errors(flat({}).replace("{steps: 100}", f"\n  steps: {written}"))
    assert (error.code, error.line, error.column) == ("DPC102", 6, 10)
    assert f"got the string '{written}'" in error.message


@pytest.mark.parametrize("written", ["no", "off", "2024-01-01", "12:30", "010", "=", "'5'", "a b", "naïve", "日本"])
def test_texts_stay_texts(written):
    assert plan(flat({"name": written})).name == written.strip("'")
