"""Ranges of numbers as users write them: `0.5:4:20`, `1e2:1e5:10:log`, `1,2,5`."""

import math

from dpcalc.errors import InputError

MAX_NUMBERS = 1_000_000  # in one range: they are held in memory
LOG = "log"
_DIGITS = 6  # significant digits of the numbers between the ends
_FORMS = "A:B:N (N numbers from A to B), A:B:N:log (by equal factors) or A,B,C"


def parse_numbers(text: str, *, option: str) -> tuple[str, ...]:
    """Return the numbers of a list `A,B,C`, or of a range `A:B:N[:log]` with both ends; InputError for other text.

    Args:
        text: `A:B:N`, `A:B:N:log` or `A,B,C`.
        option: the option that it is from, for messages.

    Returns:
        Decimals in the order of the range; the ends as the user wrote them, others with six significant digits.

    Raises:
        InputError: the text has none of the three forms, or more than MAX_NUMBERS numbers.

    Example:
        >>> parse_numbers("1:2:3", option="--over")
        ('1', '1.5', '2')
        >>> parse_numbers("1:100:3:log", option="--over"), parse_numbers("5,7", option="--over")
        (('1', '10', '100'), ('5', '7'))
    """
    if ":" not in text:
        return tuple(_checked_number(part, text, option) for part in text.split(","))
    parts = [part.strip() for part in text.split(":")]
    if len(parts) not in {3, 4} or parts[3:] not in ([], [LOG]):
        raise InputError(f"{option}: expected {_FORMS}, got `{text}`")
    first, last = (_checked_number(part, text, option) for part in parts[:2])
    count, is_log = _checked_count(parts[2], text, option), bool(parts[3:])
    if is_log and not (float(first) > 0 and float(last) > 0):
        raise InputError(f"{option}: expected ends > 0 for equal factors, got `{text}`")
    return _range_numbers(first, last, count, is_log=is_log)


def _range_numbers(first: str, last: str, count: int, *, is_log: bool) -> tuple[str, ...]:
    """Return `count` numbers in equal steps or factors from `first` to `last`, the ends as they are written.

    The others have six digits. There is only `first` if `count` is 1.
    """
    # The ends stay as they were written (1_000, 1e-5); between them six digits are what a person would write.
    if count == 1:
        return (first,)
    low, high = float(first), float(last)
    shares = (index / (count - 1) for index in range(1, count - 1))
    between = (low * (high / low) ** share if is_log else low + (high - low) * share for share in shares)
    return (first, *(f"{value:.{_DIGITS}g}" for value in between), last)


def whole_numbers(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nearest whole numbers (of halves the even one) as texts, in order, without repetitions."""
    return tuple(dict.fromkeys(str(round(float(text))) for text in texts))


def _checked_number(part: str, text: str, option: str) -> str:
    """Return the stripped `part` if it is a finite number; InputError, which shows the whole `text`, otherwise."""
    try:
        number = float(part)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{option}: expected {_FORMS}, got `{text}`")
    return part.strip()


def _checked_count(part: str, text: str, option: str) -> int:
    """Return N of a range as int; InputError unless it is whole and from 1 to 1,000,000."""
    value = float(_checked_number(part, text, option))
    if not (value.is_integer() and 1 <= value <= MAX_NUMBERS):
        expected = f"a whole number from 1 to {MAX_NUMBERS} of points"
        raise InputError(f"{option}: expected {expected}, got `{part}` in `{text}`")
    return math.trunc(value)
