"""The command lines that are recorded: every command on every sample config, and three of them on each generated plan.

A job is a list of command lines that run one after the other in a directory of their own, which holds a copy of
`sample_configs` or files that the job writes first. Every line is recorded, also one that is refused.
"""

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.sweeps.random_configs import generator, random_config

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_configs"
PLANS = Path(__file__).with_name("plans.csv")
SEED = 20261122  # of the generated plans; plans.csv has the places of 300 that answer quickly

LINES: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("jobs.yaml").read_text(encoding="utf-8"))
ON_EACH, ON_SAMPLES = LINES.pop("on each"), LINES.pop("on samples")
"""`ON_EACH` on every sample; on each generated plan its first and a part of the others, each on about 40 plans."""
PARTS = 7

SOME = [  # samples of the commands that take several files
    f"sample_configs/{name}.yaml" for name in ("mnist_dpsgd", "clinic_maml", "mnist_fixed_batch", "two_phase")
]


@dataclass(frozen=True)
class Job:
    """Command lines that share a directory: without `dpcalc`, or `python FILE`, or `file PATH` to record a text."""

    name: str  # unique
    lines: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)  # texts to write first, by path
    samples: bool = True  # whether the directory holds a copy of `sample_configs`
    commits: bool = False  # whether the files are committed to a git repository before `changed` replaces some
    changed: dict[str, str] = field(default_factory=dict)


def sample_paths() -> list[str]:
    """Return every sample config that dpcalc reads, relative to the root."""
    with_config = ["hydra_femnist/dpcalc.yaml", "known_curve/dpcalc.yaml", "learn2learn_clinics/maml.yaml"]
    with_config += ["opacus_mnist/train.yaml", "samplers/pilot.yaml"]
    names = [path.name for path in sorted(SAMPLES.glob("*.yaml"))] + with_config
    return [f"sample_configs/{name}" for name in names]


def sample_jobs() -> list[Job]:
    """Return a job for each sample config."""
    return [Job(name=path, lines=tuple(line.format(path) for line in ON_EACH + ON_SAMPLES)) for path in sample_paths()]


def plan_config(place: int) -> str:
    """Return the text of a generated config."""
    return json.dumps(random_config(generator(SEED, place)))


def plan_job(place: int, *, is_thorough: bool = False) -> Job:
    """Ask a generated plan for epsilon, and two of the other commands in turn, or all of them."""
    first, *others = ON_EACH
    chosen = [line for number, line in enumerate(others) if is_thorough or (number + place) % PARTS == 0]
    lines = tuple(line.format(f"{place}.yaml") for line in (first, *chosen))
    return Job(name=f"plan {place}", lines=lines, files={f"{place}.yaml": plan_config(place)}, samples=False)


def plan_places() -> list[int]:
    """Return the places of the generated plans that are recorded."""
    with PLANS.open(encoding="utf-8", newline="") as file:
        return [int(row["place"]) for row in csv.DictReader(file)]


def gate_jobs(size: int = 30) -> list[Job]:
    """Return jobs that check many generated plans in one command each."""
    places = plan_places()
    jobs = []
    for start in range(0, len(places), size):
        files = {f"{place}.yaml": plan_config(place) for place in places[start : start + size]}
        names = " ".join(files)
        lines = (f"validate {names} --json", f"check {names} --max-epsilon 1 --json --timeout 100000")
        jobs.append(Job(name=f"gate {start}", lines=lines, files=files, samples=False))
    return jobs


def other_jobs() -> list[Job]:
    """Return jobs of the commands that take something else than a config."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in SOME}
    changed = {path: re.sub(r"noise_multiplier: [0-9.]+", r"\g<0>5", text) for path, text in texts.items()}
    tree = {f"data/{user}/{at}.txt": "" for user, count in (("a", 2), ("b", 3), ("c", 3)) for at in range(count)}
    rows = "clinic,patient\n" + "".join(f"{row % 3},{row % 5}\n" for row in range(30))
    beside: dict[str, dict[str, Any]] = {
        "scan": {"files": {**tree, "rows.csv": rows}, "samples": False},
        "base": {"files": texts, "samples": False, "commits": True, "changed": changed},
    }
    samples = " ".join(sample_paths())
    return [
        Job(name=name, lines=tuple(line.replace("SAMPLES", samples) for line in each), **beside.get(name, {}))
        for name, each in LINES.items()
    ]


def all_jobs(*, is_thorough: bool = False) -> list[Job]:
    """Return every job, the long ones first."""
    plans = (plan_job(place, is_thorough=is_thorough) for place in plan_places())
    return [*sample_jobs(), *gate_jobs(), *other_jobs(), *plans]
