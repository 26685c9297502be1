"""`dpcalc init`, `show`, `schema`, `import` and `scan`: configs written, and what is read for them."""

from __future__ import annotations

import time
from enum import StrEnum
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, refuse_existing, remarks, write_file
from dpcalc.cli.progress import report_progress
from dpcalc.cli.sources import loaded_plan
from dpcalc.errors import InputError, listed

if TYPE_CHECKING:
    from dpcalc.imports.run import Terms
    from dpcalc.scan.count import Scan


INIT_EXAMPLE = "Example: dpcalc init --template maml --output configs/clinic.yaml"
LOADERS = ("shuffle", "poisson", "fixed", "with-replacement")
_OPEN = "scheme: ???"  # in the templates that any of these loaders fits


class Template(StrEnum):
    """Templates of configs.

    Attributes:
        DPSGD: one level of examples.
        PHASES: several phases over one level.
        MAML: tasks and their examples.
        USERS: users, sessions, examples.
        PATE: labels from an ensemble of teachers.
    """

    DPSGD = "dpsgd"
    PHASES = "phases"
    MAML = "maml"
    USERS = "users"
    PATE = "pate"


def init(
    *,
    template: Annotated[Template, typer.Option(metavar="|".join(Template), help="The template.")] = Template.DPSGD,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PATH", help="File to write; - is standard output.")
    ] = "dpcalc.yaml",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    scheme: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"How the loader draws: {listed(LOADERS)}. Without it the file asks.",
            autocompletion=options.one_of(LOADERS),
        ),
    ] = None,
) -> CommandResult:
    """Write a commented config to start from."""
    text = resources.files("dpcalc.config").joinpath("templates", f"{template}.yaml").read_text(encoding="utf-8")
    if scheme is not None and scheme not in LOADERS:
        from dpcalc.config.messages import value_suggestion

        hint = value_suggestion("scheme", scheme, LOADERS)
        raise InputError(f"--scheme: expected {listed(LOADERS)}, got {scheme!r}{f'; {hint}' if hint else ''}")
    if scheme is not None and _OPEN not in text:
        raise InputError(
            f"--scheme: expected none, as the template {template} says itself how it draws; adapt the file"
        )
    text = text if scheme is None else text.replace(_OPEN, f"scheme: {scheme}{' ' * max(0, 3 - len(scheme))}")
    if output == "-":
        return CommandResult(text=text)

    write_file("--output", output, text.encode(), force=force)
    adapt = "say at `scheme: ???` how the loader draws, adapt the rest" if _OPEN in text else "adapt it"
    return CommandResult(
        text=f"wrote {output}\n", asides=(f"note: {adapt}, then run `dpcalc epsilon {output}`",), changed=(output,)
    )


# `dpcalc show`: the normal form of a config.

SHOW_EXAMPLE = "Example: dpcalc show clinic.yaml --set training.epochs=20"


def show(context: typer.Context) -> CommandResult:
    """Print a config in its normal form.

    The same config as YAML, with every default, short form, inherited value, override and reference written out.
    """
    loaded = loaded_plan(context)

    from dpcalc.config.normal import normal_form

    return CommandResult(text=normal_form(loaded.plan), asides=remarks(loaded.diagnostics))


# `dpcalc schema`: the JSON Schema of the config file, or a table of its keys.

SCHEMA_EXAMPLE = "Example: dpcalc schema > dpcalc.schema.json"


def schema(
    *, markdown: Annotated[bool, typer.Option("--markdown", help="Print a table of every key instead.")] = False
) -> CommandResult:
    """Print the JSON Schema of the config file, for editors.

    A config that begins with `# yaml-language-server: $schema=dpcalc.schema.json` is checked while it is written.
    """
    from dpcalc.config.json_schema import json_schema_text, key_table

    return CommandResult(text=key_table() if markdown else json_schema_text())


# `dpcalc import`: price what other libraries keep of a run, and write its config.

IMPORT_EXAMPLE = "Example: dpcalc import accountant.json --delta 1e-5 --output dpcalc.yaml"


def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The state of an Opacus accountant (JSON, or a checkpoint, which is not executed), a dp_accounting "
            "DpEvent as it prints, or a call of Opacus or TF-Privacy; - is standard input.",
        ),
    ],
    *,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PATH", help="File for the config, and print its cost.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    delta: Annotated[str | None, typer.Option(metavar="D", help="Delta, if the file does not say it.")] = None,
    adjacency: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="Neighbouring data sets, by default as the library assumes them.",
            autocompletion=options.one_of(options.ADJACENCIES),
        ),
    ] = None,
    dataset_size: Annotated[str | None, typer.Option(metavar="N", help="Number of examples.")] = None,
    batch_size: Annotated[
        str | None, typer.Option(metavar="N", help="Examples in a batch, for calls of TF-Privacy.")
    ] = None,
    sample_rate: Annotated[
        str | None, typer.Option(metavar="Q", help="Rate, for calls of Opacus: 1 / len(loader), e.g. 1/235.")
    ] = None,
    epochs: Annotated[str | None, typer.Option(metavar="N", help="Epochs, for calls that do not say them.")] = None,
    steps: Annotated[str | None, typer.Option(metavar="N", help="Steps, for calls that do not say them.")] = None,
    noise_multiplier: Annotated[
        str | None, typer.Option(metavar="X", help="Noise multiplier, for calls that do not say it.")
    ] = None,
    target_eps: Annotated[
        str | None, typer.Option(metavar="E", help="Target epsilon, for calls that look for the noise.")
    ] = None,
    timeout: options.GateTimeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Read a run from another library: compute its cost and write its config.

    Prints the config, or with --output the cost. What the file does not say stands in comments of the config.
    """
    terms = _terms(
        {
            "--delta": delta,
            "--dataset-size": dataset_size,
            "--batch-size": batch_size,
            "--sample-rate": sample_rate,
            "--epochs": epochs,
            "--steps": steps,
            "--noise-multiplier": noise_multiplier,
            "--target-eps": target_eps,
        },
        adjacency,
    )
    if output is not None:
        refuse_existing("--output", output, force=force)

    from dpcalc.cli.progress import GRACE, ended_after
    from dpcalc.config.source import read_bytes
    from dpcalc.gate.workers import Workers
    from dpcalc.imports.read import import_output, imported, read_run_of
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import note_texts

    seconds, memory = options.seconds(timeout), options.memory(memory_limit)
    with ended_after(seconds, GRACE):
        # The file is read in a process of its own: what it makes of memory and time ends there.
        data = read_bytes(file) if file == "-" else None
        with Workers(read_run_of, processes=1, memory=memory) as workers:
            (run,) = workers.answers([(file, data, terms)], deadline=time.monotonic() + seconds)
        if isinstance(run, Exception):
            raise run
        result = imported(run, terms, file)
        evaluation = evaluate(result.loaded.plan)
    cost, notes, findings = (
        import_output(result, evaluation, file, verbose=verbose),
        note_texts(evaluation),
        result.loaded.diagnostics,
    )
    if output is None and not as_json and not quiet:
        return CommandResult(text=result.text, asides=remarks(findings, (cost.headline, *notes)))
    text = output_text(cost, as_json=as_json, quiet=quiet)
    if output is None:
        return CommandResult(text=text, asides=remarks(findings, notes, quiet=quiet))
    write_file("--output", output, result.text.encode(), force=force)
    asides = remarks(findings, (*notes, f"wrote {output}"), quiet=quiet)
    return CommandResult(text=text, asides=asides, changed=(output,))


def _terms(texts: dict[str, str | None], adjacency: str | None) -> Terms:
    """Return the texts of options as Terms with exact numbers; InputError if one of them cannot be used."""
    from dpcalc.imports.run import Terms

    numbers = {option: _positive_number(option, text) for option, text in texts.items()}
    if adjacency is not None and adjacency not in options.ADJACENCIES:
        raise InputError(f"--adjacency: expected one of {', '.join(options.ADJACENCIES)}, got {adjacency!r}")
    return Terms(
        delta=texts["--delta"],
        adjacency=adjacency,
        examples=numbers["--dataset-size"],
        batch_size=numbers["--batch-size"],
        sample_rate=numbers["--sample-rate"],
        epochs=numbers["--epochs"],
        steps=numbers["--steps"],
        noise_multiplier=numbers["--noise-multiplier"],
        target_epsilon=numbers["--target-eps"],
    )


def _positive_number(option: str, text: str | None) -> Fraction | None:
    """Return the exact number or quotient of an option; None if it is absent, InputError unless it is > 0."""
    from dpcalc.config.scalars import parse_number, parse_quotient

    if text is None:
        return None
    number = parse_number(text.strip()) or parse_quotient(text.strip())
    if number is None or number <= 0:
        raise InputError(f"{option}: expected a number > 0, got `{text}`")
    return number


# `dpcalc scan`: count the units of a data set, level by level.

SCAN_EXAMPLE = "Example: dpcalc scan data/train --levels class,example --suffix .jpg"
DEFAULT = "counts.json"
STDOUT = "-"


def scan(
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
    """Count the units of a data set; if sizes differ, write them as a tree for `data.tree`.

    Every file of a folder, or every row of a file, is a record. Prints the `data:` section for the config.
    """
    from dpcalc.scan.count import SKIPPED, check_level_names, is_folder
    from dpcalc.scan.count import scan as counted

    level_names = _split_names(levels)
    check_level_names([name for name in level_names[:-1] if name != SKIPPED] + list(level_names[-1:]))
    is_folder(path)
    _check_tree_output(output, force=force, as_json=as_json)
    counts = counted(
        path,
        levels=level_names,
        columns=_split_names(columns),
        endings=tuple(suffix or ()),
        output=output or DEFAULT,
        on_progress=report_progress,
    )
    check_level_names(counts.names)
    return _scan_result(counts, _tree_output(counts, output), force=force, as_json=as_json)


def _tree_output(counts: Scan, output: str | None) -> str | None:
    """Return `--output`, or counts.json for unequal sizes, else None; for one level None, InputError for a file."""
    if len(counts.sizes) > 1:
        return output or (None if counts.is_equal else DEFAULT)
    if output in {None, STDOUT}:
        return None
    raise InputError(
        f"--output: expected two or more levels, got one ({counts.names[0]}: {counts.sizes[0].units}); its count "
        "needs no tree: leave --output out"
    )


def _split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas, without blanks around them; () for ""."""
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _check_tree_output(output: str | None, *, force: bool, as_json: bool) -> None:
    """Raise InputError unless `--output` is a *.json file, new without --force, or is "-" without --json, or None."""
    from dpcalc.scan.count import TREE_SUFFIX

    if output is not None and output != STDOUT:
        if not output.lower().endswith(TREE_SUFFIX):
            raise InputError(f"--output: expected a file *{TREE_SUFFIX}, which a config can read, got {output}")
        refuse_existing("--output", output, force=force)
    if output == STDOUT and as_json:
        raise InputError("--output: expected a file beside --json, got standard output, which has the answer")


def _scan_result(counts: Scan, output: str | None, *, force: bool, as_json: bool) -> CommandResult:
    """Return the sizes of a scan, after writing the tree to `output`; for "-" the tree, with the sizes as an aside."""
    from dpcalc.scan.count import tree_text

    asides = tuple(f"note: {remark}" for remark in counts.remarks)
    text = _sizes_text(counts, output, as_json=as_json)
    if not output:
        return CommandResult(text=text, asides=asides)
    tree = tree_text(counts.names, counts.counts)
    if output == STDOUT:
        return CommandResult(text=tree, asides=(*asides, text.rstrip()))
    write_file("--output", output, tree.encode(), force=force)
    return CommandResult(text=text, asides=(*asides, f"note: wrote {output}"), changed=(output,))


def _sizes_text(counts: Scan, output: str | None, *, as_json: bool) -> str:
    """Return the `data:` section for a config below comments with the sizes, or both as JSON."""
    from dpcalc.scan.count import data_section, scan_output

    section = data_section(counts, file=_tree_name(output))
    if as_json:
        return scan_output(counts, output=output, section=section).json_text()
    return "".join(f"# {line}\n" for line in _size_lines(counts)) + section


def _tree_name(output: str | None) -> str:
    """Return how a config names the tree's file: its path, of an absolute one the last part; counts.json for "-"."""
    place = Path(output or DEFAULT)
    return DEFAULT if output == STDOUT else place.name if place.is_absolute() else place.as_posix()


def _size_lines(counts: Scan) -> list[str]:
    """Return a line for each level, such as "session: 40, 2 to 5 in each user", or "user: 10" for the first."""
    lines = []
    above = ""
    for size in counts.sizes:
        each = str(size.max_units) if size.min_units == size.max_units else f"{size.min_units} to {size.max_units}"
        lines.append(f"{size.name}: {size.units}{f', {each} in each {above}' if above else ''}")
        above = size.name
    return lines
