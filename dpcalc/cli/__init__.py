"""The command line: load, ask, render. Each command returns an answer; `app.run` turns it into an exit code."""
