"""Reading of an imported file of any kind: the run that it describes, its config, and the output of `dpcalc import`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcalc.config.load import Loaded, load_text
from dpcalc.config.python_names import assignments, bound_names, python_syntax
from dpcalc.config.readers import json_content
from dpcalc.config.scalars import UNKNOWN
from dpcalc.config.source import STDIN, ConfigError, decode, open_regular, read_bytes, visible, whole_file
from dpcalc.errors import InputError, listed, system_message
from dpcalc.imports.calls import CALLS, OPTIONS, OTHER_LIBRARY, accountant_run, arguments_of_terms, call_run, event_run
from dpcalc.imports.pickles import MAX_PICKLE, checkpoint_value, pickle_value
from dpcalc.imports.run import (
    ORDERED,
    Call,
    ImportedRun,
    Terms,
    bound,
    called_name,
    constants_of,
    literal_value,
    merged_parts,
    outermost_calls,
    plain_value,
    shown,
    too_deep,
    whole_number,
)
from dpcalc.planner.evaluate import Evaluation
from dpcalc.records import dataclass
from dpcalc.report.evaluation import evaluation_output
from dpcalc.report.output import Output, lines

_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
_MAX_SEARCHED = 10_000  # dictionaries of a checkpoint in which a state is looked for
_NOT_READ = {"amplified_bandmf_event": "JAX-Privacy", "truncated_amplified_bandmf_event": "JAX-Privacy"}
# Functions of JAX-Privacy that return an event: the number of steps, and the event of one.
_EVENTS: dict[str, tuple[str, ...]] = {
    "dpsgd_event": ("noise_multiplier", "iterations", "sampling_prob"),
    "fixed_dpsgd_event": ("noise_multiplier", "iterations", "dataset_size", "batch_size", "replace"),
    "truncated_dpsgd_event": (
        "noise_multiplier",
        "iterations",
        "sampling_prob",
        "num_examples",
        "truncated_batch_size",
    ),
}
_KINDS = (
    "the state of an Opacus accountant (JSON or checkpoint), a dp_accounting DpEvent, or a call of "
    "Opacus, TF-Privacy or JAX-Privacy (docs/import.md has their names)"
)


def read_run_of(task: tuple[str, bytes | None, Terms]) -> ImportedRun:
    """Return `read_run` of (path, content of standard input, terms), for a worker process with limits."""
    path, data, terms = task
    return read_run(path, terms, data=data)


def read_run(path: str, terms: Terms, *, data: bytes | None = None) -> ImportedRun:
    """Return the run in a checkpoint, pickle or text; ConfigError if unreadable, InputError if it states no known
    run."""
    start = b""
    if path != "-":
        try:
            with open_regular(path) as stream:
                start = stream.read(len(_ZIP))
        except FileNotFoundError:
            raise whole_file(path, "DPC100", "no such file", "check the name and the directory you are in") from None
        except ConfigError:
            raise  # it is a ValueError too
        except (OSError, ValueError) as cause:
            raise whole_file(path, "DPC100", f"cannot be read: {system_message(cause)}", "") from None
    try:
        # By content: checkpoints have any ending, and a pickle that is named *.json must not pass for text.
        if start.startswith(_ZIP):
            with open_regular(path) as stream:
                value = checkpoint_value(stream)
        elif start.startswith(_PICKLE):
            value = pickle_value(read_bytes(path, limit=MAX_PICKLE))
        else:
            return _value_run(_text_value(decode(read_bytes(path) if data is None else data, path).text), terms)
        _refuse_terms_of_calls(terms)
        return accountant_run(_only_state(value))
    except ConfigError:
        raise  # it has the name of the file
    except InputError as error:
        raise InputError(f"{visible(path)}: {error}") from None


def _text_value(text: str) -> Any:
    """Return the value of JSON, of a Python literal, or of the only known call of a script; InputError for others."""
    if text.lstrip().startswith(("{", "[")):
        try:
            return plain_value(json_content(text))
        except InputError:
            raise  # it is a ValueError too
        except RecursionError:
            raise too_deep() from None
        except ValueError:
            pass  # a dictionary as Python prints it
    try:
        tree = python_syntax(text.strip())
    except (RecursionError, MemoryError):
        raise too_deep() from None
    except SyntaxError as error:
        raise InputError(
            f"line {error.lineno}: expected JSON, an event or a call as Python writes it, got something else"
        ) from None
    except ValueError as error:  # an integer of too many digits
        raise InputError(f"expected JSON, an event or a call, got something else: {error}") from None
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) and not isinstance(tree.body[0].value, ast.Call):
        return literal_value(tree.body[0].value)

    # Training scripts hold other calls, which are passed over; two that are meant would be two runs.
    def is_meant(name: str) -> bool:
        return name in CALLS or name in _EVENTS or name == ORDERED or name.endswith("DpEvent")

    calls = list(outermost_calls(tree, is_meant))
    # JAX-Privacy's make_private(model, params) has no numbers of its own; Opacus' one takes named arguments alone.
    if any(called_name(call) == "DPKerasConfig" for call in calls):
        calls = [call for call in calls if called_name(call) != "make_private" or call.keywords]
    if len(calls) > 1:
        lines = ", ".join(str(call.lineno) for call in calls[:10])
        raise InputError(f"expected one event or call, got {len(calls)}, on lines {lines}; keep one in the file")
    if calls:
        value = literal_value(calls[0], constants_of(tree))
        if isinstance(value, Call) and value.name in {"get_noise_multiplier", "make_private_with_epsilon"}:
            value = replace(value, keywords={**value.keywords, "accountant": _opacus_accountant(calls[0], tree)})
        return value
    # The call of a library that is not read is named, with a way out.
    for call in outermost_calls(tree, lambda name: bool(_library(name)) or name == "PrivacyEngine"):
        name = called_name(call)
        if _library(name) or call.keywords:  # the engine of Opacus takes no numbers of a run
            of = f" of {_library(name)}" if _library(name) else ""
            raise InputError(f"expected {_KINDS}, got a call of {name}{of} on line {call.lineno}; {OTHER_LIBRARY}")
    raise InputError(f"expected {_KINDS}, got none of these")


def _opacus_accountant(call: ast.Call, tree: ast.Module) -> object:
    """Return the accountant by which Opacus looks for noise; anything but its name where another one may be meant.

    It is gdp, whose noise may be the least, wherever a file names it: as an argument, a default, a class.
    """
    nodes: list[Any] = list(ast.walk(tree))
    bound, anything = bound_names(tree)
    words = {getattr(node, key, None) for node in nodes for key in ("value", "id", "attr", "name")}
    if words & {"gdp", "GaussianAccountant"}:
        return "gdp"
    owner: ast.expr | None = call
    word = "rdp"
    if called_name(call) != "get_noise_multiplier":  # its engine has the accountant, if nothing can replace that
        owner, word = getattr(call.func, "value", None), "prv"
        if isinstance(owner, ast.Name) and len(bound[owner.id]) == 1:
            statements = (node for node in nodes if isinstance(node, ast.stmt))
            owner = {name: value for name, value, _ in assignments(statements)}.get(owner.id)
        is_replaced = any(getattr(node, "attr", "") == "accountant" and type(node.ctx) is ast.Store for node in nodes)
        if anything or is_replaced or not isinstance(owner, ast.Call) or called_name(owner) != "PrivacyEngine":
            return None
    stated = literal_value(owner) if owner else None
    return stated.keywords.get("accountant", word) if isinstance(stated, Call) else None


def _library(name: str) -> str:
    """Return the library whose call has this name and is not read, "" for any other name."""
    return _NOT_READ.get(name) or ("TF-Privacy" if re.fullmatch(r"(Vectorized)?DP\w*Optimizer", name) else "")


_KEPT_MAGIC = re.compile(r"\s*(!|%(pip|conda|matplotlib|load_ext|autoreload|cd|env)\b)")  # they bind no name


def _event_of_call(call: Call) -> Call:
    """Return the event that a function of JAX-Privacy makes; InputError for wrong arguments."""
    given = bound(call, _EVENTS[call.name], {"replace": False}, words="arguments", unnamed=2)
    noise = given["noise_multiplier"]
    gaussian = Call("GaussianDpEvent", (noise,), {})
    if call.name == "dpsgd_event":
        step = Call("PoissonSampledDpEvent", (given["sampling_prob"], gaussian), {})
    elif call.name == "fixed_dpsgd_event":
        if not isinstance(given["replace"], bool):
            raise InputError(f"{call.name} replace: expected True or False, got {shown(given['replace'])}")
        kind = "SampledWithReplacementDpEvent" if given["replace"] else "SampledWithoutReplacementDpEvent"
        step = Call(kind, (given["dataset_size"], given["batch_size"], gaussian), {})
    else:
        cut = (given["num_examples"], given["sampling_prob"], given["truncated_batch_size"], noise)
        step = Call("TruncatedSubsampledGaussianDpEvent", cut, {})
    return Call("SelfComposedDpEvent", (step, given["iterations"]), {})


def _value_run(value: Any, terms: Terms) -> ImportedRun:
    """Return the run of a call, event, state or bare history; InputError for other values or terms without a place."""
    match value:
        case Call(name=name) if name in CALLS:
            return call_run(value, terms)
        case {"cells": cells, "nbformat": _}:
            code = []
            for cell in cells if isinstance(cells, list) else []:
                source = cell.get("source") if isinstance(cell, dict) and cell.get("cell_type") == "code" else "%%"
                text = "".join(map(str, source)) if isinstance(source, list) else str(source)
                for line in text.splitlines() if not text.lstrip().startswith("%%") else ():
                    # Any other magic may bind names, as exec does.
                    plain = re.sub(r"^(\s*)[!%].*", r"\1pass" if _KEPT_MAGIC.match(line) else r"\1globals()", line)
                    code.append(re.sub(r"^(\s*[\w, ]+=\s*)[!%].*", r"\1...", plain))
            if not code:
                raise InputError("expected a notebook with code cells, got one without any")
            run = _value_run(_text_value("\n".join(code)), terms)
            return replace(run, origin=f"{run.origin} of the code cells" if "on line" in run.origin else run.origin)
    _refuse_terms_of_calls(terms)
    match value:
        case Call(name=name) if name in _EVENTS:
            run = event_run(_event_of_call(value), terms)
            return replace(run, origin=f"a call of {name} on line {value.line}")
        case Call(name=name) if name.endswith("DpEvent"):
            return event_run(value, terms)
        case dict():
            if str(value.get("format", "")).startswith("dpcalc."):
                raise InputError(
                    "expected a file of another library, got a state of dpcalc.Accountant, which has a config"
                )
            return accountant_run(value if "history" in value else _only_state(value))
        case [[_, _, _], *_]:
            return accountant_run({"history": value})
        case _:
            raise InputError(f"expected {_KINDS}, got {shown(value)}")


def _refuse_terms_of_calls(terms: Terms) -> None:
    # Everything but a call says these itself. An option that had no effect would be taken for one that had.
    for argument in arguments_of_terms(terms):
        if argument != "n":  # the number of examples, which has a place in every config
            option = OPTIONS[argument]
            raise InputError(f"{option}: expected only for a call, got a file that says it; change it in the config")


def _only_state(value: object) -> Mapping[str, Any]:
    """Return the only accountant state in nested dicts; InputError if there is none or more than one."""
    # Nothing is expanded: a pickle may hold the same dictionary in a million places.
    pending, seen, states = [value], set[int](), []
    while pending and len(seen) < _MAX_SEARCHED:
        holder = pending.pop()
        if isinstance(holder, dict) and id(holder) not in seen:
            seen.add(id(holder))
            pending.extend(holder.values())
            if "history" in holder and "mechanism" in holder:
                states.append(holder)
    if len(states) != 1:
        raise InputError(
            "expected one state of an Opacus accountant (a dictionary with history and mechanism), got "
            f"{len(states) or 'none'}; save it as JSON: json.dump(accountant.state_dict(), file)"
        )
    return states[0]


def joined(runs: Sequence[ImportedRun]) -> ImportedRun:
    """Return one run of the parts of several, as phases; InputError if they cannot be of one run."""
    first = runs[0]
    if len(runs) == 1:
        return first
    for run in runs:
        if run.tuning or run.target_epsilon is not None or any(part.steps is None for part in run.parts):
            raise InputError(
                f"expected files that hold steps with their noise where several are imported, got {run.origin}; "
                "import it alone"
            )
    stated: dict[str, set[Any]] = {
        "adjacency": {run.adjacency for run in runs},
        "number of examples": {run.examples for run in runs} - {None},
        "size of a group": {run.group_size for run in runs},
    }
    for what, values in stated.items():
        if len(values) > 1:
            raise InputError(f"expected files of one run, got the {what} {listed(sorted(map(str, values)))}")
    history = "files: the steps of each are added; a state that was saved later in the same run may hold them already"
    return replace(
        first,
        origin=listed([run.origin for run in runs]),
        parts=merged_parts([part for run in runs for part in run.parts]),
        unknown=tuple(dict.fromkeys([history, *(each for run in runs for each in run.unknown)])),
        examples=next(iter(stated["number of examples"]), None),
    )


# The config of an imported run, its price, and the output of `dpcalc import`.


@dataclass(frozen=True, kw_only=True)
class Import:
    """An imported run and its config."""

    run: ImportedRun
    loaded: Loaded
    text: str  # its YAML, with what the file does not say in comments


def imported(run: ImportedRun, terms: Terms, path: str) -> Import:
    """Return a run with its complete config, its noise solved for if need be; InputError without a delta."""
    delta = terms.delta or run.delta
    if not delta:
        raise InputError(f"{visible(path)}: expected a delta, got none; give --delta, e.g. --delta 1e-5")
    examples = run.examples
    if examples is None and terms.examples is not None:
        examples = whole_number(terms.examples, f"{visible(path)}: --dataset-size")
    unknown = [each for each in run.unknown if not (terms.adjacency and each.startswith("adjacency:"))]
    if examples is None:
        unknown.append(
            "number of examples: epsilon does not depend on it, but delta should be well below 1 / it; --dataset-size"
        )
    if not run.delta:
        unknown.append("delta: that of --delta")
    adjacency, asked_delta = terms.adjacency or run.adjacency, run.delta or delta
    run = replace(run, delta=delta, adjacency=adjacency, examples=examples, unknown=tuple(unknown))

    # What the library looks for is not known: the config states what it was asked, at the delta of the call.
    noise = ""
    if run.target_epsilon is not None:
        target = f"{{epsilon: {run.target_epsilon!r}, delta: {asked_delta}}}"
        noise = f"{{calibrated_to: {target}, {run.found_by}}}"
    lines = [f"# {run.origin}, {visible(path)}. Not in the file, so check it:"]
    lines += [f"# - {sentence}" for sentence in run.unknown]
    lines += ["version: 1", f"data: {{examples: {run.examples or UNKNOWN}}}"]
    lines += [] if len(run.parts) == 1 else ["phases:"]
    for number, part in enumerate(run.parts, start=1):
        sections = [
            f"sampling: {part.sampling}",
            f"mechanism: {part.mechanism.replace('{noise}', noise)}",
            f"training: {{{part.training or f'steps: {part.steps}'}}}",
        ]
        if len(run.parts) > 1:
            sections = [f"  - name: part-{number}", *(f"    {line}" for line in sections)]
        lines += sections
    group = f", group_size: {run.group_size}" if run.group_size > 1 else ""
    lines.append(f"privacy: {{adjacency: {run.adjacency}, delta: {run.delta}{group}}}")
    if run.tuning:
        lines.append(f"tuning: {run.tuning}")
    if run.target_epsilon is not None:
        lines.append(f"budget: {{epsilon: {run.target_epsilon!r}}}")
    text = "\n".join(lines) + "\n"
    try:
        loaded = load_text(text, path="imported config")
    except InputError as error:
        raise InputError(f"{visible(path)}: dpcalc has no config for this run: {error}") from None
    return Import(run=run, loaded=loaded.accepted(), text=text)


def import_output(result: Import, evaluation: Evaluation, path: str, *, verbose: bool = False) -> Output:
    """Return the output of `epsilon` for the run, with its source and what the file does not state."""
    output = evaluation_output(evaluation, result.loaded, verbose=verbose)
    added = {
        "source": f"{STDIN if path == '-' else path}: {result.run.origin}",
        "unknown": list(result.run.unknown),
    }
    (source, *unknown), (name, *facts) = lines(added), output.lines
    return replace(
        output,
        command="import",
        result={**output.result, **added, "config_text": result.text},
        lines=[name, source, *facts, *unknown],
        rows=[source, *output.rows, *(("not in the file", text) for _, text in unknown)],
    )
