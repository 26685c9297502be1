"""The questions users ask of a plan."""
