"""Published numbers, one row each."""
