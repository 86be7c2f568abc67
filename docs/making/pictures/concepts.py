"""Drawings of what a task is, and of what passes when: no numbers in them."""

from __future__ import annotations

from making.pictures.svg import arrow, circle, element, picture, rect, text

SHAPES = ("square", "disc", "triangle")


def shape(kind: str, x: float, y: float, size: float, turn: int, colour: str) -> str:
    """One made-up image: a shape in a frame, turned."""
    middle, r = size / 2, size * 0.27
    if kind == "disc":
        inside = circle(x + middle, y + middle, r, colour)
    else:
        corners = (
            [(-r, -r), (r, -r), (r, r), (-r, r)] if kind == "square" else [(0.0, -r * 1.2), (r * 1.1, r), (-r * 1.1, r)]
        )
        points = " ".join(f"{x + middle + a:.1f},{y + middle + b:.1f}" for a, b in corners)
        inside = element("polygon", points=points, class_=colour, transform=f"rotate({turn} {x + middle} {y + middle})")
    return rect(x, y, size, size, "box", rx=4) + inside


def task() -> str:
    """A 3-way 2-shot task: six labelled context images, and targets that arrive later."""
    drawn = text(20, 24, "context: a few images, with their classes", "strong context")
    for column, kind in enumerate(SHAPES):
        x = 20 + 110 * column
        drawn += "".join(shape(kind, x + 48 * i, 38, 44, 25 * (i + column) - 20, "context") for i in range(2))
        drawn += text(x + 46, 100, kind, "middle small")
    drawn += text(390, 24, "targets: which class is each?", "strong target")
    for i, (kind, turn) in enumerate([("disc", 0), ("triangle", 40), ("square", 60), ("triangle", -15)]):
        drawn += shape(kind, 390 + 62 * i, 38, 44, turn, "target") + text(412 + 62 * i, 100, "?", "middle small")
    drawn += element("line", x1=362.0, y1=14.0, x2=362.0, y2=106.0, class_="line")
    drawn += arrow(20, 124, 630, 124) + text(20, 142, "learn", "small soft") + text(390, 142, "predict", "small soft")
    drawn += text(630, 142, "time", "small soft end")
    title = "A task: six context images of three classes to learn from, and four targets to predict, which come later."
    return picture(650, 152, title, drawn)


def _batch(x: float, y: float, counts: list[tuple[str, int]], size: float = 22) -> str:
    drawn, at = "", x
    for colour, count in counts:
        for _ in range(count):
            drawn += rect(at, y, size, size, colour, fill_opacity="0.75", rx=3)
            at += size + 3
    return drawn


def phases() -> str:
    """The same task in two passes, and in one."""
    drawn = text(16, 22, "with tasknorm.context(model):", "strong context") + _batch(16, 34, [("context", 5)])
    drawn += arrow(144, 45, 176, 45) + rect(180, 28, 100, 36, "box", rx=6) + text(230, 50, "model", "middle")
    drawn += arrow(230, 64, 230, 96) + rect(140, 100, 180, 28, "box", rx=6)
    drawn += text(230, 118, "context moments, kept", "middle small")
    drawn += text(360, 22, "with tasknorm.target(model):", "strong target")
    for i, when in enumerate(("now", "later", "elsewhere")):
        y = 34 + 26 * i
        drawn += text(360, y + 16, when) + rect(436, y, 22, 22, "target", fill_opacity="0.75", rx=3)
        drawn += arrow(464, y + 11, 496, y + 11)
    drawn += rect(500, 30, 100, 102, "box", rx=6) + text(550, 84, "model", "middle") + arrow(320, 118, 496, 118)
    drawn += element("line", x1=16.0, y1=150.0, x2=604.0, y2=150.0, class_="line")
    drawn += text(16, 176, "with tasknorm.joint(model, context_size=5, tasks=2):", "strong")
    drawn += _batch(16, 190, [("context", 5), ("target", 3), ("context", 5), ("target", 3)])
    drawn += arrow(424, 201, 496, 201) + rect(500, 183, 100, 36, "box", rx=6) + text(550, 205, "model", "middle")
    drawn += text(16, 230, "task 1", "small soft") + text(216, 230, "task 2", "small soft")
    drawn += text(600, 236, "the same numbers", "small soft end")
    title = "Two passes: the context leaves its moments in the model, then targets come alone. Below, one joint pass."
    return picture(620, 246, title, drawn)
