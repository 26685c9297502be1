"""Draws that are held for several steps, and passes over shuffled units: what the levels ask of each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dpcalc.config.diagnostics import Diagnostic
from dpcalc.config.nodes import Node, entry
from dpcalc.config.schema import Draw, FixedDraw, HeldDraw, PoissonDraw, ReplacingDraw, ShuffledDraw
from dpcalc.config.sections import RunSections, Sections
from dpcalc.config.source import error
from dpcalc.config.values import AtMost


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """One level of a phase.

    Attributes:
        name: of the level.
        draw: the model, None where an inner level is drawn whole.
        node: what the file says of it, or None.
        whole: whether nothing of it is left out.
    """

    name: str
    draw: Draw | None
    node: Node | None
    whole: bool

    @property
    def held(self) -> int:
        """Steps for which one draw is held."""
        return self.draw.redraw_every if isinstance(self.draw, HeldDraw) else 1


def rhythm_problems(found: Sections) -> Iterator[Diagnostic]:
    """Errors in when levels are drawn.

    Args:
        found: the sections; those that are wrong in themselves are None and are not looked at.

    Yields:
        The errors.
    """
    for run in found.runs:
        levels = tuple(_drawn(run, found))
        for above, level in pairwise(levels):
            yield from _held(above, level)
        for number, level in enumerate(levels):
            yield from _passes(levels[:number], level)


def _drawn(run: RunSections, found: Sections) -> Iterator[_Drawn]:
    """The levels of a phase, outermost first; none where something is wrong with them."""
    if run.sampling is None or found.data is None:
        return
    sampling = run.run.sections.entries.get("sampling")
    ends = found.ends or tuple((0, 0) for _ in found.data.levels)
    for level, (least, most) in zip(found.data.levels, ends, strict=True):
        draw = run.sampling.get(level.name)
        whole = _is_whole(draw, most if least == most else 0)
        yield _Drawn(name=level.name, draw=draw, node=entry(sampling, level.name), whole=whole)


def _is_whole(draw: Draw | None, count: int) -> bool:
    """Whether every unit of a level has its turn in every draw, or in every pass; 0 units: nobody knows how many."""
    match draw:
        case PoissonDraw(rate=rate, expected=expected):
            return rate == 1 or expected == count
        case FixedDraw(size=AtMost(size=size)):
            return 0 < count <= size
        case FixedDraw(size=size):
            return size == count
        case ReplacingDraw():
            return count == 1
        case _:
            return True


def _held(above: _Drawn, level: _Drawn) -> Iterator[Diagnostic]:
    """A draw is held for a whole number of draws of the next level."""
    node = entry(level.node, "redraw_every")
    if node is None or not above.held % level.held:
        return
    message = f"`{node.path}` is {level.held}"
    if level.held > above.held:
        message += f", longer than the {above.held} of level `{above.name}`, out of which level `{level.name}` is drawn"
        hint = f"hold `{above.name}` for as long or a multiple: a new {above.name} needs a new draw within"
    else:
        message += f", which does not divide the {above.held} of level `{above.name}`"
        hint = f"one draw of `{above.name}` must hold for a whole number of draws of `{level.name}`"
    yield error("DPC107", node.anchor, message, hint)


def _passes(above: tuple[_Drawn, ...], level: _Drawn) -> Iterator[Diagnostic]:
    """A pass goes over all units, so nothing above it is left out."""
    node = entry(level.node, "scheme")
    drawn = next((one for one in above if not one.whole), None)
    if node is not None and drawn is not None and isinstance(level.draw, ShuffledDraw):
        message = f"`{node.path}` is `shuffle`, but level `{drawn.name}` above it is not drawn whole"
        hint = f"a pass goes over all units: draw `{drawn.name}` with scheme all, or state another scheme here"
        yield error("DPC107", node.anchor, message, hint)
