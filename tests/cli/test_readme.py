"""The README tells the truth: its commands run, and print what it shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dpcalc.config import load, load_text

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = "".join(re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL))
EXAMPLES = re.findall(r"^\$ (dpcalc .*)\n((?:(?!\$ ).*\n)*)", CONSOLE, flags=re.MULTILINE)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_commands_print_what_the_readme_shows(command, shown):
    _, *arguments = shlex.split(command)
    run = subprocess.run(
        [sys.executable, "-m", "dpcalc", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == shown


def test_the_readme_shows_commands():
    assert len(EXAMPLES) >= 4


def test_the_worked_example_is_the_sample_config():
    (shown,) = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    sample = load(str(ROOT / "sample_configs" / "clinic_maml.yaml"))
    assert load_text(shown, path="README.md").config_hash == sample.config_hash


def test_the_training_config_is_a_config(tmp_path):
    shown, *_ = re.findall(r"```yml\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "optim.yaml").write_text("dp: {sigma: 1.1}\n", encoding="utf-8")
    plan = load_text(shown, path=str(tmp_path / "train.yaml")).plan
    assert (plan.steps, plan.phases[0].mechanism.noise_multiplier) == (14_063, 1.1)
