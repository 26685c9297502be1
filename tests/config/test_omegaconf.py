"""Words that OmegaConf takes for numbers mean the same number here, or are refused; none means another one.

omegaconf.csv holds what OmegaConf 2.3.1 makes of `a: WORD` (`OmegaConf.create(...).a`: its type, its value).
"""

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc.config.scalars import parse_number
from dpcalc.config.source import ConfigError
from tests.config.texts import flat, plan

with Path(__file__).with_name("omegaconf.csv").open(encoding="utf-8", newline="") as file:
    ROWS = [(row["written"], row["type"], row["value"]) for row in csv.DictReader(file)]
NUMBERS = [(written, value) for written, kind, value in ROWS if kind in {"int", "float"}]
OTHERS = [(written, value) for written, kind, value in ROWS if kind not in {"int", "float"}]
WORDS = "1__0 1_ 010 0x1f 0b11 1:30 1:30.5 00 00.5 .inf -.inf .nan 1e400 1e-400"
REFUSED = set(WORDS.split())
ONLY_HERE = {"-.5", "+.5", ".5e3"}  # numbers here, texts that OmegaConf would convert to the same number


@pytest.mark.parametrize(("written", "value"), [row for row in NUMBERS if row[0] not in REFUSED])
def test_a_number_is_the_same_number(written, value):
    assert float(parse_number(written)) == float(value)


@pytest.mark.parametrize(("written", "value"), OTHERS)
def test_a_text_is_no_other_number(written, value):
    found = parse_number(written)
    assert (found is not None) == (written in ONLY_HERE)
    assert found is None or found == Fraction(value)


@pytest.mark.parametrize("written", sorted(REFUSED | {"'5'", '"1e-5"', "1e1_0", "~", "1,000"}))
def test_what_is_refused_is_an_error_and_no_guess(written):
    with pytest.raises(ConfigError):
        plan(flat({"training": f"\n  steps: {written}"}))


def test_what_omegaconf_writes_is_read():
    """It writes 1e-5 as 1.0e-05."""
    assert plan(flat({"privacy": "{delta: 1.0e-05}"})).delta == 1e-5


def test_the_record_is_what_omegaconf_says():
    import omegaconf

    for written, kind, value in ROWS:
        found = omegaconf.OmegaConf.create(f"a: {written}\n").a
        assert (type(found).__name__, found if isinstance(found, str) else repr(found)) == (kind, value)
