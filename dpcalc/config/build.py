"""From right sections to the plan."""

from fractions import Fraction
from math import ceil

from dpcalc.adjacency import Adjacency
from dpcalc.config import schema
from dpcalc.config.diagnostics import ConfigError
from dpcalc.config.nodes import Scalar, entry
from dpcalc.config.schema import FixedDraw, PoissonDraw, Training
from dpcalc.config.sections import Draw, RunSections, Sections
from dpcalc.config.source import error, whole_file
from dpcalc.config.values import BATCH, MAX_COUNT
from dpcalc.errors import InputError
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.plan import Budget, Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme

SINGLE_PHASE = "training"  # what the only phase of a file without `phases` is called


def build(found: Sections) -> Plan:
    """The plan of a file without errors.

    Args:
        found: all sections right, no contradiction between them.

    Returns:
        The plan; rates are exact, epochs are whole steps.

    Raises:
        ConfigError: epochs that make absurdly many steps, or a refusal by the plan itself.
    """
    data, privacy, accounting = found.data, found.privacy, found.accounting
    if data is None or privacy is None or accounting is None:
        raise LookupError("build: expected sections without errors, got a missing one")
    names = [level.name for level in data.levels]
    try:
        return Plan(
            name=_text(entry(found.root, "name")),
            phases=tuple(_phase(run, number, found) for number, run in enumerate(found.runs, start=1)),
            unit=names.index(privacy.unit) + 1 if privacy.unit else 1,
            adjacency=privacy.adjacency or Adjacency.ADD_REMOVE,
            delta=float(privacy.delta),
            budget=_budget(found.budget),
            method=accounting.method,
        )
    except ConfigError:
        raise
    except InputError as cause:
        raise whole_file(found.root.mark.source.path, "DPC106", str(cause), "") from cause


def _budget(budget: schema.Budget | None) -> Budget | None:
    """What the plan may cost, if the file says so."""
    if budget is None:
        return None
    rise = budget.max_increase_pct
    return Budget(epsilon=float(budget.epsilon), max_increase_pct=None if rise is None else float(rise))


def _phase(run: RunSections, number: int, found: Sections) -> Phase:
    """One phase of the plan."""
    data, ends = found.data, found.ends
    if run.sampling is None or run.mechanism is None or run.training is None or data is None or ends is None:
        raise LookupError(f"phase {number}: expected sections without errors, got a missing one")
    names = [level.name for level in data.levels]
    levels = (
        Level(name=name, least=least, count=most, scheme=_scheme(run.sampling.get(name), most))
        for name, (least, most) in zip(names, ends, strict=True)
    )
    hierarchy = Hierarchy(levels=tuple(levels), tree=found.tree)
    clip = run.mechanism.clip
    name = _text(entry(run.run.at, "name")) or f"phase {number}"
    return Phase(
        name=name if run.run.path else SINGLE_PHASE,
        hierarchy=hierarchy,
        mechanism=Gaussian(
            noise_multiplier=float(run.mechanism.noise_multiplier),
            max_grad_norm=float(run.mechanism.max_grad_norm),
        ),
        clip=len(names) if clip is None else 0 if clip == BATCH else names.index(clip) + 1,
        steps=_steps(run, run.training, hierarchy),
    )


def _scheme(draw: Draw | None, count: int) -> Scheme:
    """How one level is drawn; an omitted inner level is drawn whole."""
    if isinstance(draw, FixedDraw):
        return Fixed(size=draw.size)
    if isinstance(draw, PoissonDraw):
        return Poisson(probability=draw.rate if draw.rate is not None else Fraction(draw.expected or 0, count))
    return All()


def _steps(run: RunSections, training: Training, hierarchy: Hierarchy) -> int:
    """The length in steps: an epoch sees the outermost level that is not drawn whole once on average."""
    if training.steps is not None:
        return training.steps
    steps = ceil((training.epochs or 0) / _share(hierarchy))
    node = entry(run.run.sections.entries.get("training"), "epochs")
    if steps > MAX_COUNT and node is not None:
        message = f"`{node.path}` makes more than {MAX_COUNT:.0e} steps"
        raise ConfigError([error("DPC106", node.anchor, message, "check the epochs and the rate")])
    return steps


def _share(hierarchy: Hierarchy) -> Fraction:
    """The part of the outermost level that is not drawn whole which one step draws on average."""
    for number, level in enumerate(hierarchy.levels, start=1):
        if isinstance(level.scheme, Fixed):
            return Fraction(level.scheme.size * hierarchy.units(number - 1), hierarchy.units(number))
        if isinstance(level.scheme, Poisson):
            return level.scheme.probability
    return Fraction(1)


def _text(node: object) -> str:
    """The text of a name, "" when there is none."""
    return node.text if isinstance(node, Scalar) else ""
