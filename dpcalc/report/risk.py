"""The result of `risk`: bounds on the success of membership inference, attribute inference and reconstruction."""

from dpcalc.config.load import Loaded
from dpcalc.planner.risk import Detection, Risk
from dpcalc.report.fields import Field, Output, Section, config_field, origin_fields, terminal_only
from dpcalc.report.guarantees import gdp_field, protects_row, unit_fields
from dpcalc.report.rounding import as_given, percent_up, rounded_down, rounded_up

_FEW = 5e-4  # misses of a true positive rate that is rounded to 1.00


def risk_output(risk: Risk, loaded: Loaded) -> Output:
    """Return the result of `dpcalc risk`: advantage, true positive rates, posteriors, all rounded up.

    Args:
        risk: bounds on the success of membership inference.
        loaded: the config.
    """
    plan, prior = loaded.plan, f"{100 * risk.prior:g}%"
    guessing = f"right in at most {_percent((1 + risk.advantage) / 2)} of cases, where a coin has 50%"
    belief = f"in the truth rises from {prior} to at most {_percent(risk.belief)}, but with probability"
    fields = (
        Field("advantage", risk.advantage, rounding=rounded_up, label="guessing", row=guessing),
        Field("kind", "upper"),
        *unit_fields(plan),
        Field("prior", risk.prior),
        Field(
            "detections",
            [_detection_fields(detection) for detection in risk.detections],
            plain=tuple(map(_detection_text, risk.detections)),
        ),
        *(_detection_row(detection) for detection in risk.detections),
        *(_posterior_row(detection, prior) for detection in risk.detections),
        Field(
            "belief",
            (Field("probability", risk.belief), Field("exception", risk.exception)),
            plain=f"{rounded_up(risk.belief)}, exception {as_given(risk.exception)}",
            label="belief",
            row=f"{belief} {as_given(risk.exception)}",
        ),
        gdp_field(risk.gdp),
        Field(
            "reconstructions",
            [{"baseline": baseline, "success": success} for baseline, success in risk.reconstructions],
            plain=tuple(
                f"baseline {as_given(baseline)}: success {rounded_up(success)}"
                for baseline, success in risk.reconstructions
            ),
            label="inference",
            row=tuple(_reconstruction_text(*each) for each in risk.reconstructions),
        ),
    )
    assumed = "a worst-case attacker, who knows all other data, sees every step, and computes without limit"
    return Output(
        command="risk",
        headline=f"advantage <= {rounded_up(risk.advantage)}   (detections minus false alarms of the best attacker)",
        fields=(
            config_field(loaded),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            Field("risk", fields, is_inline=True),
            terminal_only("assumes", assumed, Section.ASSUMPTIONS),
            *origin_fields(loaded),
        ),
    )


def _detection_fields(detection: Detection) -> dict[str, float]:
    """Return the bounds at one false positive rate for JSON."""
    return {
        "false_positive_rate": detection.false_positive_rate,
        "true_positive_rate": max(detection.present, detection.absent),
        "present": detection.present,
        "absent": detection.absent,
        "posterior": detection.posterior,
        "false_negative_rate": min(detection.present_missed, detection.absent_missed),
    }


def _detection_row(detection: Detection) -> Field:
    """Return the row of a terminal with the true positive rates at one false positive rate."""
    present = _detected(detection.present, detection.present_missed)
    absent = _detected(detection.absent, detection.absent_missed)
    sides = f'{present} of those in the data ("absent": {absent} of those not in it)'
    return terminal_only(f"{100 * detection.false_positive_rate:g}% false alarms", f"detect at most {sides}")


def _posterior_row(detection: Detection, prior: str) -> Field:
    """Return the row of a terminal with the probability that an alarm is right."""
    right = f"is right with probability at most {_percent(detection.posterior)}, where {prior} are in the data"
    return terminal_only(f"alarm at {100 * detection.false_positive_rate:g}%", right)


def _detection_text(detection: Detection) -> str:
    """Return true positive rates and posterior, rounded up, at one false positive rate; few misses rounded down."""
    present, absent, posterior = map(rounded_up, (detection.present, detection.absent, detection.posterior))
    rates = f"fpr {as_given(detection.false_positive_rate)}: tpr {present} (absent {absent})"
    missed = min(detection.present_missed, detection.absent_missed)
    few = f", missed at least {rounded_down(missed)}" if 0 < missed < _FEW else ""
    return f"{rates}{few}, posterior {posterior}"


def _detected(share: float, missed: float) -> str:
    """Return the share of what is detected, in percent; where that is 100 to the last digit, what is missed."""
    return f"all but {rounded_down(missed)}" if share >= 1 and missed > 0 else _percent(share)


def _reconstruction_text(baseline: float, success: float) -> str:
    """Return the bound on attribute inference and reconstruction at one baseline, rounded up."""
    return (
        f"an attribute or record that is guessed in {100 * baseline:g}% of cases without the output is inferred in at "
        f"most {_percent(success)} with it"
    )


def _percent(share: float) -> str:
    """Return a probability in percent with its sign, rounded up."""
    return f"{percent_up(share, 1.0)}%"
