"""Small pieces of SVG, in colours that follow a light or dark page."""

from __future__ import annotations

from html import escape

# The same names as in docs/assets/site.css, which wins where a picture stands inside a page of the site.
STYLE = """<style>
svg { --ink: #1b1f24; --soft: #57606a; --line: #c4cad1; --paper: #ffffff; --context: #0b7a75; --target: #b8500f;
  --running: #6a4bc4; --wrong: #b3261e; font-family: system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ink: #e8eaed; --soft: #a9b1ba; --line: #4a525b; --paper: #16191d;
  --context: #4fc3bb; --target: #f0a06a; --running: #b39ddb; --wrong: #f2857c; } }
text { fill: var(--ink); font-size: 13px } .soft { fill: var(--soft) } .strong { font-weight: 600 }
.small { font-size: 12px } .middle { text-anchor: middle } .end { text-anchor: end }
.line { stroke: var(--line); fill: none } .axis { stroke: var(--soft); fill: none }
.context { fill: var(--context) } .target { fill: var(--target) } .running { fill: var(--running) }
.wrong { fill: var(--wrong) } .ink { fill: var(--ink) } .paper { fill: var(--paper) }
.box { fill: none; stroke: var(--soft) } .context-line { stroke: var(--context); fill: none }
.target-line { stroke: var(--target); fill: none } .running-line { stroke: var(--running); fill: none }
.wrong-line { stroke: var(--wrong); fill: none }
</style>
"""


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel.

    >>> number(3.04), number(-0.01), number(12.25)
    ('3', '0', '12.2')
    """
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 0.05 else "0"


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """One element; `class_` and names with underscores become `class` and names with hyphens."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{number(value) if isinstance(value, float) else escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{said}>{content}</{name}>\n" if content else f"<{name}{said}/>\n"


def text(x: float, y: float, words: str, class_: str = "") -> str:
    """Words at a place."""
    return element("text", escape(words), x=float(x), y=float(y), class_=class_ or None)


def rect(x: float, y: float, width: float, height: float, class_: str, **attributes: object) -> str:
    """A rectangle."""
    return element(
        "rect", x=float(x), y=float(y), width=float(width), height=float(height), class_=class_, **attributes
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "line", **attributes: object) -> str:
    """A line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_, **attributes)


def circle(x: float, y: float, r: float, class_: str, **attributes: object) -> str:
    """A filled circle."""
    return element("circle", cx=float(x), cy=float(y), r=float(r), class_=class_, **attributes)


def arrow(x1: float, y1: float, x2: float, y2: float, class_: str = "axis") -> str:
    """A straight arrow, across or down."""
    if y1 == y2:
        head = f"M{number(x2 - 6)} {number(y2 - 4)}L{number(x2)} {number(y2)}L{number(x2 - 6)} {number(y2 + 4)}"
    else:
        head = f"M{number(x2 - 4)} {number(y2 - 6)}L{number(x2)} {number(y2)}L{number(x2 + 4)} {number(y2 - 6)}"
    return line(x1, y1, x2, y2, class_) + element("path", d=head, class_=class_)


def picture(width: int, height: int, title: str, content: str, **attributes: object) -> str:
    """A whole SVG file, with a title for those who do not see it."""
    inside = f"\n<title>{escape(title)}</title>\n{STYLE}{content}"
    return element(
        "svg", inside, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", role="img", **attributes
    )
