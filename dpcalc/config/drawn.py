"""In which terms a config states how many are drawn and how long a phase is: what a solver answers in."""

from dataclasses import dataclass
from fractions import Fraction

from dpcalc.config import scalars
from dpcalc.config.assignments import ASSUMED
from dpcalc.config.merging import runs
from dpcalc.config.nodes import Node, Scalar, Section, entry
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import All, Poisson


@dataclass(frozen=True, kw_only=True)
class DrawnWords:
    """The terms of one phase.

    Attributes:
        amount: "batch_size" or "expected" where the config states a whole number of units that a Poisson step draws on
            average, else "".
        epochs: the length in passes where the config states that, else None.
    """

    amount: str
    epochs: Fraction | None


def drawn_words(root: Section, number: int, hierarchy: Hierarchy) -> DrawnWords:
    """Return the terms in which a config states how one phase draws.

    Args:
        root: the config in its long form.
        number: of the phase, from 0.
        hierarchy: its levels.
    """
    sections = runs(root)[number].sections
    epochs = _number(entry(sections.entries.get("training"), "epochs"))
    level = next((one for one in hierarchy.levels if not isinstance(one.scheme, All)), None)
    node = entry(entry(sections.entries.get("sampling"), level.name), "expected") if level else None
    stated = _number(node)
    if level is None or not isinstance(level.scheme, Poisson) or not isinstance(node, Scalar) or stated is None:
        return DrawnWords(amount="", epochs=epochs)
    return DrawnWords(amount=node.path.rpartition(".")[2] if stated.denominator == 1 else "", epochs=epochs)


def _number(node: Node | None) -> Fraction | None:
    """The number that somebody wrote, None where there is none."""
    if not isinstance(node, Scalar) or node.mark.source.path == ASSUMED:
        return None
    found = scalars.value(node)
    return found if isinstance(found, Fraction) else None
