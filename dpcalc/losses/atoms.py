"""Losses of finitely many values: exact for discrete mechanisms, an upper bound where they are merged.

Source: docs/theory.md, Lemma 2.5 and Theorem 9.1.
"""

import math
from collections.abc import Sequence

import numpy as np

from dpcalc.losses.loss import Loss, under_draw
from dpcalc.numerics import Array, log1m_exp, log_cumsum_exp, log_sum_exp_by_index
from dpcalc.work import ELEMENT, cached_with_cost, spend

_UNIT = 2.0**-52  # relative spacing of floats
FAR = 1e9
"""Largest loss of which Q masses, the P masses times e^-loss, keep enough digits: at a loss of 1e9 seven, at one of
1e16 none, and no bound could be read from them in the reverse direction. Pairs are `symmetric_pair`s of losses up to
FAR, or an `approximate_pair`, exact at any loss; where pairs are coupled or mixed, losses beyond FAR are infinite."""


def symmetric_pair(losses: Array, log_masses: Array, *, infinity_mass: float = 0.0) -> Loss:
    """Return the pair (P, Q) that is also (Q, P), with P masses rounded up; those of log -inf are left out."""
    has_mass = log_masses > -np.inf
    losses, logs = losses[has_mass], log_masses[has_mass]
    return Loss(
        losses=tuple(losses.tolist()),
        log_masses=tuple((logs + 4 * _UNIT * np.abs(logs)).tolist()),
        infinity_mass=infinity_mass,
        other_infinite=infinity_mass,
        is_symmetric=True,
    )


def approximate_pair(epsilon: float, delta: float = 0.0) -> Loss:
    """Return the pair of every (epsilon, delta)-DP mechanism: infinite loss with mass delta, else +-epsilon."""
    # Source: Kairouz, Oh, Viswanath 2015 (1311.0776v4), Theorem 3.1.
    if epsilon == 0:
        return symmetric_pair(np.zeros(0), np.zeros(0), infinity_mass=delta)
    # Every such step is post-processing of: tell everything with probability delta, else answer a bit by randomized
    # response. In log space, since e^-epsilon may be smaller than any float.
    log_true = (math.log1p(-delta) - math.log1p(math.exp(-epsilon))) * (1 - 4 * _UNIT)  # rounded up
    return Loss(
        losses=(-epsilon, epsilon),
        log_masses=(-epsilon + log_true, log_true),
        infinity_mass=delta,
        other_infinite=delta,
        is_symmetric=True,
    )


# Coupling, composition and chains of pairs (docs/theory.md, Theorem 8.1 and Theorem 11.5)
#
# A comonotone coupling lays out one measure that all columns share from the largest loss down: large losses of one
# meet large losses of all others.


Column = tuple[Array, Array]
"""(logs of masses that sum to 1, the loss of each, falling from `inf` to `-inf`)."""

MAX_LOSSES = 4001  # of a pair; more cost time in proportion, fewer make the bound looser
_FACTORS = 501  # losses of each factor of a composition: 250,000 products, 4 MB
_LOG_HALF = math.log(0.5)
_LOG_MIN = math.log(1e-300)
_TOLERATED_EXCESS = 1e-10  # of masses over 1 that is round-off and its margins; a larger one is a corner to bridge
_SMALL_SHARE = 1e-3  # of a mass, below which a difference has lost three digits
_MIN_POSITIVE = 5e-324  # the smallest positive float


def from_first(pair: Loss) -> Column:
    """Return P of a pair (P, Q) as a column (log P masses, losses), from loss inf down."""
    losses, logs = _with_zero_loss(pair)
    return np.append(_log_or_minus_inf(pair.infinity_mass), logs[::-1]), np.append(np.inf, losses[::-1])


def from_second(pair: Loss) -> Column:
    """Return Q of a pair (P, Q) as a column (log Q masses, losses), from the largest loss down to -inf."""
    if pair.is_symmetric:
        logs, losses = from_first(pair)
        return logs[::-1], -losses[::-1]
    losses, logs = _with_zero_loss(pair)
    return np.append((logs - losses)[::-1], _log_or_minus_inf(pair.only_other)), np.append(losses[::-1], -np.inf)


def _with_zero_loss(pair: Loss) -> tuple[Array, Array]:
    """Insert loss 0 with the P mass missing to 1 (log -inf for none); return (increasing losses, log P masses)."""
    losses, logs = (np.array(values, dtype=np.float64) for values in (pair.losses, pair.log_masses))
    at = int(np.searchsorted(losses, 0.0))
    return np.insert(losses, at, 0.0), np.insert(logs, at, _log_or_minus_inf(pair.zero_loss_mass))


def _log_or_minus_inf(mass: float) -> float:
    """Return the natural logarithm; -inf for 0."""
    return math.log(mass) if mass > 0 else -math.inf


def comonotone_coupling(columns: Sequence[Column]) -> tuple[Array, list[Array]]:
    """Couple columns in order of falling losses; return (log masses of common cells, losses of each column in them)."""
    # Cells without mass are left out.
    # Source: docs/theory.md, Theorem 8.1.
    spend(10 * ELEMENT * len(columns) * sum(logs.size for logs, _ in columns))
    above = [log_cumsum_exp(logs) for logs, _ in columns]
    below = [np.append(log_cumsum_exp(logs[:0:-1])[::-1], -np.inf) for logs, _ in columns]
    # The cell ends of all columns: logs of the mass above, rising up to 1/2, then of the mass below, falling. Measured
    # from the nearer side, rare losses keep their digits at both: both tails may hold masses far below 1e-16.
    upper = np.unique(np.concatenate([a[a <= _LOG_HALF] for a in above]))
    lower = np.unique(np.concatenate([b[a > _LOG_HALF] for a, b in zip(above, below, strict=True)]))[::-1]
    middle = 1.0 - (math.exp(upper[-1]) if upper.size else 0.0) - math.exp(lower[0])
    widths = np.concatenate(
        [
            _log_differences(np.append(-np.inf, upper)),
            [_log_or_minus_inf(middle)],
            _log_differences(lower[::-1])[::-1],
        ]
    )
    aligned = []
    for a, b, (_, losses) in zip(above, below, columns, strict=True):
        at = np.append(np.searchsorted(a, upper, side="left"), np.searchsorted(-b, -lower, side="left"))
        aligned.append(losses[at][widths > -np.inf])
    return widths[widths > -np.inf], aligned


def _log_differences(logs: Array) -> Array:
    """Return log(e^x[i+1] - e^x[i]) for ascending x, shape (n - 1,); -inf for equal neighbours."""
    low, high = logs[:-1], logs[1:]
    gaps = np.subtract(high, low, out=np.zeros(high.shape), where=high > -np.inf)
    return high + log1m_exp(gaps)


def _raise_by_roundoff(losses: Array, logs: Array) -> tuple[Array, Array]:
    """Raise log masses and move losses 4 ulp away from 0 to cover round-off: an upper bound in both directions."""
    # A cell that ends too early leaves some of its mass to the next smaller loss. If that is a share e of all mass
    # above the end, whatever the end, the profile falls by a share e at most: so much is added to every mass. Losses
    # above 0 rise with their P mass and losses below 0 fall with their Q mass: those are what each direction is read
    # from.
    margin = 4 * _UNIT * np.where(np.isfinite(losses), losses, 0.0)
    farthest = float(np.abs(losses).max(initial=0.0, where=np.isfinite(losses)))
    raised = logs + _UNIT * (8 * farthest + logs.size)
    return losses + margin, raised + np.minimum(margin, 0.0)


def of_cells(
    losses: Array, logs: Array, *, infinity_mass: float, only_other: float, max_losses: int = MAX_LOSSES
) -> Loss:
    """Return Loss of unsorted cells, losses beyond +-FAR as infinite ones, thinned to `max_losses`: an upper bound."""
    # Masses of equal losses are added up; cells at loss -inf are left out. Without a finite loss, loss 0 is listed.
    spend(8 * ELEMENT * losses.size)
    from_cells = float(np.exp(logs[losses > FAR]).sum())
    beyond = (losses < -FAR) & (losses > -np.inf)
    only_other += float(np.exp(logs[beyond] - losses[beyond]).sum())
    kept = (logs > -np.inf) & (np.abs(losses) <= FAR)
    values, place = np.unique(losses[kept], return_inverse=True)
    total = log_sum_exp_by_index(place, logs[kept], size=values.size)
    if values.size > max_losses:
        # Split over some of the losses, evenly spaced by index, P and Q mass unchanged: that is what chords of the
        # profile do (Doroshenko et al. 2022, 2207.04380v3, section 4).
        ends = values[np.linspace(0, values.size - 1, max_losses).round().astype(np.int64)]
        right = np.clip(np.searchsorted(ends, values, side="left"), 1, max_losses - 1)
        low, high = ends[right - 1], ends[right]
        all_of_it = log1m_exp(high - low)
        up = total + log1m_exp(values - low) - all_of_it
        down = total + low - values + log1m_exp(high - values) - all_of_it
        total = log_sum_exp_by_index(np.append(right, right - 1), np.append(up, down), size=max_losses)
        values, total = ends[total > -np.inf], total[total > -np.inf]
    everything = min(1.0, infinity_mass + from_cells)
    if not values.size:  # accountants look at losses
        values, total = np.zeros(1), np.array([max(_log_or_minus_inf(1 - everything), _LOG_MIN)])
    return Loss(
        losses=tuple(values.tolist()),
        log_masses=tuple(total.tolist()),
        infinity_mass=everything,
        other_infinite=min(1.0, only_other),
    )


def glued(
    above: Column, below: Column, *, infinity_mass: float, only_other: float, max_losses: int = MAX_LOSSES
) -> Loss:
    """Return an upper bound from the P masses of losses > 0 and the Q masses of losses < 0, with round-off covered."""
    # Both bound one convex profile. Where they meet with a corner that no profile has (P masses of more than 1), the
    # chord over it lies above the profile, too.
    # Source: docs/theory.md, Theorem 2.6.
    far_above, far_below = above[1] > FAR, below[1] < -FAR
    infinity_mass += float(np.exp(above[0][far_above]).sum())
    only_other += float(np.exp(below[0][far_below]).sum())
    above, below = (above[0][~far_above], above[1][~far_above]), (below[0][~far_below], below[1][~far_below])
    losses, logs = np.append(below[1], above[1]), np.append(below[0] + below[1], above[0])
    return _of_raised_cells(losses, logs, infinity_mass=infinity_mass, only_other=only_other, max_losses=max_losses)


def _of_raised_cells(
    losses: Array, logs: Array, *, infinity_mass: float, only_other: float, max_losses: int = MAX_LOSSES
) -> Loss:
    """Return `of_cells` of masses raised by round-off; a chord bridges the corner at 0 if P exceeds 1 by over 1e-10."""
    losses, logs = _raise_by_roundoff(losses, logs)
    order = np.argsort(losses)
    losses, logs = losses[order], logs[order]
    excess = float(np.exp(logs).sum()) + infinity_mass - 1
    if excess > _TOLERATED_EXCESS:
        excess_q = float(np.exp(logs - losses).sum()) + only_other - 1  # the same, but for round-off of large losses
        # One loss at each end of a range around 0, with the P and Q mass of the range less the excess, is the chord
        # over the corner; the range doubles until both masses are positive.
        zero, reach = int(np.searchsorted(losses, 0.0)), 1
        while True:
            inside = slice(max(0, zero - reach), min(losses.size, zero + reach))
            low, high = float(losses[inside.start]), float(losses[inside.stop - 1])
            p = float(np.exp(logs[inside]).sum()) - excess
            q = float(np.exp(logs[inside] - losses[inside]).sum()) - excess_q
            if min(p - q * math.exp(low), q - p * math.exp(-high)) > 0 or inside.stop - inside.start == losses.size:
                break
            reach *= 2
        # P mass x at the low end and y at the high one solve x + y = p and x e^-low + y e^-high = q. Both are rounded
        # up: the mass at `high`, clipped to [0, p], decides one direction, that at `low` the other.
        up, down = p - q * math.exp(low) + 8 * _UNIT * p, q - p * math.exp(-high) + 8 * _UNIT * q
        apart = -math.expm1(low - high)
        y = min(max(up / apart if apart else p, 0.0), p)
        two = np.log(np.maximum([p - y, y], _MIN_POSITIVE))
        # The difference keeps the sum where losses are close to each other; next to nothing, x has its own formula.
        if p - y < _SMALL_SHARE * p and apart > _SMALL_SHARE and down > 0:
            two[0] = math.log(down) + low + 4 * _UNIT * abs(low) - math.log(apart)  # up by the logarithm's rounding
        losses = np.concatenate([losses[: inside.start], losses[inside.stop :], [low, high]])
        logs = np.concatenate([logs[: inside.start], logs[inside.stop :], two])
    return of_cells(losses, logs, infinity_mass=infinity_mass, only_other=only_other, max_losses=max_losses)


def public_mixture(parts: Sequence[tuple[float, Loss]]) -> Loss:
    """Return the mixture of pairs whose component is public, thinned to 4001 losses; missing probability has loss 0."""
    return _thinned(under_draw([(chance, with_near_losses(pair)) for chance, pair in parts]), MAX_LOSSES)


def _thinned(pair: Loss, max_losses: int) -> Loss:
    losses, logs = (np.array(values, dtype=np.float64) for values in (pair.losses, pair.log_masses))
    infinity_mass, only_other = pair.infinity_mass, pair.only_other
    return of_cells(losses, logs, infinity_mass=infinity_mass, only_other=only_other, max_losses=max_losses)


def composed(a: Loss, b: Loss) -> Loss:
    """Return an upper bound on a and b composed, each thinned to 501 losses, the result to 4001."""
    a, b = (_thinned(with_near_losses(pair), _FACTORS) for pair in (a, b))
    (first, p), (second, q) = _with_zero_loss(a), _with_zero_loss(b)
    return _of_raised_cells(
        np.add.outer(first, second).ravel(),
        np.add.outer(p, q).ravel(),
        infinity_mass=a.infinity_mass + b.infinity_mass - a.infinity_mass * b.infinity_mass,
        only_other=a.only_other + b.only_other - a.only_other * b.only_other,
    )


def chain_of(pairs: Sequence[Loss]) -> Loss:
    """Return an upper bound on (P_0, P_k) if pairs[i] bounds (P_i, P_i+1); loss 0 for no pairs."""
    # An upper bound on the privacy loss, the smallest that follows from the pairs alone but for round-off.
    # Source: docs/theory.md, Theorem 11.5; Dong, Roth, Su 2022 (1905.02383v3), Theorem 2.14.
    if len(pairs) > 1:
        pairs = [with_near_losses(pair) for pair in pairs]
    *first, chain = pairs or (Loss(),)
    for pair in reversed(first):
        chain = _linked(pair, chain)
    return chain


@cached_with_cost(16)  # a group may lie in many ways, and chains of several lengths begin alike
def _linked(pair: Loss, chain: Loss) -> Loss:
    # The losses add up along the measure in the middle, coupled by falling losses under both neighbours.
    widths, (outer, inner) = comonotone_coupling([from_second(pair), from_first(chain)])
    in_both = outer > -np.inf
    logs, losses = widths[in_both] + outer[in_both], outer[in_both] + inner[in_both]
    missed = float(np.exp(widths[~in_both] - inner[~in_both]).sum())
    losses, logs = _raise_by_roundoff(losses, logs)
    return of_cells(losses, logs, infinity_mass=pair.infinity_mass, only_other=chain.only_other + missed)


ALL_INFINITE = Loss(infinity_mass=1.0, other_infinite=1.0, is_symmetric=True)
"""The pair of what tells everything."""


def with_near_losses(pair: Loss) -> Loss:
    """Return the pair, or ALL_INFINITE if some loss is beyond +-FAR: an upper bound whose Q masses can be read."""
    return pair if max(map(abs, (*pair.losses[:1], *pair.losses[-1:])), default=0.0) <= FAR else ALL_INFINITE
