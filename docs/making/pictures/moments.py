"""All twelve norms on the same small batch: which planes of which images feed the number that normalises one."""

from __future__ import annotations

import json
from functools import cache
from html import escape

from making.pictures.measured import CHANNELS, CONTEXT, IMAGES, SIDE, role, table
from making.pictures.svg import element, number, picture, rect, text

PLANE, STEP, TOP = 26, 28, 42
WIDTH, HEIGHT = 232, 212
CHOSEN = (CONTEXT, 1)  # the first target's second channel, until the reader chooses another
COLUMNS = 3
TITLE = (
    "Twelve norms on a batch of three context images and three targets with four channels each. Filled: the planes "
    "whose pixels feed the mean and variance that normalise the framed one; the fuller, the more they count."
)


@cache
def measured() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """The table behind the picture (see `measured`)."""
    return table()


def _x(image: int) -> int:
    return 2 + STEP * image + (10 if image >= CONTEXT else 0)


def kind_of(image: int) -> str:
    """The set that an image is in."""
    return "context" if image < CONTEXT else "target"


def words(kind: str, roles: dict[str, float]) -> list[str]:
    """Where a mean comes from, in words: a line for each part."""
    inner = "itself, all channels" if "layer" in roles else "itself, its group" if "group" in roles else "itself"
    own = roles.get("itself", 0) + roles.get("group", 0) + 2 * roles.get("layer", 0)
    others = roles.get("context", 0) * (CONTEXT - 1 if kind == "context" else CONTEXT)
    parts = {
        inner: own,
        "rest of the context" if kind == "context" else "context": others,
        "other targets": 2 * roles.get("targets", 0),
        "running moments": roles.get("running", 0),
    }
    return [f"{name} {round(100 * share)} %" for name, share in parts.items() if share]


def panel(label: str, mode: str = "test", chosen: tuple[int, int] = CHOSEN) -> str:
    """One norm: its batch, what is filled of it, and that in words."""
    image, channel = chosen
    roles = measured()[label][mode][kind_of(image)]
    most = max(roles.values())
    peeks = mode == "test" and "targets" in roles
    drawn = text(2, 16, label, "strong norm") + element(
        "text", "peeks", x=230.0, y=16.0, class_="wrong strong end badge"
    )
    if not peeks:
        drawn = drawn.replace('badge"', 'badge" visibility="hidden"')
    drawn += text(_x(0), 36, "context", "small soft") + text(_x(CONTEXT), 36, "targets", "small soft")
    drawn += text(230, 36, "running", "small soft end")
    for at in range(IMAGES):
        for of in range(CHANNELS):
            weight = roles.get(role(image, channel, at, of) or "", 0)
            drawn += _plane(_x(at), of, f"{at},{of}", kind_of(at), weight / most, (at, of) == chosen)
    for of in range(CHANNELS):
        drawn += _plane(
            WIDTH - 30, of, f"running,{of}", "running", (of == channel) * roles.get("running", 0) / most, False
        )
    lines = [*words(kind_of(image), roles), "", ""][:3]
    drawn += "".join(
        element("text", escape(said) or " ", x=2.0, y=float(171 + 16 * i), class_="small said")
        for i, said in enumerate(lines)
    )
    return drawn


def _plane(x: int, of: int, name: str, colour: str, weight: float, chosen: bool) -> str:
    """The pixels of one image and channel."""
    y = TOP + STEP * of
    third = PLANE / SIDE
    lines = "".join(f"M{number(x + third * i)} {y}v{PLANE}M{x} {number(y + third * i)}h{PLANE}" for i in range(1, SIDE))
    if colour == "running":
        lines = f"M{x} {y + PLANE}L{x + PLANE} {y}"
    inside = rect(x, y, PLANE, PLANE, "paper") + rect(
        x, y, PLANE, PLANE, f"{colour} part", fill_opacity=opacity(weight)
    )
    inside += element("path", d=lines, class_="line") + rect(x, y, PLANE, PLANE, "frame chosen" if chosen else "frame")
    return element("g", inside, data_plane=name)


def opacity(weight: float) -> str:
    """How full a plane is that counts this much of what counts most.

    >>> opacity(0), opacity(0.5), opacity(1)
    ('0', '0.6', '1')
    """
    return number(0.2 + 0.8 * weight) if weight else "0"


def moments_picture() -> str:
    """The picture by itself, as it stands before the reader chooses."""
    frames = (
        "<style>.frame { fill: none; stroke: var(--line) } .chosen { stroke: var(--ink); stroke-width: 3 }</style>\n"
    )
    panels = "".join(
        element(
            "g", panel(label), transform=f"translate({10 + (WIDTH + 20) * (i % COLUMNS)},{4 + HEIGHT * (i // COLUMNS)})"
        )
        for i, label in enumerate(measured())
    )
    rows = -(-len(measured()) // COLUMNS)
    return picture(COLUMNS * (WIDTH + 20), rows * HEIGHT + 4, TITLE, frames + panels)


def moments_figure() -> str:
    """The figure of the site: the same panels, and switches to choose what is normalised; docs/assets/moments.js."""
    images = [("C", i) for i in range(CONTEXT)] + [("T", i) for i in range(IMAGES - CONTEXT)]
    switches = _switch(
        "image", "Normalise", [(str(i), f"{kind}{n + 1}") for i, (kind, n) in enumerate(images)], CHOSEN[0]
    )
    switches += _switch("channel", "channel", [(str(i), str(i + 1)) for i in range(CHANNELS)], CHOSEN[1])
    switches += _switch("mode", "at", [("test", "meta-test"), ("train", "meta-train")], 0)
    panels = "".join(
        element("svg", panel(label), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, data_norm=label)
        for label in measured()
    )
    figure = f'<form class="switches">\n{switches}</form>\n<div class="panels">\n{panels}</div>\n'
    figure += '<p class="spoken" role="status"></p>\n'
    return element("div", "\n" + figure, class_="moments", data_table=json.dumps(measured(), separators=(",", ":")))


def _switch(name: str, legend: str, values: list[tuple[str, str]], chosen: int) -> str:
    inputs = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" if i == chosen else ""}>'
        f"<span>{words}</span></label>"
        for i, (value, words) in enumerate(values)
    )
    return f"<fieldset><legend>{legend}</legend>{inputs}</fieldset>\n"
