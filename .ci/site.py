"""Hooks of MkDocs: pages that are kept beside docs/ become pages of the site, and links between both are kept."""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", **{name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")}}
_LOG = logging.getLogger("mkdocs.plugins.site")  # under this name a warning ends a strict build
_LINK = re.compile(r"\[([^\]\n]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder.

    Args:
        files: those of docs/.
        config: the settings of the site.
    """
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  as MkDocs calls it
    """Return a page whose links lead to pages of the site; a link to another file becomes its path, as code.

    A link to a file that does not exist is a warning.

    Args:
        markdown: the text of the page.
        page: the page.
        config: the settings of the site.
        files: all files of the site.
    """
    folder = ROOT if page.file.generated_by else (ROOT / "docs" / page.file.src_uri).parent

    def moved(link: re.Match[str]) -> str:
        path = (folder / link[2]).resolve().relative_to(ROOT).as_posix()
        target = PAGES.get(path, path.removeprefix("docs/"))
        if target in files.src_uris:
            target = posixpath.relpath(target, posixpath.dirname(page.file.src_uri))
            return f"[{link[1]}]({target}{link[3] or ''})"
        if not (ROOT / path).exists():
            _LOG.warning("%s: expected a link to a file that exists, got %s", page.file.src_uri, link[2])
        return f"`{path}`"

    return _LINK.sub(moved, markdown)
