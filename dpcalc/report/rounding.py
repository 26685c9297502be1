"""Numbers as text, rounded to the safe side: upper bounds up, lower bounds down, and never across a limit.

A float is taken as the shortest decimal that denotes it (`2.02`, not `2.0200000000000000177...`) and rounded exactly
from there, so that the printed number, read back, lies on the promised side of the float.
"""

import itertools
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

DIGITS = 3  # significant digits of a number for people
BARE_DIGITS = 6  # of the one number of `--quiet`
_MAX_DIGITS = 7  # digits before the point from which on a number is written with an exponent


def rounded_up(value: float | Fraction, *, digits: int = DIGITS, apart_from: float | None = None) -> str:
    """Return a number rounded up to 1 to 90 significant digits: read back as a float it is at least `value`.

    Near the limit `apart_from` more digits are used, until the rounding is smaller than the distance to it, so that the
    text shows the verdict; equal numbers print alike. A fraction is exact, infinity is "inf". ValueError for NaN.

    Example:
        >>> rounded_up(0.946867)
        '0.947'
        >>> rounded_up(1.9999, apart_from=2.0), rounded_up(2.00001, apart_from=2.0)
        ('1.9999', '2.00001')
        >>> rounded_up(Fraction(1, 3), digits=6)
        '0.333334'
    """
    if apart_from is None or not math.isfinite(apart_from) or not math.isfinite(value):
        return _shown(value, digits, ROUND_CEILING)
    return _text(_rounded_apart(_exact(value), _exact(apart_from), digits))


def rounded_down(value: float | Fraction, *, digits: int = DIGITS) -> str:
    """Return a number rounded down to 1 to 90 significant digits: read back as a float it is at most `value`.

    A fraction is exact, infinity is "inf". ValueError for NaN.

    Example:
        >>> rounded_down(0.946867)
        '0.946'
    """
    return _shown(value, digits, ROUND_FLOOR)


def rounded_up_within(value: float, limit: float) -> str:
    """Return an upper bound <= `limit` rounded up to three digits, or the limit, unrounded, where that is smaller.

    Example:
        >>> rounded_up_within(1.9968, 1.997), rounded_up_within(1.93, 2.0)
        ('1.997', '1.93')
    """
    # A solver promises its target: 1.9968 may not be printed as 2.00 where 1.997 was asked for.
    text = rounded_up(value)
    return text if Decimal(text) <= _exact(limit) else as_given(limit)


def before_and_after(before: float, after: float) -> str:
    """Return two upper bounds as "A -> B", rounded up, with enough digits to show which is larger."""
    return f"{rounded_up(before, apart_from=after)} -> {rounded_up(after, apart_from=before)}"


def percent_up(part: float, whole: float) -> str:
    """Return part / whole in percent, rounded up with enough digits to show on which side of 100 it lies.

    The part is finite and >= 0, the whole finite and > 0; "100" only if both are equal.

    Example:
        >>> percent_up(1.0, 3.0), percent_up(1.9999, 2.0)
        ('33.4', '99.995')
    """
    # 50 digits, rounded up: more than any float has, so that the quotient does not fall to the wrong side of 100.
    percent = Context(prec=50, rounding=ROUND_CEILING).divide(100 * _exact(part), _exact(whole))
    return _text(_rounded_apart(percent, Decimal(100), DIGITS))


def as_given(value: float) -> str:
    """Return a number unrounded: the shortest decimal that denotes it, with an exponent from ten million on.

    Infinity and NaN give "inf" and "nan".

    Example:
        >>> as_given(0.00001), as_given(2), as_given(1e9)
        ('1e-05', '2.0', '1e+9')
    """
    exact = _exact(value) if math.isfinite(value) else Decimal(0)
    return repr(float(value)) if exact.adjusted() < _MAX_DIGITS else format(exact.normalize(), "e")


def _shown(value: float | Fraction, digits: int, rounding: str) -> str:
    if math.isnan(value):
        raise ValueError("expected a number to print, got NaN")
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return _text(_rounded(_exact(value, rounding), digits, rounding))


def _exact(value: float | Fraction, rounding: str = ROUND_CEILING) -> Decimal:
    """Return a float as its shortest decimal, or a fraction rounded to 100 digits in the given direction."""
    if isinstance(value, Fraction):
        return Context(prec=100, rounding=rounding).divide(Decimal(value.numerator), Decimal(value.denominator))
    return Decimal(repr(float(value)))


def _rounded(exact: Decimal, digits: int, rounding: str) -> Decimal:
    """Return a decimal rounded to `digits` significant digits by a rounding mode of `decimal`; zero stays zero."""
    if not exact:
        return Decimal(0)
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = exact.quantize(quantum, rounding=rounding)
    if rounded.adjusted() > exact.adjusted():  # 9.999 became 10.00
        rounded = rounded.quantize(quantum.scaleb(1))
    return rounded


def _rounded_apart(exact: Decimal, limit: Decimal, digits: int) -> Decimal:
    """Return a number rounded up, with at least `digits` digits and enough to stay on its side of the limit.

    A number equal to the limit stays exact.
    """
    # Moved by less than the distance, a number stays on its side; this ends, for a decimal has finitely many digits.
    distance = abs(exact - limit)
    candidates = (_rounded(exact, count, ROUND_CEILING) for count in itertools.count(digits))
    return next(up for up in candidates if up == exact or up - exact < distance)


def _text(number: Decimal) -> str:
    """Return a decimal in plain notation from 0.0001 to below ten million, else with an exponent."""
    return format(number, "f") if -5 < number.adjusted() < _MAX_DIGITS else format(number, "e")
