"""Which config a command is about, and what the command line changes in it: the same for every command."""
# ruff: noqa: PLC0415  heavy imports wait until a command needs them

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from dpcalc.cli import options

if TYPE_CHECKING:
    from dpcalc.config import Loaded
    from dpcalc.config.assignments import Overrides

_REQUEST = "dpcalc.request"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the options that all these commands share say.

    Attributes:
        config: CONFIG as given, or None.
        assignments: values of `--set`.
        unset: values of `--unset`.
        flags: the other overriding options with their texts.
    """

    config: str | None
    assignments: tuple[str, ...]
    unset: tuple[str, ...]
    flags: tuple[tuple[str, str], ...]

    def overrides(self, assumed: Sequence[str]) -> Overrides:
        """The request as the config layer takes it."""
        from dpcalc.config.assignments import Overrides

        return Overrides(assignments=self.assignments, flags=self.flags, unset=self.unset, assumed=tuple(assumed))


class SourceCommand(TyperCommand):
    """A command on one config: the options of `request_of` beside its own, kept aside until it loads the config."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """The shared options, then the command's own."""
        return [*_shared().params, *super().get_params(ctx)]

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Put the shared options aside and run the command."""
        shared = _shared()
        given = {name: ctx.params.pop(name) for name in [param.name for param in shared.params]}
        ctx.meta[_REQUEST] = shared.callback(**given)
        return super().invoke(ctx)


def loaded_plan(context: typer.Context, *, assumed: Sequence[str] = ()) -> Loaded:
    """The config of a `SourceCommand`, overrides and all.

    Args:
        context: of the command.
        assumed: "key=value" texts that hold where neither the config nor an option says anything: a solver
            assumes what it solves for.

    Returns:
        The plan with its remarks.

    Raises:
        InputError: there is no config, or it cannot be used.
    """
    from dpcalc.config import load

    request: Request = context.meta[_REQUEST]
    return load(options.named(request.config), overrides=request.overrides(assumed))


@cache
def _shared() -> Any:  # noqa: ANN401  Typer's class of commands has another home in every version
    """The shared options as Typer sees them."""
    application = typer.Typer(add_completion=False)
    application.command(add_help_option=False)(_request)
    return typer.main.get_command(application)


def _request(  # noqa: PLR0913  one parameter an option
    config: options.Config = None,
    *,
    assignments: options.Assignments = None,
    unset: options.Unset = None,
    unit: options.Unit = None,
    delta: options.Delta = None,
    adjacency: options.Adjacency = None,
    method: options.Method = None,
    scheme: options.Scheme = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    dataset_size: options.DatasetSize = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    noise_multiplier: options.NoiseMultiplier = None,
) -> Request:
    """The shared options as one request."""
    flags = {
        "--unit": unit,
        "--delta": delta,
        "--adjacency": adjacency,
        "--method": method,
        "--scheme": scheme,
        "--sample-rate": sample_rate,
        "--batch-size": batch_size,
        "--dataset-size": dataset_size,
        "--steps": steps,
        "--epochs": epochs,
        "--noise-multiplier": noise_multiplier,
    }
    return Request(
        config=config,
        assignments=tuple(assignments or ()),
        unset=tuple(unset or ()),
        flags=tuple((option, text) for option, text in flags.items() if text is not None),
    )
