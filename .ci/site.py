"""Hooks of MkDocs: pages that are kept beside docs/ become pages of the site, and links between both are kept."""

import logging
import os
import posixpath
import re
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from dpcalc._version import __version__

ROOT = Path(__file__).parents[1]
PAGES = {
    ".ci/home.md": "index.md",
    ".ci/api.md": "api.md",
    "README.md": "start.md",
    **{name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")},
}
_LOG = logging.getLogger("mkdocs.plugins.site")  # under this name a warning ends a strict build
_LINK = re.compile(r"\[([^\]\n]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the version beside the name; link the repository whose address DPCALC_REPOSITORY has."""
    config.site_name = f"dpcalc {__version__}"
    config.repo_url = os.environ.get("DPCALC_REPOSITORY") or None
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are kept beside docs/."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


@cache
def title(path: str) -> str:
    """Return the first heading of a page."""
    heading = re.search(r"^# (.*)$", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return heading[1].strip("`") if heading else path


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links lead to pages of the site, named by their titles, and whose sessions can be copied.

    A link to a file that is no page leads to the repository, if its address is known, else it becomes the path, as
    code. A link to a file that does not exist is a warning.
    """
    uri = page.file.src_uri
    folder = ROOT if page.file.generated_by else (ROOT / "docs" / uri).parent

    def moved(link: re.Match[str]) -> str:
        path = (folder / link[2]).resolve().relative_to(ROOT).as_posix()
        target = link[2] if link[2] in PAGES.values() else PAGES.get(path, path.removeprefix("docs/"))
        if target in files.src_uris:
            there = posixpath.relpath(target, posixpath.dirname(uri))
            text = title(path) if link[1].endswith(".md") and (ROOT / path).is_file() else link[1]
            return f"[{text}]({there}{link[3] or ''})"
        if not (ROOT / path).exists():
            _LOG.warning("%s: expected a link to a file that exists, got %s", uri, link[2])
        return f"[{link[1]}]({config.repo_url}/blob/main/{path})" if config.repo_url else f"`{path}`"

    markdown = _LINK.sub(moved, markdown)
    if uri in {"index.md", "keys.md"}:  # a page without headings needs no column for them
        page.meta["hide"] = ["toc"]
    if uri == "keys.md":  # each key has an anchor, leads to it, and is broken after its dots alone

        def anchored(key: re.Match[str]) -> str:
            shown = key[1].replace(".", ".<wbr>")
            return f'| <a id="{key[1]}" href="#{key[1]}"><code>{shown}</code></a> |'

        markdown = re.sub(r"(?m)^\| `([\w.\[\]*]+)` \|", anchored, markdown)
    # Sessions, of which the page lets only the commands be copied (docs/katex/page.css).
    markdown = re.sub(r"(?m)^```text\n(?=\$ )", "```console\n", markdown)
    return re.sub(r"(?m)^```python\n(?=>>> )", "```pycon\n", markdown)
