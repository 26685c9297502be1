"""`dpcalc scan`: count the units of a data set, level by level."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli.files import file_exists_error, write_file
from dpcalc.cli.output import CommandResult
from dpcalc.cli.progress import report_progress
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from dpcalc.scan.count import Scan

EXAMPLE = "Example: dpcalc scan data/train --levels class,example --suffix .jpg"
DEFAULT = "counts.json"
STDOUT = "-"


def scan(  # noqa: PLR0913  one parameter an option
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder, or a CSV or JSONL file with a row for each record.")
    ],
    *,
    levels: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Names of the levels, outermost first, e.g. user,session,example; - skips a depth of folders.",
        ),
    ] = "",
    columns: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Of a CSV or JSONL file: the column of each level; without one for the last, every row is a record.",
        ),
    ] = "",
    suffix: Annotated[
        list[str] | None, typer.Option(metavar="SUFFIX", help="Count only files that end so. May be repeated.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help=f"File for the tree; - is standard output. By default {DEFAULT} if sizes differ.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema dpcalc.result/1.")] = False,
) -> CommandResult:
    """Count the units of a data set, and write them as a tree for `data.tree`.

    Every file of a folder, or every row of a file, is a record. Prints the `data:` section for the config.
    """
    from dpcalc.scan.count import SKIPPED, TREE_SUFFIX, ScanRequest, check_level_names, is_folder
    from dpcalc.scan.count import scan as counted

    level_names = tuple(name.strip() for name in levels.split(",")) if levels else ()
    check_level_names([name for name in level_names[:-1] if name != SKIPPED] + list(level_names[-1:]))
    is_folder(path)
    if output not in {None, STDOUT}:
        if not str(output).lower().endswith(TREE_SUFFIX):
            raise InputError(f"--output: expected a file *{TREE_SUFFIX}, which a config can read, got {output}")
        if os.path.lexists(str(output)) and not force:
            raise file_exists_error("--output", str(output))
    if output == STDOUT and as_json:
        raise InputError("--output: expected a file beside --json, got standard output, which has the answer")
    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    source = ScanRequest(
        path=path, levels=level_names, columns=names, endings=tuple(suffix or ()), output=output or DEFAULT
    )
    counts = counted(source, on_progress=report_progress)
    check_level_names(counts.names)
    has_tree = len(counts.sizes) > 1 and (output is not None or not counts.is_equal)
    return _answer(counts, (output or DEFAULT) if has_tree else None, force=force, as_json=as_json)


def _answer(counts: Scan, output: str | None, *, force: bool, as_json: bool) -> CommandResult:
    """Write the tree to `output`, if not None, and return the `data:` section for the config as text or JSON."""
    from dpcalc.scan.count import data_section, tree_text

    asides = tuple(f"note: {remark}" for remark in counts.remarks)
    changed: tuple[str, ...] = ()
    tree = tree_text(counts.names, counts.counts) if output else ""
    if output and output != STDOUT:
        write_file("--output", output, tree.encode(), force=force)
        asides, changed = (*asides, f"note: wrote {output}"), (output,)
    file = DEFAULT if output in {None, STDOUT} else _name_from_here(str(output))
    section = data_section(counts.names, [(size.min_units, size.max_units) for size in counts.sizes], file=file)
    if as_json:
        from dpcalc.scan.count import scan_output

        return CommandResult(
            text=scan_output(counts, output=output, section=section).json_text(), asides=asides, changed=changed
        )
    text = "".join(f"# {line}\n" for line in _sizes(counts)) + section
    if output == STDOUT:
        return CommandResult(text=tree, asides=(*asides, text.rstrip()))
    return CommandResult(text=text, asides=asides, changed=changed)


def _name_from_here(output: str) -> str:
    """Return a relative path with slashes, an absolute one as its last part: as a config beside the file names it."""
    path = Path(output)
    return path.name if path.is_absolute() else path.as_posix()


def _sizes(counts: Scan) -> list[str]:
    """Return a line for each level: its units in all, and how many (or from how many to how many) each parent has."""
    lines = []
    above = ""
    for size in counts.sizes:
        each = str(size.max_units) if size.min_units == size.max_units else f"{size.min_units} to {size.max_units}"
        lines.append(f"{size.name}: {size.units}{f', {each} in each {above}' if above else ''}")
        above = size.name
    return lines
