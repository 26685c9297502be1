"""Config files: the only place that knows YAML, and where every word of a file stands."""

from dpcalc.config.diagnostics import ConfigError, Diagnostic, Severity
from dpcalc.config.loading import Loaded, load, load_text

__all__ = ["ConfigError", "Diagnostic", "Loaded", "Severity", "load", "load_text"]
