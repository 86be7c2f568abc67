"""The page needs nothing but itself, and the verb writes all files."""

import json
import re
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from support.made_up_records import maml_and_more, record, row
from tasknorm.cli import app
from tasknorm.report import page, render
from tasknorm.report.drawing import Picture
from tasknorm.report.figures import alpha_curves
from tasknorm.report.page import Fact, Report, Section
from tasknorm.report.render import Cell, Table, line
from tasknorm.report.write import write_report

VOID = {"meta", "link", "br", "img"}


class Tags(HTMLParser):
    """Every tag closed in order, ids, and what the page asks others for."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open += [] if tag in VOID else [tag]
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name in ("href", "src", "xlink:href")]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check(text):
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert len(tags.ids) == len(set(tags.ids))
    inner = {link.removeprefix("#") for link in tags.links if link != "data:,"}
    assert inner <= set(tags.ids)
    assert not re.search(r"@import|url\((?!#)|<script [^>]*src", text)
    assert "default-src 'none'" in text  # a browser loads nothing, and runs no script but the page's own
    return tags


def test_a_page_is_whole_and_asks_for_nothing():
    run = record([], learner="cnaps", source="glyphs")
    pictures = [Picture(name, "alpha & size", "Words.", alpha_curves(run)) for name in ("first", "second")]
    table = Table("t", "A < B", ("", "x"), (line(["a", "1"]), line(["", "2"], "paper")), ("note",))
    report = Report("Title", "Lead.", [Fact("3", "runs")], [Section("One & two", ["Text."], [table, *pictures])])
    text = page.html(report)
    tags = check(text)
    assert {"section-one-two", "t", "first", "second"} <= set(tags.ids)
    assert 'name="viewport"' in text
    assert "color-scheme: light dark" in text
    markdown = page.markdown(report)
    assert markdown.startswith("# Title\n\nLead.\n\n- runs: **3**\n\n## One & two\n\nText.\n\n### A < B")
    assert "![alpha & size](figures/first.svg)" in markdown


def written(run, folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(run.settings.values()))
    (folder / "result.json").write_text(json.dumps(run.result))


def test_the_verb_writes_a_report_from_folders(tmp_path):
    for place, run in enumerate(maml_and_more()):
        written(run, tmp_path / "runs" / str(place))
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    named = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {"report.html", "report.md", "claims.md", "tables/maml_results.md", "tables/maml_results.tex"} <= named
    assert all(str(out / name) in result.output for name in named)
    check((out / "report.html").read_text())
    links = re.findall(r"\]\((figures/[^)]+)\)", (out / "report.md").read_text())
    assert set(links) == {name for name in named if name.endswith(".svg")}
    assert "not tested" in (out / "claims.md").read_text()


def test_without_a_record_the_verb_says_so(tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert f"no finished run (config.json and result.json) in or below {tmp_path}" in result.stderr
    with pytest.raises(ValueError, match="at least one"):
        write_report([], tmp_path)


def test_runs_that_are_in_no_table_of_the_paper_are_listed(tmp_path):
    run = record(row("TaskNorm-I", "glyphs", 5, 1, 0.9, 0.01), learner="protonets", source="glyphs")
    paths = write_report([run], tmp_path)
    assert {path.name for path in paths} == {"report.html", "report.md", "claims.md"}
    assert "protonets-glyphs" in (tmp_path / "report.md").read_text()


EVIL = "a|b <script>x</script> [link](http://evil) `code` *bold* _lean_ ~~gone~~ $x$ &lt;\n# heading\n\n- item"


def test_markdown_shows_names_as_they_are():
    table = Table("t", EVIL, (EVIL, "x"), (line([EVIL, "1"]), line([Cell(EVIL, bold=True), "2"])), (EVIL,))
    report = Report(EVIL, EVIL, [Fact(EVIL, EVIL)], [Section(EVIL, [EVIL], [table])])
    text = page.markdown(report)
    assert not re.search(r"(?<!\\)[`\[\]~$]|(?<!\\)<script|(?<!\\)&lt;|(?<!\\)\*bold|(?<!\\)_lean|lean(?<!\\)_", text)
    starts = {line.split(" ")[0] for line in text.splitlines() if line}
    assert starts == {"#", "##", "###", "-", "|", "a|b"}
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


@pytest.mark.parametrize(
    "name", ["cu_birds", "TaskNorm-I", "94.4 ± 0.8", "3 < 4 > 2", "p & q", "5-way 1-shot", "a (b)"]
)
def test_markdown_leaves_usual_names_alone(name):
    assert render.plain(name) == name


@pytest.mark.parametrize("name", ["# x", "- x", "1. x", "> x", "+ x", "---", "==="])
def test_markdown_takes_no_name_for_a_block(name):
    assert render.plain(name).replace("\\", "") == name
    assert "\\" in render.plain(name)
