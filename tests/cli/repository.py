"""A git repository for tests, made by git itself."""

import os
import shutil
import subprocess
from pathlib import Path

IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "tester"), ("EMAIL", "tester@example.org"), ("DATE", "2024-01-01T00:00:00Z"))
}


class Repository:
    """A working tree."""

    def __init__(self, folder):
        self.folder = Path(folder)

    @classmethod
    def fresh(cls, folder):
        folder.mkdir(parents=True)
        made = cls(folder)
        made.git("init", "--quiet", "--initial-branch=main")
        return made

    @classmethod
    def copied(cls, base, folder, monkeypatch):
        """A copy of a repository, which is made the current directory, without settings of git around it."""
        for name in [name for name in os.environ if name.startswith("GIT_") or name == "DPCALC_CONFIG"]:
            monkeypatch.delenv(name)
        shutil.copytree(base, folder)
        monkeypatch.chdir(folder)
        return cls(folder)

    def git(self, *words):
        quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        ended = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env=environment | IDENTITY | quiet,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def commit(self, **files):
        """Commit everything, after writing `name=text` with `__` for dots in names."""
        for name, text in files.items():
            self.write(name.replace("__", "."), text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "some")
        return self.git("rev-parse", "HEAD")
