"""The result of `ledger`, and a lock as the text of its file."""

import json
import math

from dpcalc.config.source import visible
from dpcalc.gate.ledger import Account, Run
from dpcalc.gate.lock import VERSION, Lock, LockEntry
from dpcalc.planner.words import assumptions
from dpcalc.report.fields import Field, Output, Section, json_only, terminal_only
from dpcalc.report.guarantees import (
    assumptions_field,
    budget_field,
    budget_limit,
    guarantee_field,
    guarantee_headline,
    protects_row,
)
from dpcalc.report.rounding import BARE_DIGITS, rounded_up


def ledger_output(command: str, account: Account, *, added: bool | None = None) -> Output:
    """Return the result of `ledger show` and `ledger add`: each run alone, and all runs composed.

    Args:
        command: "ledger show" or "ledger add".
        account: the ledger, composed.
        added: True or False if `ledger add` added a run or not; None for `ledger show`.

    Returns:
        Upper bounds rounded up, lower bounds down.
    """
    plan, guarantee, limit = account.loaded.plan, account.guarantee, budget_limit(account.loaded.plan)
    runs = [
        {"name": run.name, "part": run.part or None, "steps": run.steps, "guarantee": run.guarantee.to_dict()}
        for run in account.runs
    ]
    total = math.fsum(run.guarantee.epsilon for run in account.runs)  # of basic composition, for the sum of the deltas
    sum_text = f"{rounded_up(total)}, if epsilons were added up" if added is None else ""
    sum_field = Field("sum_of_epsilons", total, rounding=rounded_up, section=Section.BUDGET)
    return Output(
        command=command,
        headline=guarantee_headline(guarantee, limit),
        fields=(
            Field("config", (json_only("path", account.loaded.path), json_only("name", plan.name))),
            *(() if added is None else (Field("added", added, section=Section.UNIT),)),
            Field(
                "runs",
                runs,
                plain=tuple(_run_text(run, str(run.steps)) for run in account.runs),
                label="run" if added is None else "added" if added else "not added",
                row=tuple(_run_text(run, f"{run.steps:,}") for run in account.runs),
                section=Section.RUN,
            ),
            terminal_only("sum", sum_text, Section.RUN),
            guarantee_field(guarantee, limit),
            protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
            Field("steps", plan.steps, section=Section.TRAINING),
            *((sum_field,) if added is None else ()),
            budget_field(guarantee.epsilon, limit),
            assumptions_field(assumptions(plan)),
            json_only("config_hash", account.loaded.config_hash),
        ),
    )


def _run_text(run: Run, steps: str) -> str:
    """Return one run in a line: name, part, number `steps` with its word, and the epsilon of this run alone."""
    cost = f"epsilon {rounded_up(run.guarantee.epsilon)}" if run.guarantee.finite else "no finite epsilon"
    part = f" (part {visible(run.part)})" if run.part else ""
    return f"{visible(run.name)}{part}: {steps} {'step' if run.steps == 1 else 'steps'}, {cost} alone"


# The text of a lock file


def lock_text(lock: Lock) -> str:
    """Return the content of `dpcalc.lock`: JSON in the order of paths, epsilons rounded up to six digits."""
    configs = {name: _entry_fields(lock.entries[name]) for name in sorted(lock.entries)}
    return json.dumps({"version": VERSION, "configs": configs}, indent=2, allow_nan=False) + "\n"


def _entry_fields(entry: LockEntry) -> dict[str, object]:
    """Return one entry for the file; an infinite epsilon is None, `sources` is left out where it is None."""
    finite = math.isfinite(entry.epsilon)
    return {
        "config_hash": entry.config_hash,
        "epsilon": float(rounded_up(entry.epsilon, digits=BARE_DIGITS)) if finite else None,
        "delta": entry.delta,
        "unit": entry.unit,
        "adjacency": entry.adjacency,
        "group_size": entry.group_size,
        **({} if entry.sources is None else {"sources": dict(entry.sources)}),
    }
