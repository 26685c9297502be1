"""`statement --format latex`: a document that pdfLaTeX, XeLaTeX and LuaLaTeX compile, every text escaped."""

import re
from collections.abc import Iterator

from dpcalc.report.statement import StatementSection, StatementView

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
}
_HEAD = r"""\documentclass{article}
\usepackage{iftex}
\iftutex\usepackage{fontspec}\else\usepackage[T1]{fontenc}\usepackage{textcomp}\fi
\begin{document}
"""


def statement_latex(view: StatementView, width: int = 80) -> str:  # noqa: ARG001  LaTeX breaks lines itself
    """Return a statement as a LaTeX document; letters other than Latin ones need XeLaTeX or LuaLaTeX.

    Args:
        view: the statement.
        width: ignored.
    """
    lines = [rf"\section*{{{latex_escaped(view.title)}}}"]
    for section in view.sections:
        lines += ["", rf"\subsection*{{{latex_escaped(section.heading)}}}", *_section_lines(section)]
    return _HEAD + "".join(f"{line}\n" for line in lines) + "\\end{document}\n"


def _section_lines(section: StatementSection) -> Iterator[str]:
    """Yield the lines below a heading: paragraphs, a description list of the rows, an itemized list of the points."""
    for paragraph in section.prose:
        yield latex_escaped(paragraph)
        yield ""
    if section.rows:
        yield r"\begin{description}"
        yield from (rf"  \item[{{{latex_escaped(label)}}}] {latex_escaped(text)}" for label, text in section.rows)
        yield r"\end{description}"
    if section.points:
        yield r"\begin{itemize}"
        yield from (rf"  \item {{}}{latex_escaped(point)}" for point in section.points)
        yield r"\end{itemize}"


def latex_escaped(text: str) -> str:
    """Return a text in which no character is a command to TeX, and none is joined with the next.

    Args:
        text: free of control characters.
    """
    escaped = re.sub("|".join(map(re.escape, _SPECIAL)), lambda match: _SPECIAL[match[0]], text)
    return re.sub("[-,](?=[-,])", r"\g<0>{}", escaped)  # two in a row would be joined into a dash or a quote
