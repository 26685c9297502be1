"""Counts are multiplied in one place, and the order of releases does not matter."""

from fractions import Fraction

import pytest

from dpcalc.amplification.schedule import Chain, Repeat, Single, step_counts
from dpcalc.errors import InputError
from dpcalc.losses.pair import MixturePair


def step(deviation):
    return Single(curve=MixturePair.of({0: Fraction(1)}, {1: Fraction(1)}, deviation=deviation))


A, B = step(1.0), step(2.0)


def test_count_n_is_n_copies():
    assert step_counts(Repeat(node=A, count=5)) == step_counts(Chain(nodes=(A,) * 5)) == {A.curve: 5}


def test_counts_multiply_through_nested_repeats():
    tree = Repeat(node=Chain(nodes=(A, Repeat(node=B, count=3), A)), count=4)
    assert step_counts(tree) == {A.curve: 8, B.curve: 12}


def test_equal_steps_of_different_phases_are_one():
    assert step_counts(Chain(nodes=(Repeat(node=A, count=2), B, Repeat(node=step(1.0), count=3)))) == {
        A.curve: 5,
        B.curve: 1,
    }


def test_order_does_not_matter():
    assert step_counts(Chain(nodes=(A, B, A))) == step_counts(Chain(nodes=(B, A, A)))


def test_what_never_happens_is_left_out():
    assert step_counts(Repeat(node=A, count=0)) == {}


def test_a_negative_count_is_refused():
    with pytest.raises(InputError, match="whole number >= 0, got -1"):
        Repeat(node=A, count=-1)
