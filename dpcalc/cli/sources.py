"""The configs of a command: found or named, and changed by the options that all commands with a config share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from dpcalc.cli.options import EVERY_UNIT, SHARED
from dpcalc.cli.output import print_remark
from dpcalc.config.discovery import VARIABLE, find_configs, folders_to_search, matching_names
from dpcalc.config.load import Loaded, load, load_every_unit, load_from_flags
from dpcalc.config.overrides import ASSUMED, SCHEME_QUESTION, Overrides, missing_flags
from dpcalc.config.source import ConfigError, visible
from dpcalc.errors import DpcalcError, InputError
from dpcalc.gate.diff import ConfigReader
from dpcalc.records import dataclass

if TYPE_CHECKING:
    from dpcalc.planner.plan import Plan

Result = TypeVar("Result")
# (example for whoever has said nothing of a run yet, placeholder beside what somebody has said)
EXAMPLES = {
    "--scheme": ("SCHEME", "SCHEME"),
    "--sample-rate": ("0.004", "RATE"),
    "--batch-size": ("256", "N"),
    "--dataset-size": ("60_000", "N"),
    "--noise-multiplier": ("1.1", "SIGMA"),
    "--steps": ("14_000", "N"),
    "--delta": ("1e-5", "D"),
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the shared options of a command line say; those that a command does not have count as not given."""

    context: typer.Context
    config: str | None  # CONFIG as given
    no_config: bool  # whether no config file is searched for
    key: str  # dotted path of the section of the file that is the config, or ""
    assignments: tuple[str, ...]
    unset: tuple[str, ...]
    form: str = ""  # of --format, which holds --json and --csv too; "" for the form that fits where it goes
    flags: tuple[tuple[str, str], ...]  # the other overriding options with their texts

    def overrides(self, assumed: Sequence[str] = ()) -> Overrides:
        """Return the changes to a config; `assumed` ones hold for keys that nothing else states."""
        return Overrides(assignments=self.assignments, flags=self.flags, unset=self.unset, assumed=tuple(assumed))

    def reader(self, *, base: str | None = None, against: str | None = None) -> ConfigReader:

        return ConfigReader(key=self.key, overrides=self.overrides(), base=base or "", against=against or "")

    def about(self, configs: Sequence[str] | None) -> Request:
        """Return the request with the only config, or None to search for one; InputError for several."""
        if configs and len(configs) > 1:
            raise InputError(
                f"--unit {EVERY_UNIT}: expected one config, got {', '.join(configs)}; ask about one at a time"
            )
        return replace(self, config=configs[0] if configs else None)

    def paths(self, words: Sequence[str] | None) -> tuple[str, ...]:
        """Return the files that the words name or match; InputError for several beside --no-config."""
        paths = tuple(path for word in words or () for path in matching_paths(word))
        if len(paths) > 1 and self.no_config:
            raise InputError(
                f"--no-config: expected no config beside it, got {', '.join(paths)}; leave one of them out"
            )
        return paths

    def path(self) -> str | None:
        """Return the path of the named or the only found config, and print a found one; None if there is none."""
        if self.config is not None and self.no_config:
            raise InputError(f"--no-config: expected no config beside it, got {self.config}; leave one of them out")
        if self.config is not None or self.no_config:
            return self.config

        discovery = find_configs(Path.cwd(), os.environ)
        if discovery is None:
            return None
        path = discovery.only
        if not self.context.params.get("quiet"):
            print_remark(str(discovery))
        return path

    def load(self, *, assumed: Sequence[str] = (), allow_any_size: bool = False) -> Loaded:
        """Return the config that is named, found or made of options; InputError for none, or if no bound covers it."""
        overrides = self.overrides(assumed)
        path = self.path()
        if path is not None:
            loaded = load(path, key=self.key, overrides=overrides)
        else:
            missing = missing_flags(overrides)
            if missing or self.key:
                raise self._no_config_error(missing)
            loaded = load_from_flags(overrides)
        return without_assumed_places(loaded if allow_any_size else loaded.accepted())

    def load_every_unit(self) -> tuple[Loaded, ...]:
        """Return the config once for each level that can be protected; without a file, one made of options."""
        path = self.path()
        if path is None:
            flags = tuple(flag for flag in self.flags if flag[0] != "--unit")  # flags alone tell of one level
            return (replace(self, flags=flags).load(),)
        configs = load_every_unit(path, key=self.key, overrides=self.overrides())
        return tuple(without_assumed_places(config.accepted()) for config in configs)

    def results(
        self, paths: Sequence[str], compute: Callable[[Plan], Result]
    ) -> tuple[list[tuple[Result, Loaded]], tuple[DpcalcError, ...]]:
        """Return the results of the configs that have one, and the errors of the others; ExceptionGroup if none has."""
        reader = self.reader()

        def computed(path: str) -> tuple[Result, Loaded]:
            loaded = without_assumed_places(reader.load(path))
            return compute(loaded.plan), loaded

        results, errors = for_each(paths, computed)
        if not results:
            raise ExceptionGroup("no config has a result", errors)
        return results, errors

    def _no_config_error(self, missing: Sequence[str]) -> InputError:
        """Return the error with the folders searched, what is missing, and two commands that would work."""
        context = self.context
        if self.no_config:
            looked = "--no-config ignores those that are found"
        else:
            folders = folders_to_search(Path.cwd())
            above = " or the folders above it, up to the git root" if len(folders) > 1 else ""
            looked = f"no dpcalc.yaml in {folders[0]}{above}"
        lacks = f"; without one {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed" if missing else ""
        lacks += f": {SCHEME_QUESTION}" if "--scheme" in missing else ""
        # The command as it was typed: its own arguments, and its own options that differ from their defaults.
        command, own = [context.command_path], []
        for param in context.command.params:
            value = context.params.get(param.name or "")
            if param.param_type_name == "argument":
                command += [value] if isinstance(value, str) else []
            elif param.name in SHARED or value is None or value is False or value == param.default:
                continue
            elif value is True:
                own.append(param.opts[0])
            else:
                texts = value if isinstance(value, list | tuple) else [value]
                texts = [f"{each:.15g}" if isinstance(each, float) else str(each) for each in texts]
                own += [f"{param.opts[0]} {text}" for text in texts]
        own += [f"--format {self.form}"] if self.form else []
        # Beside the numbers of somebody's run an example would be taken for a part of it.
        targets = [context.params.get(name) for name in ("target", "target_tpr", "target_advantage")]
        has_target = any(target is not None for target in targets)
        is_begun = bool(self.flags or self.assignments or has_target)
        more = [f"{option} {EXAMPLES[option][is_begun]}" if option in EXAMPLES else option for option in missing]
        if "target" in context.params and not has_target:  # without a config there is no budget
            more.append(f"--target-eps {'E' if is_begun else '2'}")
        flags = [f"{option} {text}" for option, text in self.flags]
        return InputError(
            f"no config found: {looked}{lacks}\n"
            f"  give one:            {' '.join((*command, 'config.yaml', *own))}\n"
            f"  or say it directly:  {' '.join((*command, *own, *flags, *more))}"
        )


def without_assumed_places(loaded: Loaded) -> Loaded:
    """Return a config whose diagnostics on assumed values name the config's path, without line and column."""
    diagnostics = (
        replace(finding, path=loaded.path, line=None, column=None) if finding.path == ASSUMED else finding
        for finding in loaded.diagnostics
    )
    return replace(loaded, diagnostics=tuple(diagnostics))


def for_each(paths: Sequence[str], compute: Callable[[str], Result]) -> tuple[list[Result], tuple[DpcalcError, ...]]:
    """Return the results of a computation on files, and the errors of those without, each once, with their file."""
    results: list[Result] = []
    errors: dict[str, DpcalcError] = {}
    for path in paths:
        try:
            results.append(compute(path))
        except DpcalcError as error:
            if not isinstance(error, ConfigError):  # which says the place itself
                error.args = (f"{visible(path)}: {error}",)
            errors.setdefault(str(error), error)
    return results, tuple(errors.values())


def chosen_configs(words: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the files of a gate, and CONFIG... as given, relative to the current directory.

    Without words a search finds the files, and prints them; then the second is None, unless an environment variable
    names them.
    """
    if words:
        paths = dict.fromkeys(path for word in words for path in matching_paths(word))
        return tuple(paths), tuple(os.path.relpath(word or os.curdir) for word in words)

    discovery = find_configs(Path.cwd(), os.environ)
    if discovery is None:
        return (), None
    print_remark(str(discovery))
    return discovery.paths, discovery.paths if discovery.origin == VARIABLE else None


def matching_paths(word: str) -> Sequence[str]:
    """Return [word] if it has no "*", or else all files that it names or matches; InputError if there are none."""

    if "*" not in word:
        return [word]
    own = [word] if os.path.lexists(word) else []
    try:
        matches = matching_names(Path.cwd(), os.path.relpath(word))
    except InputError:
        raise  # it is a ValueError too
    except ValueError as error:
        if own:
            return own
        raise InputError(f"{visible(word)}: expected a file name or a pattern, got neither: {error}") from None
    if not matches and not own:
        raise InputError(f"{visible(word)}: expected a pattern that matches config files, got one that matches none")
    return [*own, *(name for name in matches if os.path.relpath(word) != name)] if own else matches
