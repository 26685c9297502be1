"""Ranges of numbers as users write them: `0.5:4:20`, `1e2:1e5:10:log`, `1,2,5`."""

import math

from dpcalc.errors import InputError

MAX_NUMBERS = 1_000_000  # in one range: they are held in memory
LOG = "log"
_FORMS = "A:B:N (N numbers from A to B), A:B:N:log (by equal factors) or A,B,C"


def parse_numbers(text: str, *, option: str) -> tuple[str, ...]:
    """Return the numbers of a list or a range as texts, a range with both ends; InputError, which names the option.

    The ends stay as the user wrote them (1_000, 1e-5), the numbers between them have six digits, as a person writes.

    Example:
        >>> parse_numbers("1:2:3", option="--over")
        ('1', '1.5', '2')
        >>> parse_numbers("1:100:3:log", option="--over"), parse_numbers("5,7", option="--over")
        (('1', '10', '100'), ('5', '7'))
    """
    malformed = InputError(f"{option}: expected {_FORMS}, got `{text}`")

    def number(part: str) -> float:
        try:
            value = float(part)
        except ValueError:
            raise malformed from None
        if not math.isfinite(value):
            raise malformed
        return value

    parts = [part.strip() for part in text.split(":" if ":" in text else ",")]
    if ":" not in text:
        for part in parts:
            number(part)
        return tuple(parts)
    if len(parts) not in {3, 4} or parts[3:] not in ([], [LOG]):
        raise malformed
    first, last = parts[:2]
    low, high, count = map(number, parts[:3])
    if not (count.is_integer() and 1 <= count <= MAX_NUMBERS):
        expected = f"a whole number from 1 to {MAX_NUMBERS} of points"
        raise InputError(f"{option}: expected {expected}, got `{parts[2]}` in `{text}`")
    if parts[3:] and not (low > 0 and high > 0):
        raise InputError(f"{option}: expected ends > 0 for equal factors, got `{text}`")
    if count == 1:
        return (first,)
    shares = (index / (count - 1) for index in range(1, int(count) - 1))
    between = (low * (high / low) ** share if parts[3:] else low + (high - low) * share for share in shares)
    return (first, *(f"{value:.6g}" for value in between), last)


def whole_numbers(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nearest whole numbers (of halves the even one) as texts, in order, without repetitions."""
    return tuple(dict.fromkeys(str(round(float(text))) for text in texts))
