"""Reading of an imported file of any kind: the run that it describes."""

import ast
from collections.abc import Mapping
from typing import Any

from dpcalc.config.source import ConfigError, decode, open_regular, read_bytes, visible, whole_file
from dpcalc.errors import InputError, system_message
from dpcalc.imports.calls import CALLS, accountant_run, call_run
from dpcalc.imports.events import event_run
from dpcalc.imports.pickles import MAX_PICKLE, checkpoint_value, pickle_value
from dpcalc.imports.run import ImportedRun, Terms, shown
from dpcalc.imports.values import ORDERED, Call, NoJsonError, json_value, literal_value, outermost_calls, python_tree

STDIN = "-"
_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
_MAX_SEARCHED = 10_000  # dictionaries of a checkpoint in which a state is looked for
_KINDS = (
    "the state of an Opacus accountant (JSON or checkpoint), a dp_accounting DpEvent, or a call of "
    f"{', '.join(sorted(CALLS))}"
)


def read_run(path: str, terms: Terms) -> ImportedRun:
    """Return the run that a file describes: checkpoint, pickle, JSON or Python text; ConfigError or InputError.

    Args:
        path: file name; "-" is standard input, which has to be text.
        terms: what the user adds.

    Raises:
        ConfigError: the file cannot be read, is too large or no text.
        InputError: it is none of the known kinds, or cannot be expressed; the message begins with its name.
    """
    start = b"" if path == STDIN else _first_bytes(path)
    try:
        if start.startswith(_ZIP):
            with open_regular(path) as stream:
                return accountant_run(_only_state(checkpoint_value(stream)))
        if start.startswith(_PICKLE):
            return accountant_run(_only_state(pickle_value(read_bytes(path, limit=MAX_PICKLE))))
        return _text_run(decode(read_bytes(path), path).text, terms)
    except ConfigError:
        raise  # it has the name of the file
    except InputError as error:
        raise InputError(f"{visible(path)}: {error}") from None


def _first_bytes(path: str) -> bytes:
    """Return the first bytes of a regular file; ConfigError if it cannot be read."""
    try:
        with open_regular(path) as stream:
            return stream.read(len(_ZIP))
    except FileNotFoundError:
        raise whole_file(path, "DPC100", "no such file", "check the name and the directory you are in") from None
    except ConfigError:
        raise  # it is a ValueError too
    except (OSError, ValueError) as cause:
        raise whole_file(path, "DPC100", f"cannot be read: {system_message(cause)}", "") from None


def _text_run(text: str, terms: Terms) -> ImportedRun:
    """Return the run of JSON, of a Python literal, or of the only known call in Python text; InputError for others."""
    if text.lstrip().startswith(("{", "[")):
        try:
            return _value_run(json_value(text), terms)
        except NoJsonError:
            pass  # a dictionary as Python prints it
    tree = python_tree(text.strip())
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) and not isinstance(tree.body[0].value, ast.Call):
        return _value_run(literal_value(tree.body[0].value), terms)
    calls = list(outermost_calls(tree, lambda name: name in CALLS or name == ORDERED or name.endswith("DpEvent")))
    if len(calls) != 1:
        if not calls:
            raise InputError(f"expected {_KINDS}, got none of these")
        lines = ", ".join(str(call.lineno) for call in calls[:10])
        raise InputError(f"expected one event or call, got {len(calls)}, on lines {lines}; keep one in the file")
    return _value_run(literal_value(calls[0]), terms)


def _value_run(value: Any, terms: Terms) -> ImportedRun:  # noqa: ANN401  a value of the file
    """Return the run of a known call, event, accountant's state or bare history; InputError for anything else."""
    match value:
        case Call(name=name) if name in CALLS:
            return call_run(value, terms)
    for option, number in {
        "--batch-size": terms.batch_size,
        "--sample-rate": terms.sample_rate,
        "--epochs": terms.epochs,
        "--steps": terms.steps,
        "--noise-multiplier": terms.noise_multiplier,
    }.items():
        if number is not None:
            raise InputError(f"{option}: expected only for a call, got a file that says it; change it in the config")
    match value:
        case Call(name=name) if name.endswith("DpEvent"):
            return event_run(value, terms)
        case dict() if str(value.get("format", "")).startswith("dpcalc."):
            raise InputError("expected a file of another library, got a state of dpcalc.Accountant, which has a config")
        case dict():
            return accountant_run(value if "history" in value else _only_state(value))
        case [[_, _, _], *_]:
            return accountant_run({"history": value})
        case _:
            raise InputError(f"expected {_KINDS}, got {shown(value)}")


def _only_state(value: object) -> Mapping[str, Any]:
    """Return the only accountant's state among 10,000 dictionaries of a checkpoint; InputError for none or several.

    Nothing is expanded: a pickle may hold the same dictionary in a million places.
    """
    pending, seen, states = [value], set[int](), []
    while pending and len(seen) < _MAX_SEARCHED:
        holder = pending.pop()
        if not isinstance(holder, dict) or id(holder) in seen:
            continue
        seen.add(id(holder))
        if "history" in holder and "mechanism" in holder:
            states.append(holder)
        pending.extend(holder.values())
    if len(states) != 1:
        raise InputError(
            "expected one state of an Opacus accountant (a dictionary with history and mechanism), got "
            f"{len(states) or 'none'}; save it as JSON: json.dump(accountant.state_dict(), file)"
        )
    return states[0]
