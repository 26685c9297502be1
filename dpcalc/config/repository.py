"""The git repository around a file, and links that lead out of it."""

import os
from pathlib import Path


def git_root(folder: Path) -> Path | None:
    """Return the nearest directory upwards with `.git`, but none that a link of a repository around it leads to.

    The directory as written; None outside git.
    """
    top = None
    for candidate in (*reversed(folder.parents), folder):
        try:
            holds_git = (candidate / ".git").exists()
        except (OSError, ValueError):  # a name that no file can have
            continue
        # Whoever fills a repository can put a link to another one into it: what lies there is not theirs to show.
        if holds_git and (top is None or real_path(candidate) == real_path(top) / candidate.relative_to(top)):
            top = candidate
    return top


def leaves_repository(path: str) -> bool:
    """Return True if links lead a path out of the git repository in which its name lies, or into its `.git`.

    Outside git: False.
    """
    root = git_root(Path(absolute(path)).parent)
    if root is None or path == "-":
        return False
    # Links before `..`, as the system does: the place that `link/../x` names is above the link's target.
    real, top = real_path(Path(os.path.join(os.getcwd(), path))), real_path(root)
    if not real.is_relative_to(top):
        return True
    # `.git` has tokens in its configuration; only a user who writes the name, in any case, means it.
    enters, means_it = (".git" in map(str.lower, each.parts) for each in (real.relative_to(top), Path(absolute(path))))
    return enters and not means_it


def absolute(path: str) -> str:
    """Return a path from the root, links not followed; impossible names are left for reading to refuse."""
    return os.path.normpath(os.path.join(os.getcwd(), path))


def real_path(path: Path) -> Path:
    """Return a path with every link followed; one that no file can have is returned as it is."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return path
