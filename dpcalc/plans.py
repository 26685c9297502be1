"""Plans in Python: from files, mappings or numbers, and from objects of other libraries, read for numbers alone."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeVar

from dpcalc.config.expand import FLAGS, SCHEME_QUESTION, Overrides, missing_flags
from dpcalc.config.files import config_folder
from dpcalc.config.load import load as load_config
from dpcalc.config.load import load_from_flags, load_text
from dpcalc.config.messages import Beside, key_suggestion, meaning, nearest
from dpcalc.config.scalars import decimal_text, parse_number, parse_quotient
from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.errors import InputError, one_of, require_whole
from dpcalc.guarantee import Adjacency
from dpcalc.imports.calls import CALLS, accountant_run, call_run, event_run
from dpcalc.imports.read import imported
from dpcalc.imports.run import Call, Expression, ImportedRun, Terms, number_text, plain_value
from dpcalc.planner.plan import Plan
from dpcalc.sampling.schemes import SummedPoisson

MAPPING = "<mapping>"  # the name in messages of a config that is no file
NO_NOISE = "mechanism.noise_multiplier=0"
_OUR_ARGUMENTS = {
    "rate": "sample_rate",
    "examples": "dataset_size",
    "expected": "batch_size",
    "size": "batch_size",
    "epsilon": "target_epsilon",
}
_ELSEWHERE = {
    "max_grad_norm": "epsilon does not depend on the clip norm: leave it out; noise_multiplier is relative to it",
    "data_loader": "say what it draws: sample_rate=Fraction(1, len(loader)) under Opacus",
}
"""Way out for arguments of other tools that no argument of ours stands for."""
Result = TypeVar("Result")
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
    """Return the plan of a config file or mapping, and issue its warnings; ConfigError if it cannot be used.

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
    if not isinstance(path, str | os.PathLike | Mapping):
        raise InputError(f"path: expected the name of a config file, or a mapping, got {path!r}")
    given = {"--unit": None if unit is None else json.dumps(unit), "--group-size": group_size}
    return _read(path, Overrides(flags=_flags(given)), key)


def plan(
    *,
    delta: Number,
    levels: Mapping[str, object] | None = None,
    sampling: Mapping[str, object] | None = None,
    unit: str | None = None,
    clip: str | None = None,
    noise_multiplier: Number | Mapping[str, object] | None = None,
    steps: Number | None = None,
    epochs: Number | None = None,
    sample_rate: Number | None = None,
    batch_size: Number | None = None,
    dataset_size: Number | None = None,
    scheme: str | None = None,
    adjacency: str = "add-remove",
    group_size: int | None = None,
    method: str = "auto",
) -> Plan:
    """Return a plan of one level, or of nested `levels`, from its numbers, and issue warnings; InputError if wrong.

    Args:
        delta: of the guarantee, in (0, 1), e.g. 1e-5.
        levels: of nested data, outermost first, the count of each: `{"user": 1000, "example": 20}`, or `{"min": 5,
            "max": 64}` in the place of a count. By default one level of examples, of `dataset_size`.
        sampling: with `levels`, how a step draws from each: `{"user": {"scheme": "poisson", "rate": 0.01}}`.
        unit: with `levels`, the protected one.
        clip: with `levels`, the one whose vectors are clipped; by default the last.
        noise_multiplier: noise standard deviation / clip norm of one step, >= 0. With 0 or None epsilon is infinite;
            `solve` finds a value. Or what a library was asked that found it: `{"calibrated_to": {"epsilon": 8}, "by":
            "opacus.prv", "assuming": {"rate": "1/235", "steps": 14_100}}`; then all that is said is conditional.
        steps: number of noisy updates, a whole number; either this or `epochs`.
        epochs: passes over the data, > 0, rounded up to whole steps.
        sample_rate: probability in (0, 1] with which a Poisson step draws an example; exact, as a fraction too.
        batch_size: examples drawn in a step; for Poisson sampling the expected number.
        dataset_size: number of examples; required with `batch_size`.
        scheme: how the loader draws: "shuffle" (a pass through shuffled data), "poisson" (a coin for each example),
            "fixed" (so many afresh in each step), "with-replacement", "all" or "any-order" (draw everything); required
            with `batch_size`, while a `sample_rate` alone is that of Poisson sampling. "balls-in-bins",
            "random-allocation", "cyclic-poisson" and "loader" have keys of their own: state them in `sampling`.
        adjacency: "add-remove", "replace-one" or "zero-out".
        group_size: examples that are protected together, >= 1 (the default), at most `dataset_size`.
        method: the accountant; "auto" is the tightest valid one.

    Returns:
        The plan, frozen; warnings are issued like those of `load`.

    Raises:
        TypeError: there is no argument of that name, or delta is missing; the error has the name that dpcalc uses.
        InputError: a number is missing.
        ConfigError: numbers are out of range or contradict each other; the text holds all errors, each with its name.

    Example:
        >>> plan(sample_rate=0.01, noise_multiplier=1.0, steps=1000, delta=1e-5).steps
        1000
        >>> plan(scheme="fixed", batch_size=256, dataset_size=60_000, epochs=60, noise_multiplier=1.1, delta=1e-5).steps
        14063
    """
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
    has_noise = noise_multiplier is not None
    if levels is not None or sampling is not None:
        for name, section in (("levels", levels or {}), ("sampling", sampling or {})):
            if not isinstance(section, Mapping):
                raise InputError(f"{name}: expected a mapping with a key for each level, got {section!r}")
        for option in ("--sample-rate", "--batch-size", "--dataset-size", "--scheme"):
            if given[option] is not None:
                argument = _with_argument_names(option)
                raise InputError(f"plan: expected {argument} in `levels` or `sampling`, got it beside them; move it")
        config = {
            "version": 1,
            "data": {"levels": [{"name": name, "count": count} for name, count in (levels or {}).items()]},
            "sampling": sampling or {},
            "mechanism": {"noise_multiplier": noise_multiplier if has_noise else 0, "clip": clip},
            "training": {"steps": steps, "epochs": epochs},
            "privacy": {"unit": unit, "adjacency": adjacency, "delta": delta, "group_size": group_size},
            "accounting": {"method": method},
        }
        return _read(_stated(config), Overrides(), warns_of_noise=has_noise)
    if unit is not None or clip is not None:
        raise InputError("plan: expected `levels` beside `unit` or `clip`, got none; without them there is one level")
    overrides = Overrides(flags=_flags(given), assumed=() if has_noise else (NO_NOISE,))
    if missing := missing_flags(overrides):
        question = f"; {SCHEME_QUESTION}" if "--scheme" in missing else ""
        told = f"plan: expected {' and '.join(missing)} too, got none; add it{question}"
        if "--set" in told:  # an amount of a scheme that no argument states
            key = missing[0].removeprefix("--set ").removesuffix("=N").rpartition(".")[2]
            told = (
                f"plan: expected {key} of {scheme}, which is no argument; give levels={{'example': N}}, "
                f"sampling={{'example': {{'scheme': {scheme!r}, {key!r}: N}}}} and unit='example'"
            )
        raise InputError(_with_argument_names(told))
    return _read(None, overrides, warns_of_noise=has_noise)


def _read(
    source: str | os.PathLike[str] | Mapping[str, object] | None,
    overrides: Overrides,
    key: str = "",
    *,
    warns_of_noise: bool = True,
) -> Plan:
    """Return the plan of a file, a mapping, or options alone, and issue its warnings; InputError if it is wrong.

    Errors and warnings speak of arguments in the place of options. Zero noise is worth one only if it was stated.
    """
    try:
        if source is None:
            loaded = load_from_flags(overrides)
        elif isinstance(source, Mapping):
            text = json.dumps(source, default=_as_json)
            loaded = load_text(text, path=MAPPING, key=key, overrides=overrides, files=config_folder("-"))
        else:
            loaded = load_config(os.fspath(source), key=key, overrides=overrides)
    except ConfigError as cause:
        raise ConfigError(map(_about_argument, cause.diagnostics)) from None
    # At the user's line: the first one outside of dpcalc.
    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "dpcalc":
        level, frame = level + 1, frame.f_back
    for finding in loaded.diagnostics:
        if finding.severity is Severity.WARNING and (warns_of_noise or finding.code != "DPC207"):
            warnings.warn(_about_argument(finding).format(), stacklevel=level)
    return loaded.plan


def _stated(section: Mapping[str, object]) -> dict[str, object]:
    """Return a mapping and those in it without what is None."""
    pairs = ((key, _stated(value) if isinstance(value, Mapping) else value) for key, value in section.items())
    return {key: value for key, value in pairs if value is not None}


def _flags(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (option, text) of each value that is not None, as a command line would have them; or InputError."""
    return tuple((flag, _option_text(value, flag)) for flag, value in given.items() if value is not None)


def plan_of(source: Source, *, unit: str | None, group_size: int | None) -> Plan:
    """Return a plan, loaded with warnings if need be, with unit and group size if stated; InputError if it is none."""
    if isinstance(source, str | os.PathLike | Mapping):
        return load(source, unit=unit, group_size=group_size)
    if not isinstance(source, Plan):
        raise InputError(f"plan: expected a plan of `load` or `plan`, or the path of a config, got {source!r}")
    if unit is not None:
        names = [level.name for level in source.phases[0].hierarchy.levels]
        if unit not in names:
            raise one_of("unit", names, unit)
        source = replace(source, unit=names.index(unit) + 1)
    if group_size is not None:
        group_size = require_whole("group_size", group_size, "a whole number >= 1")
        level = source.phases[0].hierarchy.level(source.unit)
        if level.is_assumed and group_size > level.count:
            raise InputError(
                f"dataset_size: expected it beside a group of {group_size}, got a rate alone; state it in `plan`"
            )
        source = replace(source, group_size=group_size)
    return source


def refuse_unknown(function: Callable[..., object], unknown: Mapping[str, object], *, own: str = "") -> None:
    """Raise TypeError if an argument is unknown, with dpcalc's name for it or the place where to state it.

    `own` is the name of what the caller called; by default that of the function.
    """
    if not unknown:
        return
    name = next(iter(unknown))
    known = inspect.signature(function).parameters.keys() - {"unknown"}
    foreign = meaning("", name, Beside({each: str(value) for each, value in unknown.items()}))
    suggestion = foreign if foreign and foreign.is_rename else key_suggestion("", name)
    meant = suggestion.key if suggestion.is_rename else ""
    argument = meant if meant in known else _OUR_ARGUMENTS.get(meant, meant)
    if foreign and not foreign.is_rename:
        more = foreign.hint
    elif name in _ELSEWHERE or meant in _ELSEWHERE:
        more = _ELSEWHERE.get(name) or _ELSEWHERE[meant]
    elif argument in known:
        more = f"dpcalc calls this {argument}"
        more += ", relative to the clip norm" if argument == "noise_multiplier" else ""
    elif argument == "sample_rate" and "rate" in known:
        more = "dpcalc calls this rate"
    elif argument == "target_epsilon":
        more = f"`solve(plan, 'sigma', {argument}=...)` finds the noise for it"
    elif argument in inspect.signature(plan).parameters:
        example = f": {function.__name__}(plan({argument}=..., ...))" if "plan" in known else ""
        more = f"give {argument} to `plan`{example}"
    elif near := nearest(name, tuple(known)):
        more = f"did you mean {near}?"
    elif near := nearest(name, tuple(inspect.signature(plan).parameters)):
        more = f"did you mean {near}? give it to `plan`"
    else:
        more = "a config says more, e.g. `load({...})`"
    raise TypeError(f"{own or function.__name__}() got an unexpected keyword argument {name!r}; {more}")


def with_hints(function: Callable[..., Result], own: str = "") -> Callable[..., Result]:
    """Return a function whose TypeErrors say what dpcalc calls an argument, or what a missing one is, by its docs."""
    parameters, own = inspect.signature(function).parameters, own or function.__name__

    @functools.wraps(function)
    def called(*args: Any, **values: Any) -> Result:
        refuse_unknown(function, {name: value for name, value in values.items() if name not in parameters}, own=own)
        try:
            given = inspect.signature(function).bind_partial(*args, **values).arguments
        except TypeError as cause:
            by_name = next(name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY)
            raise TypeError(f"{own}(): {cause}; give others by name, e.g. {by_name}=...") from None
        for name, parameter in parameters.items():
            if parameter.default is parameter.empty and name not in given:
                told = re.search(rf"^( +){name}: (.*(?:\n\1 .*)*)", function.__doc__ or "", re.MULTILINE)
                what = f": {' '.join(told[2].split())}" if told else ""
                raise TypeError(f"{own}() is missing the argument {name!r}{what.removesuffix('.')}")
        return function(*args, **values)

    return called


def _as_json(value: object) -> object:
    """Return a number or path that `json` refuses in a form that it takes; InputError for any other value."""
    if isinstance(value, Rational) and value.denominator == 1:
        return int(value.numerator)
    if isinstance(value, Rational):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    try:
        return real_number(value, "config")  # NumPy's numbers among them, which are no Rational
    except InputError:
        raise InputError(f"config: expected words, numbers, lists and mappings, got {value!r}") from None


def _option_text(value: Number | Mapping[str, object], name: str) -> str:
    """Return a text unchanged and unchecked, a number exactly, a calibrated noise as JSON; InputError for others."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and name == "--noise-multiplier":
        return json.dumps(value, default=_as_json)
    # A float means the decimal that it prints as: 0.1 is 1/10, not the nearest binary fraction. True is a Rational.
    if not isinstance(value, Rational) or isinstance(value, bool):
        return repr(real_number(value, _with_argument_names(name)))
    exact = Fraction(value)
    return decimal_text(exact) or f"{exact.numerator}/{exact.denominator}"


def exact_number(value: Number, name: str) -> Fraction:
    """Return a number > 0, or its text, as an exact fraction such as 1/10 for 0.1; InputError for any other value."""
    text = _option_text(value, name)
    number = parse_number(text) or parse_quotient(text)
    if number is None or number <= 0:
        raise InputError(f"{name}: expected a number > 0, got {value!r}")
    return number


def real_number(value: object, name: str) -> float:
    """Return a number of any type, also NumPy's, or NaN, as float; InputError for a text, a truth value or others."""
    is_truth = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"  # NumPy's, too
    try:
        if not isinstance(value, str | bytes) and not is_truth:
            return float(value)  # type: ignore[arg-type]  # what is no number is refused
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{name}: expected a number, got {value!r}")


def real_numbers(values: object, name: str) -> tuple[float, ...]:
    """Return the distinct numbers of a sequence as floats, in ascending order; InputError for any other value."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{name}: expected a sequence of numbers such as [0.01, 0.1], got {values!r}")
    return tuple(sorted({real_number(value, name) for value in values}))


def _about_argument(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic on an option as one on the argument of that meaning; any other unchanged."""
    if diagnostic.path not in FLAGS:
        return diagnostic
    message, hint = _with_argument_names(diagnostic.message), _with_argument_names(diagnostic.hint)
    return replace(
        diagnostic, path=_with_argument_names(diagnostic.path), line=None, column=None, message=message, hint=hint
    )


def _with_argument_names(text: str) -> str:
    """Return a text with the names of arguments in the place of options."""
    return re.sub("--[a-z-]+", lambda at: at[0][2:].replace("-", "_") if at[0] in FLAGS else at[0], text)


# Plans from objects of other libraries in memory, of which only numbers are read; no library is imported.


def from_opacus(
    engine: Any,
    *,
    poisson_sampling: bool,
    draws: int,
    delta: Number,
    dataset_size: int | None = None,
    adjacency: Adjacency | str | None = None,
) -> Plan:
    """Return the plan of the steps that an Opacus engine has counted.

    Args:
        engine: a `PrivacyEngine`, its `accountant`, or the `state_dict()` of that.
        poisson_sampling: what `make_private` was told, True by its default. Opacus counts steps of a shuffled loader
            as if they were Poisson draws, so that False is refused.
        draws: Poisson batches that a step adds up: 1, unless `allow_grad_accumulation()` was called and several
            `backward` came before one `step`. Opacus counts them as one draw at the sum of their rates, which is too
            little; here they are so many draws (Theorem 4.10).
        delta: of the guarantee, in (0, 1).
        dataset_size: number of examples; None leaves it unknown, and delta is not compared with it.
        adjacency: neighbouring data sets, "add-remove" by default, as Opacus assumes.

    Returns:
        A plan for `epsilon` and the others.

    Raises:
        InputError: the loader is no Poisson one, there is no step, or a number is wrong.
    """
    if poisson_sampling is not True:
        raise InputError(
            "poisson_sampling: expected True, got another loader, for which Opacus counts as if it were; write a "
            "config with `scheme: shuffle`"
        )
    if not isinstance(draws, int) or isinstance(draws, bool) or draws < 1:
        raise InputError(f"draws: expected the number of Poisson batches that a step adds up, got {draws!r}")
    holder = getattr(engine, "accountant", engine)
    state = holder if isinstance(holder, Mapping) else {"history": getattr(holder, "history", None)}
    history = state.get("history")
    if not isinstance(history, Sequence) or isinstance(history, str):
        raise InputError(f"engine: expected a PrivacyEngine of Opacus, got {type(engine).__name__}")
    plan = _plan(accountant_run({"history": _call(history)}), delta, dataset_size, adjacency)
    if draws == 1:
        return plan
    phases = []
    for phase in plan.phases:
        (level,) = phase.hierarchy.levels
        summed = SummedPoisson(probability=level.scheme.rate(level.count) / draws, draws=draws)
        hierarchy = replace(phase.hierarchy, levels=(replace(level, scheme=summed),))
        phases.append(replace(phase, hierarchy=hierarchy))
    return replace(plan, phases=tuple(phases))


def from_dp_accounting(
    event: Any, *, delta: Number, dataset_size: int | None = None, adjacency: Adjacency | str | None = None
) -> Plan:
    """Return the plan of an event of dp_accounting; InputError for one that dpcalc has no draw or mechanism for.

    Args:
        event: a `DpEvent`.
        delta: of the guarantee, in (0, 1).
        dataset_size: number of examples, where no draw of the event states it.
        adjacency: neighbouring data sets; by default add-remove, and replace-one for draws of a fixed size.

    Returns:
        A plan for `epsilon` and the others.

    Raises:
        InputError: the event is none, has no place in a plan, or a number is wrong.
    """
    call = _call(event)
    if not isinstance(call, Call) or not call.name.endswith("DpEvent"):
        raise InputError(f"event: expected a DpEvent of dp_accounting, got {type(event).__name__}")
    size = None if dataset_size is None else exact_number(dataset_size, "dataset_size")
    return _plan(event_run(call, Terms(examples=size)), delta, dataset_size, adjacency)


def from_jax_privacy(
    params: Any,
    *,
    steps: int | None = None,
    loader: str | None = None,
    delta: Number | None = None,
    adjacency: Adjacency | str | None = None,
) -> Plan:
    """Return the plan of a `DPKerasConfig` or of `DpParams` of JAX-Privacy, whose noise multiplier must be set.

    Args:
        params: the object.
        steps: noisy updates, which `DpParams` does not say.
        loader: "poisson", "fixed" or "shuffle": how the data set of `fit()` draws, which a `DPKerasConfig` without
            `poisson_sampling_in_fit` does not say.
        delta: in (0, 1); that of the object by default.
        adjacency: neighbouring data sets; by default add-remove, and replace-one for `FIXED_BATCH_SIZE`.

    Returns:
        A plan for `epsilon` and the others.

    Raises:
        InputError: the object is another one, or a number is missing or wrong.
    """
    call = _call(params)
    if not isinstance(call, Call) or call.name not in CALLS:
        raise InputError(f"params: expected DPKerasConfig or DpParams, got {type(params).__name__}")
    if loader not in {None, "poisson", "fixed", "shuffle"}:
        raise InputError(f"loader: expected poisson, fixed or shuffle, got {loader!r}")
    terms = Terms(steps=None if steps is None else exact_number(steps, "steps"), loader=loader)
    run = call_run(call, terms)
    if run.target_epsilon is not None:
        raise InputError("noise_multiplier: expected a number, got none; state what `get_noise_multiplier` returns")
    return _plan(run, run.delta if delta is None else delta, run.examples, adjacency)


def _call(value: Any, depth: int = 0) -> Any:
    """Return an object with fields as a Call with the name of its class, and numbers exactly."""
    if depth > 60:
        raise InputError("expected at most 60 events within one another, got more")
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [_call(each, depth + 1) for each in value]
    names = getattr(value, "__attrs_attrs__", None)
    fields = [each.name for each in names] if names else list(getattr(value, "__dataclass_fields__", ()))
    if not fields:
        # Members of an enumeration are read as code names them, numbers of NumPy as Python's.
        if hasattr(value, "name") and hasattr(value, "value"):
            return Expression(f"{type(value).__name__}.{value.name}")
        return plain_value(value.item() if hasattr(value, "item") else value)
    return Call(type(value).__name__, (), {name: _call(getattr(value, name, None), depth + 1) for name in fields})


def _plan(run: ImportedRun, delta: Number, dataset_size: int | None, adjacency: Adjacency | str | None) -> Plan:
    terms = Terms(
        delta=number_text(exact_number(delta, "delta")),
        examples=None if dataset_size is None else exact_number(dataset_size, "dataset_size"),
        adjacency=None if adjacency is None else Adjacency(adjacency).value,
    )
    return imported(run, terms, "engine").loaded.plan
