import multiprocessing
import time

import pytest

from dpcalc.errors import OutOfTimeError
from dpcalc.gate.workers import answers

from .worker_tasks import act


def test_answers_come_in_the_order_of_the_tasks():
    told = []
    assert answers(act, list(range(20)), deadline=None, told=told.append) == tuple(range(0, 40, 2))
    assert told == [number / 20 for number in range(1, 21)]


def test_nothing_to_do():
    assert answers(act, [], deadline=time.monotonic()) == ()


def test_whatever_goes_wrong_is_the_answer_to_its_own_task_only():
    found = answers(act, [1, "raise", "die", 2, "odd", "kill", "unsendable", 3], deadline=None)
    assert [one for one in found if isinstance(one, int)] == [2, 4, 6]
    assert [found.index(number) for number in (2, 4, 6)] == [0, 3, 7]
    raised, died, odd, killed, unsendable = (one for one in found if not isinstance(one, int))
    assert isinstance(raised, ZeroDivisionError)
    assert "nothing to divide by" in "".join(raised.__notes__)
    assert "in act" in "".join(raised.__notes__)
    assert isinstance(died, ChildProcessError)
    assert "exit code 7" in str(died)
    assert isinstance(odd, RuntimeError)
    assert str(odd).startswith("Local")
    assert isinstance(killed, ChildProcessError)
    assert isinstance(unsendable, Exception)


@pytest.mark.parametrize("seconds", [0.0, 1.5])
def test_nobody_waits_beyond_the_deadline(seconds):
    start = time.monotonic()
    found = answers(act, [1, "sleep", "sleep", 2], deadline=start + seconds)
    assert time.monotonic() - start < seconds + 5
    assert [type(one) for one in found[1:]] == [OutOfTimeError] * 3
    assert seconds == 0 or found[0] == 2
    assert not multiprocessing.active_children()
