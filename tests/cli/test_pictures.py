"""The pictures of README and docs show what dpcalc prints today.

`pytest --renew -m "" tests/cli/test_pictures.py` draws them anew.

Compared are words and lines, not bytes: other versions of rich and matplotlib write other SVG.
"""

import importlib.util
import io
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console
from rich.padding import Padding
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.cli.repository import Repository

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


def theme(*colours):
    """A theme of colours in hex: background, text, and eight for a terminal."""
    background, text, *eight = (tuple(bytes.fromhex(colour)) for colour in colours)
    return TerminalTheme(background, text, eight)


PAPER = theme(*["ffffff", "24292f", "24292f", "be1e28", "147832", "8c5a00", "0a5abe", "783caa", "147882", "5a5a5a"])
NIGHT = theme(*["0d1117", "c9d1d9", "c9d1d9", "ff7b72", "56d364", "e3b341", "79c0ff", "d2a8ff", "56d4dd", "969696"])
AT_NIGHT = {"#ffd7d5": "#4d1f22", "#ccffd8": "#12361f", "#ffebe9": "#2d1316"}  # backgrounds
FORMAT = Path(__file__).with_name("picture.svg").read_text(encoding="utf-8")


def drawn(title, *parts):
    """What rich prints, as a picture that loads nothing from elsewhere."""
    console = Console(record=True, width=88, file=io.StringIO(), force_terminal=True, highlight=False, emoji=False)
    for part in parts:
        console.print(part)
    picture, night = (
        console.export_svg(title=title, theme=theme, code_format=FORMAT, unique_id="picture", clear=theme is NIGHT)
        for theme in (PAPER, NIGHT)
    )
    colours = "\n".join(re.findall(r"^\.picture-r\d+ .*$", night, flags=re.MULTILINE))
    dark = f".picture-card {{ fill: #0d1117; stroke: #30363d; }}\n.picture-title {{ fill: #c9d1d9; }}\n{colours}"
    dark += "".join(f'\nrect[fill="{light}"] {{ fill: {other}; }}' for light, other in AT_NIGHT.items())
    picture = picture.replace("</style>", f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n</style>", 1)
    picture = re.sub(r'<rect fill="#ffffff" stroke="[^"]*"', '<rect class="picture-card"', picture, count=1)
    return "".join(f"{line.rstrip()}\n" for line in picture.splitlines())


@pytest.fixture
def terminal(real, monkeypatch, tmp_path):
    """Run a command on a terminal of 88 columns with colours, in a folder with the sample configs."""
    shutil.copytree(ROOT / "sample_configs", tmp_path / "sample_configs")
    for name, value in {"on_terminal": True, "has_styles": True, "width": 88}.items():
        monkeypatch.setattr(f"dpcalc.cli.output.{name}", lambda value=value: value)

    def ran(words):
        ended = real(*words.split())
        assert ended.code == 0, ended.err
        return [Text(f"$ dpcalc {words}", style="bold"), *map(Text.from_ansi, (ended.out + ended.err).splitlines())]

    return ran


def texts(picture):
    """Every text of a picture in its order, with ordinary spaces."""
    root = ET.fromstring(picture)  # noqa: S314  our own
    return [" ".join("".join(one.itertext()).split()) for one in root.iter(f"{SVG}text")]


def lines(picture):
    """The corners of every line of a chart, by its name."""
    groups = {one.get("id", ""): one.find(f"{SVG}path") for one in ET.fromstring(picture).iter(f"{SVG}g")}  # noqa: S314
    return {
        name: [float(number) for pair in re.findall(r"[ML] (\S+) (\S+)", path.get("d")) for number in pair]
        for name, path in groups.items()
        if name.startswith(("series-", "limit-"))
    }


@pytest.fixture
def current(request):
    """Compare a picture with the file of that name, after writing it if that is asked for."""

    def compare(picture, path):
        if request.config.getoption("renew"):
            path.write_text(picture, encoding="utf-8")
        kept = path.read_text(encoding="utf-8")
        assert texts(kept) == texts(picture), "if this change is wanted: pytest --renew, then look at the picture"
        assert lines(kept).keys() == lines(picture).keys()
        for name, corners in lines(picture).items():
            assert lines(kept)[name] == pytest.approx(corners, abs=2), name

    return compare


def test_the_first_answer_on_a_terminal(terminal, current):
    shown = terminal("epsilon sample_configs/mnist_dpsgd.yaml")
    current(drawn("", *shown), PICTURES / "epsilon.svg")


@pytest.mark.heavy
def test_a_chart(real, current, tmp_path):
    shutil.copytree(ROOT / "sample_configs", tmp_path / "sample_configs")
    methods = "--method pld --method lower --method flat-poisson"
    words = f"curve epochs sample_configs/clinic_maml.yaml {methods} --set budget.epsilon=1 --range 25:250:10"
    title = "Flat accounting reports less than half of what this run costs"
    assert real(*words.split(), "--plot", "chart.svg", "--title", title).code == 0
    current((tmp_path / "chart.svg").read_text(encoding="utf-8"), PICTURES / "chart.svg")


@pytest.mark.heavy
def test_an_annotation_on_a_changed_line(real, current, tmp_path):
    repository = Repository.fresh(tmp_path / "checkout")
    config = (ROOT / "sample_configs" / "ward_notes.yaml").read_text(encoding="utf-8")
    old, new = "training: {epochs: 12}", "training: {epochs: 20}"
    base = repository.commit(ward_notes__yaml=config)
    path = repository.write("ward_notes.yaml", config.replace(old, new))
    ended = real("check", path, "--base", base, "--report", "github")
    assert ended.code == 1
    commands = re.findall(r"^::error file=(.*),line=(\d+),col=\d+,title=(.*?)::(.*)$", ended.out, flags=re.MULTILINE)
    rows = config.replace(old, new).splitlines()
    place = rows.index(new)
    assert [int(row) for _, row, *_ in commands] == [place + 1] * 2
    diff = [Text(f"{number + 1:>4}   {rows[number]}") for number in (place - 2, place - 1)]
    diff += [Text(f"{place + 1:>4} - {old}".ljust(88), style="on #ffd7d5")]
    diff += [Text(f"{place + 1:>4} + {new}".ljust(88), style="on #ccffd8")]
    for _, row, title, message in commands:
        words = message.replace("%0A", "\n").replace("%25", "%")
        head = f"Check failure on line {row}: {title}"
        card = Text.assemble((f"{head}\n", "bold red"), words)
        diff += [Padding(card, (0, 2), style="on #ffebe9"), Text()]
    after = [Text(f"{number + 1:>4}   {rows[number]}") for number in range(place + 1, len(rows))]
    current(drawn("ward_notes.yaml", *diff, *after), PICTURES / "annotation.svg")


@pytest.mark.slow
def test_the_loaders(current):
    path = ROOT / "sample_configs" / "figures" / "draw.py"
    spec = importlib.util.spec_from_file_location("draw", path)
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    current(figures.loaders(16).picture("svg").decode(), PICTURES / "samplers.svg")
    current(figures.secret_order(16).picture("svg").decode(), PICTURES / "secret-order.svg")


def test_every_picture_is_drawn_here_and_shown_somewhere():
    drawn_here = set(re.findall(r'PICTURES / "(\w.*?)"', Path(__file__).read_text(encoding="utf-8")))
    kept = {path.name for path in (*ROOT.glob("docs/**/*.svg"), *ROOT.glob("docs/**/*.png"))}
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
    shown = set(re.findall(r"!\[[^\]]+\]\((?:docs/)?pictures/(.*?)\)", pages))
    assert drawn_here == kept == shown


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_loads_nothing(path):
    addresses = set(re.findall(r"(?:href=|url\(|@import )\W*(\w+:[^\"')]*)", path.read_text(encoding="utf-8")))
    assert not addresses
