"""`dpcalc pate`: the privacy cost of the answers of an ensemble of teachers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, refuse_existing, write_file
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from dpcalc.mechanisms.pate import Aggregation

PATE_EXAMPLE = "Example: dpcalc pate votes.npy --sigma 40 --delta 1e-5 --target-eps 2"


def pate(
    votes: Annotated[
        str | None,
        typer.Argument(
            metavar="VOTES",
            help="A .npy or .csv file: a row for each query, a column for each label, the teachers that chose it.",
        ),
    ] = None,
    *,
    gamma: Annotated[str | None, typer.Option(metavar="G", help="LNMax: inverse scale of the Laplace noise.")] = None,
    sigma: Annotated[
        str | None, typer.Option(metavar="S", help="GNMax: standard deviation of the noise in votes.")
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(metavar="T", help="Confident-GNMax: answer only if the largest noisy count reaches T votes."),
    ] = None,
    threshold_sigma: Annotated[
        str | None, typer.Option(metavar="S", help="Standard deviation of the noise of that comparison.")
    ] = None,
    delta: Annotated[str | None, typer.Option(metavar="D", help="The delta of the guarantee.")] = None,
    teachers: Annotated[
        str | None, typer.Option(metavar="N", help="Teachers; by default the votes of the first row.")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Number of labels, of a file with a row for each teacher and a column for each query: label 0 to N-1.",
        ),
    ] = None,
    queries: Annotated[
        str | None, typer.Option(metavar="N", help="Only the first N queries; alone: without VOTES.")
    ] = None,
    target_eps: Annotated[
        str | None, typer.Option("--target-eps", metavar="E", help="Compute how many answers an epsilon of E allows.")
    ] = None,
    sanitise: Annotated[
        bool,
        typer.Option("--sanitise", "--sanitize", help="Draw a data-dependent epsilon that may be published, once."),
    ] = False,
    csv: Annotated[str | None, typer.Option(metavar="PATH", help="Write a table of the queries to PATH.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: options.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print one number only: the data-independent epsilon, rounded up.")
    ] = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Compute the privacy cost of labels from an ensemble of teachers (PATE: LNMax, GNMax, Confident-GNMax).

    The data-independent epsilon holds for all votes. The data-dependent one is often far smaller, and itself private.
    """
    from dpcalc.mechanisms.pate import VOTES
    from dpcalc.pate.answer import PateQuestion, evaluate_pate
    from dpcalc.pate.view import DRAWN, WARNING, pate_output, query_csv

    noise = {"--gamma": gamma, "--sigma": sigma, "--threshold": threshold, "--threshold-sigma": threshold_sigma}
    aggregation = _aggregation({option: value for option, value in noise.items() if value is not None})
    delta_value = options.number("--delta", delta)
    if delta_value is None:
        raise InputError("--delta: expected one, well below 1 / number of records, e.g. --delta 1e-5, got none")
    query_count = options.whole_number("--queries", queries, min_value=1)
    teacher_count = options.whole_number("--teachers", teachers, min_value=1)
    class_count = options.whole_number("--classes", classes, min_value=2)
    votes_read = None
    if votes is not None:
        from dpcalc.pate.votes_file import read_votes

        votes_read = read_votes(votes, teachers=teacher_count, classes=class_count, queries=query_count)
    elif query_count is None:
        raise InputError(
            "VOTES: expected a .npy or .csv file, or --queries N for the bound that holds without votes, got neither"
        )
    elif sanitise or csv is not None:
        raise InputError("VOTES: expected a file for --sanitise and --csv, got none")
    if csv is not None:
        refuse_existing("--csv", csv, force=force)  # before a sanitised epsilon is drawn: each draw costs
    question = PateQuestion(
        aggregation=aggregation,
        queries=votes_read.queries if votes_read else query_count or 0,
        votes=votes_read,
        delta=delta_value,
        target=options.number("--target-eps", target_eps),
    )
    rng = None
    if sanitise:
        import numpy as np

        rng = np.random.default_rng()  # seeded by the operating system: the seed must stay secret
    answer = evaluate_pate(question, rng=rng)
    notes = [] if answer.by_votes is None else [WARNING]
    notes += [] if answer.sanitised is None else [DRAWN]
    asides = [] if quiet else [f"warning: {note}" for note in notes]
    if csv is not None:
        write_file("--csv", csv, query_csv(answer).encode(), force=force)
        asides.append(f"note: wrote {csv}")
    output = pate_output(answer, assumptions=VOTES, notes=notes, verbose=verbose)
    text = output_text(output, as_json=as_json, quiet=quiet)
    return CommandResult(text=text, asides=tuple(asides), changed=(csv,) if csv else ())


def _aggregation(given: dict[str, str]) -> Aggregation:
    """Return LNMax, GNMax or ConfidentGNMax for noise options {name: text}; InputError for any other combination."""
    from dpcalc.mechanisms.pate import ConfidentGNMax, GNMax, LNMax

    values = {option: options.number(option, text) or 0.0 for option, text in given.items()}
    match values:
        case {"--gamma": gamma} if len(values) == 1:
            return LNMax(gamma=gamma)
        case {"--sigma": sigma} if len(values) == 1:
            return GNMax(noise_multiplier=sigma)
        case {"--sigma": sigma, "--threshold": threshold, "--threshold-sigma": check} if len(values) == 3:
            return ConfidentGNMax(noise_multiplier=sigma, threshold=threshold, threshold_noise_multiplier=check)
    got = ", ".join(given) or "none of them"
    raise InputError(
        "noise: expected --gamma (LNMax), --sigma (GNMax), or --sigma with --threshold and --threshold-sigma "
        f"(Confident-GNMax), got {got}"
    )
