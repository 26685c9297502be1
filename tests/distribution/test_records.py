"""Frozen data classes of dpcalc behave as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import re
from dataclasses import KW_ONLY, FrozenInstanceError, field, fields, replace
from functools import cached_property

import pytest

from dpcalc import records


def kinds(dataclass):
    """A class for each form that dpcalc has, all with a field `first`."""

    @dataclass(frozen=True, kw_only=True)
    class Named:
        first: int
        second: tuple[int, ...] = (1, 2)
        third: dict = field(default_factory=dict, compare=False)
        fourth: str = field(default="x", repr=False)

    @dataclass(frozen=True)
    class Placed:
        first: int
        _: KW_ONLY
        second: str = "a"

    @dataclass(frozen=True, kw_only=True)
    class Checked(Named):
        computed: tuple[float, ...] = field(default=(), init=False, compare=False)
        listed: list = field(default_factory=list, init=False, compare=False)

        def __post_init__(self):
            if self.first < 0:
                raise ValueError("below 0")
            object.__setattr__(self, "computed", (self.first, 2 * self.first))

        @cached_property
        def square(self):
            return self.first**2

    @dataclass(frozen=True, eq=False)
    class Alone:
        first: int

    @dataclass(frozen=True, repr=False)
    class Written:
        first: int

        def __repr__(self):
            return "written"

        def __eq__(self, other):
            return self.first % 2 == other.first % 2

        def __hash__(self):
            return 1

    return Named, Placed, Checked, Alone, Written


CALLS = [
    lambda cls: cls(first=1),
    lambda cls: cls(1),
    lambda cls: cls(),
    lambda cls: cls(first=-1),
    lambda cls: cls(1, first=1),
    lambda cls: cls(1, 2, 3),
    lambda cls: cls(first=1, unknown=1),
    lambda cls: cls(first=1, listed=[1]),
    lambda cls: vars(cls(first=1)),
    lambda cls: [(each.name, each.type, each.init) for each in fields(cls)],
    lambda cls: replace(cls(first=1), first=7),
    lambda cls: replace(cls(first=1), unknown=7),
    lambda cls: dataclasses.asdict(copy.deepcopy(cls(first=1))),
    *(
        lambda cls, key=key: cls(first=1) == replace(cls(first=1), **key)
        for key in ({}, {"first": 2}, {"third": {1: 1}}, {"fourth": "y"})
    ),
    lambda cls: cls(first=1) == 1,
    lambda cls: hash(cls(first=1)) == hash(cls(first=1)),
    lambda cls: len({cls(first=1), cls(first=1)}),
    lambda cls: setattr(cls(first=1), "first", 2),
    lambda cls: setattr(cls(first=1), "other", 2),
    lambda cls: delattr(cls(first=1), "first"),
    lambda cls: cls(first=1).square,
    lambda cls: cls(first=1).listed is cls(first=1).listed,
    lambda cls: cls.__match_args__,
    lambda cls: [(name, each.kind) for name, each in inspect.signature(cls).parameters.items()],
]


def outcome(call, cls):
    """What a call returns, as text, or the class of its exception."""
    try:
        return re.sub(r"0x[0-9a-f]+", "", str(call(cls)))
    except Exception as error:  # noqa: BLE001
        return type(error)


def test_calls_end_as_with_the_standard_decorator():
    for ours, standard in zip(kinds(records.dataclass), kinds(dataclasses.dataclass), strict=True):
        assert [outcome(call, ours) for call in CALLS] == [outcome(call, standard) for call in CALLS]
    assert kinds(records.dataclass)[0](first=1) != kinds(records.dataclass)[0](first=1)


@records.dataclass(frozen=True, kw_only=True)
class Sent:
    """A class that another process finds by its name."""

    first: int
    second: float = float("nan")


def test_a_record_comes_back_frozen_from_another_process():
    received = pickle.loads(pickle.dumps(Sent(first=1)))  # noqa: S301
    assert repr(received) == "Sent(first=1, second=nan)"
    with pytest.raises(FrozenInstanceError):
        received.first = 2
