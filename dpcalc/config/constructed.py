"""Tasks that every step constructs: what `sampling.episodes` asks of levels, unit, clipping and length."""

from collections.abc import Iterator

from dpcalc.config.diagnostics import Diagnostic
from dpcalc.config.forms import EPISODES
from dpcalc.config.nodes import Items, Scalar, Section, entry
from dpcalc.config.sections import RunSections, Sections
from dpcalc.config.sizes import shortest
from dpcalc.config.source import error
from dpcalc.sampling.episodes import TASK


def has_episodes(run: RunSections) -> bool:
    """Whether a phase says that tasks are constructed, rightly or not."""
    return entry(run.run.sections.entries.get("sampling"), EPISODES) is not None


def episode_problems(found: Sections) -> Iterator[Diagnostic]:
    """Errors in what a file says of constructed tasks.

    Args:
        found: the sections; those that are wrong in themselves are None and are not looked at.

    Yields:
        The errors.
    """
    runs = [run for run in found.runs if has_episodes(run)]
    if not runs or found.data is None:
        return
    names = tuple(level.name for level in found.data.levels)
    yield from _no_level(found.root, names)
    for run in runs:
        yield from _levels(run, names)
        yield from _sizes(run, found)
        yield from _clip(run, names)
        yield from _epochs(run)


def task_as_unit(unit: Scalar, names: tuple[str, ...]) -> Diagnostic:
    """A constructed task that is to be protected."""
    message = f"`{unit.path}` is `{TASK}`, but tasks are constructed anew in every step: a record sits in many of them"
    return error("DPC206", unit.anchor, message, f"hiding one task hides nobody; protect {_either(names)}")


def _no_level(root: Section, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """No level bears the name of what is constructed."""
    levels = entry(entry(root, "data"), "levels")
    for number, name in enumerate(names):
        node = entry(levels.items[number], "name") if isinstance(levels, Items) else None
        if name == TASK and node is not None:
            message = f"`{node.path}` is `{TASK}`, which is what `sampling.{EPISODES}` constructs from the levels"
            yield error("DPC107", node.anchor, message, "the levels are the classes and their records: name them so")


def _levels(run: RunSections, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Classes and their records, and nothing else."""
    built = entry(run.run.sections.entries.get("sampling"), EPISODES)
    if built is not None and len(names) != 2:
        what = f"the data have {len(names)} ({', '.join(names)})"
        message = f"`{built.path}` takes two levels, classes and their records, and {what}"
        yield error("DPC107", built.anchor, message, "e.g. `class` and `image`, each with its count")


def _sizes(run: RunSections, found: Sections) -> Iterator[Diagnostic]:
    """Tasks for which there are enough classes and records."""
    built, ends, data = run.episodes, found.ends, found.data
    section = entry(run.run.sections.entries.get("sampling"), EPISODES)
    if built is None or section is None or data is None:
        return
    if not built.shots + built.queries:
        message = f"`{section.path}` has no records: `shots` and `queries` are both 0"
        yield error("DPC106", section.anchor, message, "a task needs at least one record of each class")
    if ends is None or len(ends) != 2:
        return
    ways = entry(section, "ways")
    (classes, _), (records, most) = ends
    names = [level.name for level in data.levels]
    if built.ways > classes and ways is not None:
        message = f"`{ways.path}` is {built.ways}, more than the {classes} of level `{names[0]}`"
        yield error("DPC106", ways.anchor, message, "a task draws its classes without replacement")
    if built.shots + built.queries > records:
        place = shortest(found.tree, 2)
        limit = f"`{place}`" if place and records < most else f"level `{names[1]}`"
        message = f"`{section.path}` draws {built.shots} + {built.queries} records of a class"
        message += f", more than the {'smallest count ' if records < most and not place else ''}{records} of {limit}"
        yield error("DPC106", section.anchor, message, "lower `shots` or `queries`")


def _clip(run: RunSections, names: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Clipped vectors that a step has: of its tasks, or of the records in them."""
    clip = entry(run.run.sections.entries.get("mechanism"), "clip")
    if run.mechanism and clip is not None and len(names) == 2 and run.clip == names[0]:
        message = f"`{clip.path}` is `{names[0]}`, which can be in several tasks of a step and has no vector of its own"
        hint = f"`clip: {TASK}` clips each constructed task, `clip: {names[1]}` each {names[1]} in it"
        yield error("DPC107", clip.anchor, message, hint)


def _epochs(run: RunSections) -> Iterator[Diagnostic]:
    """A length in steps: constructed tasks make no passes over the data."""
    epochs = entry(run.run.sections.entries.get("training"), "epochs")
    if epochs is not None:
        message = f"`{epochs.path}` is no number of steps: constructed tasks make no passes over the data"
        yield error("DPC107", epochs.key or epochs.anchor, message, "state `steps`")


def _either(names: tuple[str, ...]) -> str:
    """Levels to choose from."""
    return " or ".join(f"`{name}`" for name in names)
