"""A checkout that plants modules under the names of libraries: nothing of it runs, the verdict is the honest one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.thinning import thinned

ROOT = Path(__file__).parents[2]
STEPS = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
RUN = """\
version: 1
data: {examples: 100}
sampling: {scheme: all}
mechanism: {noise_multiplier: 3}
training: {steps: %d}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 0.01}
"""
PLANTED = (
    *("pickle", "struct", "signal", "threading", "queue", "subprocess", "multiprocessing", "json", "typing", "runpy"),
    *("venv", "pip", "ensurepip", "setuptools", "hatchling", "sitecustomize", "usercustomize", "site"),
    *("numpy", "yaml", "typer", "pydantic", "packaging", "rich", "distributed", "tornado"),
)
COMMANDS = [
    ("check", "--timeout", "300", "a0.yaml"),
    ("check", *(f"a{number}.yaml" for number in range(26))),
]


@pytest.fixture
def checkout(tmp_path):
    """A directory with configs that are all above their budgets, and modules that leave a mark and exit with 0."""
    work = tmp_path / "work"
    work.mkdir()
    for number in range(26):
        (work / f"a{number}.yaml").write_text(RUN % (number + 1), encoding="utf-8")
    forged = f"import os\nopen({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')\nos._exit(0)\n"
    for name in PLANTED:
        (work / f"{name}.py").write_text(forged, encoding="utf-8")
    (work / "dpcalc").mkdir()
    for name in ("__init__", "__main__"):
        (work / "dpcalc" / f"{name}.py").write_text(forged, encoding="utf-8")
    return work


@pytest.fixture
def ran(checkout):
    """Run a program in that directory and return what it says; nothing of the directory may run."""

    def run(*command, **environment):
        ended = subprocess.run(
            [*map(str, command)],
            cwd=checkout,
            env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        mark = checkout.parent / "ran"
        assert not mark.exists(), f"ran {mark.read_text(encoding='utf-8')}"
        return ended

    return run


@pytest.fixture
def program(tmp_path):
    """The command as pip installs it: a script in a directory of its own."""
    script = tmp_path / "bin" / "dpcalc"
    script.parent.mkdir()
    script.write_text(
        "import sys\nfrom dpcalc.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n",
        encoding="utf-8",
    )
    return sys.executable, script


@pytest.mark.heavy
@pytest.mark.parametrize("words", COMMANDS, ids=["in time", "many"])
def test_a_verdict_is_not_forged(ran, program, words):
    ended = ran(*program, *words)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "exceeds the budget 0.01" in ended.stdout
    assert "passed" not in ended.stdout.splitlines()[-1]


@pytest.mark.heavy
def test_a_lock_and_a_sweep_are_not_forged(ran, program, checkout):
    assert ran(*program, "lock", "a0.yaml").returncode == 0
    (entry,) = json.loads((checkout / "dpcalc.lock").read_text(encoding="utf-8"))["configs"].values()
    assert entry["epsilon"] > 0.5
    swept = ran(*program, "sweep", "a0.yaml", "--over", "training.steps=1:60:60", "--csv")
    assert swept.returncode == 0, swept.stderr
    rows = swept.stdout.splitlines()[1:]
    assert len(rows) == 60
    assert all(float(row.split(",")[1]) > 0.5 for row in rows)


def test_a_dask_cluster_is_not_forged(ran, program):
    pytest.importorskip("distributed")
    swept = ran(*program, "sweep", "a0.yaml", "--over", "training.steps=1:60:60", "--csv", "--executor", "dask")
    assert swept.returncode == 0, swept.stderr
    assert all(float(row.split(",")[1]) > 0.5 for row in swept.stdout.splitlines()[1:])


@pytest.mark.heavy
@pytest.mark.parametrize(
    "flags", thinned([pytest.param(flags) for flags in (("-P",), ("-I",), ("-E", "-P"))], 1), ids=" ".join
)
def test_the_module_as_a_program(ran, flags):
    assert ran(sys.executable, *flags, "-m", "dpcalc", "check", "a0.yaml").returncode == 1


@pytest.mark.heavy
def test_the_module_as_a_program_without_flags(ran, checkout):
    """Python itself looks for the package in the current directory then; nothing else is taken from there."""
    for name in ("__init__", "__main__"):
        (checkout / "dpcalc" / f"{name}.py").unlink()
    (checkout / "dpcalc").rmdir()
    for name in ("typing", "runpy", "site"):  # what Python, and the first line of the package, import before
        (checkout / f"{name}.py").unlink()
    ended = ran(sys.executable, "-m", "dpcalc", "check", "a0.yaml")
    assert ended.returncode == 1, ended.stderr


STARTING = (
    r"\b(subprocess|multiprocessing|concurrent|pty|distributed)\b(?!`)|os\.(system|popen|exec|spawn|posix_spawn|fork)"
)


def test_processes_are_started_in_three_places():
    """Each of which keeps the current directory out: `-P`, an absolute path of git, `PYTHONSAFEPATH` for Dask."""
    found = set()
    for path in (ROOT / "dpcalc").rglob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        if any(re.search(STARTING, line) for line in lines if re.match(r"\s*(import|from) |.*os\.", line)):
            found.add(path.relative_to(ROOT / "dpcalc").as_posix())
    assert found == {"gate/workers.py", "gate/diff.py", "sweep.py"}


BACKEND = """\
import zipfile

def build_wheel(folder, settings=None, metadata=None):
    with zipfile.ZipFile(folder + "/stub-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("stub.pth", {paths!r})
        wheel.writestr("stub-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: stub\\nVersion: 1\\n")
        wheel.writestr("stub-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("stub-1.dist-info/RECORD", "")
    return "stub-1-py3-none-any.whl"
"""


@pytest.mark.heavy
def test_the_scripts_of_the_action(ran, tmp_path):
    """The real `venv` and `pip`, and dpcalc of this environment in the place of what would be downloaded."""
    source, runner = tmp_path / "source", tmp_path / "runner"
    (source / ".github").mkdir(parents=True)
    runner.mkdir()
    (source / ".github" / "action-requirements.txt").write_text("", encoding="utf-8")
    system = 'requires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (source / "pyproject.toml").write_text(f"[build-system]\n{system}", encoding="utf-8")
    paths = "\n".join(entry or str(ROOT) for entry in dict.fromkeys((str(ROOT), *sys.path)))
    (source / "backend.py").write_text(BACKEND.format(paths=paths), encoding="utf-8")
    install, check = (step for step in STEPS if "run" in step)
    shared = {"RUNNER_TEMP": str(runner), "PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1"}
    inputs = {"BASE": "none", "POLICY": "none", "MAX_EPSILON": "none", "TIMEOUT": "600", "MEMORY_LIMIT": "4"}
    inputs |= {"CONFIGS": "a*.yaml", "REPORTS": "", "REQUIRE_BUDGET": "false", "LOCKED": "false", "STRICT": "false"}
    for step, code, more in (
        (install, 0, {"PYTHON": sys.executable, "SOURCE": str(source)}),
        (check, 1, inputs),
    ):
        fixed = {name: value for name, value in step["env"].items() if not name.startswith("DPCALC_")}
        environment = shared | fixed | {f"DPCALC_{name}": value for name, value in more.items()}
        ended = ran("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"], **environment)
        assert ended.returncode == code, ended.stdout + ended.stderr
    assert "::error" in ended.stdout
    assert "26 failed" in ended.stdout
