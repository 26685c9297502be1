"""Measure how many small changes of the code the default tests notice: `python -m tests.mutation --help`.

Changes are those of cosmic-ray (`pip install cosmic-ray`), drawn at random with a seed. Each is tried on the quickest
tests that reach the changed line, as a coverage file with contexts tells. Run it in a clone: files change for a while.

    pytest -p no:xdist --cov=dpcalc --cov-context=test --cov-report= --durations=0 > durations.txt
    python -m tests.mutation --count 100 --durations durations.txt dpcalc/accountants
"""

import argparse
import ast
import functools
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from coverage import CoverageData

TIMEOUT = 240  # seconds for the tests of one change, which may loop for ever
SECONDS_OF_TESTS = 40.0
# Not drawn: annotations (`|`), and operators that floats refuse, which every test would notice.
NOT_DRAWN = re.compile(r"Bit|Shift|Mod|FloorDiv|Pow|_Is|RemoveDecorator|ExceptionReplacer|Variable")


@functools.cache
def lines_of_texts(path):
    """The lines of docstrings and of raised errors, whose wording other tests hold."""
    lines = set()
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        is_text = isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
        if is_text or isinstance(node, ast.Assert | ast.Raise):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def quickest_tests(data, mutation, durations):
    """The quickest tests that run the changed lines, of about SECONDS_OF_TESTS in all."""
    by_line = data.contexts_by_lineno(str(Path(mutation.module_path).resolve()))
    lines = range(mutation.start_pos[0], mutation.end_pos[0] + 1)
    contexts = {name for line in lines for name in by_line.get(line, ())}
    if "" in contexts:  # the line runs when the module is loaded: every test of the module
        contexts = {name for names in by_line.values() for name in names}
    chosen, spent = [], 0.0
    for name in sorted({name.split("|")[0] for name in contexts if name}, key=lambda name: (durations[name], name)):
        spent += durations[name] + 0.05
        if chosen and spent > SECONDS_OF_TESTS:
            break
        chosen.append(name)
    return chosen


def main():
    """Print a line for each change that no test notices, and the score."""
    from cosmic_ray.commands.init import _all_work_items
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--coverage", default=".coverage")
    parser.add_argument("--durations", required=True, type=Path)
    options = parser.parse_args()
    data = CoverageData(options.coverage)
    data.read()
    durations, score = Counter(), Counter()
    for seconds, name in re.findall(r"(?m)^([\d.]+)s (?:call|setup)\s+(\S.*)$", options.durations.read_text("utf-8")):
        durations[name] += float(seconds)
    paths = sorted(path for folder in options.folders for path in folder.rglob("*.py"))
    drawn = [item.mutations[0] for item in _all_work_items(paths, {})]
    drawn = [each for each in drawn if not NOT_DRAWN.search(each.operator_name)]
    drawn = [each for each in drawn if each.start_pos[0] not in lines_of_texts(each.module_path)]
    for mutation in random.Random(options.seed).sample(drawn, min(options.count, len(drawn))):  # noqa: S311
        tests = quickest_tests(data, mutation, durations)
        operator = get_operator(mutation.operator_name)(**mutation.operator_args)
        with use_mutation(Path(mutation.module_path), operator, mutation.occurrence) as (before, after):
            if after is None:
                continue
            outcome = "survived" if tests else "untested"
            command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
            try:
                if tests and subprocess.run([*command, *tests], capture_output=True, timeout=TIMEOUT).returncode:  # noqa: PLW1510
                    outcome = "killed"
            except subprocess.TimeoutExpired:
                outcome = "killed"
        score[outcome] += 1
        if outcome != "killed":
            lines = zip(before.splitlines(), after.splitlines(), strict=False)
            row, (old, new) = next((row, pair) for row, pair in enumerate(lines, 1) if pair[0] != pair[1])
            print(f"{outcome}: {mutation.module_path}:{row}: {old.strip()}  ->  {new.strip()}", flush=True)  # noqa: T201
    print(dict(score))  # noqa: T201


if __name__ == "__main__":
    main()
