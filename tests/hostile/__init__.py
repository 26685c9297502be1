"""Everything that a pull request controls, against every command that reads it."""
