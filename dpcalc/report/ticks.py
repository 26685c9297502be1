"""Round numbers on an axis."""

import math

_STEPS = (1, 2, 2.5, 5, 10)
_DECADES = 2.0  # from which on a logarithmic axis names powers of ten


def round_ticks(low: float, high: float, *, most: int, is_log: bool) -> tuple[float, ...]:
    """Return round numbers from `low` to `high`.

    Args:
        low: lower end; > 0 on a logarithmic axis.
        high: upper end, greater.
        most: how many numbers there may be, >= 2.
        is_log: whether the axis is logarithmic.

    Returns:
        Increasing numbers, at least two; the ends themselves where no round ones lie between them.

    Example:
        >>> round_ticks(0.0, 4.7, most=5, is_log=False)
        (0.0, 1.0, 2.0, 3.0, 4.0)
        >>> round_ticks(1e-4, 1.0, most=5, is_log=True)
        (0.0001, 0.001, 0.01, 0.1, 1.0)
    """
    found = _logarithmic(low, high, most) if is_log and high > low * 10**_DECADES else _linear(low, high, most)
    return found if len(found) > 1 else (low, high)


def _linear(low: float, high: float, most: int) -> tuple[float, ...]:
    """Multiples of the smallest round step of which at most `most` lie between the ends."""
    power = math.floor(math.log10((high - low) / most))
    for part in _STEPS:
        step = part * 10.0**power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            return tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return (low, high)


def _logarithmic(low: float, high: float, most: int) -> tuple[float, ...]:
    """Powers of ten, so many apart that there are at most `most`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    apart = max(1, math.ceil((last - first + 1) / most))
    return tuple(float(f"1e{power}") for power in range(first, last + 1) if power % apart == 0)
