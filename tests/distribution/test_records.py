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
    """Data classes of every form that dpcalc has, made by a decorator, with arguments of a first instance."""

    @dataclass(frozen=True, kw_only=True)
    class Named:
        "Keywords only."

        first: int
        second: tuple[int, ...] = (1, 2)
        third: dict = field(default_factory=dict, compare=False)
        fourth: str = field(default="x", repr=False)

    @dataclass(frozen=True)
    class Placed:
        "By position."

        first: int
        _: KW_ONLY
        second: str = "a"

    @dataclass(frozen=True, kw_only=True)
    class Checked:
        "With a check, a computed field and a cached one."

        first: float
        computed: tuple[float, ...] = field(default=(), init=False, compare=False)
        listed: list = field(default_factory=list, init=False, compare=False)

        def __post_init__(self):
            if self.first < 0:
                raise ValueError("below 0")
            object.__setattr__(self, "computed", (self.first, 2 * self.first))

        @cached_property
        def square(self):
            return self.first**2

    @dataclass(frozen=True, kw_only=True)
    class Extended(Named):
        "With fields of another."

        fifth: int = 5

    @dataclass(frozen=True, eq=False)
    class Alone:
        "Compared by identity."

        first: int

    @dataclass(frozen=True, repr=False)
    class Written:
        "With methods of its own."

        first: int

        def __repr__(self):
            return "written"

        def __eq__(self, other):
            return self.first % 2 == other.first % 2

        def __hash__(self):
            return 1

    @dataclass(frozen=True)
    class Empty:
        "No field."

    @dataclass(kw_only=True)
    class Open:
        "Not frozen."

        first: int = 1

    @dataclass(frozen=True, slots=True)
    class Slotted:
        "With slots."

        first: int

    one = {"first": 1}
    return [
        (Named, one), (Placed, one), (Checked, one), (Extended, one), (Alone, one), (Written, one),
        (Empty, {}), (Open, one), (Slotted, one),
    ]  # fmt: skip


PAIRS = [
    pytest.param(ours, standard, arguments, id=ours.__name__)
    for (ours, arguments), (standard, _) in zip(kinds(records.dataclass), kinds(dataclasses.dataclass), strict=True)
]


def outcome(work):
    """What a call returns, as text, or the class of its exception."""
    try:
        return re.sub(r"0x[0-9a-f]+", "", str(work()))
    except Exception as error:  # noqa: BLE001
        return type(error)


@pytest.mark.parametrize(("ours", "standard", "arguments"), PAIRS)
def test_calls_end_as_with_the_standard_decorator(ours, standard, arguments):
    calls = [
        lambda cls: cls(**arguments),
        lambda cls: cls(*arguments.values()),
        lambda cls: cls(**arguments, unknown=1),
        lambda cls: cls(1, **arguments),
        lambda cls: cls(1, 2, 3, 4),
        lambda cls: cls(),
        lambda cls: cls(**dict.fromkeys(arguments, -1)),
        lambda cls: cls(**arguments, listed=[1]),
        lambda cls: vars(cls(**arguments)),
        lambda cls: [(each.name, each.type, each.init) for each in fields(cls)],
        lambda cls: replace(cls(**arguments), **dict.fromkeys(arguments, 7)),
        lambda cls: replace(cls(**arguments), unknown=7),
        lambda cls: dataclasses.asdict(cls(**arguments)),
        lambda cls: copy.deepcopy(cls(**arguments)),
        lambda cls: cls(**arguments) == cls(**arguments),
        lambda cls: cls(**arguments) == replace(cls(**arguments), **dict.fromkeys(arguments, 2)),
        lambda cls: cls(**arguments) == replace(cls(**arguments), third={1: 1}),
        lambda cls: cls(**arguments) == replace(cls(**arguments), fourth="y"),
        lambda cls: cls(**arguments) == 1,
        lambda cls: hash(cls(**arguments)) == hash(cls(**arguments)),
        lambda cls: len({cls(**arguments), cls(**arguments)}),
        lambda cls: setattr(cls(**arguments), "first", 2),
        lambda cls: setattr(cls(**arguments), "other", 2),
        lambda cls: delattr(cls(**arguments), "first"),
        lambda cls: cls(**arguments).square,
        lambda cls: cls(**arguments).listed is cls(**arguments).listed,
        lambda cls: cls.__match_args__,
        lambda cls: cls.__doc__,
    ]
    assert [outcome(lambda call=call: call(ours)) for call in calls] == [
        outcome(lambda call=call: call(standard)) for call in calls
    ]
    names = list(inspect.signature(standard).parameters)
    assert list(inspect.signature(ours).parameters) == names
    kinds = [each.kind for each in inspect.signature(standard).parameters.values()]
    assert [each.kind for each in inspect.signature(ours).parameters.values()] == kinds


def test_nothing_is_equal_across_classes():
    (named, arguments), *_ = kinds(records.dataclass)
    (other, _), *_ = kinds(records.dataclass)
    assert named(**arguments) == named(**arguments)
    assert named(**arguments) != other(**arguments)


@records.dataclass(frozen=True, kw_only=True)
class Sent:
    """A class that another process finds by its name."""

    first: int
    second: float = float("nan")


def test_a_record_comes_back_frozen_from_another_process():
    sent = Sent(first=1)
    received = pickle.loads(pickle.dumps(sent))  # noqa: S301
    assert received.first == 1
    assert repr(received) == repr(sent) == "Sent(first=1, second=nan)"
    with pytest.raises(FrozenInstanceError):
        received.first = 2
