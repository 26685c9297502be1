"""The vocabulary of results: adjacency, the kind of a number, the guarantee of a plan, a row of a comparison."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from enum import StrEnum
from fractions import Fraction

from dpcalc.errors import require_order
from dpcalc.records import dataclass


class Adjacency(StrEnum):
    """Difference between the neighbouring data sets D and D', one protected unit apart.

    Attributes:
        ADD_REMOVE: D' lacks the protected unit.
        REPLACE_ONE: D' has another unit in the place of the protected one.
        ZERO_OUT: in D' the unit stays in every frame and contributes zero (`REPLACE_SPECIAL` of dp_accounting).
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


# Results in Python: plain values for JSON, and a table for notebooks

_LOWER_WORDS = ("lower", "missed", "fails_at")  # in names of fields that are lower bounds
_SHOWN_DIGITS = 6  # of a number in a notebook, rounded to the safe side; `to_dict` has them all


class Result:
    """Base of the frozen dataclasses that the Python interface returns."""

    def to_dict(self) -> dict[str, object]:
        """Return all fields as a dict for JSON: numbers unrounded, infinity as None, fractions as floats."""
        return {field.name: _json_value(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]  # so are they

    def _rows(self) -> list[tuple[str, str]]:
        """Return the rows of a notebook's table, (name, text): what a reader needs, upper bounds rounded up."""
        return list(_named_texts(self.to_dict(), ""))

    def _repr_html_(self) -> str:
        """Return a table for a notebook; `to_dict` has every field in full."""
        return html_table(("", type(self).__name__), self._rows())


def _json_value(value: object) -> object:
    """Return a value for JSON: fractions as floats, infinity as None, dataclasses as dicts, unknown types by `repr`."""
    match value:
        case Result():
            return value.to_dict()
        case float() | Fraction():
            return float(value) if math.isfinite(value) else None
        case StrEnum():
            return str(value)
        case tuple() | list():
            return [_json_value(each) for each in value]
        case None | bool() | int() | str():
            return value
        case _ if is_dataclass(value):
            return {field.name: _json_value(getattr(value, field.name)) for field in fields(value)}
        case _:
            return repr(value)


def _named_texts(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, text) of each value in nested mappings and of each list item; none for None and ""."""
    for name, value in values.items():
        inner = value if isinstance(value, list) else [value]
        for place, each in enumerate(inner):
            if isinstance(each, Mapping):
                yield from _named_texts(each, f"{prefix}{name}{f'[{place}]' if isinstance(value, list) else ''}.")
            elif each not in (None, ""):
                yield prefix + name, shown_number(name, each) if isinstance(each, float) else str(each)


def shown_number(name: str, number: float, digits: int = _SHOWN_DIGITS) -> str:
    """Return a number as text of at most so many digits, down if the name is that of a lower bound, else up."""
    if not math.isfinite(number):
        return str(number)
    rounding = ROUND_FLOOR if any(word in name for word in _LOWER_WORDS) else ROUND_CEILING
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(number)))):.{digits}g}"


def html_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return an HTML table for a notebook, a row of column names above the others, every text escaped."""
    from html import escape

    lines = [("th", head), *(("td", row) for row in rows)]
    cells = ("".join(f"<{tag}>{escape(text)}</{tag}>" for text in row) for tag, row in lines)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


# Guarantees: an epsilon, its kind, and the facts needed to read it


TIGHT_WITHIN = 1e-3
"""Largest distance of the lower bound on epsilon from the upper one, as a share of the upper one, that is called tight.

Three digits are printed, so that closer bounds print alike. Certified bounds of one pair of data sets are 1e-5 to 3e-4
apart; at ten times the value a lower bound that is 1 % lower would be called tight. docs/numbers.md states it."""

MAX_REGRET = 0.01
"""Regret below which mu-GDP sums a run up (2503.10945): a hundredth of an error rate that a run may hide more than mu.

At ten times the value Laplace noise, of which mu says little, would count as summed up (tests/oracles/test_gdp.py)."""

CONDITIONAL = "conditional: "
"""Begins the note of a guarantee that holds if another library keeps its word; what it must keep follows."""
INFINITE = "epsilon is infinite: "
"""Begins the note of a guarantee without a finite epsilon; the cause follows."""
ROUGH_COUNTS = (
    "how often a batch holds what is protected is bounded roughly: its exact probabilities need more work than one "
    "answer may take"
)
"""Note of a guarantee that is looser than its accountant makes it."""


class Kind(StrEnum):
    """Claim that a number makes about the true epsilon (or delta, or rate).

    Attributes:
        UPPER: certified upper bound for every data set; never below the truth.
        CONDITIONAL: upper bound for every data set if another library kept its word, as a note says.
        LOWER: certified lower bound, attained by one pair of data sets; never above the truth.
        ESTIMATE: numerically accurate, without a certificate.
        APPROXIMATION: value of a limit theorem; may lie on either side of the truth.
        AS_PUBLISHED: value of a published formula or tool, whether or not it holds for the run.
    """

    UPPER = "upper"
    CONDITIONAL = "conditional"
    LOWER = "lower"
    ESTIMATE = "estimate"
    APPROXIMATION = "approximation"
    AS_PUBLISHED = "as-published"


@dataclass(frozen=True, kw_only=True)
class Guarantee(Result):
    """An (epsilon, delta) statement about one plan, with the facts needed to read it.

    Attributes:
        epsilon: the privacy bound, >= 0, `inf` when there is none; `kind` says whether it is an upper bound.
        epsilon_lower: certified lower bound on epsilon, at most `epsilon`; None when none was computed.
        tight: True if `epsilon_lower` is within `TIGHT_WITHIN` (relative) of `epsilon`.
        delta: in (0, 1).
        kind: what `epsilon` claims.
        unit: name of the protected level.
        adjacency: difference between the neighbouring data sets.
        group_size: number of units protected together, >= 1.
        method: name of the accountant.
        bound: name of the one-step bound that the accountant composed.
        direction: ordered pair of data sets with the larger epsilon, "D||D'" or "D'||D"; "" if both are equal or
            unknown.
        notes: one sentence for each looser bound that was taken and each part that could not be computed, with the
            reason.
    """

    epsilon: float
    epsilon_lower: float | None = None
    tight: bool = False
    delta: float
    kind: Kind
    unit: str
    adjacency: Adjacency
    group_size: int = 1
    method: str
    bound: str
    direction: str = ""
    notes: tuple[str, ...] = ()

    def with_lower(self, epsilon_lower: float) -> "Guarantee":
        """Return a copy with `epsilon_lower` (cut to at most `epsilon`) and the `tight` that follows from it.

        Raises:
            ConvergenceError: a data set costs more than the upper bound, beyond round-off: one of them is wrong.
        """
        if self.kind is Kind.UPPER:
            require_order("epsilon", epsilon_lower, self.epsilon)
        lower = min(epsilon_lower, self.epsilon)
        return replace(self, epsilon_lower=lower, tight=lower >= (1 - TIGHT_WITHIN) * self.epsilon)

    def __str__(self) -> str:
        """Return the guarantee as a sentence, such as "epsilon <= 2.39 at delta = 1e-05, tight: one example, ..."."""
        sign = {Kind.UPPER: "<=", Kind.CONDITIONAL: "<=", Kind.LOWER: ">="}.get(self.kind, "=")
        digits = shown_number("lower" if self.kind is Kind.LOWER else "", self.epsilon, 3)
        bound = f"epsilon {sign} {digits}" if self.finite else "epsilon is infinite"
        lower = self.epsilon_lower
        other = (
            ", tight" if self.tight else f", at least {shown_number('lower', lower, 3)}" if lower is not None else ""
        )
        kind = "" if self.kind in {Kind.UPPER, Kind.LOWER} else f" ({self.kind})"
        return f"{bound}{kind} at delta = {self.delta!r}{other}: {self._protected}, {self.adjacency}"

    def _rows(self) -> list[tuple[str, str]]:
        """Return bounds, delta and what is protected."""
        rows = [("epsilon" if self.kind is Kind.UPPER else f"epsilon ({self.kind})", shown_number("", self.epsilon))]
        if self.epsilon_lower is not None:
            rows.append(("at least", f"{shown_number('lower', self.epsilon_lower)}{', tight' if self.tight else ''}"))
        rows += [("delta", f"{self.delta!r}"), ("protects", f"{self._protected}, {self.adjacency}")]
        return [*rows, ("accountant", self.method), *(("note", note) for note in self.notes)]

    @property
    def _protected(self) -> str:
        return f"one {self.unit}" if self.group_size == 1 else f"{self.group_size} of {self.unit} together"

    @property
    def finite(self) -> bool:
        """True if epsilon is finite, that is, if there is a guarantee."""
        return math.isfinite(self.epsilon)

    def to_dict(self) -> dict[str, object]:
        """Return all fields and `finite` as a dict for JSON: numbers unrounded, infinite bounds on epsilon as None."""
        values = super().to_dict()
        first = {name: values.pop(name) for name in ("epsilon", "epsilon_lower", "tight", "delta", "kind")}
        return {**first, "finite": self.finite, **values}


@dataclass(frozen=True, kw_only=True)
class Row(Result):
    """Epsilon of one plan by one accountant and one one-step bound: a line of `dpcalc compare`.

    Attributes:
        method: name of the accountant or tool.
        bound: name of the one-step bound that it composed.
        epsilon: its value, `inf` for "no finite bound", None where the method does not apply.
        epsilon_lower: certified lower bound; None where the accountant has none.
        kind: claim that `epsilon` makes.
        valid: True if `epsilon` is a guarantee for this plan.
        note: one sentence: why it is not valid or does not apply, or a detail such as the order; "" for none.
    """

    method: str
    bound: str
    epsilon: float | None
    epsilon_lower: float | None = None
    kind: Kind
    valid: bool
    note: str = ""

    @property
    def claim(self) -> str:
        """Claim in words, such as "upper bound", "estimate, no bound" or "no bound here"; "none" without an epsilon."""
        if self.epsilon is None:
            return "none"
        if self.kind in {Kind.ESTIMATE, Kind.APPROXIMATION}:
            return f"{self.kind}, no bound"
        words = "upper bound" if self.valid else "no bound here"
        return words if self.kind is Kind.UPPER else f"{self.kind}, {words}"
