"""Version of the package, in a module that imports nothing: the build and every layer read it."""

__version__ = "0.2.0"
