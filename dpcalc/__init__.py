"""Privacy accounting for nested sampling: the public interface."""

__version__ = "0.1.0"
