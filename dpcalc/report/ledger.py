"""The results of `ledger show` and `ledger add`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcalc.config.source import visible
from dpcalc.errors import counted
from dpcalc.report.guarantees import (
    assumes_rows,
    budget_json,
    budget_limit,
    budget_lines,
    guarantee_headline,
    guarantee_lines,
    lower_row,
    protects_row,
)
from dpcalc.report.output import Json, Output, config_json, lines
from dpcalc.report.rounding import rounded_up

if TYPE_CHECKING:
    from dpcalc.gate.ledger import Account


def ledger_output(account: Account, *, is_added: bool | None = None) -> Output:
    """Return the runs alone and composed, with their sum; of `ledger add` (`is_added` or not) the new one alone."""
    from dpcalc.planner.words import assumptions

    plan = account.loaded.plan
    guarantee = account.guarantee
    limit = budget_limit(account.loaded.plan)
    runs, run_lines, run_rows = [], list[tuple[str, str]](), []
    label = "run" if is_added is None else "added" if is_added else "not added"
    for name, part, steps, alone in account.runs:
        runs.append({"name": name, "part": part or None, "steps": steps, "guarantee": alone.to_dict()})
        cost = f"epsilon {rounded_up(alone.epsilon)}" if alone.finite else "no finite epsilon"
        shown = f"{visible(name)}{f' (part {visible(part)})' if part else ''}"
        run_lines.append(("runs", f"{shown}: {counted(steps, 'step')}, {cost} alone"))
        run_rows.append((label, f"{shown}: {counted(steps, 'step', ',')}, {cost} alone"))
    assumed = list(assumptions(plan))
    added: Json = {} if is_added is None else {"added": is_added}
    sums: Json = {}
    if is_added is None:
        total = math.fsum(alone.epsilon for *_, alone in account.runs)  # of basic composition, for the sum of deltas
        sums = {"sum_of_epsilons": total}
        run_rows.append(("sum", f"{rounded_up(total)}, if epsilons were added up"))
    headline, verdict = guarantee_headline(guarantee, limit)
    return Output(
        command="ledger show" if is_added is None else "ledger add",
        result={
            "config": config_json(account.loaded),
            **added,
            "runs": runs,
            "guarantee": guarantee.to_dict(),
            "steps": plan.steps,
            **sums,
            "budget": budget_json(guarantee.epsilon, limit),
            "assumptions": assumed,
            "config_hash": account.loaded.config_hash,
        },
        headline=headline,
        verdict=verdict,
        lines=[
            *run_lines,
            *lines(added),
            *guarantee_lines(guarantee, limit),
            ("steps", str(plan.steps)),
            *lines({"assumptions": assumed}),
            *lines(sums, sum_of_epsilons=rounded_up),
            *budget_lines(guarantee.epsilon, limit),
        ],
        rows=[
            lower_row(guarantee),
            *run_rows,
            protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
            *assumes_rows(assumed),
        ],
    )
