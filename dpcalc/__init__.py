"""Privacy accounting for nested sampling: the public interface."""

from importlib import import_module
from typing import TYPE_CHECKING

from dpcalc._version import __version__

__all__ = ["Accountant", "__version__", "compare", "curve", "delta", "epsilon", "load", "plan", "risk", "solve"]

if TYPE_CHECKING:
    from dpcalc.api import compare, curve, delta, epsilon, risk, solve
    from dpcalc.plans import load, plan
    from dpcalc.training import Accountant
else:

    def __getattr__(name: str) -> object:
        """Return a name of `__all__`, imported on first use: the command line can do without NumPy."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = {"Accountant": "training", "load": "plans", "plan": "plans"}.get(name, "api")
        return getattr(import_module(f"dpcalc.{module}"), name)

    def __dir__() -> list[str]:
        """Return all exported names, imported or not."""
        return sorted({*globals(), *__all__})
