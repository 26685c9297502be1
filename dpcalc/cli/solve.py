"""`dpcalc solve-sigma`, `solve-steps`, `solve-rate`, `solve-group`: the value that meets a target."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.sources import loaded_plan
from dpcalc.errors import InputError
from dpcalc.records import dataclass

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded
    from dpcalc.planner.plan import Plan
    from dpcalc.planner.search import Goal, NoSolution
    from dpcalc.planner.solve import Solution

EPSILON, RATE, AT, ADVANTAGE = "--target-eps", "--target-tpr", "--at-fpr", "--target-advantage"
TargetEpsilon = Annotated[
    str | None,
    typer.Option(EPSILON, "--target-epsilon", metavar="E", help="The largest epsilon allowed.", show_default="budget"),
]
TargetRate = Annotated[
    str | None,
    typer.Option(
        RATE, metavar="X", help="The largest true positive rate allowed, at the false positive rate of --at-fpr."
    ),
]
AtRate = Annotated[str | None, typer.Option(AT, metavar="Y", help="The false positive rate for --target-tpr.")]
TargetAdvantage = Annotated[
    str | None,
    typer.Option(ADVANTAGE, metavar="A", help="The largest difference of true and false positive rate allowed."),
]


def consistent_targets(targets: Mapping[str, str | None]) -> dict[str, float | None]:
    """Return the number of each target option, or None; InputError if one is invalid or they do not fit together."""
    goals = {
        option: options.number(option, text, positive=True) if option == EPSILON else options.probability(option, text)
        for option, text in targets.items()
    }
    if (goals[RATE] is None) != (goals[AT] is None):
        raise InputError("--target-tpr and --at-fpr: expected both or none, got one; a rate needs the other beside it")
    given = [option for option, value in goals.items() if value is not None and option != AT]
    if len(given) > 1:
        raise InputError(f"target: expected one, got {' and '.join(given)}; leave out all but one")
    return goals


def goal_of(goals: Mapping[str, float | None], plan: Plan) -> Goal:
    """Return the goal to solve for: the stated target, else the budget of the plan; InputError without either."""
    from dpcalc.planner.search import AdvantageGoal, DetectionGoal, EpsilonGoal

    epsilon, rate, at, advantage = (goals[option] for option in (EPSILON, RATE, AT, ADVANTAGE))
    if rate is not None and at is not None:
        return DetectionGoal(limit=rate, false_positive_rate=at)
    if advantage is not None:
        return AdvantageGoal(limit=advantage)
    if epsilon is not None:
        return EpsilonGoal(limit=epsilon)
    if plan.budget is not None:
        return EpsilonGoal(limit=plan.budget.epsilon)
    raise InputError("no target: expected --target-eps E, or `budget: {epsilon: E}` in the config, got neither")


# The commands.


SOLVE_SIGMA_EXAMPLE = "Example: dpcalc solve-sigma --target-eps 2 --sample-rate 0.004 --steps 14000 --delta 1e-5"
SOLVE_STEPS_EXAMPLE = "Example: dpcalc solve-steps clinic.yaml --target-eps 2 --write"
SOLVE_RATE_EXAMPLE = "Example: dpcalc solve-rate clinic.yaml --target-tpr 0.05 --at-fpr 0.01"
SOLVE_GROUP_EXAMPLE = "Example: dpcalc solve-group clinic.yaml --target-eps 8"


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A setting that can be solved for.

    Attributes:
        section: of the config, that the setting is in.
        key: in this section, that each phase must state or all must lack; "" for any.
        assumed: "key=value" texts for a config that does not state the setting.
    """

    section: str = ""
    key: str = ""
    assumed: tuple[str, ...] = ()


QUANTITIES = {
    "sigma": Quantity(section="mechanism", key="noise_multiplier", assumed=("mechanism.noise_multiplier=1",)),
    "steps": Quantity(section="training", key="steps", assumed=("training.steps=1_000_000",)),
    "rate": Quantity(section="sampling", assumed=("sampling.rate=0.001", "sampling.size=1")),
    "group": Quantity(),
}

PhaseName = Annotated[
    str | None,
    typer.Option(
        "--phase", metavar="NAME", help="The only phase to change.", autocompletion=options.names_of_config("phases")
    ),
]
Write = Annotated[bool, typer.Option("--write", help="Write the value into the config file, keeping its comments.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print one number only, rounded to the safe side.")]


@dataclass(frozen=True, kw_only=True)
class SolveRequest:
    """Parameters of one call of a solver.

    Attributes:
        name: "sigma", "steps", "rate" or "group".
        targets: options that state a target, with their texts.
        phase: the only phase to change, or None.
        write: whether to write the value into the file.
        as_json: whether to print JSON.
        quiet: whether to print one number only.
    """

    name: str
    targets: Mapping[str, str | None]
    phase: str | None
    write: bool
    as_json: bool
    quiet: bool

    @property
    def quantity(self) -> Quantity:
        """The setting to solve for."""
        return QUANTITIES[self.name]

    @property
    def command(self) -> str:
        """The name of the command."""
        return f"solve-{self.name}"


def _solver(name: str, help_text: str, *, leave_out: Collection[str] = ()) -> Callable[..., CommandResult]:
    """Return the command function of `solve-<name>`, without the options in `leave_out`."""

    def _command(
        context: typer.Context,
        *,
        target: TargetEpsilon = None,
        target_tpr: TargetRate = None,
        at_fpr: AtRate = None,
        target_advantage: TargetAdvantage = None,
        phase: PhaseName = None,
        write: Write = False,
        as_json: options.Json = False,
        quiet: Quiet = False,
    ) -> CommandResult:
        """Return the result of `_solve` for these options and the name that the enclosing function has."""
        targets = {EPSILON: target, RATE: target_tpr, AT: at_fpr, ADVANTAGE: target_advantage}
        request = SolveRequest(name=name, targets=targets, phase=phase, write=write, as_json=as_json, quiet=quiet)
        return _solve(context, request)

    signature = inspect.signature(_command, eval_str=True)
    kept = [each for each in signature.parameters.values() if each.name not in leave_out]
    _command.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    _command.__doc__ = help_text
    _command.__name__ = f"solve_{name}"
    return _command


solve_sigma = _solver(
    "sigma",
    """Find the smallest noise multiplier that meets a target.

    The noise of several phases is scaled by one factor, unless --phase names one. Exit code 1: no value does.
    """,
)
solve_steps = _solver(
    "steps",
    """Find the largest number of steps that meets a target.

    Exit code 1: not even one step does.
    """,
)
solve_rate = _solver(
    "rate",
    """Find the largest sampling rate or batch size that meets a target.

    Changes the outermost level that is subsampled. If the config states `batch_size` or `expected`, the value is a
    whole number of units; `epochs` stay fixed if it states them, else the steps. Exit code 1: no value does.
    """,
)
solve_group = _solver(
    "group",
    """Find how many units can be protected together within a target.

    The run stays unchanged. Exit code 1: not even one unit.
    """,
    leave_out=("phase", "write"),
)


def _solve(context: typer.Context, request: SolveRequest) -> CommandResult:
    """Solve for the stated target or the budget; return the result with the value or, with exit code 1, without one."""
    targets = consistent_targets(request.targets)
    loaded = loaded_plan(context, assumed=request.quantity.assumed, allow_any_size=request.name == "rate")
    goal = goal_of(targets, loaded.plan)
    # Before the search, which may take seconds.
    if request.write:
        _refuse_no_file(loaded)

    from dpcalc.planner.search import NoSolution

    lacking = _phases_lacking(loaded, request)
    _refuse_other_gaps(loaded.plan, lacking, request)
    try:
        solution = _rounded_solution(loaded, request, goal)
    except NoSolution as failure:
        return _unsolved_result(failure, loaded, request)
    if request.name == "sigma" and len(lacking) == len(loaded.plan.phases):
        solution = _as_noise(solution)
    return _solved_result(solution, loaded, request)


def _refuse_no_file(loaded: Loaded) -> None:
    """Raise InputError for --write if the config is no file: one made of options, or standard input."""
    if not Path(loaded.path).is_file():
        raise InputError(f"--write: expected a config file to change, got {loaded.path}; give one, or leave it out")


def _as_noise(solution: Solution) -> Solution:
    """Return a solution for a factor on an assumed noise of 1 as one for the noise multiplier, since both are equal."""
    return replace(solution, name="noise_multiplier")


def _rounded_solution(loaded: Loaded, request: SolveRequest, goal: Goal) -> Solution:
    """Solve, round the value to a short decimal that still meets the goal, and give its guarantee a lower bound."""
    from dpcalc.planner.evaluate import with_lower_bound
    from dpcalc.planner.solve import certified_measure, solve
    from dpcalc.report.solution import with_safe_decimal

    if request.name == "rate":
        solution = _rate_solution(loaded, request, goal)
    else:
        solution = solve(loaded.plan, request.name, goal=goal, phase=request.phase)
    solution = with_safe_decimal(solution, loaded.plan, lambda changed: certified_measure(changed, goal))
    return replace(solution, guarantee=with_lower_bound(solution.plan, solution.guarantee))


def _rate_solution(loaded: Loaded, request: SolveRequest, goal: Goal) -> Solution:
    """Solve for a phase's rate or, if the config states an expected batch size, for that; stated epochs stay fixed."""
    from dpcalc.config.normal import stated_terms
    from dpcalc.planner.solve import solve
    from dpcalc.planner.vary import select_phase

    plan = loaded.plan
    chosen = select_phase(plan, request.phase, "rate")
    words = stated_terms(loaded.tree, plan.phases.index(chosen), chosen.hierarchy)
    quantity = "batch" if words.amount else "rate"
    solution = solve(plan, quantity, goal=goal, phase=request.phase, epochs=words.epochs)
    return replace(solution, key=words.amount) if solution.key == "expected" else solution


def _phases_lacking(loaded: Loaded, request: SolveRequest) -> list[str]:
    """Return the names of the phases whose value of the quantity was assumed; [] for a rate or a group."""
    quantity = request.quantity
    if not quantity.key:
        return []

    from dpcalc.config.normal import assumes_in_phases

    assumed = assumes_in_phases(loaded.tree, quantity.section, quantity.key)
    return [phase.name for phase, is_assumed in zip(loaded.plan.phases, assumed, strict=True) if is_assumed]


def _refuse_other_gaps(plan: Plan, lacking: list[str], request: SolveRequest) -> None:
    """Raise InputError unless the phases without a value (`lacking`) are none, or exactly those solved for."""
    # An answer for some phases would rest on the value that was assumed for the others.
    names = [phase.name for phase in plan.phases]
    if lacking not in ([], names if request.phase is None else [request.phase]):
        section = request.quantity.section
        expected = "one in every phase" if request.phase is None else f"one in every phase but {request.phase}"
        raise InputError(
            f"{section}: expected {expected}, got none in {', '.join(lacking)}; --phase solves for one phase"
        )


def _solved_result(solution: Solution, loaded: Loaded, request: SolveRequest) -> CommandResult:
    """Return the result of a solution, after writing it on request; exit code 2 if the file cannot be written."""
    from dpcalc.report.solution import solution_output

    written: tuple[str, ...] = ()
    refusal: tuple[str, ...] = ()
    notes: list[str] = []
    if request.write:
        try:
            written = _write_solution(solution, loaded, request)
            notes = _write_notes(loaded.path, written)
        except InputError as error:  # the value is known: say it all the same
            refusal = (f"error: {error}",)
    asides = (*_solver_remarks(loaded, solution.plan, request, notes), *refusal)
    code = 2 if refusal else 0
    output = solution_output(request.command, solution, loaded, written=written)
    text = output_text(output, as_json=request.as_json, quiet=request.quiet)
    return CommandResult(text=text, code=code, asides=asides, changed=(loaded.path,) if written else ())


def _write_notes(path: str, changes: tuple[str, ...]) -> list[str]:
    """Return "wrote <change>" for each change, or one note that the file has this value already."""
    return [f"wrote {change}" for change in changes] or [f"{path} has this value already: nothing was written"]


def _write_solution(solution: Solution, loaded: Loaded, request: SolveRequest) -> tuple[str, ...]:
    """Write the solved values into the config file and return a text for each change; InputError if it fails."""
    from dpcalc.config.edit import Rewrite, write

    rewrite = Rewrite(
        path=loaded.path,
        key=loaded.section,
        section=request.quantity.section,
        before=loaded.plan,
        after=solution.plan,
        assumed=request.quantity.assumed,
    )
    return write(rewrite)


def _unsolved_result(failure: NoSolution, loaded: Loaded, request: SolveRequest) -> CommandResult:
    """Return the result if no value meets the target, with exit code 1 and the nearest value.

    With --quiet the nearest value is in a remark.
    """
    from dpcalc.report.solution import no_solution_output

    output = no_solution_output(request.command, failure, loaded)
    kept = [
        phase.name
        for phase in loaded.plan.phases
        if phase.noise_multiplier is None or request.phase not in {None, phase.name}
    ]
    notes = []
    if request.name == "sigma" and kept and failure.goal.name == "epsilon":  # with noise 1e9 the others cost nothing
        notes = [f"the phases that keep their noise cost as much as best.epsilon alone: {', '.join(kept)}"]
    asides = _solver_remarks(loaded, loaded.plan, request, notes)
    if request.quiet and not request.as_json:
        asides = (*asides, f"{output.headline}; {dict(output.rows)['best']}")
    text = output_text(output, as_json=request.as_json, quiet=request.quiet)
    return CommandResult(text=text, code=1, asides=asides)


def _solver_remarks(loaded: Loaded, plan: Plan, request: SolveRequest, notes: list[str]) -> tuple[str, ...]:
    """Return the findings and, unless quiet, the notes; no warning of zero noise if the plan has noise."""
    noisy = all(phase.noise_multiplier != 0 for phase in plan.phases)
    diagnostics = [finding for finding in loaded.diagnostics if not (noisy and finding.code == "DPC207")]
    return remarks(diagnostics, notes, quiet=request.quiet)
