"""What an accountant says of one direction."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An upper bound on epsilon and how it came about.

    Attributes:
        epsilon: >= 0.
        note: a few words, e.g. the order that gave it.
    """

    epsilon: float
    note: str = ""
