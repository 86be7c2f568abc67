"""A report as one page of HTML that needs nothing else, and the same as Markdown."""

from __future__ import annotations

import html as entities
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from tasknorm.report import render
from tasknorm.report.drawing import Picture, inline_svg
from tasknorm.report.render import Table


@dataclass(frozen=True)
class Section:
    """A part of a report: a heading, paragraphs, then tables and figures in order."""

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
    """The page: style and figures inline, no request to anywhere, for any width, light or dark."""
    style = resources.files("tasknorm.report").joinpath("page.css").read_text(encoding="utf-8")
    text = entities.escape
    links = "".join(f'<a href="#{_anchor(s.title)}">{text(s.title)}</a>' for s in report.sections)
    facts = "".join(f"<div><dt>{text(f.words)}</dt><dd>{text(f.value)}</dd></div>" for f in report.facts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{text(report.title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{text(report.title)}</h1>
<p class="lead">{text(report.lead)}</p>
<dl class="facts">{facts}</dl>
<nav aria-label="Sections">{links}</nav>
</header>
<main>
{"".join(map(_section, report.sections))}</main>
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
    blocks = "".join(f"{render.html(b) if isinstance(b, Table) else _figure(b)}\n" for b in section.blocks)
    heading = entities.escape(section.title)
    return f'<section id="{_anchor(section.title)}">\n<h2>{heading}</h2>\n{paragraphs}{blocks}</section>\n'


def _figure(picture: Picture) -> str:
    title, words = entities.escape(picture.title), entities.escape(picture.words)
    return (
        f'<figure class="picture" id="{picture.name}"><figcaption>{title}</figcaption>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">{inline_svg(picture)}</div>\n'
        f"<p class=notes>{words}</p></figure>"
    )


def _anchor(title: str) -> str:
    return "section-" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
