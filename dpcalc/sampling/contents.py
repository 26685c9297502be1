"""What is drawn below a drawn unit: the probability of any record at all, and the law of its clipped contributions.

Only draws that are made together with that of the protected unit are random here. A draw below it that changes while
the unit's draw is held will hold something in one step or another, so a unit above such a draw is never taken to be
empty; a draw that is held for longer is taken to be of all there is.
"""

import math
from collections.abc import Iterable
from fractions import Fraction

from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.laws import Law, at_least_one, binomial, power
from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme, Shuffle, WithReplacement

_MOST_BITS = 1024  # of an exact probability that enters laws of counts; one with more is rounded up
_KEPT_BITS = 256


def chance_of_any(levels: Iterable[tuple[Scheme, int]]) -> Fraction:
    """Probability that a drawn unit holds a drawn record; at most 2^-256 is added where it has very many digits.

    Args:
        levels: (scheme, units under one parent) of the levels below the unit, outermost first.
    """
    chance = Fraction(1)
    for scheme, count in reversed([*levels]):
        match scheme:
            case Poisson(probability=rate):
                empty = power(1 - rate * chance, count)
            case Fixed():
                empty = power(1 - chance, scheme.most_drawn(count))
            case WithReplacement(size=size) | Shuffle(size=size):
                empty = power(1 - chance, size)
            case All():
                empty = power(1 - chance, count)
        chance = _rounded_up(1 - empty)
    return chance


def _rounded_up(chance: Fraction) -> Fraction:
    """A probability with few enough digits for laws of counts."""
    if chance.denominator.bit_length() <= _MOST_BITS:
        return chance
    return min(Fraction(1), Fraction(math.ceil(chance * (1 << _KEPT_BITS)), 1 << _KEPT_BITS))


def largest_chance_of_any(hierarchy: Hierarchy, number: int, *, hold: int) -> Fraction:
    """The largest probability that a drawn unit of a level holds a drawn record, whichever unit it is.

    Args:
        hierarchy: levels and schemes.
        number: of the level, 0 to depth; 0 is the whole batch.
        hold: steps for which the protected unit's draw is held.
    """
    below: list[tuple[Scheme, int]] = []
    for level in hierarchy.levels[number:]:
        if level.redraw_every < hold:
            break
        below.append((level.scheme if level.redraw_every == hold else All(), level.count))
    return chance_of_any(below)


def contribution_law(hierarchy: Hierarchy, *, unit: int, clip: int, most: int) -> Law | None:
    """The law of the number of clipped contributions of a drawn unit, an upper bound in stochastic order.

    Args:
        hierarchy: levels and schemes.
        unit: level of the unit, which is the protected one.
        clip: clipping level, `unit` or below.
        most: contributions of the unit at most, those of its largest draw.

    Returns:
        None where the number is not random, or no better law than its maximum is known.
    """
    hold = hierarchy.level(unit).redraw_every
    if any(level.redraw_every != hold for level in hierarchy.levels[unit:clip]):
        last = next(at for at in range(unit, clip) if hierarchy.levels[at].redraw_every != hold)
        shown = Fraction(1)
    else:
        last, shown = clip, largest_chance_of_any(hierarchy, clip, hold=hold)
    drawn = [number for number in range(unit + 1, last + 1) if isinstance(hierarchy.level(number).scheme, Poisson)]
    each, levels = 1, hierarchy.levels[drawn[-1] : clip] if drawn else ()
    for level in levels:
        each *= level.most_drawn
    if not drawn or (each > 1 and not all(level.is_equal for level in levels)):
        return binomial(most, shown) if shown < 1 else None
    rate = hierarchy.level(drawn[-1]).rate
    if each == 1:
        return binomial(most, rate * shown)
    some = at_least_one(binomial(each, shown))
    if rate * some > shown:  # of two upper bounds the one with the smaller mean
        return binomial(most, shown)
    return {each * number: chance for number, chance in binomial(most // each, rate * some).items()}
