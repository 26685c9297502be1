import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcalc.report.output import as_given, percent_up, rounded_down, rounded_up, rounded_up_within

POSITIVE = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)
DIGITS = st.integers(1, 17)


@pytest.mark.heavy
@given(POSITIVE, DIGITS)
@example(9.999, 3)
@example(5e-324, 3)
@example(1.7976931348623157e308, 17)
def test_bounds_read_back_are_on_their_side_and_within_one_unit_of_the_last_digit(value, digits):
    down, up = rounded_down(value, digits=digits), rounded_up(value, digits=digits)
    exact = Decimal(repr(value))
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1) if exact else Decimal(1)
    assert float(down) <= value <= float(up)
    assert exact - unit < Decimal(down) <= exact <= Decimal(up) < exact + unit
    assert len(Decimal(up).as_tuple().digits) <= max(digits, 7)  # up to seven places are written out: 12400


@given(POSITIVE, POSITIVE)
@example(1.9999, 2.0)
@example(2.00001, 2.0)
@example(0.30000000000000004, 0.3)
def test_the_text_shows_on_which_side_of_a_limit_a_number_is(value, limit):
    shown = Decimal(rounded_up(value, apart_from=limit))
    stated = Decimal(as_given(limit))
    assert (shown < stated, shown == stated, shown > stated) == (value < limit, value == limit, value > limit)
    assert shown - Decimal(repr(value)) <= abs(Decimal(repr(value)) - stated)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (0.946867, "0.947", "0.946"),
        (0.672157, "0.673", "0.672"),
        (2.0, "2.00", "2.00"),
        (9.999, "10.0", "9.99"),
        (12345.6, "12400", "12300"),
        (0.0, "0", "0"),
        (1.2345e-7, "1.24e-7", "1.23e-7"),
        (math.inf, "inf", "inf"),
    ],
)
def test_three_digits(value, up, down):
    assert (rounded_up(value), rounded_down(value)) == (up, down)


def test_close_to_a_limit_there_are_more_digits_and_nan_is_no_answer():
    rows = [(1.9999, 2.0, "1.9999"), (2.00001, 2.0, "2.00001"), (1.5, 2.0, "1.50"), (1.5, math.inf, "1.50")]
    for value, limit, text in rows:
        assert rounded_up(value, apart_from=limit) == text
    for rounding in (rounded_up, rounded_down):
        with pytest.raises(ValueError, match="got NaN"):
            rounding(math.nan)
    assert (rounded_up(np.float64(0.946867)), as_given(np.float64(2))) == ("0.947", "2.0")


@given(POSITIVE, st.floats(min_value=1e-300, max_value=1e300))
@example(math.nextafter(3.0, 0), 3.0)
@example(math.nextafter(3.0, 4), 3.0)
@example(0.1 + 0.2, 0.3)
def test_percent_is_on_the_true_side_of_100(part, whole):
    shown = Decimal(percent_up(part, whole))
    assert (shown < 100, shown == 100, shown > 100) == (part < whole, part == whole, part > whole)
    assert Fraction(shown) >= 100 * Fraction(repr(part)) / Fraction(repr(whole))


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
