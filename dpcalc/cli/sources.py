"""The config of a command: found or named, and changed by options that all such commands share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from dpcalc.cli import options
from dpcalc.cli.options import SHARED
from dpcalc.cli.output import CommandResult, print_remark
from dpcalc.cli.progress import ended_after
from dpcalc.config.source import ConfigError, visible
from dpcalc.errors import DpcalcError, InputError
from dpcalc.records import dataclass

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded
    from dpcalc.config.overrides import Overrides
    from dpcalc.gate.diff import ConfigReader
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
_REQUEST = "dpcalc.request"
EVERY = options.EVERY_UNIT


@dataclass(frozen=True, kw_only=True)
class ConfigRequest:
    """Values of the shared options.

    Attributes:
        config: CONFIG as given, or None.
        no_config: whether no config file is searched for.
        key: dotted path of the section of the file that is the config, or "".
        assignments: values of `--set`.
        unset: values of `--unset`.
        flags: the other overriding options with their texts.
    """

    config: str | None
    no_config: bool
    key: str
    assignments: tuple[str, ...]
    unset: tuple[str, ...]
    flags: tuple[tuple[str, str], ...]

    def overrides(self, assumed: Sequence[str]) -> Overrides:
        """Return the request's changes to a config; `assumed` ones hold for keys that nothing else states."""
        from dpcalc.config.overrides import Overrides

        return Overrides(assignments=self.assignments, flags=self.flags, unset=self.unset, assumed=tuple(assumed))


SEVERAL = SHARED.keys() - {"config"}
"""Shared options of a command on several configs, which has CONFIG... of its own."""
CURVE = SEVERAL - {"method"}
"""Shared options of `curve`, which takes several methods."""
GATE = CURVE - {"no_config"}
"""Shared options of gates, which judge every config by one accountant."""


def with_shared(
    command: Callable[..., CommandResult], *, names: Collection[str] = SHARED.keys()
) -> Callable[..., CommandResult]:
    """Return a command that takes the shared options too, and that is ended after its --timeout.

    Typer reads the options of a command from its signature, so the two signatures are merged. What the shared options
    say is stored in the context, as a `ConfigRequest`.
    """
    # Evaluated, since the modules of commands postpone their annotations as texts.
    own = inspect.signature(command, eval_str=True).parameters
    shared = [each for name, each in SHARED.items() if name in names and name not in own]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    def run(context: typer.Context, **values: Any) -> CommandResult:
        """Store the shared options in the context as a ConfigRequest, then run the command within their time limit."""
        given = {each.name: values.pop(each.name) for each in shared}
        context.meta[_REQUEST] = _request(given)
        with ended_after(options.seconds(given.get("timeout"))):
            return command(**values, **({"context": context} if "context" in own else {}))

    merged = {"context": context, **own} | {each.name: each for each in shared}
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in merged.values()]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect.signature reads it
    return run


def _request(given: Mapping[str, Any]) -> ConfigRequest:
    """Return the shared options as a ConfigRequest; a missing one counts as not given by the user."""
    texts = {option: given.get(options.parameter_name(option)) for option in options.OVERRIDES}
    return ConfigRequest(
        config=given.get("config"),
        no_config=given.get("no_config", False),
        key=given.get("key", ""),
        assignments=tuple(given.get("assignments") or ()),
        unset=tuple(given.get("unset") or ()),
        flags=tuple((option, text) for option, text in texts.items() if text is not None),
    )


def config_reader(context: typer.Context, *, base: str = "") -> ConfigReader:
    """Return a reader of configs with the section and overrides of the command's ConfigRequest, and this `base`."""
    from dpcalc.gate.diff import ConfigReader

    request: ConfigRequest = context.meta[_REQUEST]
    return ConfigReader(key=request.key, overrides=request.overrides(()), base=base)


def loaded_plan(context: typer.Context, *, assumed: Sequence[str] = (), allow_any_size: bool = False) -> Loaded:
    """Return the config that is named, found or made of options; InputError for none, or if no bound covers it."""
    from dpcalc.config.load import load

    request: ConfigRequest = context.meta[_REQUEST]
    overrides = request.overrides(assumed)
    path = _config_path(request, quiet=bool(context.params.get("quiet")))
    if path is not None:
        loaded = load(path, key=request.key, overrides=overrides)
    else:
        loaded = _config_of_options(context, request, overrides)
    return _without_assumed_places(loaded if allow_any_size else loaded.accepted())


def _config_of_options(context: typer.Context, request: ConfigRequest, overrides: Overrides) -> Loaded:
    """Return the config that overrides make without a file; InputError if some are missing or a section is named."""
    from dpcalc.config.load import load_from_flags
    from dpcalc.config.overrides import missing_flags

    missing = missing_flags(overrides)
    if missing or request.key:
        raise InputError(_no_config_message(context, request, missing))
    return load_from_flags(overrides)


def several_paths(context: typer.Context, configs: Sequence[str] | None) -> tuple[str, ...]:
    """Return the paths of configs if there are several; otherwise store the only one, or none, and return ()."""
    request: ConfigRequest = context.meta[_REQUEST]
    paths = tuple(path for word in configs or () for path in matching_paths(word))
    if len(paths) < 2:
        set_config(context, paths)
        return ()
    if request.no_config:
        raise InputError(f"--no-config: expected no config beside it, got {', '.join(paths)}; leave one of them out")
    return paths


def plan_results(
    context: typer.Context, paths: Sequence[str], compute: Callable[[Plan], Result]
) -> tuple[list[tuple[Result, Loaded]], tuple[DpcalcError, ...]]:
    """Return the results of the configs that have one, and the errors of the others; ExceptionGroup if none has."""
    reader = config_reader(context)

    def computed(path: str) -> tuple[Result, Loaded]:
        """Return (the result of the plan of the config at a path, the config)."""
        loaded = _without_assumed_places(reader.load(path))
        return compute(loaded.plan), loaded

    results, errors = for_each(paths, computed)
    if not results:
        raise ExceptionGroup("no config has a result", errors)
    return results, errors


def for_each(paths: Sequence[str], compute: Callable[[str], Result]) -> tuple[list[Result], tuple[DpcalcError, ...]]:
    """Return the results of a computation on files, and the errors of those files that have no result.

    Errors name their file; equal ones are returned once.
    """
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


def set_config(context: typer.Context, configs: Sequence[str] | None) -> None:
    """Store the only config, or None to search for one, in the context's request; InputError for several."""
    if configs and len(configs) > 1:
        raise InputError(f"--unit {EVERY}: expected one config, got {', '.join(configs)}; ask about one at a time")
    request: ConfigRequest = context.meta[_REQUEST]
    context.meta[_REQUEST] = replace(request, config=configs[0] if configs else None)


def has_every_unit(context: typer.Context) -> bool:
    """Return True if the command line has `--unit all`."""
    request: ConfigRequest = context.meta[_REQUEST]
    return ("--unit", EVERY) in request.flags


def loaded_for_every_unit(context: typer.Context) -> tuple[Loaded, ...]:
    """Return the config once for each level that can be protected; without a file, one made of options."""
    from dpcalc.config.load import load_every_unit

    request: ConfigRequest = context.meta[_REQUEST]
    path = _config_path(request, quiet=bool(context.params.get("quiet")))
    if path is not None:
        configs = load_every_unit(path, key=request.key, overrides=request.overrides(()))
        return tuple(_without_assumed_places(config.accepted()) for config in configs)
    flags = tuple(flag for flag in request.flags if flag[0] != "--unit")  # flags alone tell of one level
    context.meta[_REQUEST] = replace(request, flags=flags)
    return (loaded_plan(context),)


def named_config(context: typer.Context) -> tuple[str | None, str, Overrides]:
    """Return (path or None, section or "", overrides) of the config, not loaded; print a path that a search finds."""
    request: ConfigRequest = context.meta[_REQUEST]
    return _config_path(request, quiet=False), request.key, request.overrides(())


def _without_assumed_places(loaded: Loaded) -> Loaded:
    """Return a config whose diagnostics on assumed values name the config's path, without line and column."""
    from dpcalc.config.overrides import ASSUMED

    diagnostics = (
        replace(finding, path=loaded.path, line=None, column=None) if finding.path == ASSUMED else finding
        for finding in loaded.diagnostics
    )
    return replace(loaded, diagnostics=tuple(diagnostics))


def _config_path(request: ConfigRequest, *, quiet: bool) -> str | None:
    """Return the path of the named or found config, None if there is none; InputError if --no-config is set too."""
    if request.config is not None and request.no_config:
        raise InputError(f"--no-config: expected no config beside it, got {request.config}; leave one of them out")
    if request.config is not None or request.no_config:
        return request.config
    return _found_path(quiet=quiet)


def _found_path(*, quiet: bool) -> str | None:
    """Return the only config that a search finds, and print it unless quiet; None for none, InputError for several."""
    from dpcalc.config.discovery import find_configs

    discovery = find_configs(Path.cwd(), os.environ)
    if discovery is None:
        return None
    path = discovery.only
    if not quiet:
        print_remark(str(discovery))
    return path


@dataclass(frozen=True, kw_only=True)
class ChosenConfigs:
    """The configs of a gate.

    Attributes:
        paths: of the files.
        patterns: CONFIG... as given, relative to the current directory; None if a search found the configs.
    """

    paths: tuple[str, ...]
    patterns: tuple[str, ...] | None


def chosen_configs(words: Sequence[str] | None) -> ChosenConfigs:
    """Return the files that the words name or match, each once; without words, those that a search finds."""
    if not words:
        return _found_configs()
    paths = dict.fromkeys(path for word in words for path in matching_paths(word))
    return ChosenConfigs(paths=tuple(paths), patterns=tuple(os.path.relpath(word or os.curdir) for word in words))


def _found_configs() -> ChosenConfigs:
    """Return the configs that a search finds, if any, and print them.

    They count as patterns only if an environment variable names them.
    """
    from dpcalc.config.discovery import VARIABLE, find_configs

    discovery = find_configs(Path.cwd(), os.environ)
    if discovery is None:
        return ChosenConfigs(paths=(), patterns=None)
    print_remark(str(discovery))
    return ChosenConfigs(paths=discovery.paths, patterns=discovery.paths if discovery.origin == VARIABLE else None)


def matching_paths(word: str) -> Sequence[str]:
    """Return [word] if it has no "*", or else all files that it names or matches; InputError if there are none."""
    from dpcalc.config.discovery import matching_names

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


def _no_config_message(context: typer.Context, request: ConfigRequest, missing: Sequence[str]) -> str:
    """Return the message "no config: ...": the folders searched, what is missing, and two commands that would work."""
    from dpcalc.config.discovery import folders_to_search

    folders = folders_to_search(Path.cwd())
    above = " or the folders above it, up to the git root" if len(folders) > 1 else ""
    looked = (
        "--no-config ignores those that are found" if request.no_config else f"no dpcalc.yaml in {folders[0]}{above}"
    )
    command = " ".join((context.command_path, *_own_arguments(context)))
    own = "".join(f" {words}" for words in _own_options(context))
    flags = "".join(f" {option} {text}" for option, text in request.flags)
    more = _example_options(context, request, missing)
    lacks = f"; without one {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed" if missing else ""
    if "--scheme" in missing:
        from dpcalc.config.overrides import SCHEME_QUESTION

        lacks += f": {SCHEME_QUESTION}"
    return (
        f"no config: none given, {looked}{lacks}\n"
        f"  give one:            {command} config.yaml{own}\n"
        f"  or say it directly:  {command}{own}{flags}{more}"
    )


def _example_options(context: typer.Context, request: ConfigRequest, missing: Sequence[str]) -> str:
    """Return an example or placeholder of each missing option as text, with a target for a solver that has none."""
    # Beside the numbers of somebody's run an example would be taken for a part of it.
    is_begun = bool(request.flags or request.assignments or _states_target(context))
    words = (f"{option} {EXAMPLES[option][is_begun]}" if option in EXAMPLES else option for option in missing)
    examples = "".join(f" {each}" for each in words)
    # Without a config there is no budget.
    lacks_target = "target" in context.params and not _states_target(context)
    return f"{examples} --target-eps {'E' if is_begun else '2'}" if lacks_target else examples


def _states_target(context: typer.Context) -> bool:
    """Return True if the command is a solver and a target is given."""
    return any(context.params.get(name) is not None for name in ("target", "target_tpr", "target_advantage"))


def _own_arguments(context: typer.Context) -> list[str]:
    """Return the arguments of the command that are single texts, such as the KIND of `curve`."""
    names = [param.name or "" for param in context.command.params if param.param_type_name == "argument"]
    return [str(context.params[name]) for name in names if isinstance(context.params.get(name), str)]


def _own_options(context: typer.Context) -> Iterator[str]:
    """Yield the command's own options that differ from their defaults: "--option TEXT" for each text, or "--flag"."""
    for param in context.command.params:
        value = context.params.get(param.name or "")
        if param.name in SHARED or param.param_type_name == "argument" or value == param.default:
            continue
        if value is True:
            yield param.opts[0]
        texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        yield from (f"{param.opts[0]} {text}" for text in texts)
