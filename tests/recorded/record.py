"""Record what every command prints, to compare it before and after a step of a refactoring.

    python -m tests.recorded.record OUT.jsonl [--jobs 2] [--only WORD ...] [--thorough]
    python -m tests.recorded.compare OLD.jsonl NEW.jsonl [--allow COMMAND:POINTER ...]

A record has one line for each command line of `cases.py`: its exit code and what it printed, JSON as JSON. The commands
run in this process and its children, in temporary directories, without git identity, terminal or environment variables
of the caller that dpcalc reads. Some six minutes on one core, at the lowest priority.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import dpcalc
from dpcalc.cli.app import run
from tests.recorded.cases import SAMPLES, all_jobs

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
DATE = "2026-01-01T00:00:00Z"  # of commits, so that their names are the same every time


def answered(line):
    """Exit code and result of a command of dpcalc; `python CONFIG`: the Python interface; `file PATH`: a text."""
    command, *arguments = line.split()
    if command == "file":
        return 0, Path(*arguments).read_text(encoding="utf-8")
    if command == "python":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                plan = dpcalc.load(*arguments)
                return 0, dpcalc.epsilon(plan, steps=plan.steps // 2).to_dict()
            except ValueError as error:
                return 2, str(error)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = run([command, *arguments])
    try:
        return code, json.loads(out.getvalue())
    except ValueError:
        return code, out.getvalue()


def written(files):
    """Write texts into the current directory."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def ran(job):
    """Run a job in a temporary directory: its records, and the CPU seconds of all."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if job.samples:
            shutil.copytree(SAMPLES, "sample_configs")
        written(job.files)
        if job.commits:  # with the same name every time
            environment = os.environ | {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
            for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "base"]):
                subprocess.run([*GIT, *words], check=True, env=environment)
        written(job.changed)
        answers = [(line, *answered(line)) for line in job.lines]
    records = [{"job": job.name, "case": line, "code": code, "result": result} for line, code, result in answers]
    return records, time.process_time() - start


def prepare():
    """Make this process one that nobody waits for and that nothing outside steers."""
    os.nice(10)
    for name in ("NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "DPCALC_CONFIG", "DPCALC_TRACEBACK", "COLUMNS"):
        os.environ.pop(name, None)


def record(path, jobs, processes):
    """Write the records of jobs as JSON lines."""
    with path.open("w", encoding="utf-8") as file, ProcessPoolExecutor(processes, initializer=prepare) as pool:
        for number, (job, (records, seconds)) in enumerate(zip(jobs, pool.map(ran, jobs), strict=True), 1):
            file.writelines(json.dumps(each, sort_keys=True) + "\n" for each in records)
            sys.stderr.write(f"{number}/{len(jobs)} {job.name}: {seconds:.1f} s\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--only", action="append", help="only jobs with this word in their name")
    parser.add_argument("--thorough", action="store_true", help="every command on every generated plan")
    asked = parser.parse_args()
    jobs = all_jobs(is_thorough=asked.thorough)
    record(asked.out, [job for job in jobs if any(word in job.name for word in asked.only or [""])], asked.jobs)


if __name__ == "__main__":
    main()
