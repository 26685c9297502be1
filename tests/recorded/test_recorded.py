"""The tool that records outputs: it covers every command, repeats itself, and sees every difference."""

from dpcalc.cli.commands import application
from tests.recorded.cases import ROOT, SAMPLES, all_jobs, plan_places, sample_paths

GROUP = "ledger"


def test_every_command_and_sample_is_recorded():
    commands = application().commands
    names = {*commands} - {GROUP} | {f"{GROUP} {name}" for name in commands[GROUP].commands}
    lines = [line for job in all_jobs() for line in job.lines]
    assert {name for name in names if any(f"{line} ".startswith(f"{name} ") for line in lines)} == names
    parts = SAMPLES / "hydra_femnist" / "conf"  # files that a config refers to
    adopt = SAMPLES / "adopt"  # of tests/cli/test_init.py
    there = {path for path in SAMPLES.rglob("*.yaml") if not {parts, adopt} & {*path.parents}}
    assert {ROOT / path for path in sample_paths()} == there
    assert len({job.name for job in all_jobs()}) == len(all_jobs())
    assert len(set(plan_places())) == 300
