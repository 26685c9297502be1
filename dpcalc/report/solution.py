"""Results of the solvers, of `delta` and `risk`: a solved value as a short decimal on the safe side, and all fields."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from dpcalc.config.load import Loaded
from dpcalc.config.normal import fingerprint
from dpcalc.config.source import visible
from dpcalc.errors import counted
from dpcalc.guarantee import Guarantee
from dpcalc.planner.evaluate import DeltaResult
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.risk import Detection, Risk
from dpcalc.planner.search import Goal, NoSolution, Value
from dpcalc.planner.solve import Solution
from dpcalc.planner.vary import replace_phase, with_epochs, with_level
from dpcalc.planner.words import mechanism_text, other_sums_text, sampling_text, with_thousands_separators
from dpcalc.report.fields import (
    Field,
    Fields,
    Output,
    Section,
    config_field,
    diagnostic_fields,
    json_only,
    origin_fields,
    plain_only,
    terminal_only,
)
from dpcalc.report.guarantees import gdp_field, guarantee_field, method_name, noise_text, protects_row, unit_fields
from dpcalc.report.rounding import (
    BARE_DIGITS,
    as_given,
    percent_up,
    rounded_down,
    rounded_up,
    rounded_up_within,
)
from dpcalc.sampling.schemes import CappedPoisson, CyclicPoisson, Poisson

NOISE = "noise_multiplier"
FACTOR = "noise_multiplier factor"
EPSILON = "epsilon"
_FULL_DIGITS = 17  # significant digits that identify every float


def with_safe_decimal(
    solution: Solution, before: Plan, measure_plan: Callable[[Plan], tuple[float, Guarantee]]
) -> Solution:
    """Return the solution at a decimal of 6, 9 or 17 digits, noise up, rate down, measured again; ints unchanged.

    Args:
        solution: result of a solver.
        before: the plan before the search, whose noise a factor multiplies.
        measure_plan: returns (upper bound on what the goal limits, guarantee) of a plan.

    Returns:
        The solution whose value is exactly the decimal, measured again: six significant digits, nine or seventeen where
        fewer would miss the target; `solution` itself where all would.
    """
    if isinstance(solution.value, int):
        return solution
    # A short decimal is another value than the one found: what is printed beside it is measured for it.
    for digits in (BARE_DIGITS, BARE_DIGITS + 3, _FULL_DIGITS):
        value = _cheaper_decimal(solution.value, digits)
        plan = _with_value(solution, before, value)
        reached, guarantee = (solution.reached, solution.guarantee) if plan == solution.plan else measure_plan(plan)
        if reached <= solution.goal.limit:
            return replace(solution, value=value, plan=plan, guarantee=guarantee, reached=reached)
    return solution


def _cheaper_decimal(value: float | Fraction, digits: int) -> Value:
    """Return a value with that many significant digits, on the side with less epsilon: noise up, a rate down."""
    if isinstance(value, Fraction):
        return Fraction(rounded_down(value, digits=digits))
    return float(rounded_up(value, digits=digits))


def _with_value(solution: Solution, before: Plan, value: Value) -> Plan:
    """Return the solved plan with another value; a factor scales the noise of `before`; fixed epochs set the steps."""
    # A factor multiplies the noise of the plan before the search, exactly: the product of two short decimals is short.
    plan = solution.plan
    if solution.name == FACTOR:
        return replace(plan, phases=tuple(_with_scaled_noise(phase, _exact(value)) for phase in before.phases))
    phase = plan.phases[solution.phase]
    if isinstance(value, float):
        return replace_phase(plan, phase, phase.with_noise(value))
    level = phase.hierarchy.levels[solution.level]
    if isinstance(level.scheme, Poisson | CappedPoisson | CyclicPoisson):
        level = replace(level, scheme=replace(level.scheme, probability=Fraction(value)))
    plan = with_level(plan, phase, solution.level, level)
    return plan if solution.epochs is None else with_epochs(plan, solution.phase, solution.epochs)


def _with_scaled_noise(phase: Phase, factor: Fraction) -> Phase:
    """Return a phase with its noise times a factor; a phase without noise unchanged."""
    noise = phase.noise_multiplier
    return phase if noise is None else phase.with_noise(float(_exact(noise) * factor))


def _exact(value: Value) -> Fraction:
    """Return the shortest decimal that denotes a float, as a fraction; a fraction itself."""
    return value if isinstance(value, Fraction) else Fraction(repr(value))


# The result of a solver, and of `delta`


def solution_output(command: str, solution: Solution, loaded: Loaded, *, written: Sequence[str]) -> Output:
    """Return a solver's result: value, measure reached, `fails_at` (None: nothing beyond fails), solved plan.

    Args:
        command: name of the solver.
        solution: a solution whose value is a short decimal (`with_safe_decimal`).
        loaded: the config before the search.
        written: keys that `--write` changed.

    Returns:
        The measure rounded up within the target, the value that fails rounded away from the solution; the quiet text is
        the value alone.
    """
    goal, plan, guarantee = solution.goal, solution.plan, solution.guarantee
    reached, name = rounded_up_within(solution.reached, goal.limit), measure(goal)
    fails = _failing_value(solution)
    is_epsilon = name == EPSILON
    others, lower = _unchanged_noise_text(solution.name, plan), guarantee.epsilon_lower
    fields = (
        Field("name", solution.name, section=Section.RUN),
        Field("value", _number(solution.value)),
        Field("epsilon", guarantee.epsilon, plain=reached if is_epsilon else ""),
        plain_only(name, "" if is_epsilon else reached),
        Field("target", goal.limit),
        Field("fails_at", None if solution.fails_at is None else _number(solution.fails_at), plain=fails),
        Field("key", solution.key, section=Section.RUN),
        json_only("goal", _goal_fields(goal, solution.reached)),
        Field("held", others or None),
    )
    outcome = (
        Field("solution", fields, section=Section.RUN),
        json_only("best", None),
        guarantee_field(guarantee, epsilon=reached if is_epsilon else rounded_up(guarantee.epsilon)),
        protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
        terminal_only("delta", as_given(guarantee.delta), Section.UNIT),
        terminal_only("held", others, Section.TRAINING),
        terminal_only("accountant", method_name(guarantee.method)),
        terminal_only("lower bound", "" if lower is None else f"epsilon >= {rounded_down(lower)}"),
        terminal_only("guarantee", "" if is_epsilon else f"epsilon <= {rounded_up(guarantee.epsilon)}"),
        terminal_only("target", f"{'' if is_epsilon else f'{goal.name} <= '}{as_given(goal.limit)}", Section.BUDGET),
    )
    bound = f"{label(solution)} {relation(solution.name)} {value_text(solution.value)}"
    failure = f"fails at {fails}" if fails else "nothing beyond it fails"
    return Output(
        command=command,
        headline=f"{bound}   gives {goal.name} <= {reached} ({failure})",
        fields=_solver_fields(outcome, plan, loaded, written),
        quiet_text=f"{value_text(solution.value)}\n",
    )


def no_solution_output(command: str, answer: NoSolution, loaded: Loaded) -> Output:
    """Return the result of a failed search: `solution` null, the target, and the nearest value there is as `best`.

    Args:
        command: name of the solver.
        answer: the goal and the best value there is.
        loaded: the config.
    """
    goal, plan = answer.goal, loaded.plan
    name, value = measure(goal), value_text(answer.best_value)
    # Rounded to the target the best value would seem to meet it.
    reached = rounded_up(answer.best_reached, apart_from=goal.limit)
    others = _unchanged_noise_text(answer.name, plan)
    is_epsilon = name == EPSILON
    best = (
        json_only("name", answer.name),
        Field("value", _number(answer.best_value)),
        Field("epsilon", answer.best_reached if is_epsilon else None, plain=reached if is_epsilon else ""),
        plain_only(name, "" if is_epsilon else reached),
        json_only("target", goal.limit),
        json_only("goal", _goal_fields(goal, answer.best_reached)),
        json_only("held", others or None),
    )
    outcome = (
        json_only("solution", None),
        plain_only("solution.name", answer.name, Section.RUN),
        plain_only("solution.value", "none", Section.RUN),
        plain_only("solution.target", as_given(goal.limit), Section.RUN),
        terminal_only("best", f"{answer.name} {value} gives {goal.name} <= {reached}", Section.RUN),
        Field("best", best),
        json_only("guarantee", None),
        protects_row(plan.unit_name, plan.group_size, plan.adjacency),
        terminal_only("held", others, Section.TRAINING),
        plain_only("solution.held", others),
    )
    missed = f"no value of {answer.name} gives {goal.name} <= {as_given(goal.limit)}"
    return Output(
        command=command,
        headline=f"{missed}   delta = {as_given(plan.delta)}",
        fields=_solver_fields(outcome, None, loaded, ()),
    )


def _solver_fields(outcome: Fields, plan: Plan | None, loaded: Loaded, written: Sequence[str]) -> Fields:
    """Return a solver's fields; steps, phases and hash are those of `plan`, the solved one, or empty for None."""
    # Steps, phases and hash of the solved plan, which `--write` makes of the file: the hash can be checked afterwards.
    phases = () if plan is None else plan.phases
    texts = [_phase_text(phase) for phase in phases]
    named = tuple(f"{visible(phase.name)}: {text}" for phase, text in zip(phases, texts, strict=True))
    rows = tuple(map(with_thousands_separators, named if len(phases) > 1 else texts))
    entries = [
        {
            "name": phase.name,
            "steps": phase.steps,
            "mechanism": mechanism_text(phase),
            "noise_multiplier": phase.noise_multiplier,
            "sampling": sampling_text(phase),
        }
        for phase in phases
    ]
    return (
        config_field(loaded, has_row=plan is not None),
        *outcome,
        Field("steps", None if plan is None else plan.steps, section=Section.TRAINING),
        Field("phases", entries, plain=named, label="training", row=rows, section=Section.TRAINING),
        json_only("written", list(written)),
        json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
        json_only("config_hash", None if plan is None else fingerprint(plan)),
    )


def _goal_fields(goal: Goal, reached: float) -> Fields:
    """Return a goal's measure as a key, its words, the limit, and the upper bound reached, as fields."""
    return (
        Field("measure", measure(goal)),
        Field("words", goal.name),
        Field("limit", goal.limit),
        Field("reached", reached),
    )


def delta_output(answer: DeltaResult, loaded: Loaded) -> Output:
    """Return the result of `dpcalc delta`: the bound on delta rounded up, its lower bound down.

    Args:
        answer: delta at a given epsilon.
        loaded: the config.
    """
    plan = loaded.plan
    delta = rounded_up(answer.delta)
    lower = "" if answer.delta_lower is None else rounded_down(answer.delta_lower)
    guarantee = (
        Field("delta", answer.delta, rounding=rounded_up),
        Field("delta_lower", answer.delta_lower, rounding=rounded_down),
        Field("epsilon", answer.epsilon),
        Field("kind", "upper"),
        *unit_fields(plan),
        Field("method", answer.method, label="accountant", row=method_name(answer.method)),
        Field("direction", answer.direction),
        json_only("notes", list(answer.notes)),
    )
    return Output(
        command="delta",
        headline=f"delta <= {delta}{f'   (at least {lower})' if lower else ''}   epsilon = {as_given(answer.epsilon)}",
        fields=(
            config_field(loaded),
            Field("guarantee", guarantee, section=Section.UNIT, is_inline=True),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            Field("steps", plan.steps, label="steps", section=Section.TRAINING),
            json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
        ),
        quiet_text=f"{rounded_up(answer.delta, digits=BARE_DIGITS)}\n",
    )


def measure(goal: Goal) -> str:
    """Return the measure of a goal as a key: "true positive rate at ..." gives "true_positive_rate"."""
    return goal.name.partition(" at ")[0].replace(" ", "_")


def relation(name: str) -> str:
    """Return the relation of all values that meet the goal to the solution: ">=" for noise, "<=" for anything else."""
    return ">=" if name.startswith(NOISE) else "<="


def label(solution: Solution) -> str:
    """Return the name of a solution's value: its config key, or "noise_multiplier factor"."""
    return solution.name if solution.name == FACTOR else solution.key


def value_text(value: Value) -> str:
    """Return a value as it can be written into a config, unrounded."""
    number = _number(value)
    return str(number) if isinstance(number, int) else as_given(number)


def _failing_value(solution: Solution) -> str:
    """Return the neighbouring value that misses the target, rounded away from the solution; "" where there is none."""
    fails = solution.fails_at
    if fails is None:
        return ""
    # A rate fails above the solution, noise below it. Rounded away from it, the printed value fails as well.
    if isinstance(fails, Fraction):
        return as_given(float(rounded_up(fails, digits=BARE_DIGITS)))
    return str(fails) if isinstance(fails, int) else as_given(float(rounded_down(fails, digits=BARE_DIGITS)))


def _unchanged_noise_text(name: str, plan: Plan) -> str:
    """Return words on the other sums' noise, which a search for noise leaves alone; "" for others, or without sums."""
    # Searches for other quantities (`name`) give "" too.
    # Whoever turns this knob should know that the noise of the other sums stays as it is.
    others = dict.fromkeys(other for phase in plan.phases for other in getattr(phase.mechanism, "also", ()))
    if not others or not name.startswith(NOISE):
        return ""
    return f"the other sums on the same sample, noise multiplier {', '.join(map(as_given, others))}"


def _phase_text(phase: Phase) -> str:
    """Return steps, noise and draws of a phase in words."""
    noise = noise_text(mechanism_text(phase), phase.noise_multiplier, other_sums_text(phase.mechanism))
    return f"{counted(phase.steps, 'step')}, {noise}; {visible(sampling_text(phase))}"


def _number(value: Value) -> int | float:
    """Return an integer unchanged, else a float: rates are short decimals here, which a float represents."""
    return value if isinstance(value, int) else float(value)


# The result of `risk`: bounds on the success of membership inference, attribute inference and reconstruction.

_FEW = 5e-4  # misses of a true positive rate that is rounded to 1.00


def risk_output(risk: Risk, loaded: Loaded) -> Output:
    """Return the result of `dpcalc risk`: advantage, detections, posteriors, belief, mu, inference, rounded up.

    Args:
        risk: bounds on the success of membership inference.
        loaded: the config.
    """
    plan, prior = loaded.plan, f"{100 * risk.prior:g}%"
    # An advantage is hard to read: the share of right guesses among equally likely worlds is (1 + advantage) / 2.
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
    """Return the bounds at one false positive rate as a dict; the true positive rate is the larger of both attacks'."""
    return {
        "false_positive_rate": detection.false_positive_rate,
        "true_positive_rate": max(detection.present, detection.absent),
        "present": detection.present,
        "absent": detection.absent,
        "posterior": detection.posterior,
        "false_negative_rate": min(detection.present_missed, detection.absent_missed),
    }


def _detection_row(detection: Detection) -> Field:
    """Return the terminal's row "N% false alarms": true positive rates of calling units present, and absent."""
    present = _detected(detection.present, detection.present_missed)
    absent = _detected(detection.absent, detection.absent_missed)
    # Two attacks: an alarm says "present" or "absent". The bound of one says nothing about the other.
    sides = f'{present} of those in the data ("absent": {absent} of those not in it)'
    return terminal_only(f"{100 * detection.false_positive_rate:g}% false alarms", f"detect at most {sides}")


def _posterior_row(detection: Detection, prior: str) -> Field:
    """Return the terminal's row "alarm at N%": how probably an alarm is right, where `prior` are in the data."""
    right = f"is right with probability at most {_percent(detection.posterior)}, where {prior} are in the data"
    return terminal_only(f"alarm at {100 * detection.false_positive_rate:g}%", right)


def _detection_text(detection: Detection) -> str:
    """Return "fpr F: tpr T (absent A), posterior P", rounded up, with "missed at least M", rounded down, if M < 5e-4.

    T is of attackers who call a unit present, A of those who call it absent; M is the smaller miss rate of both.
    """
    present, absent, posterior = map(rounded_up, (detection.present, detection.absent, detection.posterior))
    rates = f"fpr {as_given(detection.false_positive_rate)}: tpr {present} (absent {absent})"
    missed = min(detection.present_missed, detection.absent_missed)
    few = f", missed at least {rounded_down(missed)}" if 0 < missed < _FEW else ""
    return f"{rates}{few}, posterior {posterior}"


def _detected(share: float, missed: float) -> str:
    """Return the share of what is detected, in percent; where that is 100 to the last digit, what is missed."""
    # 1 - 1e-9 is 100 % when rounded up, which says less than what is missed.
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
