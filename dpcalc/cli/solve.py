"""`dpcalc solve-sigma`, `solve-steps`, `solve-rate`, `solve-group`: the value that meets a target."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.options import Request, given, positive, probability
from dpcalc.cli.output import CommandResult, answer, on_terminal
from dpcalc.config.edit import Rewrite
from dpcalc.config.edit import write as written_into
from dpcalc.config.expand import assumes_in_phases, stated_terms
from dpcalc.config.load import Loaded
from dpcalc.config.source import Diagnostic
from dpcalc.errors import InputError, NoSolution

if TYPE_CHECKING:
    from dpcalc.planner.plan import Plan
    from dpcalc.planner.solve import Goal

TargetEpsilon = Annotated[
    float | None,
    given("E", "The largest epsilon allowed.", positive, "--target-eps", "--target-epsilon", show_default="budget"),
]
TargetRate = Annotated[
    float | None,
    given(
        "X",
        "The largest true positive rate allowed, at the false positive rate of --at-fpr.",
        probability,
        "--target-tpr",
    ),
]
AtRate = Annotated[float | None, given("Y", "The false positive rate for --target-tpr.", probability, "--at-fpr")]
TargetAdvantage = Annotated[
    float | None,
    given("A", "The largest difference of true and false positive rate allowed.", probability, "--target-advantage"),
]
PhaseName = Annotated[
    str | None,
    given("NAME", "The only phase to change.", None, "--phase", autocompletion=options.names_of_config("phases")),
]
Write = Annotated[bool, typer.Option("--write", help="Write the value into the config file, keeping its comments.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print one number only, rounded to the safe side.")]

# For each quantity the section and key that each phase must state or all must lack ("" for any), and what is assumed
# of a config that does not state it.
SECTIONS = {"sigma": "mechanism", "steps": "training", "rate": "sampling", "group": ""}
KEYS = {"sigma": "noise_multiplier", "steps": "steps"}
ASSUMED = {
    "sigma": ("mechanism.noise_multiplier=1",),
    "steps": ("training.steps=1_000_000",),
    "rate": ("sampling.rate=0.001", "sampling.size=1"),
    "group": (),
}


def _solver(name: str, text: str) -> Callable[..., CommandResult]:
    """Return the command `solve-<name>`; without --phase and --write for a group, which changes no config."""

    def solver(
        request: Request,
        *,
        target: TargetEpsilon = None,
        target_tpr: TargetRate = None,
        at_fpr: AtRate = None,
        target_advantage: TargetAdvantage = None,
        phase: PhaseName = None,
        write: Write = False,
        quiet: Quiet = False,
    ) -> CommandResult:
        if (target_tpr is None) != (at_fpr is None):
            raise InputError(
                "--target-tpr and --at-fpr: expected both or none, got one; a rate needs the other beside it"
            )
        targets = {"--target-eps": target, "--target-tpr": target_tpr, "--target-advantage": target_advantage}
        given = [option for option, value in targets.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"target: expected one, got {' and '.join(given)}; leave out all but one")
        loaded = request.load(assumed=ASSUMED[name], allow_any_size=name == "rate")
        plan = loaded.plan

        from dpcalc.planner.advice import unused_order
        from dpcalc.planner.composition import composed
        from dpcalc.planner.solve import AttackGoal, EpsilonGoal, solve
        from dpcalc.planner.vary import select_phase
        from dpcalc.report.solution import no_solution_output, solution_output, with_safe_decimal

        if target_tpr is not None and at_fpr is not None:
            goal: Goal = AttackGoal(limit=target_tpr, false_positive_rate=at_fpr)
        elif target_advantage is not None:
            goal = AttackGoal(limit=target_advantage)
        elif target is not None:
            goal = EpsilonGoal(limit=target)
        elif plan.budget is not None:
            goal = EpsilonGoal(limit=plan.budget.epsilon)
        else:
            raise InputError("no target: expected --target-eps E, or `budget: {epsilon: E}` in the config, got neither")
        if write and not Path(loaded.path).is_file():  # one made of options, or standard input
            raise InputError(f"--write: expected a config file to change, got {loaded.path}; give one, or leave it out")
        lacking: list[str] = []  # phases whose value was assumed
        if name in KEYS:
            names = [each.name for each in plan.phases]
            assumed = assumes_in_phases(loaded.tree, SECTIONS[name], KEYS[name])
            lacking = [each for each, is_assumed in zip(names, assumed, strict=True) if is_assumed]
            # An answer for some phases would rest on the value that was assumed for the others.
            if lacking not in ([], names if phase is None else [phase]):
                expected = "one in every phase" if phase is None else f"one in every phase but {phase}"
                raise InputError(
                    f"{SECTIONS[name]}: expected {expected}, got none in {', '.join(lacking)}; --phase solves for one "
                    "phase"
                )
        try:
            if name == "rate":  # in the terms of the config: where it states an expected batch size, for that
                chosen = select_phase(plan, phase, "rate")
                words = stated_terms(loaded.tree, plan.phases.index(chosen), chosen.hierarchy)
                solution = solve(plan, "batch" if words.amount else "rate", goal=goal, phase=phase, epochs=words.epochs)
                solution = replace(solution, key=words.amount) if solution.key == "expected" else solution
            else:
                solution = solve(plan, name, goal=goal, phase=phase)
            solution = with_safe_decimal(solution, plan)
        except NoSolution as failure:
            output = no_solution_output(f"solve-{name}", failure, loaded)
            fixed = [each for each in plan.phases if each.noise_multiplier is None or phase not in {None, each.name}]
            notes = []
            if name == "sigma" and fixed and failure.goal.name == "epsilon":  # with noise 1e9 the others cost nothing
                kept = ", ".join(each.name for each in fixed)
                notes = [f"the phases that keep their noise cost as much as best.epsilon alone: {kept}"]
            is_lost = not request.form and (quiet or not on_terminal())
            asides = (f"{output.headline}; {dict(output.rows)['best']}",) if is_lost else ()
            findings = _findings(loaded, plan)
            return answer(output, findings, notes, form=request.form, quiet=quiet, asides=asides, code=1)

        if name == "sigma" and len(lacking) == len(plan.phases):
            solution = replace(solution, name="noise_multiplier")  # a factor on an assumed noise of 1
        written: tuple[str, ...] = ()
        refusal: tuple[str, ...] = ()
        held = "the noise is held: keep `{}`, for another run {} finds other noise"
        notes = [
            f"{each.words}; this is dpcalc's own smallest" if name == "sigma" else held.format(each.assuming, each.by)
            for each in plan.calibrations
        ]
        if write:
            rewrite = Rewrite(
                path=loaded.path,
                key=loaded.section,
                section=SECTIONS[name],
                before=plan,
                after=solution.plan,
                assumed=ASSUMED[name],
            )
            try:
                written = written_into(rewrite)
                changes = [f"wrote {change}" for change in written]
                notes += changes or [f"{loaded.path} has this value already: nothing was written"]
            except InputError as error:  # the value is known: say it all the same
                refusal = (f"error: {error}",)
        output = solution_output(f"solve-{name}", solution, loaded, written=written)
        unused = () if quiet or solution.plan.tuning else unused_order(composed(solution.plan))
        return answer(
            output,
            _findings(loaded, solution.plan),
            [*notes, *unused],
            form=request.form,
            quiet=quiet,
            asides=refusal,
            code=2 if refusal else 0,
            changed=(loaded.path,) if written else (),
        )

    solver.__name__, solver.__doc__ = f"solve_{name}", text
    if name == "group":
        signature = inspect.signature(solver, eval_str=True)
        kept = [each for each in signature.parameters.values() if each.name not in {"phase", "write"}]
        solver.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # it is read from there
    return solver


def _findings(loaded: Loaded, plan: Plan) -> list[Diagnostic]:
    """Return the findings on a config, but none on noise that was looked for."""
    gone = {"DPC207"} if all(phase.noise_multiplier != 0 for phase in plan.phases) else set()
    gone |= set() if plan.calibrations else {"DPC213"}
    return [finding for finding in loaded.diagnostics if finding.code not in gone]


solve_sigma = _solver(
    "sigma",
    """Find the smallest noise multiplier that meets a target.

    The noise of several phases is scaled by one factor, unless --phase names one. Exit code 1: no value does.

    Example: dpcalc solve-sigma --target-eps 2 --sample-rate 0.004 --steps 14000 --delta 1e-5
    """,
)
solve_steps = _solver(
    "steps",
    """Find the largest number of steps that meets a target.

    Exit code 1: not even one step does.

    Example: dpcalc solve-steps clinic.yaml --target-eps 2 --write
    """,
)
solve_rate = _solver(
    "rate",
    """Find the largest sampling rate or batch size that meets a target.

    Changes the outermost level that is subsampled. If the config states `batch_size` or `expected`, the value is a
    whole number of units; `epochs` stay fixed if it states them, else the steps. Exit code 1: no value does.

    Example: dpcalc solve-rate clinic.yaml --target-tpr 0.05 --at-fpr 0.01
    """,
)
solve_group = _solver(
    "group",
    """Find how many units can be protected together within a target.

    The run stays unchanged. Exit code 1: not even one unit.

    Example: dpcalc solve-group clinic.yaml --target-eps 8
    """,
)
