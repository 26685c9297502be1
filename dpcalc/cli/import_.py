"""`dpcalc import`: price what other libraries keep of a run, and write its config."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.files import file_exists_error, write_file
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from dpcalc.imports.run import Terms

EXAMPLE = "Example: dpcalc import accountant.json --delta 1e-5 --output dpcalc.yaml"


def import_(  # noqa: PLR0913  one parameter an option
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
        },
        adjacency,
    )
    if output is not None and os.path.lexists(output) and not force:
        raise file_exists_error("--output", output)

    from dpcalc.imports.read import import_output, imported, read_run
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import note_texts

    result = imported(read_run(file, terms), terms, file)
    evaluation = evaluate(result.loaded.plan)
    answer, notes = import_output(result, evaluation, file), note_texts(evaluation)
    changed: tuple[str, ...] = ()
    if output is not None:
        write_file("--output", output, result.text.encode(), force=force)
        notes, changed = (*notes, f"wrote {output}"), (output,)
    if output is not None or as_json or quiet:
        text = output_text(answer, as_json=as_json, quiet=quiet, verbose=verbose)
    else:
        text, notes = result.text, (answer.headline, *notes)
    return CommandResult(text=text, asides=remarks(result.loaded.diagnostics, notes, quiet=quiet), changed=changed)


def _terms(texts: dict[str, str | None], adjacency: str | None) -> Terms:
    """Return what the options add to the file; InputError for a text that is no number > 0, or no adjacency."""
    from dpcalc.config.scalars import parse_number, parse_quotient
    from dpcalc.imports.run import Terms

    numbers: dict[str, Fraction | None] = {}
    for option, text in texts.items():
        stripped = (text or "").strip()
        numbers[option] = parse_number(stripped) or parse_quotient(stripped)
        if text is not None and numbers[option] is None:
            raise InputError(f"{option}: expected a number > 0, got `{text}`")
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
    )
