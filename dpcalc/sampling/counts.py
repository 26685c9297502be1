"""Exact distributions of counts, and bounds on them in stochastic order: the number of marked units in a draw."""

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import comb
from typing import NamedTuple, TypeVar

from dpcalc.errors import WorkExceededError
from dpcalc.work import TURN, cached_with_cost, fraction_units, spend

Key = TypeVar("Key")
Law = TypeVar("Law")
CountDistribution = dict[int, Fraction]
"""Probability by count; the values are positive and sum to 1."""

_RARE = Fraction(1, 2**200)  # largest counts that together are rarer (6e-61) become one: each costs a whole bound
# Counts that together have less than 2^-1200 (1e-361) are moved down: over 1e15 steps that is far less than what the
# smallest delta, 1e-300, is rounded by.
_VANISHING = 1200
_MAX_BITS = 4096  # of an exact probability; a longer one is rounded down and its remainder joins the rare counts
_FEW_BITS = 1024  # of a probability in a sum of products; the time of `compound` grows with them
_MAX_COUNTS = 48  # different counts after merging upwards; each costs one evaluation of the one-step bound
_LIKELIEST = 36  # of them are the counts with the largest probability, which would cost most if moved upwards
# Standard deviations above the mean at which Chernoff's bound is taken: finely where the mass is, then geometrically up
# to 1,100, where a binomial distribution of any mean has vanished.
_DEVIATIONS = (*(0.25 * i for i in range(17)), *(4 * 1.1**i for i in range(1, 60)))
_LOG_2 = math.log(2)
_FEW_PAIRS = 4096  # pairs of counts up to which short probabilities are summed exactly
_SUM_BITS = 1600  # of a probability in a sum of many counts; the remainders, 2^-1500 in all, are below 2^-_VANISHING
_FLOAT_BITS = 1074  # of the smallest float above 0
_COARSEN_ABOVE = 64  # counts above which a sum is coarsened before it is summed again


def binomial(trials: int, rate: Fraction) -> CountDistribution:
    """Return an upper law of Binomial(trials, rate): by recurrence, or by Chernoff where Pr[0] is below 2^-2048."""
    # Exact if the probabilities have at most 4096 bits, but that counts that together have less than 2^-200 are one.
    if rate in {0, 1} or not trials:
        return {trials if rate else 0: Fraction(1)}
    a, b = rate.numerator, rate.denominator
    exact = trials * b.bit_length() <= _MAX_BITS
    spend(fraction_units(8, _MAX_BITS))
    unit = b**trials if exact else 1 << _MAX_BITS
    weight = (b - a) ** trials if exact else int(power(1 - rate, trials) * unit)
    if weight.bit_length() < _MAX_BITS // 2 and not exact:  # Pr[0] is too small to start from
        return _binomial_upper_by_chernoff(trials, float(rate) * trials)

    # Pr[H = h + 1] = Pr[H = h] (n - h) a / ((h + 1) (b - a)), in whole numbers and rounded down; the remainder of the
    # total goes to the last count, so that Pr[H >= h] is never too small. One count has a tail below 2^-200.
    counts: dict[int, int] = {}
    left_over = left = unit  # mass outside the stored counts; mass above the present count
    bits = unit.bit_length()
    for count in range(trials):
        spend(fraction_units(1, bits))
        left -= weight
        if left_over * _RARE.denominator >= unit:
            counts[count], left_over = weight, left
        if left << _VANISHING < unit:
            break
        weight = weight * (trials - count) * a // ((count + 1) * (b - a))
    counts[count + 1] = left_over
    return {count: Fraction(chance, unit) for count, chance in counts.items() if chance}


def binomial_lower(trials: int, rate: Fraction) -> CountDistribution:
    """Return a lower law of Binomial(trials, rate), from an upper law of the failures where Pr[0] is below 2^-2048."""
    law = binomial(trials, rate)
    if 0 in law:
        return drop_rare_tail(law)
    # `binomial` is Chernoff's bound here: an upper law of the trials that fail gives a lower one of those that succeed.
    return {trials - failures: chance for failures, chance in reversed(binomial(trials, 1 - rate).items())}


_FULL_BITS = 1300  # of a weight relative to the likeliest one: what is cut off is below 2^-_VANISHING
_MAX_TERMS = 200_000  # counts with such weights: half a second; they are that many from a mean batch of 5e6


class FullBatch(NamedTuple):
    """A batch that is cut to a maximum, as one unit finds it."""

    chance: Fraction  # probability that the other units fill the batch: T of them are drawn, T >= cap
    inclusion: Fraction  # probability that the unit is drawn and stays, given that they do; 0 if they cannot


def full_batch(others: int, rate: Fraction, cap: int) -> FullBatch | None:
    """Return Pr[`others` fill a batch], and Pr[one more unit is in it] given that they do; None if too costly."""
    if others < cap or not rate:
        return FullBatch(Fraction(0), Fraction(0))
    if rate == 1:
        return FullBatch(Fraction(1), Fraction(cap, others + 1))
    # Weights vanish sqrt(2 * 1300 * log 2) = 42.5 deviations from the mean, later only where few are expected.
    terms = 85 * math.sqrt(others * float(rate) * float(1 - rate)) + 600
    try:
        return _full_batch(others, rate, cap, terms) if terms <= _MAX_TERMS else None
    except WorkExceededError:
        return None


@cached_with_cost(1024)
def _full_batch(others: int, rate: Fraction, cap: int, terms: float) -> FullBatch:
    """Return `full_batch` for 0 < rate < 1 from about `terms` binomial weights; WorkExceededError if too costly."""
    spend(terms * 4 * TURN)
    total = full = kept = 0
    for count, weight in _binomial_weights(others, rate.numerator, rate.denominator):
        total += weight
        if count >= cap:
            full += weight
            kept += weight // (count + 1)
    if not full:
        return FullBatch(Fraction(0), Fraction(0))
    # Of weights of a few bits `kept` has lost much; no T >= cap makes the inclusion larger than T = cap.
    inclusion = min(rate * cap * Fraction(kept, full), rate * Fraction(cap, cap + 1))
    return FullBatch(Fraction(full, total), inclusion)


def _binomial_weights(trials: int, a: int, b: int) -> Iterator[tuple[int, int]]:
    """Yield (count, whole weight > 0) of a binomial at rate a / b, from the likeliest count up, then those below."""
    likeliest = (trials + 1) * a // b
    count, weight = likeliest, 1 << _FULL_BITS
    while weight:  # 0 beyond the last trial
        yield count, weight
        weight = weight * (trials - count) * a // ((count + 1) * (b - a))
        count += 1
    count, weight = likeliest, 1 << _FULL_BITS
    while weight := weight * count * (b - a) // ((trials - count + 1) * a):
        count -= 1
        yield count, weight


def power(base: Fraction, exponent: int) -> Fraction:
    """Return base^exponent for a base in [0, 1]: exact up to 4096 bits, else rounded down to a multiple of 2^-4096."""
    if exponent * base.denominator.bit_length() <= _MAX_BITS:
        return base**exponent
    # Fixed point with every product rounded down: an exact power of a million factors would have millions of digits.
    bits = _MAX_BITS + 64
    result, factor = 1 << bits, (base.numerator << bits) // base.denominator
    while exponent and result:
        exponent, odd = divmod(exponent, 2)
        if odd:
            result = result * factor >> bits
        factor = factor * factor >> bits
    return Fraction(result >> 64, 1 << _MAX_BITS)


def _binomial_upper_by_chernoff(trials: int, mean: float) -> CountDistribution:
    """Return an upper law of a binomial of large mean, by Chernoff's bound at no more than 76 counts above the mean."""
    # Pr[H >= t] <= e^(-mean h(u)) with t = (1 + u) mean, h(u) = (1 + u) log(1 + u) - u. Counts between two points are
    # moved to the larger one.
    points = [math.ceil(mean + deviations * math.sqrt(mean)) for deviations in _DEVIATIONS]
    law: CountDistribution = {}
    before = Fraction(1)
    for point in points:
        u = (point - mean) / mean
        # The margins 1e-6 cover the round-off of u and of log1p: the bound stays an upper one.
        exponent = mean * max((1 + u) * math.log1p(u) - u, 0.0) * (1 - 1e-6) - 1e-6
        after = Fraction(min(1.0, math.exp(-exponent))) if exponent < 600 else Fraction(1, 2 ** int(exponent / _LOG_2))
        after = Fraction(0) if exponent > _VANISHING or point >= trials else after
        count = min(point, trials)
        law[count] = law.get(count, Fraction(0)) + before - after
        before = after
        if not after:
            break
    return {count: chance for count, chance in law.items() if chance}


def hypergeometric(count: int, marked: int, drawn: int, *, is_lower: bool = False) -> CountDistribution:
    """Return an upper law (or a lower one) of the marked units in a draw without replacement, exact up to 4096 bits."""
    few, many = sorted((marked, drawn))  # the distribution is symmetric in the two
    # A number of ways has up to this many bits; it is divided or multiplied once for each count.
    bits = few * math.log2(max(count / max(few, 1), 1) * math.e)
    spend(bits**1.6 + (few + 1) * (4 * TURN + bits / 4) + fraction_units(few + 1, min(int(bits), _MAX_BITS)))
    smallest, ways = max(0, marked + drawn - count), comb(count, few)
    exact = ways.bit_length() <= _MAX_BITS
    unit = ways if exact else 1 << _MAX_BITS
    weight = comb(many, smallest) * comb(count - many, few - smallest)
    weights: dict[int, int] = {}
    for h in range(smallest, few + 1):
        weights[h] = weight if exact else (weight << _MAX_BITS) // ways
        # C(many, h) C(count - many, few - h): each weight is a whole number, so that the division leaves nothing.
        weight = weight * (many - h) * (few - h) // ((h + 1) * (count - many - few + h + 1))
    weights[smallest if is_lower else few] += unit - sum(weights.values())  # what was rounded down
    return {h: Fraction(chance, unit) for h, chance in weights.items() if chance}


def convolve(a: CountDistribution, b: CountDistribution) -> CountDistribution:
    """Return the exact distribution of the sum of two independent counts; WorkExceededError if it is too long."""
    # A certain count only moves the other one, whose fractions stay short.
    for single, other in ((a, b), (b, a)):
        if len(single) == 1:
            ((number, chance),) = single.items()
            return {number + count: weight if chance == 1 else weight * chance for count, weight in other.items()}
    for law in (a, b):
        spend(fraction_units(len(law), _max_denominator_bits(law)))
    (left, of_left), (right, of_right) = _over_common_denominator(a), _over_common_denominator(b)
    total = of_left * of_right
    spend(fraction_units(len({x + y for x in left for y in right}), total.bit_length()))
    longest = [max(map(int.bit_length, each.values()), default=0) for each in (left, right)]
    spend(len(left) * len(right) * (2 * TURN + math.prod(longest) / 1000))
    weights: dict[int, int] = {}
    for (x, p), (y, q) in product(left.items(), right.items()):
        weights[x + y] = weights.get(x + y, 0) + p * q
    return {count: Fraction(weight, total) for count, weight in weights.items()}


def _over_common_denominator(law: CountDistribution) -> tuple[dict[int, int], int]:
    """Return ({count: integer weight}, common denominator) of a distribution, exact."""
    unit = math.lcm(*(chance.denominator for chance in law.values()))
    return {count: chance.numerator * (unit // chance.denominator) for count, chance in law.items()}, unit


def _max_denominator_bits(law: Mapping[Key, Fraction]) -> int:
    """Return the bit length of the largest denominator in a law; 0 for none."""
    return max((chance.denominator.bit_length() for chance in law.values()), default=0)


def convolve_power(law: CountDistribution, number: int) -> CountDistribution:
    """Return the exact distribution of the sum of `number` independent counts; WorkExceededError if it is too long."""
    if len(law) == 1:
        ((count, chance),) = law.items()
        return {count * number: chance**number}
    return power_by_squaring(law, number, convolve, identity={0: Fraction(1)})


def sum_of_draws(
    each: dict[int, Fraction], number: int, rate: Fraction = Fraction(1), *, bits: int
) -> dict[int, Fraction]:
    """Return the law of a sum of `number` values that each enter with `rate`, of weights of at most `bits` bits.

    What is rounded off goes to the likeliest value: for 160 bits the law differs from the true one by less than 1e-40.
    """
    entered = mixture([(1 - rate, {0: Fraction(1)}), (rate, each)])
    if len(entered) == 1:
        return {number * value: chance for value, chance in entered.items()}
    if len(entered) == 2 and bits <= _FLOAT_BITS and number * _max_denominator_bits(entered) > bits:
        low, high = sorted(entered)
        a, b = entered[high].numerator, entered[high].denominator
        spend((85 * math.sqrt(number * (a / b) * (1 - a / b)) + 600) * 4 * TURN)
        weights = dict(_binomial_weights(number, a, b))
        total = sum(weights.values())
        whole = {k: (weight << bits) // total for k, weight in weights.items()}
        whole[max(whole, key=whole.__getitem__)] += (1 << bits) - sum(whole.values())
        return {low * (number - k) + high * k: Fraction(chance, 1 << bits) for k, chance in whole.items() if chance}
    nothing = {0: Fraction(1)}
    return power_by_squaring(entered, number, lambda a, b: to_whole_bits(convolve(a, b), bits), identity=nothing)


def to_whole_bits(law: dict[int, Fraction], bits: int) -> dict[int, Fraction]:
    """Return the law, with weights of more bits rounded; the likeliest value takes what the others gain or lose.

    They are rounded down, and those that vanish are left out. With more bits than floats have they are rounded up: no
    value is left out that hides a huge loss.
    """
    if bits <= _FLOAT_BITS or _max_denominator_bits(law) <= bits:
        return rounded(law, bits, lambda law: max(law, key=law.__getitem__), above=bits)
    short = {key: Fraction(math.ceil(chance * (1 << bits)), 1 << bits) for key, chance in law.items()}
    short[max(law, key=law.__getitem__)] += sum(law.values(), start=Fraction(0)) - sum(
        short.values(), start=Fraction(0)
    )
    return short


def convolve_power_upper(law: CountDistribution, number: int) -> CountDistribution:
    """Return an upper law, at most 64 counts, of the sum of `number` independent counts."""
    return power_by_squaring(law, number, convolve_upper, identity={0: Fraction(1)})


def power_by_squaring(base: Law, exponent: int, multiply: Callable[[Law, Law], Law], *, identity: Law) -> Law:
    """Return base^exponent for the product `multiply`, by repeated squaring; `identity` for exponent 0."""
    result = identity
    while exponent:
        exponent, odd = divmod(exponent, 2)
        if odd:
            result = multiply(result, base)
        base = multiply(base, base) if exponent else base
    return result


def convolve_upper(a: CountDistribution, b: CountDistribution) -> CountDistribution:
    """Return an upper law, at most 64 counts, of the sum of two independent counts."""
    bits = _max_denominator_bits(a) + _max_denominator_bits(b)
    is_short = len(a) == 1 or len(b) == 1 or (bits <= _MAX_BITS and len(a) * len(b) <= _FEW_PAIRS)
    if is_short:
        law = convolve(a, b)
    else:
        # What is missing goes to the largest sum: Pr[sum >= j] does not fall for any j.
        spend(len(a) * len(b) * (2 * TURN + _SUM_BITS**2 / 1000))
        law = rounded_sum(a, b, operator.add, max)
    return round_to_many_bits(coarsen_upwards(law) if len(law) > _COARSEN_ABOVE else law)


def rounded_sum(
    a: dict[Key, Fraction],
    b: dict[Key, Fraction],
    add: Callable[[Key, Key], Key],
    rest: Callable[[dict[Key, int]], Key],
) -> dict[Key, Fraction]:
    """Return the law of the sum of two independent values, each weight rounded down to 1600 bits before and after it.

    What is missing of the total, less than 2^-1500 of each, goes to the value that `rest` chooses.
    """
    unit, whole = 1 << _SUM_BITS, dict[Key, int]()
    left, right = ([(x, p.numerator * unit // p.denominator) for x, p in law.items()] for law in (a, b))
    for (x, p), (y, q) in product(left, right):
        total = add(x, y)
        whole[total] = whole.get(total, 0) + p * q
    law = {value: Fraction(weight >> _SUM_BITS, unit) for value, weight in whole.items() if weight >> _SUM_BITS}
    exact = sum(a.values(), start=Fraction(0)) * sum(b.values(), start=Fraction(0))
    if missing := exact - sum(law.values(), start=Fraction(0)):
        law[rest(whole)] = law.get(rest(whole), Fraction(0)) + missing
    return law


def mixture(parts: Iterable[tuple[Fraction, dict[Key, Fraction]]]) -> dict[Key, Fraction]:
    """Return the mixture of the laws: exact, or rounded for over 64 terms with a fraction over 1024 bits."""
    used = [(chance, law) for chance, law in parts if chance]
    longest = max((_max_denominator_bits(law) for _, law in used), default=0)
    number = sum(len(law) for _, law in used)
    if longest > _FEW_BITS and number > _COARSEN_ABOVE:
        # Each product is rounded down to a multiple of 2^-4096, and the likeliest key gets the rest. Sums of integers
        # over one power of two need no common factors, for which the time goes with thousands of digits.
        spend(number * (4 * TURN + longest * longest / 1000) + fraction_units(4 * len(used), longest))
        unit, whole, total = 1 << _MAX_BITS, dict[Key, int](), Fraction(0)
        for chance, law in used:
            total += chance * sum(law.values(), start=Fraction(0))
            factor = chance.numerator * unit // chance.denominator
            for key, weight in law.items():
                whole[key] = whole.get(key, 0) + factor * weight.numerator // weight.denominator
        result = {key: Fraction(weight, unit) for key, weight in whole.items() if weight}
        result[max(whole, key=whole.__getitem__)] += total - Fraction(sum(whole.values()), unit)
        return result
    spend(fraction_units(2 * number, 2 * longest))
    result = {}
    for chance, law in used:
        for key, weight in law.items():
            result[key] = result.get(key, Fraction(0)) + chance * weight
    return result


def rounded(
    law: dict[Key, Fraction], bits: int, rest: Callable[[dict[Key, Fraction]], Key], *, above: int
) -> dict[Key, Fraction]:
    """Return the law; if a denominator has over `above` bits, rounded down to `bits`, and what is missing to `rest`."""
    if _max_denominator_bits(law) <= above:
        return law
    unit = 1 << bits
    short = {key: Fraction(chance.numerator * unit // chance.denominator, unit) for key, chance in law.items()}
    short[rest(law)] += sum(law.values(), start=Fraction(0)) - sum(short.values(), start=Fraction(0))
    return {key: chance for key, chance in short.items() if chance}


def round_to_many_bits(law: dict[Key, Fraction]) -> dict[Key, Fraction]:
    """Return the law; if a denominator has over 8192 bits, rounded to 4096 in favour of the likeliest key."""
    return rounded(law, _MAX_BITS, lambda law: max(law, key=law.__getitem__), above=2 * _MAX_BITS)


def drop_rare_tail(law: CountDistribution) -> CountDistribution:
    """Return a lower law: the largest count, if rarer than 2^-200, joins the next smaller one."""
    # The remainder that `binomial` gives to its last count must not raise a lower bound: that count is taken back.
    *others, below, top = sorted(law) if len(law) > 1 else (0, 0)
    if len(law) < 2 or law[top] >= _RARE:
        return law
    return {**{count: law[count] for count in others}, below: law[below] + law[top]}


def coarsen_upwards(law: CountDistribution) -> CountDistribution:
    """Return an upper law: counts above 0 move up to the next of at most 48, the 36 likeliest and 12 at equal ranks."""
    counts = sorted(count for count in law if count)
    if len(counts) <= _MAX_COUNTS:
        return law
    spend(fraction_units(2 * len(law), _max_denominator_bits(law)))
    weights, unit = _over_common_denominator(law)
    # Besides the likeliest, counts at equal ranks are kept, so that no likely count moves far up; the largest is one.
    spread = _MAX_COUNTS - _LIKELIEST
    ends = {counts[-1 - len(counts) * i // spread] for i in range(spread)}
    ends |= set(sorted(counts, key=weights.__getitem__, reverse=True)[:_LIKELIEST])
    return move_up(weights, unit, ends | {0})


def move_up(weights: dict[int, int], unit: int, ends: Collection[int]) -> CountDistribution:
    """Return the law of weights / unit with each count moved up to the next of `ends`, one of which is the largest."""
    law: CountDistribution = {}
    at_end = 0
    for count in sorted(weights):
        at_end += weights[count]
        if count in ends:
            law[count], at_end = Fraction(at_end, unit), 0
    return law


def coarsen_upwards_to(law: CountDistribution, max_counts: int) -> CountDistribution:
    """Return an upper law of at most `max_counts` counts above 0 with about equal shares of the mass."""
    counts = sorted(count for count in law if count)
    if len(counts) <= max_counts:
        return law
    # A count is kept where the mass so far reaches the next of `max_counts` equal shares, and always the largest one.
    share, below, ends = nonzero_probability(law) / max_counts, Fraction(0), {counts[-1]}
    for count in counts:
        below += law[count]
        if below >= share * len(ends):
            ends.add(count)
    return move_up(*_over_common_denominator(law), ends | {0})


def compound(number: CountDistribution, each: CountDistribution) -> CountDistribution:
    """Return an upper law, at most 48 counts above 0, of the sum of a random `number` of independent counts."""
    total: CountDistribution = {}
    # The sum of one number of counts is that of the number before and the difference more.
    law, reached = {0: Fraction(1)}, 0
    for count, chance in sorted(coarsen_upwards(number).items()):
        if {*each} <= {0, 1}:
            law = binomial(count, nonzero_probability(each))
        else:
            more = convolve_power(_round_to_few_bits_upper(each), count - reached)
            law = _round_to_few_bits_upper(coarsen_upwards(convolve(law, more)))
        reached = count
        spend(fraction_units(2 * len(law), 2 * _FEW_BITS))
        for value, weight in law.items():
            total[value] = total.get(value, Fraction(0)) + chance * weight
    return _round_to_few_bits_upper(coarsen_upwards(total))


def _round_to_few_bits_upper(law: CountDistribution) -> CountDistribution:
    """Return an upper law; if a denominator has over 1024 bits, rounded to 1024 in favour of the largest count."""
    return rounded(law, _FEW_BITS, max, above=_FEW_BITS)


def nonzero_probability(law: Mapping[int, Fraction]) -> Fraction:
    """Return the probability that the count is not 0."""
    return 1 - law.get(0, Fraction(0))
