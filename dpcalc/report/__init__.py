"""Results as text: the only place that rounds. One view a result, one module a format."""

from collections.abc import Callable

from dpcalc.report.gate_view import GateView
from dpcalc.report.json import gate_json
from dpcalc.report.text import gate_lines

FORMATS: dict[str, Callable[[GateView], str]] = {"text": gate_lines, "json": gate_json}
"""Formats of `--report`, all drawn from one view."""
