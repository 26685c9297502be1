"""The one-step bound of a group below drawn units, the draws above it not revealed: (K), averaged over what is drawn.

Let C be a batch with h >= 1 members of the group (or contributions of members, where it is random how many a drawn
one makes and nobody stands in for it), drawn in D, under g of the b outermost units that hold any; eta is
the probability of such a batch. All others, M, have the same law in D and D', so as in `bounds` the profile is
eta H_{e^eps0}(C || (1 - b) M + b B), and given the draw of C everything is a mixture of Gaussians around its mean. With
m_1 the most that one outermost unit can contribute:

- B, the same draw in D', is at a distance of at most h times that of one member, and of at most 2 m_1 g, for nothing
  changes outside the g units;
- M where none of the b units is drawn (probability v_1): draw the same others, and others in place of the g, distance
  at most g (m_1 + the largest sibling), under draws that replace nobody g m_1;
- M else (v_2): let the units that hold no member be the same as far as there are as many. Of those that hold members
  at most max(g, b) are exchanged or drawn anew inside, 2 m_1 each; under draws that replace nobody g units can go and b
  can come, m_1 each. With b = 1 and two levels it is one unit without its members: at most h times one member.

Which of these cases M is in can be coupled independently of the draw of C, so given that draw it is (K) with its own
distances, and H, convex, is at most the average over the draws of C. From D' the distances are no larger. QED.
"""

from collections import Counter
from fractions import Fraction

from dpcalc.release.bounds import StepBound
from dpcalc.release.contexts import Placement, contexts, members_drawn, outermost_drawn
from dpcalc.release.counted import Average, Member
from dpcalc.sampling.laws import Law, compound
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Fixed

_TOLD = 2  # more outermost units than this are taken for all there are


def hidden_group(
    path: Path, placement: tuple[Placement, ...], member: Member, *, each: Law | None = None
) -> Average | None:
    """The bound of one draw; None where no step draws a member.

    Args:
        path: fixed, poisson and all draws, two levels or more.
        placement: where the members are.
        member: what one of them does to a batch, or one of its contributions where these are counted.
        each: law of the contributions that are counted of a drawn member; None where each member counts once.
    """
    joint = _joint(path, placement, each)
    inclusion = sum((chance for (_, h), chance in joint.items() if h), start=Fraction(0))
    if not inclusion:
        return None
    missed = (
        sum((chance for (g, h), chance in joint.items() if not g and not h), start=Fraction(0)),
        sum((chance for (g, h), chance in joint.items() if g and not h), start=Fraction(0)),
    )
    drawn: dict[tuple[int, int], Fraction] = {}
    for (g, h), chance in joint.items():
        told = (g if g <= _TOLD else len(placement), h)
        if h:
            drawn[told] = drawn.get(told, Fraction(0)) + chance
    parts = []
    for (g, h), chance in sorted(drawn.items()):
        distances = _distances(path, placement, member, (g, h))
        bound = StepBound(
            inclusion=inclusion,
            shift=min(h * member.shift, 2 * path.contributions[0] * g),
            missed=missed,
            distances=distances,
            distances_swapped=distances,
        )
        parts.append((chance / inclusion, bound))
    return Average(parts=tuple(parts))


def _joint(path: Path, placement: tuple[Placement, ...], each: Law | None) -> dict[tuple[int, int], Fraction]:
    """The law of (outermost units of the group drawn, members drawn, or what is counted of them)."""
    found: dict[tuple[int, int], Fraction] = {}
    kinds = Counter(placement)
    below: list[Law] = []
    for kind in kinds:
        law: Law = {}
        for context, chance in contexts(kind, path.schemes[1:], path.counts[1:]).items():
            for members, weight in members_drawn(context, path.schemes[-1], path.counts[-1]).items():
                law[members] = law.get(members, Fraction(0)) + chance * weight
        below.append(law if each is None else compound(law, each))
    for units, members, chance in outermost_drawn(path.schemes[0], path.counts[0], tuple(kinds.values()), below):
        found[units, members] = found.get((units, members), Fraction(0)) + chance
    return found


def _distances(path: Path, placement: tuple[Placement, ...], member: Member, drawn: tuple[int, int]) -> tuple[int, int]:
    """(d_1, d_2) for a draw of (outermost units, members)."""
    (g, h), occupied, held = drawn, len(placement), path.contributions[0]
    if isinstance(path.schemes[0], Fixed):
        each = held + path.siblings[0]
        anew = max(g, occupied) * max(each, 2 * held)
    else:
        each = held
        anew = (g + occupied) * held
    if occupied == 1 and len(path.counts) == 2:
        anew = min(anew, h * member.distance)
    return g * each, anew
