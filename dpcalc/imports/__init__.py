"""Import of what other libraries keep of a run: accountant states, events, calls."""
