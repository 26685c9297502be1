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
from dpcalc.report.rounding import BARE_DIGITS, as_given, percent_up, rounded_down, rounded_up, rounded_up_within
from dpcalc.sampling.schemes import CappedPoisson, CyclicPoisson, Poisson

NOISE = "noise_multiplier"
FACTOR = "noise_multiplier factor"
EPSILON = "epsilon"
_FULL_DIGITS = 17  # significant digits that identify every float


def with_safe_decimal(
    solution: Solution, before: Plan, measure_plan: Callable[[Plan], tuple[float, Guarantee]]
) -> Solution:
    """Return the solution at a short decimal that still meets the target; unchanged if an int or if none does.

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
        plan = _plan_at(value, solution, before)
        reached, guarantee = (solution.reached, solution.guarantee) if plan == solution.plan else measure_plan(plan)
        if reached <= solution.goal.limit:
            return replace(solution, value=value, plan=plan, guarantee=guarantee, reached=reached)
    return solution


def _cheaper_decimal(value: float | Fraction, digits: int) -> float | Fraction:
    """Return a value rounded to `digits` digits toward less epsilon: noise (a float) up, a rate (a Fraction) down."""
    if isinstance(value, Fraction):
        return Fraction(rounded_down(value, digits=digits))
    return float(rounded_up(value, digits=digits))


def _plan_at(value: float | Fraction, solution: Solution, before: Plan) -> Plan:
    """Return the solved plan with `value` as the rate or noise of a phase, or as a factor of the noise in `before`."""
    if isinstance(value, Fraction):
        return _plan_with_rate(solution, value)
    if solution.name == FACTOR:
        # The product of two short decimals is short, unlike that of the value with noise that was scaled before.
        return replace(solution.plan, phases=tuple(_with_scaled_noise(phase, value) for phase in before.phases))
    phase = solution.plan.phases[solution.phase]
    return replace_phase(solution.plan, phase, phase.with_noise(value))


def _plan_with_rate(solution: Solution, rate: Fraction) -> Plan:
    """Return the solved plan with another Poisson rate of the solved level; fixed epochs then take other steps."""
    phase = solution.plan.phases[solution.phase]
    level = phase.hierarchy.levels[solution.level]
    if isinstance(level.scheme, Poisson | CappedPoisson | CyclicPoisson):
        level = replace(level, scheme=replace(level.scheme, probability=rate))
    plan = with_level(solution.plan, phase, solution.level, level)
    return plan if solution.epochs is None else with_epochs(plan, solution.phase, solution.epochs)


def _with_scaled_noise(phase: Phase, factor: float) -> Phase:
    """Return a phase with its noise times a factor, both taken as their shortest decimals; unchanged without noise."""
    noise = phase.noise_multiplier
    return phase if noise is None else phase.with_noise(float(Fraction(repr(noise)) * Fraction(repr(factor))))


# The result of a solver, and of `delta`


def solution_output(command: str, solution: Solution, loaded: Loaded, *, written: Sequence[str]) -> Output:
    """Return the result of a solver: the value, its guarantee and the solved plan; the quiet text is the value alone.

    Args:
        command: name of the solver.
        solution: a solution whose value is a short decimal (`with_safe_decimal`).
        loaded: the config before the search.
        written: keys that `--write` changed.

    Returns:
        The measure rounded up within the target, the value that fails rounded away from the solution.
    """
    plan, guarantee = solution.plan, solution.guarantee
    epsilon = _reached_text(solution) if _limits_epsilon(solution.goal) else rounded_up(guarantee.epsilon)
    return Output(
        command=command,
        headline=_solution_headline(solution),
        fields=(
            config_field(loaded),
            Field("solution", _solution_fields(solution), section=Section.RUN),
            json_only("best", None),
            guarantee_field(guarantee, plain_epsilon=epsilon),
            *_guarantee_rows(guarantee),
            terminal_only("held", _unchanged_noise_text(solution.name, plan), Section.TRAINING),
            *_target_rows(solution),
            # Steps, phases and hash are those that `--write` gives the file: the hash can be checked afterwards.
            Field("steps", plan.steps, section=Section.TRAINING),
            _phases_field(plan.phases),
            json_only("written", list(written)),
            json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
            json_only("config_hash", fingerprint(plan)),
        ),
        quiet_text=f"{value_text(solution.value)}\n",
    )


def _reached_text(solution: Solution) -> str:
    """Return what the goal measures at a solution, rounded up to three digits, or the limit where that is smaller."""
    return rounded_up_within(solution.reached, solution.goal.limit)


def _solution_headline(solution: Solution) -> str:
    """Return a line with the solved value, the bound that it reaches, and the value that fails, if any."""
    fails, relation = _failing_value_text(solution), relation_to_solution(solution.name)
    return (
        f"{label(solution)} {relation} {value_text(solution.value)}   gives {solution.goal.name} <= "
        f"{_reached_text(solution)} ({f'fails at {fails}' if fails else 'nothing beyond it fails'})"
    )


def _solution_fields(solution: Solution) -> Fields:
    """Return the fields of `solution`: the value, its key, what it reaches, the target, and the value that fails."""
    goal, fails_at = solution.goal, solution.fails_at
    return (
        Field("name", solution.name, section=Section.RUN),
        Field("value", _number(solution.value)),
        *_reached_fields(goal, solution.guarantee.epsilon, _reached_text(solution)),
        Field("target", goal.limit),
        Field("fails_at", None if fails_at is None else _number(fails_at), plain=_failing_value_text(solution)),
        Field("key", solution.key, section=Section.RUN),
        json_only("goal", _goal_fields(goal, solution.reached)),
        Field("held", _unchanged_noise_text(solution.name, solution.plan) or None),
    )


def _guarantee_rows(guarantee: Guarantee) -> Fields:
    """Return the terminal rows of a guarantee beside its epsilon: unit, delta, accountant, and lower bound, if any."""
    lower = guarantee.epsilon_lower
    return (
        protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
        terminal_only("delta", as_given(guarantee.delta), Section.UNIT),
        terminal_only("accountant", method_name(guarantee.method)),
        terminal_only("lower bound", "" if lower is None else f"epsilon >= {rounded_down(lower)}"),
    )


def _target_rows(solution: Solution) -> Fields:
    """Return the terminal row of the target, after one of epsilon if the target limits something else."""
    target = as_given(solution.goal.limit)
    if _limits_epsilon(solution.goal):
        return (terminal_only("target", target, Section.BUDGET),)
    return (
        terminal_only("guarantee", f"epsilon <= {rounded_up(solution.guarantee.epsilon)}"),
        terminal_only("target", f"{solution.goal.name} <= {target}", Section.BUDGET),
    )


def no_solution_output(command: str, answer: NoSolution, loaded: Loaded) -> Output:
    """Return the result of a failed search: the target and the nearest value, but no guarantee or plan.

    Args:
        command: name of the solver.
        answer: the goal and the best value there is.
        loaded: the config.
    """
    plan, limit = loaded.plan, as_given(answer.goal.limit)
    unchanged_noise = _unchanged_noise_text(answer.name, plan)
    name = Field("name", plan.name, section=Section.RUN)
    return Output(
        command=command,
        headline=f"no value of {answer.name} gives {answer.goal.name} <= {limit}   delta = {as_given(plan.delta)}",
        fields=(
            Field("config", (json_only("path", loaded.path), name), section=Section.RUN, is_inline=True),
            json_only("solution", None),
            plain_only("solution.name", answer.name, Section.RUN),
            plain_only("solution.value", "none", Section.RUN),
            plain_only("solution.target", limit, Section.RUN),
            *_best_fields(answer, unchanged_noise),
            json_only("guarantee", None),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            terminal_only("held", unchanged_noise, Section.TRAINING),
            plain_only("solution.held", unchanged_noise),
            json_only("steps", None),
            json_only("phases", []),
            json_only("written", []),
            json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
            json_only("config_hash", None),
        ),
    )


def _best_fields(answer: NoSolution, unchanged_noise: str) -> Fields:
    """Return the terminal row and the field `best` of the value nearest to the target; no epsilon for another goal."""
    goal = answer.goal
    # Rounded to the target the best value would seem to meet it.
    reached = rounded_up(answer.best_reached, apart_from=goal.limit)
    fields = (
        json_only("name", answer.name),
        Field("value", _number(answer.best_value)),
        *_reached_fields(goal, answer.best_reached if _limits_epsilon(goal) else None, reached),
        json_only("target", goal.limit),
        json_only("goal", _goal_fields(goal, answer.best_reached)),
        json_only("held", unchanged_noise or None),
    )
    text = f"{answer.name} {value_text(answer.best_value)} gives {goal.name} <= {reached}"
    return terminal_only("best", text, Section.RUN), Field("best", fields)


def _reached_fields(goal: Goal, epsilon: float | None, reached_text: str) -> Fields:
    """Return the field `epsilon`, and a plain line with the text, which is named after what the goal limits."""
    if _limits_epsilon(goal):
        return (Field("epsilon", epsilon, plain=reached_text),)
    return json_only("epsilon", epsilon), plain_only(measure(goal), reached_text)


def _phases_field(phases: Sequence[Phase]) -> Field:
    """Return the field `phases`: a JSON dict, plain line and row for each; rows name phases if there are several."""
    texts = [_phase_text(phase) for phase in phases]
    named = tuple(f"{visible(phase.name)}: {text}" for phase, text in zip(phases, texts, strict=True))
    rows = tuple(map(with_thousands_separators, named if len(phases) > 1 else texts))
    entries = [_phase_entry(phase) for phase in phases]
    return Field("phases", entries, plain=named, label="training", row=rows, section=Section.TRAINING)


def _phase_entry(phase: Phase) -> dict[str, object]:
    """Return name, steps, mechanism, noise multiplier and sampling of a phase for JSON."""
    return {
        "name": phase.name,
        "steps": phase.steps,
        "mechanism": mechanism_text(phase),
        "noise_multiplier": phase.noise_multiplier,
        "sampling": sampling_text(phase),
    }


def _goal_fields(goal: Goal, reached: float) -> Fields:
    """Return the fields of a goal: its measure, its name in words, its limit, and the upper bound reached."""
    return (
        Field("measure", measure(goal)),
        Field("words", goal.name),
        Field("limit", goal.limit),
        Field("reached", reached),
    )


def delta_output(answer: DeltaResult, loaded: Loaded) -> Output:
    """Return the result of `dpcalc delta`: bounds on delta, rounded outward; the quiet text is the upper bound alone.

    Args:
        answer: delta at a given epsilon.
        loaded: the config.
    """
    plan = loaded.plan
    lower = "" if answer.delta_lower is None else f"   (at least {rounded_down(answer.delta_lower)})"
    return Output(
        command="delta",
        headline=f"delta <= {rounded_up(answer.delta)}{lower}   epsilon = {as_given(answer.epsilon)}",
        fields=(
            config_field(loaded),
            Field("guarantee", _delta_fields(answer, plan), section=Section.UNIT, is_inline=True),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            Field("steps", plan.steps, label="steps", section=Section.TRAINING),
            json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
        ),
        quiet_text=f"{rounded_up(answer.delta, digits=BARE_DIGITS)}\n",
    )


def _delta_fields(answer: DeltaResult, plan: Plan) -> Fields:
    """Return the fields of a guarantee at a given epsilon, with upper and lower bounds on delta."""
    return (
        Field("delta", answer.delta, rounding=rounded_up),
        Field("delta_lower", answer.delta_lower, rounding=rounded_down),
        Field("epsilon", answer.epsilon),
        Field("kind", "upper"),
        *unit_fields(plan),
        Field("method", answer.method, label="accountant", row=method_name(answer.method)),
        Field("direction", answer.direction),
        json_only("notes", list(answer.notes)),
    )


def measure(goal: Goal) -> str:
    """Return the measure of a goal as a key: "true positive rate at ..." gives "true_positive_rate"."""
    return goal.name.partition(" at ")[0].replace(" ", "_")


def _limits_epsilon(goal: Goal) -> bool:
    """Return True if the goal's measure is epsilon itself, not delta or the success of an attacker."""
    return measure(goal) == EPSILON


def relation_to_solution(name: str) -> str:
    """Return the relation of all values that meet the goal to the solution: ">=" for noise, "<=" for anything else."""
    return ">=" if name.startswith(NOISE) else "<="


def label(solution: Solution) -> str:
    """Return the name of a solution's value: its config key, or "noise_multiplier factor"."""
    return solution.name if solution.name == FACTOR else solution.key


def value_text(value: Value) -> str:
    """Return a value as it can be written into a config, unrounded."""
    number = _number(value)
    return str(number) if isinstance(number, int) else as_given(number)


def _failing_value_text(solution: Solution) -> str:
    """Return the value that misses the target, rounded so that it still misses it; "" if there is none."""
    fails = solution.fails_at
    if fails is None:
        return ""
    # A rate fails above the solution, noise below it. Rounded away from it, the printed value fails as well.
    if isinstance(fails, Fraction):
        return as_given(float(rounded_up(fails, digits=BARE_DIGITS)))
    return str(fails) if isinstance(fails, int) else as_given(float(rounded_down(fails, digits=BARE_DIGITS)))


def _unchanged_noise_text(name: str, plan: Plan) -> str:
    """Return words on the noise of other sums, which a search for noise leaves unchanged; "" in any other search."""
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
    """Return the result of `dpcalc risk`: the advantage as headline and bounds on attacks as fields; no quiet text.

    Args:
        risk: bounds on the success of membership inference.
        loaded: the config.
    """
    plan = loaded.plan
    assumed = "a worst-case attacker, who knows all other data, sees every step, and computes without limit"
    return Output(
        command="risk",
        headline=f"advantage <= {rounded_up(risk.advantage)}   (detections minus false alarms of the best attacker)",
        fields=(
            config_field(loaded),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            Field("risk", _risk_fields(risk, plan), is_inline=True),
            terminal_only("assumes", assumed, Section.ASSUMPTIONS),
            *origin_fields(loaded),
        ),
    )


def _risk_fields(risk: Risk, plan: Plan) -> Fields:
    """Return the fields of `risk`: the prior, and upper bounds on the success of each kind of attack."""
    # An advantage is hard to read: the share of right guesses among equally likely worlds is (1 + advantage) / 2.
    guessing = f"right in at most {_percent((1 + risk.advantage) / 2)} of cases, where a coin has 50%"
    return (
        Field("advantage", risk.advantage, rounding=rounded_up, label="guessing", row=guessing),
        Field("kind", "upper"),
        *unit_fields(plan),
        Field("prior", risk.prior),
        Field(
            "detections",
            [_detection_entry(detection) for detection in risk.detections],
            plain=tuple(map(_detection_text, risk.detections)),
        ),
        *map(_detection_row, risk.detections),
        *(_posterior_row(detection, risk.prior) for detection in risk.detections),
        _belief_field(risk),
        gdp_field(risk.gdp),
        _reconstructions_field(risk.reconstructions),
    )


def _belief_field(risk: Risk) -> Field:
    """Return `belief`: an upper bound on the belief in the truth, and the probability with which it may be exceeded."""
    exception = as_given(risk.exception)
    rise = f"in the truth rises from {100 * risk.prior:g}% to at most {_percent(risk.belief)}"
    return Field(
        "belief",
        (Field("probability", risk.belief), Field("exception", risk.exception)),
        plain=f"{rounded_up(risk.belief)}, exception {exception}",
        label="belief",
        row=f"{rise}, but with probability {exception}",
    )


def _reconstructions_field(pairs: Sequence[tuple[float, float]]) -> Field:
    """Return the field `reconstructions`, with an entry for each pair of a baseline and a bound on success."""
    return Field(
        "reconstructions",
        [{"baseline": baseline, "success": success} for baseline, success in pairs],
        plain=tuple(f"baseline {as_given(baseline)}: success {rounded_up(success)}" for baseline, success in pairs),
        label="inference",
        row=tuple(
            f"an attribute or record that is guessed in {100 * baseline:g}% of cases without the output is inferred "
            f"in at most {_percent(success)} with it"
            for baseline, success in pairs
        ),
    )


def _detection_entry(detection: Detection) -> dict[str, float]:
    """Return the bounds of a detection for JSON, beside them the larger true positive and the smaller miss rate."""
    return {
        "false_positive_rate": detection.false_positive_rate,
        "true_positive_rate": max(detection.present, detection.absent),
        "present": detection.present,
        "absent": detection.absent,
        "posterior": detection.posterior,
        "false_negative_rate": min(detection.present_missed, detection.absent_missed),
    }


def _detection_row(detection: Detection) -> Field:
    """Return the row "N% false alarms" with upper bounds on the true positive rates of both attacks."""
    present = _detected_text(detection.present, detection.present_missed)
    absent = _detected_text(detection.absent, detection.absent_missed)
    # Two attacks: an alarm says "present" or "absent". The bound of one says nothing about the other.
    sides = f'{present} of those in the data ("absent": {absent} of those not in it)'
    return terminal_only(f"{100 * detection.false_positive_rate:g}% false alarms", f"detect at most {sides}")


def _posterior_row(detection: Detection, prior: float) -> Field:
    """Return the terminal's row "alarm at N%": how probably an alarm is right, where a share `prior` is in the data."""
    right = f"is right with probability at most {_percent(detection.posterior)}, where {100 * prior:g}% are in the data"
    return terminal_only(f"alarm at {100 * detection.false_positive_rate:g}%", right)


def _detection_text(detection: Detection) -> str:
    """Return one line with the bounds at a false positive rate; it has the miss rate only if that is small.

    In "tpr T (absent A)", T is of attackers who call a unit present, A of those who call it absent.
    """
    present, absent, posterior = map(rounded_up, (detection.present, detection.absent, detection.posterior))
    rates = f"fpr {as_given(detection.false_positive_rate)}: tpr {present} (absent {absent})"
    missed = min(detection.present_missed, detection.absent_missed)
    few = f", missed at least {rounded_down(missed)}" if 0 < missed < _FEW else ""
    return f"{rates}{few}, posterior {posterior}"


def _detected_text(share: float, missed: float) -> str:
    """Return a share of detected units in percent, rounded up; "all but MISSED" where it is 1 and some are missed."""
    # 1 - 1e-9 is 100 % when rounded up, which says less than what is missed.
    return f"all but {rounded_down(missed)}" if share >= 1 and missed > 0 else _percent(share)


def _percent(share: float) -> str:
    """Return a probability in percent with its sign, rounded up."""
    return f"{percent_up(share, 1.0)}%"
