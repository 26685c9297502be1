"""Results of the solvers, of `delta` and `risk`: a solved value as a short decimal on the safe side, and all fields."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpcalc.config.expand import fingerprint
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import NoSolution, counted
from dpcalc.planner.evaluate import DeltaResult, with_lower_bound
from dpcalc.planner.plan import Plan
from dpcalc.planner.risk import Risk
from dpcalc.planner.solve import Goal, Solution, Value, certified_measure
from dpcalc.planner.vary import replace_phase, with_epochs, with_level
from dpcalc.planner.words import mechanism_text, other_sums_text, sampling_text, with_thousands_separators
from dpcalc.report.guarantees import (
    gdp_json,
    gdp_line,
    gdp_text,
    guarantee_lines,
    method_name,
    noise_text,
    protects_row,
    unit_json,
)
from dpcalc.report.output import (
    BARE_DIGITS,
    Json,
    Output,
    as_given,
    config_json,
    config_output,
    diagnostics_json,
    lines,
    percent_up,
    rounded_down,
    rounded_up,
    rounded_up_within,
)

NOISE = "noise_multiplier"
FACTOR = "noise_multiplier factor"
EPSILON = "epsilon"

# Solvers


def with_safe_decimal(solution: Solution, before: Plan) -> Solution:
    """Return the solution at the shortest decimal (6, 9, 17 digits) that still meets the target, with a lower bound."""
    phase = solution.plan.phases[solution.phase]
    for digits in () if isinstance(solution.value, int) else (BARE_DIGITS, BARE_DIGITS + 3, 17):
        value: float | Fraction
        if isinstance(solution.value, Fraction):  # a rate costs less where it is smaller, noise where it is larger
            value = Fraction(rounded_down(solution.value, digits=digits))
            level = phase.hierarchy.levels[solution.level]
            if level.scheme.amount_key == "rate":
                level = replace(level, scheme=level.scheme.with_amount(value))
            plan = with_level(solution.plan, phase, solution.level, level)
            if solution.epochs is not None:
                plan = with_epochs(plan, solution.phase, solution.epochs)
        else:
            value = float(rounded_up(solution.value, digits=digits))
            if solution.name == FACTOR:
                # The product of two short decimals is short, unlike that of the value with noise scaled before.
                phases, factor = list(before.phases), Fraction(repr(value))
                for at, each in enumerate(phases):
                    if each.noise_multiplier is not None:
                        phases[at] = each.with_noise(float(Fraction(repr(each.noise_multiplier)) * factor))
                plan = replace(solution.plan, phases=tuple(phases))
            else:
                plan = replace_phase(solution.plan, phase, phase.with_noise(value))
        reached, guarantee = solution.reached, solution.guarantee
        if plan != solution.plan:
            reached, guarantee = certified_measure(plan, solution.goal)
        if reached <= solution.goal.limit:
            solution = replace(solution, value=value, plan=plan, guarantee=guarantee, reached=reached)
            break
    return replace(solution, guarantee=with_lower_bound(solution.plan, solution.guarantee))


def solution_output(command: str, solution: Solution, loaded: Loaded, *, written: Sequence[str]) -> Output:
    """Return the result of a solver; steps, phases and hash are those that `--write` gives the file."""
    plan, guarantee, goal = solution.plan, solution.guarantee, solution.goal
    name, value, fails_at = solution.name, solution.value, solution.fails_at
    reached, target = rounded_up_within(solution.reached, goal.limit), as_given(goal.limit)
    held = _unchanged_noise_text(name, plan)
    epsilon = rounded_up(guarantee.epsilon)
    lower = guarantee.epsilon_lower
    goal_fields = _goal_json(goal, solution.reached)
    measure = goal_fields["measure"]
    is_epsilon = measure == EPSILON
    fails = "" if fails_at is None else str(fails_at)
    if isinstance(fails_at, float | Fraction):
        # A rate fails above the solution, noise below it. Rounded away from it, the printed value fails as well.
        rounded = rounded_up if isinstance(fails_at, Fraction) else rounded_down
        fails = as_given(float(rounded(fails_at, digits=BARE_DIGITS)))

    # A JSON dict, plain line and row for each phase; rows name phases if there are several.
    phases, phase_lines, training = [], list[tuple[str, str]](), []
    for phase in plan.phases:
        mechanism = mechanism_text(phase)
        sampling = sampling_text(phase)
        noise = phase.noise_multiplier
        head = {"name": phase.name, "steps": phase.steps, "mechanism": mechanism}
        phases.append(head | {"noise_multiplier": noise, "sampling": sampling})
        noises = noise_text(mechanism, noise, None if phase.calibration else other_sums_text(phase.mechanism))
        text = f"{counted(phase.steps, 'step')}, {noises}; {visible(sampling)}"
        named = f"{visible(phase.name)}: {text}"
        phase_lines.append(("phases", named))
        training.append(("training", with_thousands_separators(named if len(plan.phases) > 1 else text)))

    found: Json = {
        "name": name,
        "value": _number(value),
        "epsilon": guarantee.epsilon,
        "target": goal.limit,
        "fails_at": None if fails_at is None else _number(fails_at),
        "key": solution.key,
        "goal": goal_fields,
        "held": held or None,
    }
    # All values that meet the goal are at least this noise, or at most this of anything else.
    key = name if name == FACTOR else solution.key
    relation = ">=" if name.startswith(NOISE) else "<="
    return Output(
        command=command,
        result={
            "config": config_json(loaded),
            "solution": found,
            "best": None,
            "guarantee": guarantee.to_dict(),
            "steps": plan.steps,
            "phases": phases,
            "written": list(written),
            "diagnostics": diagnostics_json(loaded.diagnostics),
            "config_hash": fingerprint(plan),
        },
        headline=(
            f"{key} {relation} {value_text(value)}   gives {goal.name} <= {reached} "
            f"({f'fails at {fails}' if fails else 'nothing beyond it fails'})"
        ),
        lines=[
            ("name", visible(loaded.plan.name)),
            ("solution.name", name),
            ("solution.key", visible(solution.key)),
            *lines({"value": found["value"]}, "solution."),
            (f"solution.{measure}", reached),
            ("solution.target", target),
            ("solution.fails_at", fails),
            ("solution.held", visible(held)),
            *guarantee_lines(guarantee, epsilon=reached if is_epsilon else epsilon),
            ("steps", str(plan.steps)),
            *phase_lines,
        ],
        rows=[
            ("run", visible(loaded.plan.name)),
            protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
            ("delta", as_given(guarantee.delta)),
            ("held", held),
            *training,
            ("accountant", method_name(guarantee.method)),
            ("lower bound", "" if lower is None else f"epsilon >= {rounded_down(lower)}"),
            ("guarantee", "" if is_epsilon else f"epsilon <= {epsilon}"),
            ("target", target if is_epsilon else f"{goal.name} <= {target}"),
        ],
        quiet_text=f"{value_text(value)}\n",
    )


def no_solution_output(command: str, answer: NoSolution, loaded: Loaded) -> Output:
    plan, goal, limit = loaded.plan, answer.goal, as_given(answer.goal.limit)
    held = _unchanged_noise_text(answer.name, plan)
    goal_fields = _goal_json(goal, answer.best_reached)
    measure = goal_fields["measure"]
    reached = rounded_up(answer.best_reached, apart_from=goal.limit)  # rounded to the target it would seem to meet it
    best = f"{answer.name} {value_text(answer.best_value)} gives {goal.name} <= {reached}"
    value = _number(answer.best_value)
    return Output(
        command=command,
        result={
            "config": config_json(loaded),
            "solution": None,
            "best": {
                "name": answer.name,
                "value": value,
                "epsilon": answer.best_reached if measure == EPSILON else None,
                "target": goal.limit,
                "goal": goal_fields,
                "held": held or None,
            },
            "guarantee": None,
            "steps": None,
            "phases": [],
            "written": [],
            "diagnostics": diagnostics_json(loaded.diagnostics),
            "config_hash": None,
        },
        headline=f"no value of {answer.name} gives {goal.name} <= {limit}   delta = {as_given(plan.delta)}",
        lines=[
            ("name", visible(plan.name)),
            ("solution.name", answer.name),
            ("solution.value", "none"),
            ("solution.target", limit),
            *lines({"value": value}, "best."),
            (f"best.{measure}", reached),
            ("solution.held", held),
        ],
        rows=[
            ("best", best),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            ("held", held),
        ],
    )


def _goal_json(goal: Goal, reached: float) -> Json:
    # The measure as a key: "true positive rate at ..." gives "true_positive_rate".
    measure = goal.name.partition(" at ")[0].replace(" ", "_")
    return {"measure": measure, "words": goal.name, "limit": goal.limit, "reached": reached}


def value_text(value: Value) -> str:
    return str(value) if isinstance(value, int) else as_given(float(value))


def _number(value: Value) -> int | float:
    return value if isinstance(value, int) else float(value)  # rates are short decimals here


def _unchanged_noise_text(name: str, plan: Plan) -> str:
    """Return words on the noise of other sums, which a search for noise leaves unchanged; "" in any other search."""
    others = dict.fromkeys(other for phase in plan.phases for other in getattr(phase.mechanism, "also", ()))
    if not others or not name.startswith(NOISE):
        return ""
    named = ", ".join(as_given(each) if isinstance(each, float) else str(each) for each in others)
    return f"the other sums on the same sample, noise multiplier {named}"


def delta_output(answer: DeltaResult, loaded: Loaded) -> Output:
    plan = loaded.plan
    lower = "" if answer.delta_lower is None else f"   (at least {rounded_down(answer.delta_lower)})"
    guarantee = {
        "delta": answer.delta,
        "delta_lower": answer.delta_lower,
        "epsilon": answer.epsilon,
        "kind": str(plan.bound_kind),
        **unit_json(plan),
        "method": answer.method,
        "direction": answer.direction,
        "notes": list(answer.notes),
    }
    return Output(
        command="delta",
        result={
            "config": config_json(loaded),
            "guarantee": guarantee,
            "steps": plan.steps,
            "diagnostics": diagnostics_json(loaded.diagnostics),
        },
        headline=f"delta <= {rounded_up(answer.delta)}{lower}   epsilon = {as_given(answer.epsilon)}",
        lines=[
            ("name", visible(plan.name)),
            *lines(guarantee, delta=rounded_up, delta_lower=rounded_down, notes=""),
            ("steps", str(plan.steps)),
        ],
        rows=[
            ("run", visible(plan.name)),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            ("steps", str(plan.steps)),
            ("accountant", method_name(answer.method)),
        ],
        quiet_text=f"{rounded_up(answer.delta, digits=BARE_DIGITS)}\n",
    )


def risk_output(risk: Risk, loaded: Loaded) -> Output:
    """Return the result of `dpcalc risk`: upper bounds on membership and attribute inference and reconstruction."""
    plan, prior, exception = loaded.plan, risk.prior, as_given(risk.exception)
    detections = []
    posteriors = list[tuple[str, str]]()
    detection_rows = []
    posterior_rows = []
    for each in risk.detections:
        rate = each.false_positive_rate
        missed = min(each.present_missed, each.absent_missed)
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
        text = f"fpr {as_given(rate)}: tpr {present} (absent {absent}){few}, posterior {posterior}"
        posteriors.append(("detections", text))
        # Two attacks: an alarm says "present" or "absent". The bound of one says nothing about the other.
        # Where a share rounds to 1 and some are missed, these say more.
        here, away = (
            f"all but {rounded_down(missed)}" if share >= 1 and missed > 0 else _percent(share)
            for share, missed in ((each.present, each.present_missed), (each.absent, each.absent_missed))
        )
        sides = f'{here} of those in the data ("absent": {away} of those not in it)'
        detection_rows.append((f"{100 * rate:g}% false alarms", f"detect at most {sides}"))
        right = f"is right with probability at most {_percent(each.posterior)}, where {100 * prior:g}% are in the data"
        posterior_rows.append((f"alarm at {100 * rate:g}%", right))
    inference = (
        "an attribute or record that is guessed in {:g}% of cases without the output is inferred in at most {} with it"
    )
    belief = f"in the truth rises from {100 * prior:g}% to at most {_percent(risk.belief)}"
    result: Json = {
        "advantage": risk.advantage,
        "kind": str(plan.bound_kind),
        **unit_json(plan),
        "prior": prior,
        "detections": detections,
        "belief": {"probability": risk.belief, "exception": risk.exception},
        "gdp": gdp_json(risk.gdp, plan.bound_kind),
        "reconstructions": [{"baseline": baseline, "success": success} for baseline, success in risk.reconstructions],
    }
    return config_output(
        "risk",
        loaded,
        {"risk": result},
        headline=f"advantage <= {rounded_up(risk.advantage)}   (detections minus false alarms of the best attacker)",
        lines=[
            *lines(result, advantage=rounded_up, detections="", belief="", gdp="", reconstructions=""),
            *posteriors,
            ("belief", f"{rounded_up(risk.belief)}, exception {exception}"),
            ("gdp", gdp_line(risk.gdp)),
            *(
                ("reconstructions", f"baseline {as_given(p)}: success {rounded_up(to)}")
                for p, to in risk.reconstructions
            ),
        ],
        rows=[
            ("run", visible(plan.name)),
            protects_row(plan.unit_name, plan.group_size, plan.adjacency),
            # An advantage is hard to read: the share of right guesses among equally likely worlds is (1 + it) / 2.
            ("guessing", f"right in at most {_percent((1 + risk.advantage) / 2)} of cases, where a coin has 50%"),
            *detection_rows,
            *posterior_rows,
            ("belief", f"{belief}, but with probability {exception}"),
            ("mu-GDP", gdp_text(risk.gdp)),
            *(("inference", inference.format(100 * p, _percent(success))) for p, success in risk.reconstructions),
            ("assumes", "a worst-case attacker, who knows all other data, sees every step, and computes without limit"),
        ],
    )


def _percent(share: float) -> str:
    return f"{percent_up(share, 1.0)}%"
