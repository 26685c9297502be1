"""Python interface of dpcalc: `load` or `plan` a training run, compute `epsilon`, `solve` for a setting."""

import json
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from numbers import Integral, Rational
from typing import Literal, Never

from dpcalc.config.files import config_folder
from dpcalc.config.flags import load_from_flags, missing_flags
from dpcalc.config.load import Loaded, load_text
from dpcalc.config.load import load as load_config
from dpcalc.config.overrides import FLAGS, Overrides
from dpcalc.config.scalars import decimal_text, parse_number, parse_quotient
from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.config.vocabulary import key_suggestion
from dpcalc.errors import InputError
from dpcalc.guarantee import Guarantee
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import guarantee, with_lower_bound
from dpcalc.planner.plan import Plan
from dpcalc.planner.search import EpsilonGoal
from dpcalc.planner.solve import Solution, certified_measure
from dpcalc.planner.solve import solve as solved
from dpcalc.planner.vary import first_steps
from dpcalc.report.solution import with_safe_decimal

MAPPING = "<mapping>"  # the name in messages of a config that is no file
NO_NOISE = "mechanism.noise_multiplier=0"
Source = Plan | str | os.PathLike[str] | Mapping[str, object]
Number = float | Fraction | str
"""A float means the decimal that it prints as; a text is read by the rules of config files."""


def load(
    path: str | os.PathLike[str] | Mapping[str, object],
    *,
    key: str = "",
    unit: str | None = None,
    group_size: int | None = None,
) -> Plan:
    """Return the plan in a config file, read by the rules of the command line.

    Args:
        path: file name, "-" is standard input; or the content of a config, as a mapping of mappings.
        key: dotted path of the section that is the config; "" for a `dpcalc:` section or else the whole file.
        unit: name of the level whose units are protected; the config's own by default.
        group_size: units that are protected together, >= 1; the config's own by default.

    Returns:
        The plan, frozen; `dataclasses.replace` returns a changed copy. Warnings of the config, such as a delta that
        protects nobody, are issued as `UserWarning`.

    Raises:
        ConfigError: the file cannot be used; the text holds all errors, each with its line, column and way out.
    """
    return _plan_with_warnings(_loaded(path, key, unit=unit, group_size=group_size))


def plan(  # noqa: PLR0913  one for each thing that can vary
    *,
    delta: Number,
    noise_multiplier: Number | None = None,
    steps: Number | None = None,
    epochs: Number | None = None,
    sample_rate: Number | None = None,
    batch_size: Number | None = None,
    dataset_size: Number | None = None,
    scheme: str = "poisson",
    adjacency: str = "add-remove",
    group_size: int | None = None,
    method: str = "auto",
    **unknown: Never,
) -> Plan:
    """Return the plan of a run with one level of examples, from the numbers that the command line takes as options.

    Args:
        delta: in (0, 1).
        noise_multiplier: noise standard deviation / clip norm of one step, >= 0. With 0 or None epsilon is infinite;
            `solve` finds a value.
        steps: number of noisy updates, a whole number; either this or `epochs`.
        epochs: passes over the data, > 0, rounded up to whole steps.
        sample_rate: probability in (0, 1] with which a Poisson step draws an example; exact, as a fraction too.
        batch_size: examples drawn in a step; for Poisson sampling the expected number.
        dataset_size: number of examples; required with `batch_size`.
        scheme: "poisson", "fixed", "with-replacement", "shuffle" or "all".
        adjacency: "add-remove", "replace-one" or "zero-out".
        group_size: examples that are protected together, >= 1 (the default), at most `dataset_size`.
        method: the accountant; "auto" is the tightest valid one.
        unknown: none; the error for any other argument has the name that dpcalc uses.

    Returns:
        The plan, frozen; warnings are issued like those of `load`.

    Raises:
        TypeError: there is no argument of that name.
        InputError: a number is missing.
        ConfigError: numbers are out of range or contradict each other; the text holds all errors, each with its name.

    Example:
        >>> plan(sample_rate=0.01, noise_multiplier=1.0, steps=1000, delta=1e-5).steps
        1000
        >>> plan(batch_size=256, dataset_size=60_000, epochs=60, noise_multiplier=1.1, delta=1e-5).steps
        14063
    """
    for name in unknown:
        raise TypeError(_unknown_argument_message(name))
    given = {
        "--adjacency": adjacency,
        "--method": method,
        "--scheme": scheme,
        "--group-size": group_size,
        "--sample-rate": sample_rate,
        "--batch-size": batch_size,
        "--dataset-size": dataset_size,
        "--steps": steps,
        "--epochs": epochs,
        "--noise-multiplier": noise_multiplier,
        "--delta": delta,
    }
    flags = tuple((flag, _option_text(value)) for flag, value in given.items() if value is not None)
    overrides = Overrides(flags=flags, assumed=() if noise_multiplier is not None else (NO_NOISE,))
    if missing := missing_flags(overrides):
        raise InputError(_with_argument_names(f"plan: expected {' and '.join(missing)} too, got none; add it"))
    try:
        loaded = load_from_flags(overrides)
        noiseless = "DPC207" if noise_multiplier is None else ""  # it is yet to be found
        return _plan_with_warnings(
            replace(loaded, diagnostics=tuple(finding for finding in loaded.diagnostics if finding.code != noiseless))
        )
    except ConfigError as cause:
        raise ConfigError(map(_about_argument, cause.diagnostics)) from None


def epsilon(  # noqa: PLR0913  one for each thing that can vary
    plan: Source,
    *,
    steps: int | None = None,
    delta: float | None = None,
    method: str | None = None,
    unit: str | None = None,
    group_size: int | None = None,
) -> Guarantee:
    """Return the certified upper bound on epsilon of a plan, or of its first steps.

    Args:
        plan: of `load` or `plan`; or a path or mapping for `load`.
        steps: number of noisy updates from the start of the run, 0 to all; None for the whole run.
        delta: in (0, 1); the plan's own by default.
        method: an accountant's name or "auto"; the plan's own by default.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        The guarantee that `dpcalc epsilon` prints, unrounded. Its `epsilon` is an upper bound for every data set
        (natural logarithm), 0 after no steps, `inf` without noise. Its `epsilon_lower` is a certified lower bound, None
        with `steps` (it would take longer) or if epsilon is infinite.

    Raises:
        InputError: the plan has fewer steps, or there is no such accountant, level or group.
        ConvergenceError: there is no certified answer.

    Note:
        Epsilon after step t holds for a run whose length does not depend on the data: fixed beforehand, or ended by
        the value of this function. The length of a run that ends at a good validation score reveals something about
        the data; claim the epsilon of the longest run that was possible.

    Example:
        >>> run = plan(sample_rate=0.01, noise_multiplier=1.0, steps=1000, delta=1e-5)
        >>> epsilon(run, steps=0).epsilon
        0.0
        >>> epsilon(run, steps=500).epsilon < epsilon(run).epsilon
        True
    """
    run = _plan_of(plan, unit=unit, group_size=group_size)
    run = run if delta is None else replace(run, delta=delta)
    if steps is not None:
        return guarantee(first_steps(run, steps), method=method)
    composition = composed(run)
    upper = guarantee(composition, method=method)
    return with_lower_bound(composition, upper) if upper.finite else upper


def solve(  # noqa: PLR0913  one for each thing that can vary
    plan: Source,
    quantity: Literal["sigma", "steps", "rate", "batch", "group"],
    *,
    target_epsilon: float | None = None,
    phase: str | None = None,
    epochs: Number | None = None,
    unit: str | None = None,
    group_size: int | None = None,
) -> Solution:
    """Return the cheapest value of one quantity with which a plan keeps to an epsilon.

    Args:
        plan: as for `epsilon`; its own value of the quantity is ignored.
        quantity: "sigma", "steps", "rate", "batch" (a whole number of units, expected under Poisson sampling) or
            "group".
        target_epsilon: finite, > 0; the plan's budget by default.
        phase: the only phase to change; without it the noise of all phases is scaled by one factor, and the others
            need a plan of one phase.
        epochs: passes over the data that the phase makes with any rate or batch; None keeps its steps.
        unit: name of the level whose units are protected; the plan's own by default.
        group_size: units that are protected together, >= 1; the plan's own by default.

    Returns:
        The solution: `value` is the smallest noise or the largest number of steps, rate, batch or group, rounded to the
        safe side; `fails_at` is a value close to it that exceeds the target; `plan` has the value, and `guarantee` is
        the upper bound of that plan.

    Raises:
        NoSolution: no value meets the target; the error has the best one.
        InputError: there is no such quantity, phase or target.
        ConvergenceError: there is no certified answer.

    Example:
        >>> run = plan(sample_rate=0.004, noise_multiplier=1.0, steps=14_000, delta=1e-5)
        >>> found = solve(run, "sigma", target_epsilon=2)
        >>> found.guarantee.epsilon <= 2 and found.value == found.plan.phases[0].noise_multiplier
        True
    """
    run = _plan_of(plan, unit=unit, group_size=group_size)
    if target_epsilon is None:
        if run.budget is None:
            raise InputError("target_epsilon: expected a number > 0, got none, and the plan has no budget; give one")
        target_epsilon = run.budget.epsilon
    goal = EpsilonGoal(limit=target_epsilon)
    passes = None if epochs is None else _positive_fraction(epochs, "epochs")
    solution = solved(run, quantity, goal=goal, phase=phase, epochs=passes)
    solution = with_safe_decimal(solution, run, lambda changed: certified_measure(changed, goal))
    return replace(solution, guarantee=with_lower_bound(solution.plan, solution.guarantee))


def _plan_of(source: Source, *, unit: str | None, group_size: int | None) -> Plan:
    """Return the plan that a caller passes, or the one that `load` reads."""
    if isinstance(source, Plan):
        return _with_unit_and_group(source, unit, group_size)
    if isinstance(source, str | os.PathLike | Mapping):
        return _plan_with_warnings(_loaded(source, unit=unit, group_size=group_size), above=1)
    raise InputError(f"plan: expected a plan of `load` or `plan`, or the path of a config, got {source!r}")


def _with_unit_and_group(plan: Plan, unit: str | None, group_size: int | None) -> Plan:
    """Return a plan with another protected level or group size; raise InputError if it has no such level or group."""
    if unit is not None:
        names = [level.name for level in plan.phases[0].hierarchy.levels]
        if unit not in names:
            raise InputError(f"unit: expected one of {', '.join(names)}, got {unit!r}")
        plan = replace(plan, unit=names.index(unit) + 1)
    if group_size is None:
        return plan
    if isinstance(group_size, bool) or not isinstance(group_size, Integral):
        raise InputError(f"group_size: expected a whole number >= 1, got {group_size!r}")
    level = plan.phases[0].hierarchy.level(plan.unit)
    if level.is_assumed and group_size > level.count:
        raise InputError(
            f"dataset_size: expected it beside a group of {group_size}, got a rate alone; state it in `plan`"
        )
    return replace(plan, group_size=int(group_size))


def _loaded(
    path: str | os.PathLike[str] | Mapping[str, object],
    key: str = "",
    *,
    unit: str | None = None,
    group_size: int | None = None,
) -> Loaded:
    """Return a config from a file or a mapping."""
    given = {"--unit": None if unit is None else json.dumps(unit), "--group-size": group_size}
    overrides = Overrides(
        flags=tuple((flag, _option_text(value)) for flag, value in given.items() if value is not None)
    )
    try:
        if isinstance(path, Mapping):
            text = json.dumps(path, default=_as_json)
            return load_text(text, path=MAPPING, key=key, overrides=overrides, files=config_folder("-"))
        return load_config(os.fspath(path), key=key, overrides=overrides)
    except ConfigError as cause:
        raise ConfigError(map(_about_argument, cause.diagnostics)) from None


def _unknown_argument_message(name: str) -> str:
    """Return the message for an argument that `plan` does not have, with the name that dpcalc uses."""
    meant = key_suggestion("", name).key
    ours = {"rate": "sample_rate", "examples": "dataset_size", "expected": "batch_size", "size": "batch_size"}
    argument = ours.get(meant, meant)
    known = argument in {_with_argument_names(flag) for flag in FLAGS} - {"unit"}  # there is one level
    more = f"; dpcalc calls this {argument}" if known else "; a config says more, e.g. `load({...})`"
    return f"plan() got an unexpected keyword argument {name!r}{more}"


def _as_json(value: object) -> object:
    """Return a value that JSON does not know as a config states it: fractions as quotients, other numbers as floats."""
    if isinstance(value, Rational) and value.denominator == 1:
        return int(value.numerator)
    if isinstance(value, Rational):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    try:
        return float(value)  # type: ignore[arg-type]  # what is no number is refused
    except (TypeError, ValueError):
        raise InputError(f"config: expected words, numbers, lists and mappings, got {value!r}") from None


def _plan_with_warnings(loaded: Loaded, *, above: int = 0) -> Plan:
    """Return the plan of a config, and issue its warnings at the caller's caller, or `above` frames further up."""
    for finding in loaded.diagnostics:
        if finding.severity is Severity.WARNING:
            warnings.warn(_about_argument(finding).format(), stacklevel=3 + above)
    return loaded.plan


def _option_text(value: Number) -> str:
    """Return a number as the text of an option; a fraction that is no finite decimal as a quotient."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Rational):
        return repr(float(value))
    exact = Fraction(value)
    return decimal_text(exact) or f"{exact.numerator}/{exact.denominator}"


def _positive_fraction(value: Number, name: str) -> Fraction:
    """Return an argument > 0 as an exact fraction; raise InputError for anything else."""
    number = parse_number(_option_text(value)) or parse_quotient(_option_text(value))
    if number is None or number <= 0:
        raise InputError(f"{name}: expected a number > 0, got {value!r}")
    return number


def _about_argument(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic about an option as one about the argument of the same name; any other unchanged."""
    if diagnostic.path not in FLAGS:
        return diagnostic
    message, hint = _with_argument_names(diagnostic.message), _with_argument_names(diagnostic.hint)
    return replace(
        diagnostic, path=_with_argument_names(diagnostic.path), line=None, column=None, message=message, hint=hint
    )


def _with_argument_names(text: str) -> str:
    """Return a text with the names of arguments in the place of options."""
    return re.sub("--[a-z-]+", lambda at: at[0][2:].replace("-", "_") if at[0] in FLAGS else at[0], text)
