"""`check` with stand-ins (epsilon is steps / 1000), and with the real accounting; more in `transcripts/check.txt`."""

import json
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

import pytest
import yaml

from dpcalc.config.load import load
from dpcalc.guarantee import Kind
from dpcalc.planner import evaluate
from tests.cli import stand_in
from tests.cli.running import CONFIG, environment
from tests.cli.stand_in import guarantee

ROWS = yaml.safe_load(Path(__file__).with_name("check.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def costs(dpcalc, monkeypatch):  # noqa: ARG001  after its own stand-in
    """Let every plan have this epsilon, of this kind and lower bound, or end in this error."""

    def of(upper, lower=None, asked=None, **changes):
        upper, lower = (resolve_name(each)("why") if isinstance(each, str) else each for each in (upper, lower))
        changes = changes | ({"kind": Kind(changes["kind"])} if "kind" in changes else {})

        def cost(plan, *, method=None):
            if asked is not None:
                asked.append((getattr(plan, "plan", plan).steps, method))
            if isinstance(upper, BaseException):
                raise upper
            return replace(guarantee(plan, method=method), epsilon=upper, **changes)

        def bounded(_, main):
            if isinstance(lower, Exception):
                raise lower
            return replace(main, epsilon_lower=lower, tight=True)

        monkeypatch.setattr(evaluate, "guarantee", cost)
        monkeypatch.setattr(evaluate, "with_lower_bound", bounded)

    return of


def codes(ended):
    """The verdict of the only file, and the codes of what was found."""
    (result,) = json.loads(ended.out)["results"]
    return result["verdict"], [one["code"] for one in result["findings"] if one["level"] != "note"]


@pytest.mark.parametrize(("upper", "more", "verdict", "found"), ROWS["decides"])
def test_what_decides(dpcalc, config, costs, upper, more, verdict, found):
    costs(upper, **more)
    assert codes(dpcalc("check", config(), "--json")) == (verdict, found)
    if verdict == "undecided":
        assert codes(dpcalc("check", config(budget=""), "--json"))[0] == (
            verdict if not more.get("method") else "passed"
        )


def test_an_interrupt_is_not_swallowed_and_a_missing_answer_says_between_which_numbers(dpcalc, config, costs):
    costs(KeyboardInterrupt())
    assert dpcalc("check", config()).code == 130
    costs(5.0, lower=0.5, method="rdp")
    said = "epsilon lies between 0.500 and 5.00 (RDP), so it is not known whether it exceeds 2.0; the PLD "
    assert said in dpcalc("check", config()).out


def test_finished_verdicts_survive_an_interrupt_and_no_report_is_written(dpcalc, config, monkeypatch, tmp_path):
    def answer(self, task):
        if task.plan.phases[0].steps == 2001:
            raise KeyboardInterrupt
        return self.function(task)

    monkeypatch.setattr(stand_in.Here, "answer", answer)
    paths = [config(file="a.yaml"), config(file="b.yaml", steps=2001)]
    ended = dpcalc("check", *paths, "--report", f"json={tmp_path}/report.json")
    assert (ended.code, Path(tmp_path, "report.json").exists()) == (130, False)
    assert ended.out.endswith("a.yaml\nchecked 1 file: 1 passed\n")
    assert ended.err == "interrupted: 1 of 2 files are finished; no report was written\n"


def test_equal_plans_are_computed_once_and_lower_bounds_where_they_are_wanted(dpcalc, config, costs):
    asked = []
    costs(1.6, lower=ZeroDivisionError(), asked=asked)
    paths = [config(file="a.yaml", name="a"), config(file="b.yaml", budget="accounting: {method: rdp}")]
    paths.append(config(file="c.yaml", steps=2))
    assert dpcalc("check", *paths).out.endswith("checked 3 files: 2 passed, 1 without a budget, 1 warning\n")
    assert asked == [(500, "auto"), (2, "auto")]
    costs(1.6, lower=1.5)
    (result,) = json.loads(dpcalc("check", config(), "--json").out)["results"]
    assert (result["guarantee"]["epsilon_lower"], result["guarantee"]["tight"]) == (1.5, True)


@pytest.mark.parametrize(("budget", "options", "code", "said"), ROWS["limits"])
def test_limits_and_warnings(dpcalc, config, budget, options, code, said):
    ended = dpcalc("check", config(budget=budget), *options)
    assert (ended.code, said in ended.out) == (code, True), ended.out


LARGE_POLICY = [1900, "budget: {epsilon: 2.0}", "a." * 600 + "b = 1", [], 2, "points"]


@pytest.mark.parametrize(("steps", "budget", "policy", "options", "code", "said"), [*ROWS["policies"], LARGE_POLICY])
def test_a_policy(dpcalc, config, tmp_path, steps, budget, policy, options, code, said):
    path = tmp_path / "policy.toml"
    path.write_text(policy, encoding="utf-8")
    ended = dpcalc("check", config(steps=steps, budget=budget), "--policy", str(path), *options)
    assert (ended.code, said in ended.out + ended.err) == (code, True), ended


def test_a_crash_of_validate_is_that_of_one_file(dpcalc, config, monkeypatch):
    good, bad = config(), config(steps="x", file="b.yaml")

    def loaded(path, **more):
        if path == "odd.yaml":
            raise RecursionError("too deep")
        return load(path, **more)

    monkeypatch.setattr("dpcalc.gate.diff.load", loaded)
    results = json.loads(dpcalc("validate", "odd.yaml", good, bad, "--json").out)["results"]
    assert [one["verdict"] for one in results] == ["undecided", "passed", "invalid"]


def test_a_report_of_an_earlier_run_does_not_outlive_a_crash(dpcalc, config, tmp_path, monkeypatch):
    report = tmp_path / "dpcalc.json"
    wanted = ("--report", f"json={report}")
    assert dpcalc("check", config(), *wanted).code == 0
    assert report.exists()
    monkeypatch.setattr("dpcalc.cli.check.GateAnswer", lambda *_, **__: 1 / 0)
    assert dpcalc("check", config(), *wanted).code == 3
    assert not report.exists()


# The real accounting: what is suggested, worker processes, the time limit

SLOW = """\
version: 1
data: {{examples: 1_000_000}}
sampling: {{scheme: poisson, rate: 0.000001}}
mechanism: {{noise_multiplier: 0.{noise}}}
training: {{steps: 1_000_000}}
privacy: {{adjacency: add-remove, delta: 1e-5}}
"""


@pytest.fixture
def written(tmp_path):
    def write(name, *, noise, text=SLOW, **more):
        path = tmp_path / name
        path.write_text(text.format(noise=noise, **more), encoding="utf-8")
        return str(path)

    return write


def results(ended):
    return json.loads(ended.out)["results"]


def test_the_time_is_up(real, written):
    slow = written("slow.yaml", noise=6)
    start = time.monotonic()
    ended = real("check", slow, "missing.yaml", "--json", "--timeout", "0.2")
    assert time.monotonic() - start < 60  # seconds; the answer takes minutes
    assert ended.code == 3
    assert [[one["code"] for one in result["findings"]] for result in results(ended)] == [["DPC902"], ["DPC100"]]
    assert [one["guarantee"] for one in results(ended)] == [None, None]
    assert real("check", slow, "--timeout", "0.2", "--exit-zero").code == 3


def command(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "dpcalc", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.heavy
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes as Linux shows them")
@pytest.mark.usefixtures("children_hear_ctrl_c")
def test_ctrl_c_ends_the_worker_processes_too(written):
    paths = [written(f"{number}.yaml", noise=60 + number) for number in range(6)]
    with command("check", *paths, start_new_session=True) as running:
        children = set()
        end = time.monotonic() + 30
        while len(children) < 2 and time.monotonic() < end:
            time.sleep(0.05)
            children = set(Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text("ascii").split())
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 130
        assert running.stdout.read() == ""
    assert len(children) >= 2
    while time.monotonic() < end and any(Path(f"/proc/{one}").exists() for one in children):
        time.sleep(0.05)
    assert not [one for one in children if Path(f"/proc/{one}").exists()]


@pytest.mark.slow
def test_five_hundred_configs_in_half_a_minute_of_two_cores(written):
    text = CONFIG.replace("noise_multiplier: 1.1", "noise_multiplier: {noise}").replace(
        "{budget}", "budget: {{epsilon: 50}}"
    )
    paths = [written(f"{n:03}.yaml", noise=0.8 + n / 250, steps=1000 + 37 * n, name="x", text=text) for n in range(500)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with command("check", *paths) as running:
        out, _ = running.communicate(timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60  # CPU seconds
    assert (running.returncode, out.splitlines()[-1]) == (0, "checked 500 files: 500 passed")


@pytest.mark.slow
def test_next_to_no_noise_fails_though_only_a_loose_bound_is_known(real, file):
    """Once undecided (exit 3). Ten draws of 10 of 1000: no composition fits in memory."""
    draws = "version: 1\ndata: {examples: 1000}\nsampling: {scheme: fixed, batch_size: 10}\ntraining: {steps: 10}\n"
    promise = "privacy: {adjacency: zero-out, delta: 1.0e-5}\nbudget: {epsilon: 3}\n"
    ended = real("check", str(file(f"{draws}mechanism: {{noise_multiplier: 1.0e-5}}\n{promise}")), "--json")
    (found,) = results(ended)
    assert (ended.code, found["verdict"]) == (1, "failed")
    assert 1e9 < found["guarantee"]["epsilon_lower"] < found["guarantee"]["epsilon"]
