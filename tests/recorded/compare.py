"""Compare two records of `tests.recorded.record`: numbers to 1e-12 relative, everything else exactly.

    python -m tests.recorded.compare OLD.jsonl NEW.jsonl [--allow COMMAND:POINTER ...] [--partial]

A difference has the command and a JSON pointer below its record: `/code`, `/result/epsilon`, `/result/rows/3/note`.
What a step of a refactoring means to change is declared: `--allow 'statement:/result/title'`, with `*` for any text,
slashes included: `--allow '*:/result/notes/*'`. Exits 1 if there is any other difference, and if an allowed one does
not occur.
"""

import argparse
import json
import math
import re
import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

MISSING = object()
GROUPS = ("ledger", "curve")  # commands whose name is two words


class Difference(NamedTuple):
    """One place where two records differ."""

    case: str  # the command line
    pointer: str
    text: str  # both values

    @property
    def place(self):
        words = self.case.split()
        return f"{' '.join(words[: 2 if words[0] in GROUPS else 1])}:{self.pointer}"


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def differences(old, new, pointer=""):
    """Yield (pointer, both values) wherever two JSON values differ; a number that is none agrees with itself."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            here = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
            yield from differences(old.get(key, MISSING), new.get(key, MISSING), here)
    elif isinstance(old, list) and isinstance(new, list):
        for place in range(max(len(old), len(new))):
            pair = [values[place] if place < len(values) else MISSING for values in (old, new)]
            yield from differences(*pair, f"{pointer}/{place}")
    elif is_number(old) and is_number(new):
        if not (math.isclose(old, new, rel_tol=1e-12, abs_tol=0) or (math.isnan(old) and math.isnan(new))):
            yield pointer, f"{old!r} -> {new!r}, relative {abs(new - old) / (abs(old) or 1):.1e}"
    elif type(old) is not type(new) or old != new:
        shown = ["nothing" if value is MISSING else repr(value) for value in (old, new)]
        yield pointer, " -> ".join(text if len(text) < 200 else f"{text[:200]}..." for text in shown)


def read(path):
    """The records of a file by job and command line."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return {(row["job"], row["case"]): {"code": row["code"], "result": row["result"]} for row in rows}


def judged(old, new, allow):
    """All differences, those that no pattern allows, and the patterns that allow none; a lost record is one."""
    found = [
        Difference(key[1], *each)
        for key in [*old, *(key for key in new if key not in old)]
        for each in differences(old.get(key, MISSING), new.get(key, MISSING))
    ]
    left = [each for each in found if not any(fnmatchcase(each.place, pattern) for pattern in allow)]
    idle = [pattern for pattern in allow if not any(fnmatchcase(each.place, pattern) for each in found)]
    return found, left, idle


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--allow", action="append", default=[], metavar="COMMAND:POINTER")
    parser.add_argument("--partial", action="store_true", help="compare only what both hold: one was made with --only")
    parser.add_argument("--all", action="store_true", help="print every difference, not the first of each kind")
    asked = parser.parse_args()
    old, new = read(asked.old), read(asked.new)
    if asked.partial:
        old, new = ({key: one[key] for key in one if key in other} for one, other in ((old, new), (new, old)))
    found, left, idle = judged(old, new, asked.allow)
    kinds = defaultdict(list)
    for each in left:
        kinds[re.sub(r"/[0-9]+", "/*", each.place)].append(each)
    lines = []
    for kind, many in kinds.items():
        lines.append(f"{kind} ({len(many)})")
        for each in many if asked.all else many[:1]:
            lines += [f"    {each.case}", f"    {each.pointer}: {each.text}"]
    lines += [f"--allow {pattern}: allows nothing" for pattern in idle]
    allowed = len(found) - len(left)
    lines.append(f"{len(old)} and {len(new)} records, {len(found)} differences, {allowed} of them allowed")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.exit(1 if left or idle else 0)


if __name__ == "__main__":
    main()
