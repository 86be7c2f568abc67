"""A report as one page of HTML that needs nothing else, and the same as Markdown."""

from __future__ import annotations

import base64
import hashlib
import html as entities
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from tasknorm.report import html_table, render
from tasknorm.report.drawing import Picture, inline_svg
from tasknorm.report.looks import colours
from tasknorm.report.render import Table

HALF = 8  # inches; a figure that is not wider takes half of a wide page


@dataclass(frozen=True)
class Section:
    """A part of a report: a heading, paragraphs, then tables, then figures."""

    title: str
    paragraphs: Sequence[str] = ()
    blocks: Sequence[Table | Picture] = ()


@dataclass(frozen=True)
class Fact:
    """A number at the top of a report, and what it counts."""

    value: str
    words: str


@dataclass(frozen=True)
class Report:
    """What a page shows, from top to bottom."""

    title: str
    lead: str
    facts: Sequence[Fact]
    sections: Sequence[Section]


def html(report: Report) -> str:
    """The page: style, script and figures inline, no request to anywhere, for any width, light or dark."""
    text = entities.escape
    facts = "".join(f"<div><dt>{text(f.words)}</dt><dd>{text(f.value)}</dd></div>" for f in report.facts)
    body = f"""<h2 class="title">{text(report.title)}</h2>
<p class="lead">{text(report.lead)}</p>
<dl class="facts">{facts}</dl>
{"".join(map(_section, report.sections))}"""
    return document(report.title, "tasknorm report", [(anchor(s.title), s.title) for s in report.sections], body)


def document(title: str, name: str, links: Sequence[tuple[str, str]], body: str) -> str:
    """A whole page around its contents.

    A policy in its head forbids the page to load anything and to run any script but its own.

    Args:
        title: what a browser's tab shows.
        name: what stands in the bar at the top.
        links: ids of the page's parts, and their names.
        body: HTML.
    """
    files, text = resources.files("tasknorm.report"), entities.escape
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    known = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{known}'; img-src data:"
    anchors = "".join(f'<a href="#{key}">{text(words)}</a>' for key, words in links)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{text(title)}</title>
<style>
{style}{colours()}</style>
</head>
<body>
<header class="bar">
<h1>{text(name)}</h1>
<nav aria-label="Parts of this page">{anchors}</nav>
<button class="scheme" type="button" hidden aria-label="Switch between light and dark">Dark</button>
</header>
<main>
{body}</main>
<p class="status" role="status"></p>
<script>
{script}</script>
</body>
</html>
"""


def markdown(report: Report, figures: str = "figures") -> str:
    """The same as Markdown, with links to the SVG files in a folder."""
    plain = render.plain
    facts = "\n".join(f"- {plain(fact.words)}: **{plain(fact.value)}**" for fact in report.facts)
    parts = [f"# {plain(report.title)}", plain(report.lead), facts]
    for section in report.sections:
        parts += [f"## {plain(section.title)}", *map(plain, section.paragraphs)]
        for block in section.blocks:
            if isinstance(block, Table):
                parts.append(render.markdown(block))
            else:
                title = plain(block.title)
                parts += [f"### {title}", f"![{title}]({figures}/{block.name}.svg)", plain(block.words)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> str:
    paragraphs = "".join(f"<p>{entities.escape(p)}</p>\n" for p in section.paragraphs)
    tables = "".join(f"{html_table.html(b)}\n" for b in section.blocks if isinstance(b, Table))
    figures = "".join(f"{_figure(b)}\n" for b in section.blocks if isinstance(b, Picture))
    drawn = f'<div class="grid">{figures}</div>\n' if figures else ""
    heading = entities.escape(section.title)
    return f'<section id="{anchor(section.title)}">\n<h2>{heading}</h2>\n{paragraphs}{tables}{drawn}</section>\n'


def _figure(picture: Picture) -> str:
    title, words = entities.escape(picture.title), entities.escape(picture.words)
    wide = " across" if picture.figure.get_figwidth() > HALF else ""
    return (
        f'<figure class="drawn{wide}" id="{picture.name}"><figcaption>{title}</figcaption>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">{inline_svg(picture)}</div>\n'
        f"<p class=notes>{words}</p></figure>"
    )


def anchor(title: str) -> str:
    """The id of the section with this title."""
    return "section-" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
