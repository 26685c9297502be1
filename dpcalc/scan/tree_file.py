"""Counted sizes as a tree file, as the `data:` section of a config, and as JSON."""

import json
import re
from collections.abc import Sequence

from dpcalc.config.data_files import MAX_TREE_BYTES
from dpcalc.config.normal import quoted
from dpcalc.config.values import LEVEL_NAME
from dpcalc.errors import InputError
from dpcalc.keys import WrongValueError
from dpcalc.report.fields import Output, json_only
from dpcalc.sampling.trees import NestedCounts
from dpcalc.scan.count import Scan

TREE_SUFFIX = ".json"  # required ending of a tree file's name


def check_level_names(names: Sequence[str]) -> None:
    """Refuse names of levels that a config does not accept, and names given twice.

    Raises:
        InputError: the message has the first such name.
    """
    for name in names:
        try:
            LEVEL_NAME.check(name)
        except WrongValueError as error:
            raise InputError(f"--levels: {error}, got `{name}`") from None
    if len(set(names)) < len(names):
        raise InputError(f"--levels: expected different names, got {', '.join(names)}")


def tree_text(names: Sequence[str], counts: NestedCounts) -> str:
    """Return the text of a tree file (JSON), a line for each unit of the first level; refuse one that is too large.

    Args:
        names: names of the levels, outermost first, two or more.
        counts: nested counts.

    Raises:
        InputError: the file would be larger than a config may read.
    """
    units = counts if isinstance(counts, list) else [counts]
    lines = ",\n".join(json.dumps(unit, separators=(",", ":")) for unit in units)
    text = f'{{"levels": {json.dumps(list(names), ensure_ascii=False)}, "tree": [\n{lines}\n]}}\n'
    if len(text.encode()) > MAX_TREE_BYTES:
        raise InputError(
            f"tree: expected a file of at most {MAX_TREE_BYTES // 2**20} MiB, got {len(text) // 2**20}; state what the "
            "sizes lie between, `count: {min: 5, max: 64}`, or count whole units, e.g. --levels user,-,example"
        )
    return text


def data_section(names: Sequence[str], ends: Sequence[tuple[int, int]], *, file: str) -> str:
    """Return the `data:` section of a config as YAML: counts where all sizes are equal, else a tree file.

    Args:
        names: names of the levels, outermost first.
        ends: (smallest, largest) number of units under one parent, for each level.
        file: path of the tree file; ignored where all sizes are equal.
    """
    if all(smallest == largest for smallest, largest in ends):
        levels = (f"{{name: {quoted(name)}, count: {count}}}" for name, (count, _) in zip(names, ends, strict=True))
        return f"data:\n  levels: [{', '.join(levels)}]\n"
    levels = (f"{{name: {quoted(name)}}}" for name in names)
    name = file if re.fullmatch(r"[A-Za-z_][\w./-]*", file) else quoted(file)
    return f"data:\n  levels: [{', '.join(levels)}]\n  tree: {{file: {name}}}\n"


def scan_output(scan: Scan, *, output: str | None, section: str) -> Output:
    """Return the result of `scan` for JSON: the size of each level, the tree file, the `data:` section, the remarks.

    Args:
        scan: the counted sizes.
        output: path of the tree file, None if none was written.
        section: the `data:` section of a config as YAML.
    """
    levels = [
        {"name": size.name, "units": size.units, "min": size.min_units, "max": size.max_units} for size in scan.sizes
    ]
    return Output(
        command="scan",
        fields=(
            json_only("levels", levels),
            json_only("output", output),
            json_only("config", section),
            json_only("notes", list(scan.remarks)),
        ),
    )
