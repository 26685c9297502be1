"""`dpcalc pate`: the privacy cost of the answers of an ensemble of teachers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from dpcalc.cli import options
from dpcalc.cli.options import given, nonnegative, whole
from dpcalc.cli.output import CommandResult, output_text, refuse_existing, write_file
from dpcalc.errors import InputError


def pate(
    votes: Annotated[
        str | None,
        typer.Argument(
            metavar="VOTES",
            help="A .npy or .csv file: a row for each query, a column for each label, the teachers that chose it.",
        ),
    ] = None,
    *,
    gamma: Annotated[float | None, given("G", "LNMax: inverse scale of the Laplace noise.", nonnegative)] = None,
    sigma: Annotated[float | None, given("S", "GNMax: standard deviation of the noise in votes.", nonnegative)] = None,
    threshold: Annotated[
        float | None,
        given("T", "Confident-GNMax: answer only if the largest noisy count reaches T votes.", nonnegative),
    ] = None,
    threshold_sigma: Annotated[
        float | None, given("S", "Standard deviation of the noise of that comparison.", nonnegative)
    ] = None,
    delta: Annotated[float | None, given("D", "The delta of the guarantee.", nonnegative)] = None,
    teachers: Annotated[int | None, given("N", "Teachers; by default the votes of the first row.", whole(1))] = None,
    classes: Annotated[
        int | None,
        given(
            "N",
            "Number of labels, of a file with a row for each teacher and a column for each query: label 0 to N-1.",
            whole(2),
        ),
    ] = None,
    queries: Annotated[int | None, given("N", "Only the first N queries; alone: without VOTES.", whole(1))] = None,
    target_eps: Annotated[
        float | None, given("E", "Compute how many answers an epsilon of E allows.", nonnegative)
    ] = None,
    sanitise: Annotated[
        bool,
        typer.Option("--sanitise", "--sanitize", help="Draw a data-dependent epsilon that may be published, once."),
    ] = False,
    csv: Annotated[str | None, given("PATH", "Write a table of the queries to PATH.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print one number only: the data-independent epsilon, rounded up.")
    ] = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Compute the privacy cost of labels from an ensemble of teachers (PATE: LNMax, GNMax, Confident-GNMax).

    The data-independent epsilon holds for all votes. The data-dependent one is often far smaller, and itself private.

    Example: dpcalc pate votes.npy --sigma 40 --delta 1e-5 --target-eps 2
    """
    import numpy as np

    from dpcalc.mechanisms.pate import ConfidentGNMax, GNMax, LNMax, PateMechanism
    from dpcalc.pate.view import pate_output
    from dpcalc.pate.votes_file import read_votes

    if votes is not None and Path(votes).suffix in {".yaml", ".yml"}:
        raise InputError(f"VOTES: expected a table of votes, got a config; `dpcalc epsilon {votes}` evaluates that")
    match gamma, sigma, threshold, threshold_sigma:
        case float(), None, None, None:
            aggregation: PateMechanism = LNMax(gamma=gamma)
        case None, float(), None, None:
            aggregation = GNMax(noise_multiplier=sigma)
        case None, float(), float(), float():
            aggregation = ConfidentGNMax(
                noise_multiplier=sigma, threshold=threshold, threshold_noise_multiplier=threshold_sigma
            )
        case noise:
            names = ("--gamma", "--sigma", "--threshold", "--threshold-sigma")
            given = [name for name, value in zip(names, noise, strict=True) if value is not None]
            raise InputError(
                "noise: expected --gamma (LNMax), --sigma (GNMax), or --sigma with --threshold and --threshold-sigma "
                f"(Confident-GNMax), got {', '.join(given) or 'none of them'}"
            )
    if delta is None:
        raise InputError("--delta: expected one, well below 1 / number of records, e.g. --delta 1e-5, got none")
    votes_read = None
    if votes is not None:
        votes_read = read_votes(votes, teachers=teachers, classes=classes, queries=queries)
    elif queries is None:
        raise InputError(
            "VOTES: expected a .npy or .csv file, or --queries N for the bound that holds without votes, got neither"
        )
    elif sanitise or csv is not None:
        raise InputError("VOTES: expected a file for --sanitise and --csv, got none")
    if csv is not None:
        refuse_existing("--csv", csv, force=force)  # before a sanitised epsilon is drawn: each draw costs
    output = pate_output(
        aggregation,
        votes_read,
        queries=len(votes_read.counts) if votes_read else queries or 0,
        delta=delta,
        target=target_eps,
        rng=np.random.default_rng() if sanitise else None,  # seeded by the system: the seed must stay secret
        verbose=verbose,
        with_csv=csv is not None,
    )
    asides = [] if quiet else [f"warning: {note}" for note in cast(list[str], output.result["notes"])]
    if csv is not None:
        write_file("--csv", csv, output.csv.encode(), force=force)
        asides.append(f"note: wrote {csv}")
    text = output_text(output, form="json" if as_json else "", quiet=quiet)
    return CommandResult(text=text, asides=tuple(asides), changed=(csv,) if csv else ())
