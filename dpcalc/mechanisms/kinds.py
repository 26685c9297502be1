"""The registry of mechanisms by name, and the base classes by which the one-step bounds tell them apart.

A mechanism is a frozen dataclass that owns all facts about itself: its keys in a config (`dpcalc.keys.key`), the names
that other tools use, its assumptions, and its dominating pair or its Renyi divergences. It is registered by one line in
MECHANISMS.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from dpcalc.guarantee import Adjacency
from dpcalc.keys import TEXT, Key, Word, key
from dpcalc.records import dataclass

if TYPE_CHECKING:  # numpy waits until a mechanism needs it: most configs are Gaussian
    from dpcalc.losses.loss import Loss

MECHANISMS: dict[str, str] = {
    "gaussian": "dpcalc.mechanisms.additive:Gaussian",
    "laplace": "dpcalc.mechanisms.additive:Laplace",
    "randomized-response": "dpcalc.mechanisms.black_box:RandomizedResponse",
    "approximate-dp": "dpcalc.mechanisms.black_box:ApproximateDp",
    "pure-dp": "dpcalc.mechanisms.black_box:PureDp",
    "zcdp": "dpcalc.mechanisms.black_box:Zcdp",
    "discrete-gaussian": "dpcalc.mechanisms.additive:DiscreteGaussian",
    "discrete-laplace": "dpcalc.mechanisms.additive:DiscreteLaplace",
    "exponential": "dpcalc.mechanisms.black_box:Exponential",
    "matrix-factorization": "dpcalc.mechanisms.matrix_factorization:MatrixFactorization",
    "rdp-curve": "dpcalc.mechanisms.black_box:RdpTable",
    "pate-lnmax": "dpcalc.mechanisms.black_box:LNMax",
    "pate-gnmax": "dpcalc.mechanisms.black_box:GNMax",
    "pate-confident-gnmax": "dpcalc.mechanisms.black_box:ConfidentGNMax",
}
"""Module and class of each mechanism by its `mechanism.type`; a module is imported when a config names its type."""

SUM = "noise is added to the sum of the clipped vectors, and the divisor is fixed, not the size of the drawn batch"
CLIP = Key(
    kind=TEXT,
    meaning="The level whose vectors are clipped, by default the last one; `batch` is the batch as a whole, `task` one "
    "that `episodes` constructs.",
    default=None,
)
"""Key of the mechanisms that add noise to a sum: the level whose contributions are bounded. A phase holds its value."""


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Base of all mechanisms, frozen dataclasses whose fields are the keys of `mechanism` in a config."""

    name: ClassVar[str]  # the word of `mechanism.type`
    assumptions: ClassVar[tuple[str, ...]] = ()  # what must be true of the training code, one sentence each
    noise_key: ClassVar[str] = "noise_multiplier"  # key that a solver of the noise sets
    # True if the noise of a step depends on that of others: a phase has no one-step loss
    is_correlated: ClassVar[bool] = False
    adds_noise: ClassVar[bool] = False  # True if independent noise is added to a sum of clipped vectors

    @property
    def words(self) -> str:
        """Parameters in words, where they are no numbers; else ""."""
        return ""

    @classmethod
    def of(cls, **parameters: Any) -> "Mechanism":
        """Return the mechanism with the values of a config's keys."""
        return cls(**parameters)

    @property
    def parameters(self) -> dict[str, object]:
        """Values of its keys by name, as a config states them."""
        return asdict(self)

    @property
    def identity(self) -> dict[str, object]:
        """Its parameters with the content of data files for their names; plans with the same one cost the same."""
        return self.parameters

    def with_noise(self, value: float) -> Self:
        return replace(self, noise_multiplier=value)  # type: ignore[call-arg]  # subclasses have it


class BlackBox(Mechanism):
    """A mechanism that is accounted for by its dominating pair or its Renyi divergences alone."""


class NoisySum(NamedTuple):
    """A sum that a step releases beside that of the clipped vectors, over the same sample."""

    type: str  # of a mechanism that adds noise
    noise_multiplier: float

    def __str__(self) -> str:
        return f"{self.type} {self.noise_multiplier:g}"


RELATIONS: dict[str, str] = {
    "add-remove": "where one unit is added or removed",
    "zero-out": "where one unit is zeroed",
    "replace-one": "of one size where one unit is replaced by another",
    "any": "where one unit is added, removed, zeroed or replaced by another",
}
"""Words of a promise's `relation`: the pairs of batches that it speaks of."""


@dataclass(frozen=True, kw_only=True)
class Promise(BlackBox):
    """Any mechanism that keeps a promise on two batches with one change between them, which `relation` defines."""

    relation: str | None = key(
        Word(tuple(RELATIONS)),
        "For which two batches the guarantee of a step is stated, by default those of `privacy.adjacency`: one unit is "
        "added or removed (add-remove), zeroed (zero-out), replaced in a batch of the same size (replace-one), or any "
        "of these at the same cost (any). Under add-remove and zero-out a unit that takes the place of another counts "
        "as two changes; replace-one covers no batch that lacks a unit.",
        default=None,
    )

    @property
    def statement(self) -> str:
        """Its promise in words, which "holds for any two batches ..."."""
        return f"the guarantee of each {self.name} step"


class Change(NamedTuple):
    """What a promise says of two batches."""

    exchange: int  # changes between two batches in one of which another unit stands in the place of one: 1 or 2
    covers_missing: bool  # True if batches of two sizes are covered, each unit that is there or is not being one change


def change_of(mechanism: Mechanism, adjacency: Adjacency) -> Change:
    """Return what one change is to a mechanism that counts units: docs/theory.md, Definition 8.0."""
    relation = getattr(mechanism, "relation", None) or str(adjacency)
    return Change(exchange=1 if relation in {"replace-one", "any"} else 2, covers_missing=relation != "replace-one")


class PairOnly(BlackBox):
    """A mechanism known by a dominating pair for batches with one change between them; more changes are chained."""

    @abstractmethod
    def pair(self) -> "Loss":
        """Return a dominating pair for batches with one change between them; it is symmetric."""


class RdpOnly(BlackBox):
    """A mechanism known by Renyi divergences alone; there is no dominating pair."""

    @property
    def orders(self) -> tuple[float, ...]:
        """Orders above 1, increasing, so close that the curve between them is known well enough."""
        from dpcalc.losses.moments import MANY_ORDERS

        return MANY_ORDERS

    @abstractmethod
    def rdp(self, order: float) -> float:
        """Return an upper bound on the Renyi divergence of an order above 1; `inf` if none is known."""


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the class of a `mechanism.type`; KeyError for an unknown one."""
    mechanism: type[Mechanism] = resolve_name(MECHANISMS[name])
    return mechanism


TYPE = Key(
    kind=Word(lambda: tuple(MECHANISMS)),
    meaning="The mechanism; it says which of the other keys there are.",
    default="gaussian",
)
"""Key that names the mechanism."""
