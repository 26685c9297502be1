"""Entry point of the `dpcalc` command."""
