"""The config of an imported run, its price, and the output of `dpcalc import`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from dpcalc.config.load import Loaded, load_text
from dpcalc.config.source import STDIN, visible
from dpcalc.errors import InputError
from dpcalc.imports.run import ImportedRun, Terms
from dpcalc.keys import MAX_COUNT
from dpcalc.planner.evaluate import Evaluation
from dpcalc.planner.search import EpsilonGoal
from dpcalc.planner.solve import certified_measure, solve
from dpcalc.report.evaluation import evaluation_output
from dpcalc.report.fields import Field, Output, Section, json_only
from dpcalc.report.solution import with_safe_decimal

_NOISE = "{noise}"


@dataclass(frozen=True, kw_only=True)
class Import:
    """An imported run and its config.

    Attributes:
        run: what the file says.
        loaded: the config.
        text: its YAML, with what the file does not say in comments.
    """

    run: ImportedRun
    loaded: Loaded
    text: str


def imported(run: ImportedRun, terms: Terms, path: str) -> Import:
    """Return a run with its config, noise solved for if it has a target; InputError, NoSolution or ConvergenceError.

    Args:
        run: the run.
        terms: what the user adds; it counts more than the file.
        path: name of the file, for comments.

    Raises:
        InputError: delta is missing, or dpcalc does not cover the run.
        NoSolution: no noise keeps to the target of the run.
        ConvergenceError: there is no certified answer.
    """
    run = replace(
        run,
        delta=terms.delta or run.delta,
        adjacency=terms.adjacency or run.adjacency,
        unknown=(*_unknown(run, terms),),
    )
    if not run.delta:
        raise InputError(f"{visible(path)}: expected a delta, got none; give --delta, e.g. --delta 1e-5")
    noise = ""
    if run.target_epsilon is not None:
        before = _load(run, "1", path).plan
        goal = EpsilonGoal(limit=run.target_epsilon)
        solution = solve(before, "sigma", goal=goal)
        solution = with_safe_decimal(solution, before, lambda plan: certified_measure(plan, goal))
        noise = repr(solution.plan.phases[0].noise_multiplier)
    loaded = _load(run, noise, path).accepted()
    return Import(run=run, loaded=loaded, text=_config_text(run, noise, path))


def import_output(result: Import, evaluation: Evaluation, path: str) -> Output:
    """Return the JSON and text of `import`: those of `epsilon`, the file's kind, what it does not say, and the config.

    Args:
        result: the imported run.
        evaluation: the guarantee of its plan, and what is beside it.
        path: name of the file.
    """
    source = Field(
        "source", f"{STDIN if path == '-' else path}: {result.run.origin}", label="source", section=Section.RUN
    )
    unknown = Field("unknown", list(result.run.unknown), label="not in the file", section=Section.LAST)
    output = evaluation_output(
        evaluation, result.loaded, extra=(source, unknown, json_only("config_text", result.text))
    )
    return replace(output, command="import")


def _unknown(run: ImportedRun, terms: Terms) -> Iterator[str]:
    """Yield a sentence for each thing that neither the file nor the user says."""
    for sentence in run.unknown:
        if not (terms.adjacency and sentence.startswith("adjacency:")):
            yield sentence
    if run.examples is None and terms.examples is None:
        yield "number of examples: one that fits the rate is written; epsilon does not depend on it"
    if not run.delta:
        yield "delta: that of --delta"


def _load(run: ImportedRun, noise: str, path: str) -> Loaded:
    """Return the config of a run, loaded; InputError names the file, not lines of a config that is not yet written."""
    try:
        return load_text(_config_text(run, noise, path), path="imported config")
    except InputError as error:
        raise InputError(f"{visible(path)}: dpcalc has no config for this run: {error}") from None


def _config_text(run: ImportedRun, noise: str, path: str) -> str:
    """Return the config of a run as YAML, with comments on what the file does not say; `noise` replaces "{noise}"."""
    lines = [f"# {run.origin}, {visible(path)}. Not in the file, so check it:"]
    lines += [f"# - {sentence}" for sentence in run.unknown]
    smallest = max(ceil(1 / part.rate) for part in run.parts)
    examples = run.examples or min(MAX_COUNT, max(smallest, run.group_size))
    lines += ["version: 1", f"data: {{examples: {examples}}}"]
    if len(run.parts) > 1:
        lines.append("phases:")
    for number, part in enumerate(run.parts, start=1):
        mechanism = part.mechanism.replace(_NOISE, noise)
        training = f"{{{part.training or f'steps: {part.steps}'}}}"
        own = [f"sampling: {part.sampling}", f"mechanism: {mechanism}", f"training: {training}"]
        if len(run.parts) == 1:
            lines += own
        else:
            lines += [f"  - name: part-{number}", *(f"    {line}" for line in own)]
    group = f", group_size: {run.group_size}" if run.group_size > 1 else ""
    lines.append(f"privacy: {{adjacency: {run.adjacency}, delta: {run.delta}{group}}}")
    if run.tuning:
        lines.append(f"tuning: {run.tuning}")
    if run.target_epsilon is not None:
        lines.append(f"budget: {{epsilon: {run.target_epsilon!r}}}")
    return "\n".join(lines) + "\n"
