import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from dpcalc import plan
from dpcalc.errors import OutOfTimeError
from dpcalc.gate.workers import Costs, Request, Workers, cost_relevant
from tests.gate.worker_tasks import act


def answers(function, tasks, *, memory=None, **limits):
    with closing(Workers(function, memory=memory)) as workers:
        return workers.answers(tasks, **limits)


def test_answers_come_in_the_order_of_the_tasks():
    assert answers(act, list(range(20))) == tuple(range(0, 40, 2))


def test_ctrl_c_does_not_end_a_worker_that_is_still_starting(capfd):
    with closing(Workers(act)) as workers:
        started = workers._start_worker()
        os.kill(started.process.pid, signal.SIGINT)
        assert workers.answers([1, 2, 3]) == (2, 4, 6)
        assert started.process.poll() is None
    assert capfd.readouterr().err == ""


def test_nothing_to_do():
    assert answers(act, [], deadline=time.monotonic()) == ()


def test_whatever_goes_wrong_is_the_answer_to_its_own_task_only():
    found = answers(act, [1, "raise", "die", 2, "odd", "kill", "unsendable", 3])
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
    return found


def test_nobody_waits_beyond_the_deadline():
    assert isinstance(answers_within(0.0)[0], OutOfTimeError)
    # a busy machine may need more than a moment to start a process
    assert any(answers_within(seconds)[0] == 2 for seconds in (1.5, 6.0, 24.0))


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory on Linux")
def test_a_task_takes_no_more_memory_than_is_allowed():
    hog, one, modest = answers(act, ["hog", 1, "modest"], memory=1_000_000_000)
    assert type(hog).__name__ == "OutOfMemoryError"
    assert str(hog) == "no answer within 1 GB of memory; --memory-limit allows more"
    assert (one, modest) == (2, 200_000_000)
    assert answers(act, ["modest"]) == (200_000_000,)


def test_what_a_task_prints_is_no_answer(capfd):
    assert answers(act, ["print", 1]) == ("answered", 2)
    assert capfd.readouterr().out == ""


@pytest.mark.heavy
def test_workers_answer_more_than_once_and_start_again_after_they_were_ended():
    with closing(Workers(act)) as workers:
        assert workers.answers([1, "die"])[0] == 2
        assert isinstance(workers.answers([1, "sleep"], deadline=time.monotonic() + 3)[1], OutOfTimeError)
        assert workers.answers([3, 4, 5]) == (6, 8, 10)
        processes = [worker.process for worker in workers._workers]
    assert len(processes) == 2
    assert all(process.poll() is not None for process in processes)


ORPHANS = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever this process has inherited: under nohup it would wait a minute
sys.path.append(sys.argv[1])
from contextlib import closing
from tests.gate.worker_tasks import act
from dpcalc.gate.workers import Workers
with closing(Workers(act)) as workers:
    workers.answers([1, 2])
    print(*(worker.process.pid for worker in workers._workers), flush=True)
    workers.answers(["sleep", "sleep"])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_workers_end_with_their_parent(end):
    command = [sys.executable, "-c", ORPHANS, str(Path(__file__).parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(number) for number in parent.stdout.readline().split()]
        time.sleep(0.3)
        parent.send_signal(end)
    assert len(workers) == 2
    until = time.monotonic() + 30
    while (left := [one for one in workers if alive(one)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"


def test_relative_directories_are_not_handed_on(monkeypatch, tmp_path):
    """Such as "", the current directory, where `python -c` runs dpcalc."""
    (tmp_path / "pickle.py").write_text("raise SystemExit('planted')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", ".", "..", *sys.path])
    assert answers(act, [1]) == (2,)


def test_suggestions_do_not_depend_on_how_fast_the_machine_is(monkeypatch):
    """They were dropped after 20 s by the clock, so that `or steps <= N` came and went with the load."""
    passed = itertools.count(step=30.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(passed))
    run = plan(scheme="all", dataset_size=10, noise_multiplier=1.0, steps=1, delta=1e-5)
    costs = Costs()
    assert costs.attempt(Request(plan=cost_relevant(run), quantity="steps", limit=9.0)) is not None
    costs.close()
