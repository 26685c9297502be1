"""Measure how many small changes of the code the default tests notice: `python -m tests.mutation --help`.

Changes are those of cosmic-ray (`pip install cosmic-ray`), drawn at random with a seed. Each is tried on the quickest
tests that reach the changed line, as a coverage file with contexts tells. Run it in a clone: files change for a while.

    pytest -p no:xdist --cov=dpcalc --cov-context=test --cov-report= --durations=0 > durations.txt
    python -m tests.mutation --count 100 --durations durations.txt dpcalc/accountants
"""

import argparse
import ast
import functools
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from coverage import CoverageData

_TIMEOUT = 240  # seconds for the tests of one change, which may loop for ever
_SECONDS_OF_TESTS = 40.0
# Not drawn: annotations (`|`), and operators that floats refuse, which every test would notice.
_NOT_DRAWN = re.compile(r"Bit|Shift|Mod|FloorDiv|Pow|_Is|RemoveDecorator|ExceptionReplacer|Variable")


def _mutations(folders, count, seed):
    """Draw `count` changes of the Python files of `folders`."""
    from cosmic_ray.commands.init import _all_work_items

    paths = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    found = [item.mutations[0] for item in _all_work_items(paths, {})]
    found = [mutation for mutation in found if not _NOT_DRAWN.search(mutation.operator_name)]
    found = [mutation for mutation in found if mutation.start_pos[0] not in _lines_of_texts(mutation.module_path)]
    return random.Random(seed).sample(found, min(count, len(found)))  # noqa: S311  to be repeatable


@functools.cache
def _lines_of_texts(path):
    """Return the lines of docstrings and of raised errors, whose wording other tests hold."""
    lines = set()
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Assert | ast.Raise):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def _durations(path):
    """Read pytest's list of durations: seconds by test."""
    found = Counter()
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([\d.]+)s (?:call|setup)\s+(\S.*)$", line):
            found[match[2]] += float(match[1])
    return found


def _tests_of(data, mutation, durations):
    """Return the quickest tests that run the changed lines, of about _SECONDS_OF_TESTS in all."""
    by_line = data.contexts_by_lineno(str(Path(mutation.module_path).resolve()))
    contexts = {
        name for line in range(mutation.start_pos[0], mutation.end_pos[0] + 1) for name in by_line.get(line, ())
    }
    if "" in contexts:  # the line runs when the module is loaded: every test of the module
        contexts = {name for names in by_line.values() for name in names}
    names = {name.split("|")[0] for name in contexts if name}
    chosen, spent = [], 0.0
    for name in sorted(names, key=lambda name: (durations[name], name)):
        spent += durations[name] + 0.05
        if chosen and spent > _SECONDS_OF_TESTS:
            break
        chosen.append(name)
    return chosen


def _outcome(mutation, tests):
    """Run the tests on the changed file; return (killed, survived or untested; line; change), None without a change."""
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    with use_mutation(Path(mutation.module_path), operator, mutation.occurrence) as (before, after):
        if after is None:
            return None
        old, new = before.splitlines(), after.splitlines()
        where = next(place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
        change = f"{old[where].strip()}  ->  {new[where].strip()}"
        if not tests:
            return "untested", where + 1, change
        command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
        try:
            is_killed = subprocess.run(command, check=False, capture_output=True, timeout=_TIMEOUT).returncode != 0
        except subprocess.TimeoutExpired:
            is_killed = True
        return ("killed" if is_killed else "survived"), where + 1, change


def main():
    """Print a line for each change that no test notices, and the score; write every outcome to --out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--coverage", default=".coverage")
    parser.add_argument("--durations", required=True)
    parser.add_argument("--out", type=Path, default=Path("mutation.jsonl"))
    options = parser.parse_args()
    data = CoverageData(options.coverage)
    data.read()
    durations, score = _durations(options.durations), Counter()
    with options.out.open("a", encoding="utf-8") as out:
        for mutation in _mutations(options.folders, options.count, options.seed):
            if (outcome := _outcome(mutation, _tests_of(data, mutation, durations))) is None:
                continue
            row = dict(zip(("outcome", "line", "change"), outcome, strict=True), file=str(mutation.module_path))
            score[row["outcome"]] += 1
            out.write(json.dumps(row) + "\n")
            out.flush()
            if row["outcome"] != "killed":
                print(f"{row['outcome']}: {row['file']}:{row['line']}: {row['change']}", flush=True)  # noqa: T201
    print(dict(score))  # noqa: T201


if __name__ == "__main__":
    main()
