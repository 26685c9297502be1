import multiprocessing
import time

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


def answers_within(seconds):
    """Answers to a quick task and to some that take longer than anybody waits."""
    start = time.monotonic()
    found = answers(act, [1, "sleep", "sleep", 2], deadline=start + seconds)
    assert time.monotonic() - start < seconds + 30  # seconds; a task that sleeps takes 60
    assert [type(one) for one in found[1:]] == [OutOfTimeError] * 3
    assert not multiprocessing.active_children()
    return found


def test_nobody_waits_beyond_the_deadline():
    assert isinstance(answers_within(0.0)[0], OutOfTimeError)
    # a busy machine may need more than a moment to start a process
    assert any(answers_within(seconds)[0] == 2 for seconds in (1.5, 6.0, 24.0))
