"""Plans from objects of other libraries in memory, of which only numbers are read; no library is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.imports.calls import CALLS, accountant_run, call_run
from dpcalc.imports.events import event_run
from dpcalc.imports.read import imported
from dpcalc.imports.run import Call, Expression, ImportedRun, Terms, number_text, plain_value
from dpcalc.planner.plan import Plan
from dpcalc.plans import Number, exact_number
from dpcalc.sampling.schemes import SummedPoisson


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
