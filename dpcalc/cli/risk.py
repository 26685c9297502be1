"""`dpcalc risk`: bounds on the success of membership inference, attribute inference and reconstruction."""

from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.sources import loaded_plan

EXAMPLE = "Example: dpcalc risk clinic.yaml --prior 0.1 --fpr 1e-4"


def risk(
    context: typer.Context,
    *,
    prior: Annotated[
        str, typer.Option(metavar="P", help="The attacker's prior probability that the unit is in the data.")
    ] = "0.5",
    rates: Annotated[
        list[str] | None,
        typer.Option(
            "--fpr", metavar="Y", help="A false positive rate. May be repeated.", show_default="0.001, 0.01 and 0.1"
        ),
    ] = None,
    given_baselines: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            metavar="P",
            help="Bound attribute inference and reconstruction: how often the attacker would succeed without the "
            "output. May be repeated.",
            show_default="none",
        ),
    ] = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Bound the success of membership inference, and of reconstruction.

    The bounds hold for every attacker and every data set.
    """
    prior_value = options.probability("--prior", prior) or 0.0
    given_rates = tuple(options.probability("--fpr", rate) or 0.0 for rate in rates or ())
    baselines = tuple(sorted({options.probability("--baseline", each) or 0.0 for each in given_baselines or ()}))
    loaded = loaded_plan(context)

    from dpcalc.planner.risk import FALSE_POSITIVE_RATES
    from dpcalc.planner.risk import risk as risk_of
    from dpcalc.planner.search import require_pld_method
    from dpcalc.report.risk import risk_output

    false_positive_rates = tuple(sorted(set(given_rates))) or FALSE_POSITIVE_RATES
    result = risk_of(
        require_pld_method(loaded.plan),
        prior=prior_value,
        false_positive_rates=false_positive_rates,
        baselines=baselines,
    )
    return CommandResult(
        text=output_text(risk_output(result, loaded), as_json=as_json), asides=remarks(loaded.diagnostics, result.notes)
    )
