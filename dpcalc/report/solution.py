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
from dpcalc.planner.risk import Risk
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

# Solvers


def with_safe_decimal(
    solution: Solution, before: Plan, measure_plan: Callable[[Plan], tuple[float, Guarantee]]
) -> Solution:
    """Return the solution at a short decimal that still meets the target; unchanged if an int or if none does.

    The decimal is another value than the one found, so that it is measured again: with six significant digits, nine or
    seventeen where fewer would miss the target. A factor multiplies the noise of `before`, the plan before the search.
    """
    if isinstance(solution.value, int):
        return solution
    for digits in (BARE_DIGITS, BARE_DIGITS + 3, 17):
        if isinstance(solution.value, Fraction):  # a rate costs less where it is smaller, noise where it is larger
            value: float | Fraction = Fraction(rounded_down(solution.value, digits=digits))
        else:
            value = float(rounded_up(solution.value, digits=digits))
        plan = _plan_at(value, solution, before)
        reached, guarantee = (solution.reached, solution.guarantee) if plan == solution.plan else measure_plan(plan)
        if reached <= solution.goal.limit:
            return replace(solution, value=value, plan=plan, guarantee=guarantee, reached=reached)
    return solution


def _plan_at(value: float | Fraction, solution: Solution, before: Plan) -> Plan:
    """Return the solved plan with `value` as the rate or noise of a phase, or as a factor of the noise in `before`."""
    plan, phase = solution.plan, solution.plan.phases[solution.phase]
    if isinstance(value, Fraction):
        level = phase.hierarchy.levels[solution.level]
        if isinstance(level.scheme, Poisson | CappedPoisson | CyclicPoisson):
            level = replace(level, scheme=replace(level.scheme, probability=value))
        plan = with_level(plan, phase, solution.level, level)
        return plan if solution.epochs is None else with_epochs(plan, solution.phase, solution.epochs)
    if solution.name != FACTOR:
        return replace_phase(plan, phase, phase.with_noise(value))
    # The product of two short decimals is short, unlike that of the value with noise that was scaled before.
    phases, factor = list(before.phases), Fraction(repr(value))
    for at, each in enumerate(phases):
        if each.noise_multiplier is not None:
            phases[at] = each.with_noise(float(Fraction(repr(each.noise_multiplier)) * factor))
    return replace(plan, phases=tuple(phases))


def solution_output(command: str, solution: Solution, loaded: Loaded, *, written: Sequence[str]) -> Output:
    """Return the result of a solver: the value, its guarantee and the solved plan; the quiet text is the value alone.

    Steps, phases and hash are those that `--write` (of the keys `written`) gives the file: the hash can be checked
    afterwards. The measure is rounded up within the target, the value that fails away from the solution.
    """
    plan, guarantee, goal = solution.plan, solution.guarantee, solution.goal
    name, value, fails_at = solution.name, solution.value, solution.fails_at
    reached, target = rounded_up_within(solution.reached, goal.limit), as_given(goal.limit)
    fails, held = _failing_value_text(fails_at), _unchanged_noise_text(name, plan)
    is_epsilon, lower = measure(goal) == EPSILON, guarantee.epsilon_lower
    epsilon = rounded_up(guarantee.epsilon)
    found = (
        Field("name", name, section=Section.RUN),
        Field("value", _number(value)),
        *_reached_fields(goal, guarantee.epsilon, reached),
        Field("target", goal.limit),
        Field("fails_at", None if fails_at is None else _number(fails_at), plain=fails),
        Field("key", solution.key, section=Section.RUN),
        json_only("goal", _goal_fields(goal, solution.reached)),
        Field("held", held or None),
    )
    return Output(
        command=command,
        headline=(
            f"{label(solution)} {relation_to_solution(name)} {value_text(value)}   gives {goal.name} <= {reached} "
            f"({f'fails at {fails}' if fails else 'nothing beyond it fails'})"
        ),
        fields=(
            config_field(loaded),
            Field("solution", found, section=Section.RUN),
            json_only("best", None),
            guarantee_field(guarantee, plain_epsilon=reached if is_epsilon else epsilon),
            protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
            terminal_only("delta", as_given(guarantee.delta), Section.UNIT),
            terminal_only("accountant", method_name(guarantee.method)),
            terminal_only("lower bound", "" if lower is None else f"epsilon >= {rounded_down(lower)}"),
            terminal_only("held", held, Section.TRAINING),
            terminal_only("guarantee", "" if is_epsilon else f"epsilon <= {epsilon}"),
            terminal_only("target", target if is_epsilon else f"{goal.name} <= {target}", Section.BUDGET),
            Field("steps", plan.steps, section=Section.TRAINING),
            _phases_field(plan.phases),
            json_only("written", list(written)),
            json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
            json_only("config_hash", fingerprint(plan)),
        ),
        quiet_text=f"{value_text(value)}\n",
    )


def no_solution_output(command: str, answer: NoSolution, loaded: Loaded) -> Output:
    """Return the result of a failed search: the target and the nearest value, but no guarantee or plan."""
    plan, goal, limit = loaded.plan, answer.goal, as_given(answer.goal.limit)
    held = _unchanged_noise_text(answer.name, plan)
    reached = rounded_up(answer.best_reached, apart_from=goal.limit)  # rounded to the target it would seem to meet it
    name = Field("name", plan.name, section=Section.RUN)
    best = (
        json_only("name", answer.name),
        Field("value", _number(answer.best_value)),
        *_reached_fields(goal, answer.best_reached if measure(goal) == EPSILON else None, reached),
        json_only("target", goal.limit),
        json_only("goal", _goal_fields(goal, answer.best_reached)),
        json_only("held", held or None),
    )
    best_text = f"{answer.name} {value_text(answer.best_value)} gives {goal.name} <= {reached}"
    return Output(
        command=command,
        headline=f"no value of {answer.name} gives {goal.name} <= {limit}   delta = {as_given(plan.delta)}",
        fields=(
            Field("config", (json_only("path", loaded.path), name), section=Section.RUN, is_inline=True),
            json_only("solution", None),
            plain_only("solution.name", answer.name, Section.RUN),
            plain_only("solution.value", "none", Section.RUN),
            plain_only("solution.target", limit, Section.RUN),
            terminal_only("best", best_text, Section.RUN),
            Field("best", best),
            json_only("guarantee", None),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            terminal_only("held", held, Section.TRAINING),
            plain_only("solution.held", held),
            json_only("steps", None),
            json_only("phases", []),
            json_only("written", []),
            json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
            json_only("config_hash", None),
        ),
    )


def _reached_fields(goal: Goal, epsilon: float | None, text: str) -> Fields:
    """Return the field `epsilon`, and a plain line with the text, which is named after what the goal limits."""
    if measure(goal) == EPSILON:
        return (Field("epsilon", epsilon, plain=text),)
    return json_only("epsilon", epsilon), plain_only(measure(goal), text)


def _goal_fields(goal: Goal, reached: float) -> Fields:
    values = {"measure": measure(goal), "words": goal.name, "limit": goal.limit, "reached": reached}
    return tuple(Field(*each) for each in values.items())


def _phases_field(phases: Sequence[Phase]) -> Field:
    """Return the field `phases`: a JSON dict, plain line and row for each; rows name phases if there are several."""
    entries, named, rows = [], [], []
    for phase in phases:
        mechanism, sampling, noise = mechanism_text(phase), sampling_text(phase), phase.noise_multiplier
        head = {"name": phase.name, "steps": phase.steps, "mechanism": mechanism}
        entries.append(head | {"noise_multiplier": noise, "sampling": sampling})
        noises = noise_text(mechanism, noise, other_sums_text(phase.mechanism))
        text = f"{counted(phase.steps, 'step')}, {noises}; {visible(sampling)}"
        named.append(f"{visible(phase.name)}: {text}")
        rows.append(with_thousands_separators(named[-1] if len(phases) > 1 else text))
    return Field("phases", entries, plain=tuple(named), label="training", row=tuple(rows), section=Section.TRAINING)


def measure(goal: Goal) -> str:
    """Return the measure of a goal as a key: "true positive rate at ..." gives "true_positive_rate"."""
    return goal.name.partition(" at ")[0].replace(" ", "_")


def relation_to_solution(name: str) -> str:
    """Return the relation of all values that meet the goal to the solution: ">=" for noise, "<=" for anything else."""
    return ">=" if name.startswith(NOISE) else "<="


def label(solution: Solution) -> str:
    """Return the name of a solution's value: its config key, or "noise_multiplier factor"."""
    return solution.name if solution.name == FACTOR else solution.key


def value_text(value: Value) -> str:
    """Return a value as it can be written into a config, unrounded."""
    return str(value) if isinstance(value, int) else as_given(float(value))


def _number(value: Value) -> int | float:
    return value if isinstance(value, int) else float(value)  # rates are short decimals here


def _failing_value_text(fails: Value | None) -> str:
    """Return the value that misses the target, rounded so that it still misses it; "" if there is none."""
    if fails is None or isinstance(fails, int):
        return "" if fails is None else str(fails)
    # A rate fails above the solution, noise below it. Rounded away from it, the printed value fails as well.
    rounded = rounded_up if isinstance(fails, Fraction) else rounded_down
    return as_given(float(rounded(fails, digits=BARE_DIGITS)))


def _unchanged_noise_text(name: str, plan: Plan) -> str:
    """Return words on the noise of other sums, which a search for noise leaves unchanged; "" in any other search."""
    others = dict.fromkeys(other for phase in plan.phases for other in getattr(phase.mechanism, "also", ()))
    if not others or not name.startswith(NOISE):
        return ""
    return f"the other sums on the same sample, noise multiplier {', '.join(map(as_given, others))}"


# `delta`


def delta_output(answer: DeltaResult, loaded: Loaded) -> Output:
    """Return the result of `dpcalc delta`: bounds on delta, rounded outward; the quiet text is the upper one alone."""
    plan = loaded.plan
    lower = "" if answer.delta_lower is None else f"   (at least {rounded_down(answer.delta_lower)})"
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
        headline=f"delta <= {rounded_up(answer.delta)}{lower}   epsilon = {as_given(answer.epsilon)}",
        fields=(
            config_field(loaded),
            Field("guarantee", guarantee, section=Section.UNIT, is_inline=True),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            Field("steps", plan.steps, label="steps", section=Section.TRAINING),
            json_only("diagnostics", diagnostic_fields(loaded.diagnostics)),
        ),
        quiet_text=f"{rounded_up(answer.delta, digits=BARE_DIGITS)}\n",
    )


# `risk`: membership inference, attribute inference and reconstruction


def risk_output(risk: Risk, loaded: Loaded) -> Output:
    """Return the result of `dpcalc risk`: the advantage as headline and upper bounds on attacks as fields."""
    plan, prior = loaded.plan, risk.prior
    detections, detection_texts, detection_rows, posterior_rows = [], [], [], []
    for each in risk.detections:
        rate, missed = each.false_positive_rate, min(each.present_missed, each.absent_missed)
        detections.append(
            {
                "false_positive_rate": rate,
                "true_positive_rate": max(each.present, each.absent),
                "present": each.present,
                "absent": each.absent,
                "posterior": each.posterior,
                "false_negative_rate": missed,
            }
        )
        present, absent, posterior = map(rounded_up, (each.present, each.absent, each.posterior))
        few = f", missed at least {rounded_down(missed)}" if 0 < missed < 5e-4 else ""  # where `present` rounds to 1.00
        detection_texts.append(f"fpr {as_given(rate)}: tpr {present} (absent {absent}){few}, posterior {posterior}")
        # Two attacks: an alarm says "present" or "absent". The bound of one says nothing about the other.
        here, away = _detected(each.present, each.present_missed), _detected(each.absent, each.absent_missed)
        sides = f'{here} of those in the data ("absent": {away} of those not in it)'
        detection_rows.append(terminal_only(f"{100 * rate:g}% false alarms", f"detect at most {sides}"))
        right = f"is right with probability at most {_percent(each.posterior)}, where {100 * prior:g}% are in the data"
        posterior_rows.append(terminal_only(f"alarm at {100 * rate:g}%", right))
    exception = as_given(risk.exception)
    belief = f"in the truth rises from {100 * prior:g}% to at most {_percent(risk.belief)}"
    baselines = [{"baseline": baseline, "success": success} for baseline, success in risk.reconstructions]
    # An advantage is hard to read: the share of right guesses among equally likely worlds is (1 + advantage) / 2.
    guessing = f"right in at most {_percent((1 + risk.advantage) / 2)} of cases, where a coin has 50%"
    fields = (
        Field("advantage", risk.advantage, rounding=rounded_up, label="guessing", row=guessing),
        Field("kind", "upper"),
        *unit_fields(plan),
        Field("prior", prior),
        Field("detections", detections, plain=tuple(detection_texts)),
        *detection_rows,
        *posterior_rows,
        Field(
            "belief",
            (Field("probability", risk.belief), Field("exception", risk.exception)),
            plain=f"{rounded_up(risk.belief)}, exception {exception}",
            label="belief",
            row=f"{belief}, but with probability {exception}",
        ),
        gdp_field(risk.gdp),
        Field(
            "reconstructions",
            baselines,
            plain=tuple(f"baseline {as_given(p)}: success {rounded_up(to)}" for p, to in risk.reconstructions),
            label="inference",
            row=tuple(
                f"an attribute or record that is guessed in {100 * p:g}% of cases without the output is inferred in at "
                f"most {_percent(success)} with it"
                for p, success in risk.reconstructions
            ),
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


def _detected(share: float, missed: float) -> str:
    """Return a share of detected units in percent, rounded up; "all but MISSED" where it is 1 and some are missed."""
    return f"all but {rounded_down(missed)}" if share >= 1 and missed > 0 else _percent(share)


def _percent(share: float) -> str:
    return f"{percent_up(share, 1.0)}%"
