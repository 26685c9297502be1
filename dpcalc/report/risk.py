"""Success of membership inference (`risk`), as rows of text and as JSON."""

from collections.abc import Iterable

from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.planner.plan import Plan
from dpcalc.planner.risk import Detection, Risk
from dpcalc.report.json_parts import config_fields, diagnostic_fields, document, finite
from dpcalc.report.rounding import as_given, percent_up, rounded_down, rounded_up
from dpcalc.report.view import ResultView, units_text

FITTED = "approximation"
_FEW = 5e-4  # misses of a true positive rate that is rounded to 1.00


def risk_view(risk: Risk, plan: Plan) -> ResultView:
    """Return headline, rows and facts of `dpcalc risk`: advantage, true positive rates, posteriors, rounded up.

    Args:
        risk: bounds on the success of membership inference.
        plan: the plan that they are about.
    """
    return ResultView(
        headline=f"advantage <= {rounded_up(risk.advantage)}   (detections minus false alarms of the best attacker)",
        sections=tuple(_sections(risk, plan)),
        facts=tuple(_facts(risk, plan)),
    )


def _sections(risk: Risk, plan: Plan) -> Iterable[tuple[str, str]]:
    """Yield (label, text) of run, unit, guessing, true positive rates, posteriors, belief, mu and assumption."""
    if plan.name:
        yield "run", visible(plan.name)
    yield "protects", f"{units_text(plan.unit_name, plan.group_size)}, {plan.adjacency}"
    yield "guessing", f"right in at most {_percent((1 + risk.advantage) / 2)} of cases, where a coin has 50%"
    for detection in risk.detections:
        present = _detected(detection.present, detection.present_missed)
        absent = _detected(detection.absent, detection.absent_missed)
        sides = f'{present} of those in the data ("absent": {absent} of those not in it)'
        yield f"{100 * detection.false_positive_rate:g}% false alarms", f"detect at most {sides}"
    prior = f"{100 * risk.prior:g}%"
    for detection in risk.detections:
        yield (
            f"alarm at {100 * detection.false_positive_rate:g}%",
            f"is right with probability at most {_percent(detection.posterior)}, where {prior} are in the data",
        )
    certain = f"but with probability {as_given(risk.exception)}"
    yield "belief", f"in the truth rises from {prior} to at most {_percent(risk.belief)}, {certain}"
    yield "mu-GDP", _gaussian_text(risk)
    yield "assumes", "a worst-case attacker, who knows all other data, sees every step, and computes without limit"


def _facts(risk: Risk, plan: Plan) -> Iterable[tuple[str, str]]:
    """Yield (key, text) of name, advantage, unit, prior, detections, belief and mu, with the keys of the JSON."""
    yield "name", visible(plan.name)
    yield "advantage", rounded_up(risk.advantage)
    yield "kind", "upper"
    yield "unit", visible(plan.unit_name)
    yield "adjacency", str(plan.adjacency)
    yield "group_size", str(plan.group_size)
    yield "prior", as_given(risk.prior)
    for detection in risk.detections:
        yield "detections", _detection_text(detection)
    yield "belief", f"{rounded_up(risk.belief)}, exception {as_given(risk.exception)}"
    yield "gdp", f"mu {rounded_up(risk.mu)} ({FITTED}), misfit {rounded_up(risk.misfit)}"


def _detection_text(detection: Detection) -> str:
    """Return the true positive rates and the posterior at one false positive rate, rounded up."""
    present, absent, posterior = map(rounded_up, (detection.present, detection.absent, detection.posterior))
    rates = f"fpr {as_given(detection.false_positive_rate)}: tpr {present} (absent {absent})"
    missed = min(detection.present_missed, detection.absent_missed)
    few = f", missed at least {rounded_down(missed)}" if 0 < missed < _FEW else ""
    return f"{rates}{few}, posterior {posterior}"


def _detected(share: float, missed: float) -> str:
    """Return the share of what is detected, in percent; where that is 100 to the last digit, what is missed."""
    return f"all but {rounded_down(missed)}" if share >= 1 and missed > 0 else _percent(share)


def _gaussian_text(risk: Risk) -> str:
    """Return the mu of the fitted Gaussian trade-off curve and its misfit, both rounded up."""
    mu, misfit = rounded_up(risk.mu), _percent(risk.misfit)
    fit = f"fitted at deltas from {as_given(risk.exception)} on; its detections are at most {misfit} higher"
    return f"mu ~ {mu} ({FITTED}, {fit})" if risk.mu < float("inf") else "mu is infinite: nothing is hidden"


def _percent(share: float) -> str:
    """Return a probability in percent with its sign, rounded up."""
    return f"{percent_up(share, 1.0)}%"


def risk_json(risk: Risk, loaded: Loaded) -> str:
    """Return the output of `risk --json`: advantage, prior, detections, belief and the fitted mu, with diagnostics.

    Args:
        risk: bounds on the success of membership inference.
        loaded: the config.
    """
    plan = loaded.plan
    fields = {
        "config": config_fields(loaded),
        "risk": {
            "advantage": risk.advantage,
            "kind": "upper",
            "unit": plan.unit_name,
            "adjacency": str(plan.adjacency),
            "group_size": plan.group_size,
            "prior": risk.prior,
            "detections": [
                {
                    "false_positive_rate": detection.false_positive_rate,
                    "true_positive_rate": max(detection.present, detection.absent),
                    "present": detection.present,
                    "absent": detection.absent,
                    "posterior": detection.posterior,
                    "false_negative_rate": min(detection.present_missed, detection.absent_missed),
                }
                for detection in risk.detections
            ],
            "belief": {"probability": risk.belief, "exception": risk.exception},
            "gdp": {
                "mu": finite(risk.mu),
                "finite": finite(risk.mu) is not None,
                "misfit": risk.misfit,
                "kind": FITTED,
            },
        },
        "diagnostics": diagnostic_fields(loaded.diagnostics),
        "config_hash": loaded.config_hash,
    }
    return document("risk", fields)
