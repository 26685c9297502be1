"""Errors between the levels of a config: sizes that contradict each other, redraw periods, and shuffle passes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from dpcalc.config import scalars
from dpcalc.config.messages import missing_key_error
from dpcalc.config.overrides import ASSUMED
from dpcalc.config.schema import Draw
from dpcalc.config.sections import RunSections, Sections
from dpcalc.config.source import Diagnostic, Mark, error
from dpcalc.config.tree import Items, Node, Scalar, Section, entry, node_at
from dpcalc.config.values import AT_MOST, AtMost
from dpcalc.sampling.schemes import Fixed, WithReplacement
from dpcalc.sampling.trees import MAX_RECORDS, Tree, indexed

_SIZE_KEYS = ("count", "min", "max")


def size_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the errors about counts, sizes of draws and epochs.

    Args:
        config: the sections; a section that is None has errors of its own and is skipped.

    Yields:
        Sizes that are missing, stated twice or in the wrong order; more than MAX_RECORDS records; draws of more units
        than the smallest parent holds; expected numbers and epochs where the number of units is not known.
    """
    if config.data is None:
        return
    yield from _size_statement_errors(config)
    count_ranges = config.count_ranges
    if count_ranges is None:
        return
    if max_units(config, len(count_ranges)) > MAX_RECORDS:
        yield error(
            "DPC106", _last_size_mark(config.root), f"more than {MAX_RECORDS:.0e} records in all", "check the counts"
        )
    names = [level.name for level in config.data.levels]
    for run in config.runs:
        sampling = run.node("sampling")
        for number, (name, (fewest, largest)) in enumerate(zip(names, count_ranges, strict=True), start=1):
            draw = entry(sampling, name)
            scheme = entry(draw, "scheme")
            if not isinstance(scheme, Scalar) or scheme.text != WithReplacement.name:
                is_fixed = isinstance(scheme, Scalar) and scheme.text == Fixed.name
                advice = f"; `size: {{{AT_MOST}: N}}` takes all of a smaller one" if is_fixed else ""
                parent = smallest_parent_path(config.tree, number)
                yield from _draw_size_errors(entry(draw, "size"), (name, fewest, largest), parent, advice)
            # The rate of a Poisson draw refers to the largest parent, see build._scheme.
            yield from _draw_size_errors(entry(draw, "expected"), (name, largest, largest))
            yield from _expected_errors(entry(draw, "expected"), name, fewest, largest)
        yield from _epoch_errors(run, names, count_ranges, config.tree)


def max_units(config: Sections, depth: int) -> int:
    """Return the largest number of units that a level can have in the whole data set; 0 if it is not known.

    Args:
        config: the sections.
        depth: number of the level, from 1.
    """
    if config.tree is not None:
        return sum(config.tree.sizes[depth - 1])
    return prod(largest for _, largest in config.count_ranges[:depth]) if config.count_ranges else 0


def has_assumed_sizes(root: Section) -> bool:
    """Return True if some level's count was assumed by dpcalc instead of written by the user."""
    levels = node_at(root, "data", "levels")
    counts = (entry(level, "count") for level in levels.items) if isinstance(levels, Items) else ()
    return any(count is not None and count.mark.source.path == ASSUMED for count in counts)


def _last_size_mark(root: Section) -> Mark:
    """Return the place of the tree, or else of the last level's size, or else of the file."""
    data = entry(root, "data")
    levels, tree = entry(data, "levels"), entry(data, "tree")
    last = levels.items[-1] if isinstance(levels, Items) else None
    return (tree or entry(last, "count") or entry(last, "max") or root).anchor


def _size_statement_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield errors for levels whose size is missing or stated twice."""
    levels = node_at(config.root, "data", "levels")
    tree = node_at(config.root, "data", "tree")
    if not isinstance(levels, Items):
        return
    for level in levels.items:
        if not isinstance(level, Section):
            continue
        stated = {key: level.entries[key] for key in level.entries if key in _SIZE_KEYS}
        if tree is not None:
            for key, node in stated.items() if len(levels.items) > 1 else ():
                message = f"`{key}` in `{level.path}` and `data.tree` both say how many there are"
                yield error("DPC107", node.key or node.anchor, message, "with a tree the levels have names only")
        elif "count" in stated and len(stated) > 1:
            node = stated["count"]
            message = f"`count` and {' and '.join(f'`{key}`' for key in stated if key != 'count')} in `{level.path}`"
            yield error("DPC107", node.key or node.anchor, f"{message} both say how many there are", "keep one of them")
        elif "count" not in stated:
            yield from _range_errors(level, stated)


def _range_errors(level: Section, stated: dict[str, Node]) -> Iterator[Diagnostic]:
    """Yield errors for a level without `count`: `min` or `max` missing, or in the wrong order.

    Args:
        level: the level's mapping.
        stated: its size keys with their values.
    """
    if not stated:
        yield missing_key_error(level, "count")
        return
    for key in ("min", "max"):
        if key not in stated:
            yield missing_key_error(level, key)
    fewest, largest = (scalars.number_of(stated.get(key)) for key in ("min", "max"))
    if fewest is not None and largest is not None and fewest > largest:
        node = stated["min"]
        message = f"`{node.path}` is {fewest}, more than the {largest} of `max`"
        yield error("DPC106", node.anchor, message, "check both numbers")


def smallest_parent_path(tree: Tree | None, level: int) -> str:
    """Return the dotted path of the first unit in a tree that holds the fewest units of a level.

    Args:
        tree: sizes of all units, or None.
        level: number of the level whose units are counted, from 1.

    Returns:
        A path such as "data.tree[0][2]"; "" without a tree.
    """
    if tree is None:
        return ""
    position = tree.first_below(level, min(tree.sizes[level - 1]) + 1)
    return "" if position is None else f"data.tree{indexed(position[0])}"


def _draw_size_errors(
    amount: Node | None, level: tuple[str, int, int], parent: str = "", advice: str = ""
) -> Iterator[Diagnostic]:
    """Yield an error if a draw takes more units than the smallest parent holds.

    Args:
        amount: the size or expected number as written, or None.
        level: (name, fewest units under one parent, most units under one parent).
        parent: dotted path of the smallest parent in `data.tree`, "" without a tree.
        advice: what else to do, appended to the hint.
    """
    name, fewest, largest = level
    number = scalars.number_of(amount)
    if amount is None or number is None or number <= fewest:
        return
    if parent and fewest < largest:
        limit = f"the {fewest} of `{parent}`"
    else:
        limit = f"the {'count' if fewest == largest else 'smallest count'} {fewest} of level `{name}`"
    message = f"`{amount.path}` is {scalars.describe(amount)}, more than {limit}"
    yield error("DPC106", amount.anchor, message, f"check both numbers; `scheme: all` draws everything{advice}")


def _expected_errors(expected: Node | None, name: str, fewest: int, largest: int) -> Iterator[Diagnostic]:
    """Yield an error if `expected` gives no single rate, because parents differ in size."""
    if expected is not None and fewest < largest:
        message = f"`{expected.path}` gives no rate: level `{name}` has {fewest} to {largest} units under one parent"
        yield error(
            "DPC107", expected.key or expected.anchor, message, "state `rate`, which is the same for all of them"
        )


def _epoch_errors(
    run: RunSections, names: list[str], count_ranges: tuple[tuple[int, int], ...], tree: Tree | None
) -> Iterator[Diagnostic]:
    """Yield an error if epochs cannot be converted into steps, because the number of units is not known."""
    epochs = run.node("training", "epochs")
    if epochs is None or tree is not None or run.sampling is None:
        return
    for name, (fewest, largest) in zip(names, count_ranges, strict=True):
        draw = run.sampling.get(name)
        if draw is None or draw.scheme == "all":
            continue
        if draw.scheme != "poisson" and fewest < largest:
            message = f"`{epochs.path}` is no number of steps: nobody knows how many of level `{name}` there are"
            yield error("DPC107", epochs.key or epochs.anchor, message, "state `steps`")
        return


# Redraw periods and shuffle passes: rules between a level and the levels above it.


@dataclass(frozen=True, kw_only=True)
class _LevelDraw:
    """The draw of one level in one phase.

    Attributes:
        name: name of the level.
        draw: the validated draw; None if the file omits it, which means that all units are drawn.
        node: the draw as the file has it, or None.
        draws_all: True if every draw (for shuffle: every pass) holds all units.
    """

    name: str
    draw: Draw | None
    node: Node | None
    draws_all: bool

    @property
    def redraw_period(self) -> int:
        """Number of steps that use one draw."""
        return 1 if self.draw is None else self.draw.redraw_every


def redraw_period_errors(config: Sections) -> Iterator[Diagnostic]:
    """Yield the errors about redraw periods and about shuffling below a sampled level.

    Args:
        config: the sections; a section that is None has errors of its own and is skipped.

    Yields:
        One error for each level that does not fit the levels above it.
    """
    for run in config.runs:
        levels = tuple(_level_draws(run, config))
        for above, level in pairwise(levels):
            yield from _period_errors(above, level)
        for number, level in enumerate(levels):
            yield from _shuffle_errors(levels[:number], level)


def _level_draws(run: RunSections, config: Sections) -> Iterator[_LevelDraw]:
    """Yield the levels of a phase with their draws, outermost first; nothing if one has errors."""
    if run.sampling is None or config.data is None:
        return
    sampling = run.node("sampling")
    count_ranges = config.count_ranges or tuple((0, 0) for _ in config.data.levels)
    for level, (fewest, largest) in zip(config.data.levels, count_ranges, strict=True):
        draw = run.sampling.get(level.name)
        draws_all = _draws_every_unit(draw, largest if fewest == largest else 0)
        yield _LevelDraw(name=level.name, draw=draw, node=entry(sampling, level.name), draws_all=draws_all)


def _draws_every_unit(draw: Draw | None, count: int) -> bool:
    """Return True if each draw (for shuffle: each pass) is certain to hold all `count` units; count 0: unknown."""
    match draw:
        case Draw(scheme="poisson", rate=rate, expected=expected):
            return rate == 1 or expected == count
        case Draw(scheme="fixed", size=AtMost(size=size)):
            return 0 < count <= size
        case Draw(scheme="fixed", size=size):
            return size == count
        case Draw(scheme="with-replacement"):
            return count == 1
        case _:
            return True


def _period_errors(above: _LevelDraw, level: _LevelDraw) -> Iterator[Diagnostic]:
    """Yield an error unless the period of a level divides the period of the level above it."""
    node = entry(level.node, "redraw_every")
    if node is None or not above.redraw_period % level.redraw_period:
        return
    message, period = f"`{node.path}` is {level.redraw_period}", above.redraw_period
    if level.redraw_period > period:
        message += f", longer than the {period} of level `{above.name}`, out of which level `{level.name}` is drawn"
        hint = f"hold `{above.name}` for as long or a multiple: a new {above.name} needs a new draw within"
    else:
        message += f", which does not divide the {period} of level `{above.name}`"
        hint = f"one draw of `{above.name}` must hold for a whole number of draws of `{level.name}`"
    yield error("DPC107", node.anchor, message, hint)


def _shuffle_errors(above: tuple[_LevelDraw, ...], level: _LevelDraw) -> Iterator[Diagnostic]:
    """Yield an error for a shuffled level below a sampled one: a pass must go over all units."""
    node = entry(level.node, "scheme")
    sampled = next((parent for parent in above if not parent.draws_all), None)
    if node is not None and sampled is not None and level.draw and level.draw.scheme == "shuffle":
        message = f"`{node.path}` is `shuffle`, but level `{sampled.name}` above it is not drawn whole"
        hint = f"a pass goes over all units: draw `{sampled.name}` with scheme all, or state another scheme here"
        yield error("DPC107", node.anchor, message, hint)
