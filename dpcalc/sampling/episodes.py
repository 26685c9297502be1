"""Constructed episodes: tasks that are built afresh in every step (few-shot learning, MAML).

A task draws `ways` of the classes and `shots + queries` records of each, all without replacement; the tasks of a step
are independent. Such a task is no unit of the data: a record or a class can be in several.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpcalc.errors import InputError

TASK = "task"  # what one that a step builds is called


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """How one step builds its tasks.

    Attributes:
        tasks: built in one step, independently, >= 1.
        ways: classes in a task, >= 1.
        shots: records of each class to learn from, >= 0.
        queries: further records of each class to be judged by, >= 0.
    """

    tasks: int
    ways: int
    shots: int
    queries: int

    def __post_init__(self) -> None:
        """Refuse tasks without content."""
        for name in ("tasks", "ways"):
            if getattr(self, name) < 1:
                raise InputError(f"episodes.{name}: expected a whole number >= 1, got {getattr(self, name)}")
        if min(self.shots, self.queries) < 0 or not self.records:
            raise InputError(
                f"episodes: expected shots and queries >= 0, not both 0, got {self.shots} and {self.queries}"
            )

    @property
    def records(self) -> int:
        """Records of one class in a task that holds it."""
        return self.shots + self.queries

    def class_rate(self, classes: int) -> Fraction:
        """Exact probability that one task holds one of `classes` classes."""
        return Fraction(self.ways, classes)

    def record_rate(self, records: int) -> Fraction:
        """Exact probability that a task holds one of the `records` records of a class that it holds."""
        return Fraction(self.records, records)
