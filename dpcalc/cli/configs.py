"""`dpcalc init`, `show`, `schema`, `import` and `scan`: configs written, and what is read for them."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, refuse_existing, remarks, write_file
from dpcalc.cli.progress import GRACE, ended_after, report_progress
from dpcalc.cli.sources import Request
from dpcalc.errors import InputError, listed
from dpcalc.guarantee import Adjacency

LOADERS = ("shuffle", "poisson", "fixed", "with-replacement")
_OPEN = "scheme: ???"  # in the templates that any of these loaders fits


class Template(StrEnum):
    DPSGD = "dpsgd"  # one level of examples
    PHASES = "phases"  # several phases over one level
    MAML = "maml"  # tasks and their examples
    USERS = "users"  # users, sessions, examples
    PATE = "pate"  # labels from an ensemble of teachers


def init(
    *,
    template: Annotated[Template, typer.Option(metavar="|".join(Template), help="The template.")] = Template.DPSGD,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PATH", help="File to write; - is standard output.")
    ] = "dpcalc.yaml",
    force: options.Force = False,
    scheme: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"How the loader draws: {listed(LOADERS)}. Without it the file asks.",
            autocompletion=options.one_of(LOADERS),
        ),
    ] = None,
) -> CommandResult:
    """Write a commented config to start from.

    Example: dpcalc init --template maml --output configs/clinic.yaml
    """
    text = resources.files("dpcalc.config").joinpath("templates", f"{template}.yaml").read_text(encoding="utf-8")
    if scheme is not None:
        if scheme not in LOADERS:
            from dpcalc.config.messages import value_suggestion

            hint = value_suggestion("scheme", scheme, LOADERS)
            raise InputError(f"--scheme: expected {listed(LOADERS)}, got {scheme!r}{f'; {hint}' if hint else ''}")
        if _OPEN not in text:
            raise InputError(
                f"--scheme: expected none, as the template {template} says itself how it draws; adapt the file"
            )
        text = text.replace(_OPEN, f"scheme: {scheme}{' ' * max(0, 3 - len(scheme))}")
    if output == "-":
        return CommandResult(text=text)

    write_file("--output", output, text.encode(), force=force)
    adapt = "say at `scheme: ???` how the loader draws, adapt the rest" if _OPEN in text else "adapt it"
    return CommandResult(
        text=f"wrote {output}\n", asides=(f"note: {adapt}, then run `dpcalc epsilon {output}`",), changed=(output,)
    )


def show(request: Request) -> CommandResult:
    """Print a config in its normal form.

    The same config as YAML, with every default, short form, inherited value, override and reference written out.

    Example: dpcalc show clinic.yaml --set training.epochs=20
    """
    from dpcalc.config.normal import normal_form

    loaded = request.load()
    return CommandResult(text=normal_form(loaded.plan), asides=remarks(loaded.diagnostics))


def schema(
    *, markdown: Annotated[bool, typer.Option("--markdown", help="Print a table of every key instead.")] = False
) -> CommandResult:
    """Print the JSON Schema of the config file, for editors.

    A config that begins with `# yaml-language-server: $schema=dpcalc.schema.json` is checked while it is written.

    Example: dpcalc schema > dpcalc.schema.json
    """
    from dpcalc.config.schema import json_schema_text, key_table

    return CommandResult(text=key_table() if markdown else json_schema_text())


def _positive_text(text: str) -> str:
    options.exact(text)
    return text  # the config states it as it was written


class _Loader(StrEnum):
    poisson = "poisson"
    fixed = "fixed"
    shuffle = "shuffle"


def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="The state of an Opacus accountant (JSON, or a checkpoint, which is not executed), a dp_accounting "
            "DpEvent as it prints, or a call of Opacus, TF-Privacy or JAX-Privacy in a script or notebook; - is "
            "standard input. Several states are phases of one run.",
        ),
    ],
    *,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PATH", help="File for the config, and print its cost.")
    ] = None,
    force: options.Force = False,
    delta: Annotated[
        str | None, typer.Option(metavar="D", help="Delta, if the file does not say it.", parser=_positive_text)
    ] = None,
    adjacency: Annotated[
        Adjacency | None,
        typer.Option(metavar="WORD", help="Neighbouring data sets, by default as the library assumes them."),
    ] = None,
    dataset_size: Annotated[
        Fraction | None, typer.Option(metavar="N", help="Number of examples.", parser=options.exact)
    ] = None,
    batch_size: Annotated[
        Fraction | None,
        typer.Option(metavar="N", help="Examples in a batch, for calls that count batches.", parser=options.exact),
    ] = None,
    sample_rate: Annotated[
        Fraction | None,
        typer.Option(metavar="Q", help="Rate, for calls of Opacus: 1 / len(loader), e.g. 1/235.", parser=options.exact),
    ] = None,
    epochs: Annotated[
        Fraction | None,
        typer.Option(metavar="N", help="Epochs, for calls that do not say them.", parser=options.exact),
    ] = None,
    steps: Annotated[
        Fraction | None, typer.Option(metavar="N", help="Steps, for calls that do not say them.", parser=options.exact)
    ] = None,
    noise_multiplier: Annotated[
        Fraction | None,
        typer.Option(metavar="X", help="Noise multiplier, for calls that do not say it.", parser=options.exact),
    ] = None,
    target_eps: Annotated[
        Fraction | None,
        typer.Option(metavar="E", help="Target epsilon, for calls that look for the noise.", parser=options.exact),
    ] = None,
    loader: Annotated[
        _Loader | None,
        typer.Option(metavar="SCHEME", help="How the data set of fit() draws: poisson, fixed or shuffle."),
    ] = None,
    timeout: options.Timeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Read a run from another library: compute its cost and write its config.

    Prints the config, or with --output the cost. What the file does not say stands in comments of the config.

    Example: dpcalc import accountant.json --delta 1e-5 --output dpcalc.yaml
    """
    if len(set(files)) < len(files):
        raise InputError("import: expected each file once, got one twice")

    from dpcalc.config.source import read_bytes
    from dpcalc.gate.workers import Workers
    from dpcalc.imports.read import import_output, imported, joined, read_run_of
    from dpcalc.imports.run import Terms
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import note_texts

    terms = Terms(
        delta=delta,
        adjacency=adjacency,
        examples=dataset_size,
        batch_size=batch_size,
        sample_rate=sample_rate,
        epochs=epochs,
        steps=steps,
        noise_multiplier=noise_multiplier,
        target_epsilon=target_eps,
        loader=None if loader is None else loader.value,
    )
    if output is not None:
        refuse_existing("--output", output, force=force)
    seconds = math.inf if timeout is None else timeout
    with ended_after(seconds, GRACE):
        # The file is read in a process of its own: what it makes of memory and time ends there.
        tasks = [(file, read_bytes(file) if file == "-" else None, terms) for file in files]
        with Workers(read_run_of, processes=1, memory=options.bytes_of(memory_limit)) as workers:
            answers = workers.answers(tasks, deadline=time.monotonic() + seconds)
        runs = []
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            runs.append(answer)
        file = " + ".join(files)
        result = imported(joined(runs), terms, file)
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


DEFAULT = "counts.json"
STDOUT = "-"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


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
    force: options.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema dpcalc.result/1.")] = False,
) -> CommandResult:
    """Count the units of a data set; if sizes differ, write them as a tree for `data.tree`.

    Every file of a folder, or every row of a file, is a record. Prints the `data:` section for the config.

    Example: dpcalc scan data/train --levels class,example --suffix .jpg
    """
    from dpcalc.scan.count import (
        SKIPPED,
        TREE_SUFFIX,
        check_level_names,
        data_section,
        is_folder,
        scan_output,
        tree_text,
    )
    from dpcalc.scan.count import scan as counted

    level_names = _names(levels)
    check_level_names([name for name in level_names[:-1] if name != SKIPPED] + list(level_names[-1:]))
    is_folder(path)
    if output == STDOUT and as_json:
        raise InputError("--output: expected a file beside --json, got standard output, which has the answer")
    if output not in {None, STDOUT}:
        if not output.lower().endswith(TREE_SUFFIX):
            raise InputError(f"--output: expected a file *{TREE_SUFFIX}, which a config can read, got {output}")
        refuse_existing("--output", output, force=force)
    counts = counted(
        path,
        levels=level_names,
        columns=_names(columns),
        endings=tuple(suffix or ()),
        output=output or DEFAULT,
        on_progress=report_progress,
    )
    check_level_names(counts.names)
    if len(counts.sizes) > 1:
        output = output or (None if counts.is_equal else DEFAULT)
    elif output not in {None, STDOUT}:
        raise InputError(
            f"--output: expected two or more levels, got one ({counts.names[0]}: {counts.sizes[0].units}); its count "
            "needs no tree: leave --output out"
        )
    else:
        output = None

    # A config names the tree's file by its path, or of an absolute one by the last part.
    place = Path(DEFAULT if output in {None, STDOUT} else output)
    section = data_section(counts, file=place.name if place.is_absolute() else place.as_posix())
    if as_json:
        text = scan_output(counts, output=output, section=section).json_text()
    else:  # below comments such as "# session: 40, 2 to 5 in each user"
        above, lines = "", []
        for size in counts.sizes:
            each = str(size.max_units) if size.min_units == size.max_units else f"{size.min_units} to {size.max_units}"
            lines.append(f"# {size.name}: {size.units}{f', {each} in each {above}' if above else ''}\n")
            above = size.name
        text = "".join(lines) + section
    asides = tuple(f"note: {remark}" for remark in counts.remarks)
    if output is None:
        return CommandResult(text=text, asides=asides)
    tree = tree_text(counts.names, counts.counts)
    if output == STDOUT:
        return CommandResult(text=tree, asides=(*asides, text.rstrip()))
    write_file("--output", output, tree.encode(), force=force)
    return CommandResult(text=text, asides=(*asides, f"note: wrote {output}"), changed=(output,))
