"""Policy of an organisation: limits and requirements for every config, beside the config's own budget."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from dpcalc.config.discovery import PYPROJECT, dpcalc_table, folders_to_search
from dpcalc.config.documents import parse_toml
from dpcalc.config.files import Refusal, refuse_outward_link
from dpcalc.config.source import MAX_BYTES, decode, read_bytes, visible
from dpcalc.errors import InputError
from dpcalc.gate.revision import find_revision
from dpcalc.gate.verdict import Limit
from dpcalc.records import dataclass

TABLE = "[tool.dpcalc.policy]"
_OURS = ("configs", "policy")  # keys of [tool.dpcalc]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Requirements on every config; the default requires nothing.

    Attributes:
        max_epsilon: largest epsilon, or None.
        max_increase_pct: largest increase over the base in percent, or None.
        warn_at_pct: percentage of the limit above which a warning is given, or None.
        require_budget: whether a file without a budget of its own fails.
        strict: whether a warning fails a file.
    """

    max_epsilon: Limit | None = None
    max_increase_pct: Limit | None = None
    warn_at_pct: float | None = None
    require_budget: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        """Raise InputError for a limit that is negative or not finite."""
        for limit in filter(None, (self.max_epsilon, self.max_increase_pct)):
            if not 0 <= limit.value < math.inf:
                raise InputError(f"{limit.source}: expected a finite number >= 0, got {limit.value!r}")

    def combined_with(self, other: "Policy") -> "Policy":
        """Return the policy that demands all that either demands: smallest limits and percentage, any flag."""
        shares = [share for share in (self.warn_at_pct, other.warn_at_pct) if share is not None]
        return Policy(
            max_epsilon=strictest_limit((self.max_epsilon, other.max_epsilon)),
            max_increase_pct=strictest_limit((self.max_increase_pct, other.max_increase_pct)),
            warn_at_pct=min(shares, default=None),
            require_budget=self.require_budget or other.require_budget,
            strict=self.strict or other.strict,
        )


NO_POLICY = Policy()
"""The policy that requires nothing."""


def strictest_limit(limits: Iterable[Limit | None]) -> Limit | None:
    """Return the smallest limit, the first of equal ones; None of no limits. NaN counts as smaller than all."""
    stated = [limit for limit in limits if limit is not None]
    return min(stated, key=lambda limit: -math.inf if math.isnan(limit.value) else limit.value, default=None)


def effective_policy(named: str | None, folder: Path, base: str) -> Policy:
    """Return the policy in file `named` (None: nearest pyproject.toml with one), made stricter by that at `base`.

    Args:
        named: the file, or None for the nearest `pyproject.toml` upwards that has a policy.
        folder: the current directory, absolute.
        base: a git revision, or "": a change under review does not loosen the policy that judges it.

    Raises:
        InputError: a file cannot be used.
    """
    # The policy of the base counts as well: a change under review cannot loosen the policy that judges it.
    # The nearest file that has a policy counts, not the nearest pyproject.toml: a package in a monorepo may have none.
    places = [named] if named is not None else [str(folder / PYPROJECT) for folder in folders_to_search(folder)]
    policy = NO_POLICY
    for place in places:
        refuse_outward_link(place)
        if named is not None or (Path(place).is_file() and _policy_table(read_bytes(place), place) is not None):
            policy = parse_policy(read_bytes(place), place)
            break
    return policy.combined_with(_base_policy(places, base)) if base else policy


def _base_policy(places: Iterable[str], base: str) -> Policy:
    """Return the policy at a revision, of the first of some files that has one; NO_POLICY if none can be read."""
    for place in places:
        try:
            revision = find_revision(base, Path(place).absolute().parent)
            data = revision.content(revision.path_from_top(place), limit=MAX_BYTES)
            if data is not None and (Path(place).name != PYPROJECT or _policy_table(data, place) is not None):
                return parse_policy(data, place)
        except (InputError, Refusal):
            continue
    return NO_POLICY


def parse_policy(data: bytes, path: str) -> Policy:
    """Return the policy in [tool.dpcalc.policy], or at the top of a file of its own; InputError if missing or wrong.

    Args:
        data: a `[tool.dpcalc.policy]` table or, in a file of its own, its keys at the top.
        path: the file's name, for messages.

    Raises:
        InputError: it is no TOML, or has an unknown key or value.
    """
    table = _policy_table(data, path)
    if table is None and Path(path).name == PYPROJECT:
        raise InputError(f"{visible(path)}: expected a table {TABLE}, got none")
    content = _toml_content(data, path) if table is None else table
    unknown = [name for name in content if name not in _READERS]
    if unknown:
        known = ", ".join(_READERS)
        raise InputError(f"{visible(path)}: expected keys of a policy ({known}), got `{visible(unknown[0])}`")
    shown = visible(Path(path).name)
    read = {name: _READERS[name](value, f"{name} of {shown}") for name, value in content.items()}
    limits = {
        name: Limit(value=value, source=f"{name} of {shown}")
        for name, value in read.items()
        if name in {"max_epsilon", "max_increase_pct"}
    }
    return Policy(
        max_epsilon=limits.get("max_epsilon"),
        max_increase_pct=limits.get("max_increase_pct"),
        warn_at_pct=read.get("warn_at_pct"),
        require_budget=bool(read.get("require_budget")),
        strict=bool(read.get("strict")),
    )


def _policy_table(data: bytes, path: str) -> dict[str, object] | None:
    """Return the table [tool.dpcalc.policy] of a TOML file, None without; InputError for unknown keys beside it."""
    ours = dpcalc_table(_toml_content(data, path))
    unknown = [key for key in ours if key not in _OURS]
    if unknown:
        known = ", ".join(_OURS)
        raise InputError(f"{visible(path)}: expected keys of [tool.dpcalc] ({known}), got `{visible(unknown[0])}`")
    table = ours.get("policy")
    if table is not None and not isinstance(table, dict):
        raise InputError(f"{visible(path)}: expected a table {TABLE}, got a value")
    return table


def _toml_content(data: bytes, path: str) -> dict[str, object]:
    """Return a TOML file as dictionaries; raise InputError if it is malformed, too deep or too large."""
    shown = visible(path)
    try:
        return parse_toml(decode(data, path))
    except InputError:
        raise  # it is a ValueError too
    except Refusal as cause:
        raise InputError(f"{shown}: {cause.message}; {cause.hint}") from None
    except (ValueError, RecursionError) as cause:
        raise InputError(f"{shown}: expected TOML, got what cannot be read: {visible(str(cause))}") from None


def _number(value: object, where: str) -> float:
    """Return a finite number >= 0, also from text such as "3"; raise InputError for anything else, also booleans."""
    try:
        number = math.nan if isinstance(value, bool) or value is None else float(str(value))
    except ValueError:
        number = math.nan
    if isinstance(value, list | dict) or not 0 <= number < math.inf:
        raise InputError(f"{where}: expected a finite number >= 0, got {visible(str(value))[:60]}")
    return number


def _flag(value: object, where: str) -> bool:
    """Return a Boolean; raise InputError for anything else."""
    if not isinstance(value, bool):
        raise InputError(f"{where}: expected true or false, got {visible(str(value))[:60]}")
    return value


_READERS: dict[str, Callable[[object, str], float | bool]] = {
    "max_epsilon": _number,
    "max_increase_pct": _number,
    "warn_at_pct": _number,
    "require_budget": _flag,
    "strict": _flag,
}
