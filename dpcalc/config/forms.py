"""Short forms of one-level files written out; every word keeps the mark of the place where it stands."""

from dataclasses import replace

from dpcalc.config.nodes import USER_KEY, Items, Node, Scalar, Section, entry
from dpcalc.config.schema import DRAW_KEYS

DEFAULT_LEVEL = "example"
BATCH_SIZE = "batch_size"  # until the scheme is known it stands in the draw under this name
EPISODES = "episodes"  # stands in `sampling` instead of draws
_AMOUNT = {"fixed": "size", "with-replacement": "size", "shuffle": "size", "poisson": "expected"}


def level_names(root: Node) -> tuple[str, ...] | None:
    """The names of the levels, outermost first; None while `data` does not tell them all."""
    levels = entry(entry(root, "data"), "levels")
    if not isinstance(levels, Items) or not levels.items:
        return None
    names = [entry(level, "name") for level in levels.items]
    words = tuple(name.text for name in names if isinstance(name, Scalar))
    return words if len(words) == len(names) else None


def is_short(sampling: Node | None, names: tuple[str, ...] | None) -> bool:
    """Whether a `sampling` section describes one draw directly instead of naming levels."""
    if not isinstance(sampling, Section) or EPISODES in sampling.entries:
        return False
    return any(
        key in DRAW_KEYS or isinstance(value, Scalar)
        for key, value in sampling.entries.items()
        if key not in (names or ()) and not key.startswith(USER_KEY)
    )


def long_data(root: Section) -> Section:
    """The file with `data: {examples: N}` written as one level; anything else unchanged."""
    data = root.entries.get("data")
    if not isinstance(data, Section) or "examples" not in data.entries or "levels" in data.entries:
        return root
    count = data.entries["examples"]
    mark = count.key or count.mark
    name = Scalar(text=DEFAULT_LEVEL, plain=False, mark=mark, key=None, path="data.levels[0].name")
    level = Section(entries={"name": name, "count": count}, mark=mark, key=None, path="data.levels[0]")
    levels = Items(items=(level,), mark=mark, key=count.key, path="data.levels")
    entries = {key: value for key, value in data.entries.items() if key != "examples"} | {"levels": levels}
    return replace(root, entries={**root.entries, "data": replace(data, entries=entries)})


def with_ends(root: Section) -> Section:
    """The file with `count: {min: 5, max: 64}` written as `min` and `max` of the level."""
    data = root.entries.get("data")
    levels = entry(data, "levels")
    if not isinstance(data, Section) or not isinstance(levels, Items):
        return root
    items = tuple(_with_level_ends(item) if isinstance(item, Section) else item for item in levels.items)
    entries = {**data.entries, "levels": replace(levels, items=items)}
    return replace(root, entries={**root.entries, "data": replace(data, entries=entries)})


def _with_level_ends(level: Section) -> Section:
    """One level; what says both is left for `sections` to refuse."""
    count = level.entries.get("count")
    if not isinstance(count, Section) or not count.entries or count.entries.keys() & level.entries.keys():
        return level
    entries = {key: value for key, value in level.entries.items() if key != "count"}
    return replace(level, entries={**entries, **count.entries})


def long_phases(root: Section, names: tuple[str, ...] | None) -> Section:
    """The file with the top level and every phase in the long form of `long_run`."""
    root = long_run(root, names)
    phases = root.entries.get("phases")
    if not isinstance(phases, Items):
        return root
    items = tuple(long_run(item, names) if isinstance(item, Section) else item for item in phases.items)
    return replace(root, entries={**root.entries, "phases": replace(phases, items=items)})


def long_run(run: Section, names: tuple[str, ...] | None) -> Section:
    """A file or phase over one level: a direct draw and `batch_size` stand under the level's name.

    Args:
        run: what may hold `sampling` and `training`.
        names: the levels; None counts as one level with the default name.

    Returns:
        The long form; over several levels, and where a section is malformed, the run as it is.
    """
    if names is not None and len(names) != 1:
        return run
    name = names[0] if names else DEFAULT_LEVEL
    sampling, training = run.entries.get("sampling"), run.entries.get("training")
    if isinstance(sampling, Section) and is_short(sampling, names):
        if name in sampling.entries:
            return run  # a draw and a level name: two statements, for `sections` to refuse
        sampling = replace(sampling, entries={name: sampling})
        run = replace(run, entries={**run.entries, "sampling": sampling})
    size = entry(training, BATCH_SIZE)
    if not isinstance(training, Section) or size is None:
        return run
    mark = size.key or size.mark
    sampling = sampling or Section(entries={}, mark=mark, key=mark, path="sampling")
    draw_section = entry(sampling, name) or Section(entries={}, mark=mark, key=mark, path="sampling")
    if not isinstance(sampling, Section) or not isinstance(draw_section, Section):
        return run
    filled = replace(draw_section, entries={**draw_section.entries, BATCH_SIZE: size})
    shorter = {key: value for key, value in training.entries.items() if key != BATCH_SIZE}
    sections = {
        "sampling": replace(sampling, entries={**sampling.entries, name: filled}),
        "training": replace(training, entries=shorter),
    }
    return replace(run, entries={**run.entries, **sections})


def with_sums(mechanism: Node) -> Node:
    """A merged `mechanism` whose `also` is a list."""
    also = entry(mechanism, "also")
    if not isinstance(mechanism, Section) or not isinstance(also, Section):
        return mechanism
    listed = Items(items=(also,), mark=also.mark, key=also.key, path=also.path)
    return replace(mechanism, entries={**mechanism.entries, "also": listed})


def with_amounts(sampling: Node) -> Node:
    """A merged `sampling` whose `batch_size` is the size or the expected number that its scheme takes."""
    if not isinstance(sampling, Section):
        return sampling
    return replace(sampling, entries={name: _with_amount(draw) for name, draw in sampling.entries.items()})


def _with_amount(draw: Node) -> Node:
    """One draw; a second amount beside `batch_size` leaves both for `messages` to refuse."""
    scheme, size = entry(draw, "scheme"), entry(draw, BATCH_SIZE)
    if not isinstance(draw, Section) or not isinstance(scheme, Scalar) or size is None:
        return draw
    key = _AMOUNT.get(scheme.text)
    if key is None or {"size", "rate", "expected"} & draw.entries.keys():
        return draw
    entries = {name: value for name, value in draw.entries.items() if name != BATCH_SIZE} | {key: size}
    return replace(draw, entries=entries)
