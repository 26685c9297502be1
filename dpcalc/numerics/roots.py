"""Bracketed roots of one variable."""

from collections.abc import Callable


def bracket_root(f: Callable[[float], float], low: float, high: float, *, tolerance: float) -> tuple[float, float]:
    """Shrinks a bracket around a sign change by Chandrupatla's method.

    Args:
        f: continuous; f(low) and f(high) have different signs (0 counts as that of `high`).
        low: one end.
        high: the other end, greater.
        tolerance: largest width of the result, relative to the larger end plus the tiniest float.

    Returns:
        (low, high) with the signs the ends had, high - low within the tolerance: the caller takes the safe side.

    References:
        Chandrupatla 1997, Advances in Engineering Software 28(3), 145-149.
    """
    a, b = high, low
    fa, fb = f(a), f(b)
    c, fc, t = a, fa, 0.5
    while True:
        near = abs(a - b)
        if near <= tolerance * max(abs(a), abs(b)) + 1e-300:
            break
        x = a + t * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = x, fx
        t = _next_fraction((a, b, c), (fa, fb, fc))
        smallest = 0.25 * tolerance * max(abs(a), abs(b)) / max(abs(b - a), 1e-300)
        t = min(1 - smallest, max(smallest, t)) if smallest < 0.5 else 0.5
    return min(a, b), max(a, b)


def near_root(f: Callable[[float], float], low: float, high: float, *, tolerance: float) -> float:
    """A point between two where a function, nearly a straight line, is nearly 0: secants, halves where they lead out.

    Args:
        f: continuous; f(low) and f(high) have different signs.
        low: one end.
        high: the other end, greater.
        tolerance: how far from 0 f may be, > 0; or the ends are neighbouring floats.
    """
    a, b, fa, fb = low, high, f(low), f(high)
    last, f_last, x, fx = a, fa, b, fb
    while abs(fx) > tolerance and b - a > 1e-15 * max(abs(a), abs(b)):
        slope = (fx - f_last) / (x - last) if x != last else 0.0
        guess = x - fx / slope if slope else a
        last, f_last = x, fx
        x = guess if a < guess < b else (a + b) / 2
        fx = f(x)
        a, b, fa, fb = (x, b, fx, fb) if (fx > 0) == (fa > 0) else (a, x, fa, fx)
    return x


def _next_fraction(points: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """Where between a and b to look next: inverse quadratic interpolation where it is safe, else the middle."""
    (a, b, c), (fa, fb, fc) = points, values
    if fa in {fb, fc} or fb == fc or c == b:
        return 0.5
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if phi * phi < xi and (1 - phi) ** 2 < 1 - xi:
        return fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return 0.5
