"""Drawings of numbers: each is read from results/ or computed by the package while it is drawn."""

from __future__ import annotations

import copy
import json
import math
import re
from functools import partial

import torch
from torch import Tensor, nn

import tasknorm
from making.links import ROOT
from making.pictures.svg import circle, element, line, number, picture, text
from tasknorm import NORMS, nets
from tasknorm.learners import MAML
from tasknorm.norms import TaskNormI

CNAPS = ROOT / "results/paper/cnaps-meta_dataset-TaskNorm-I/result.json"


def demo_rows() -> list[tuple[str, float, float]]:
    """Norm, and accuracy in % with targets all at once and one by one, from the table that `make demo` printed."""
    row = re.compile(r"^ ([\w-]+) +([\d.]+)±[\d.]+ +([\d.]+)±", re.MULTILINE)
    return [(norm, float(all_), float(one)) for norm, all_, one in row.findall((ROOT / "results/demo.txt").read_text())]


def demo() -> str:
    """What a norm seems to reach with all targets at once, and what it reaches if they come alone."""
    rows = demo_rows()
    left, right, top, step = 110, 600, 64, 26

    def x(value: float) -> float:
        return left + (right - left) * value / 100

    drawn = circle(116, 18, 5, "context") + text(128, 22, "targets one by one") + circle(280, 18, 5, "wrong")
    drawn += text(292, 22, "all at once, where that differs")
    for tick in (0, 20, 40, 60, 80, 100):
        drawn += line(x(tick), top - 16, x(tick), top + step * len(rows) - 10)
        drawn += text(x(tick), top - 22, f"{tick} %", "small soft middle")
    for i, (norm, together, alone) in enumerate(rows):
        y = top + step * i
        drawn += text(left - 10, y + 4, norm, "end strong" if norm == "TaskNorm-I" else "end")
        drawn += line(x(0), y, x(alone), y, "context-line", stroke_width=2)
        drawn += circle(x(alone), y, 5, "context") + text(x(alone) + 10, y + 4, f"{alone:.1f}", "small")
        if together != alone:
            drawn += line(x(alone) + 40, y, x(together), y, "wrong-line", stroke_dasharray="4 3", stroke_width=2)
            drawn += circle(x(together), y, 5, "wrong") + text(x(together) + 10, y + 4, f"{together:.1f}", "small")
    together, alone = next((together, alone) for norm, together, alone in rows if norm == "TBN")
    fall = f"TBN falls from {together} to {alone} % if targets come one by one"
    title = f"Accuracy of eight norms with MAML on glyphs: {fall}."
    return picture(660, top + step * len(rows), title, drawn)


def alpha() -> str:
    """Alpha against the context's size, as CNAPs learned it in each layer of its feature extractor."""
    found = [row for row in json.loads(CNAPS.read_text())["alphas"] if row["layer"].startswith("extractor")]
    norms = [_with_alpha(row["scale"], row["offset"]) for row in found]
    left, right, top, bottom, most = 60, 600, 24, 214, 100

    def place(size: float, value: float) -> tuple[float, float]:
        return left + (right - left) * size / most, bottom - (bottom - top) * value

    drawn = ""
    for tick in (0, 0.5, 1):
        drawn += line(left, place(0, tick)[1], right, place(0, tick)[1])
        drawn += text(left - 8, place(0, tick)[1] + 4, f"{tick:g}", "small soft end")
    for size in range(0, most + 1, 20):
        drawn += text(place(size, 0)[0], bottom + 18, str(size), "small soft middle")
    for norm in [_with_alpha(0, 0), *norms]:
        points = [place(size, norm.alpha(size).item()) for size in range(0, most + 1, 2)]
        path = "M" + "L".join(f"{number(a)} {number(b)}" for a, b in points)
        start = norm.alpha_offset.item() == 0
        drawn += element(
            "path",
            d=path,
            class_="axis" if start else "context-line",
            stroke_width="1.6",
            stroke_dasharray="5 4" if start else None,
        )
    drawn += text(left, 14, "alpha: how much the context counts", "small")
    drawn += text(right, bottom + 36, "context images", "small end") + text(
        place(66, 0)[0], place(0, 0.5)[1] - 7, "start", "small"
    )
    title = (
        "Alpha against context size in twelve layers: in most it rises from near 0.6 to 1; before training it is 0.5."
    )
    return picture(620, 258, title, drawn)


def _with_alpha(scale: float, offset: float) -> TaskNormI:
    norm = TaskNormI(1)
    assert norm.alpha_scale is not None
    norm.alpha_scale.data.fill_(scale)
    norm.alpha_offset.data.fill_(offset)
    return norm.requires_grad_(False)


def neighbours(label: str, sets: int = 12) -> list[float]:
    """One feature of one target, by a small network with this norm, among different neighbours each time."""
    random = torch.Generator().manual_seed(3)

    def images(count: int, shift: float) -> Tensor:
        return torch.randn(count, 1, 8, 8, generator=random, dtype=torch.float64) + shift

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), NORMS[label](4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1))
    net = net.double().eval().requires_grad_(False)
    context, one = images(5, 0), images(1, 0.5)
    with tasknorm.context(net):
        net(context)
    with tasknorm.target(net):
        return [net(torch.cat([one, images(6, shift / 3 - 2)]))[0].item() for shift in range(sets)]


def transduction() -> str:
    """The score of one target, each dot among other neighbours."""
    labels = ("TBN", "MetaBN", "TaskNorm-I", "IN")
    scores = {label: neighbours(label) for label in labels}
    everything = [score for each in scores.values() for score in each]
    low, high = min(everything), max(everything)
    left, right, top = 120, 590, 40
    drawn = text(30, 20, "the score of one and the same target, among twelve different sets of neighbours", "small")
    for i, label in enumerate(labels):
        y = top + 32 * i
        drawn += text(left - 14, y + 4, label, "end strong" if label == "TBN" else "end") + line(left, y, right, y)
        for score in dict.fromkeys(round(score, 6) for score in scores[label]):
            x = left + 8 + (right - left - 16) * (score - low) / (high - low)
            drawn += circle(x, y, 6, "wrong" if label == "TBN" else "context", fill_opacity="0.8")
    drawn += text(right, top + 32 * len(labels) - 8, "score", "small soft end")
    title = (
        "With TBN the score of a target moves with its neighbours; with MetaBN, TaskNorm-I and IN it stays where it is."
    )
    return picture(620, top + 32 * len(labels), title, drawn)


def drift() -> list[list[float]]:
    """How far MAML's inner step moves the mean of each channel, in standard deviations before it, by norm layer."""
    random = torch.Generator().manual_seed(0)
    patterns = (torch.rand(5, 1, 7, 7, generator=random) > 0.6).float().repeat_interleave(4, 2).repeat_interleave(4, 3)
    torch.manual_seed(0)
    net = nets.maml_omniglot(partial(NORMS["TBN"], affine="offset", eps=1e-3), filters=16)
    learner = MAML(net, inner_lr=0.4, test_steps=1).double()
    context = (patterns + 0.1 * torch.randn(patterns.shape, generator=random)).double()
    adapted = copy.deepcopy(learner.adapt(context, torch.arange(5)).net)
    layers = zip(_layer_moments(copy.deepcopy(net), context), _layer_moments(adapted, context), strict=True)
    return [((moved - mean) / spread).tolist() for (mean, spread), (moved, _) in layers]


def _layer_moments(net: nn.Module, images: Tensor) -> list[tuple[Tensor, Tensor]]:
    found: list[tuple[Tensor, Tensor]] = []
    for norm in (module for module in net.modules() if isinstance(module, tasknorm.Norm)):
        norm.register_forward_pre_hook(
            lambda _, given: found.append((given[0].mean((0, 2, 3)), given[0].std((0, 2, 3))))
        )
    with torch.no_grad(), tasknorm.context(net):
        net(images)
    return found


def running() -> str:
    """How far means move from where running averages are collected to where predictions are made."""
    layers = drift()
    left, right, top, step = 110, 590, 46, 50
    zero, reach = (left + right) / 2, math.log10(1 + 200)

    def x(moved: float) -> float:
        return zero + (right - left) / 2 * math.copysign(math.log10(1 + abs(moved)), moved) / reach

    drawn = text(zero, 20, "initial weights: what running averages hold", "small running middle")
    drawn += line(zero, 28, zero, top + step * len(layers) - 20, "running-line", stroke_width=2)
    for i, layer in enumerate(layers):
        y = top + step * i + 6
        drawn += text(left - 14, y + 4, f"layer {i + 1}", "end") + line(left, y, right, y)
        for channel, moved in enumerate(layer):
            drawn += circle(x(moved), y - 10 + 20 * channel / (len(layer) - 1), 3.5, "target")
    bottom = top + step * len(layers)
    for tick in (-100, -10, -1, 0, 1, 10, 100):
        drawn += text(x(tick), bottom - 4, f"{tick:+d}" if tick else "0", "small soft middle")
    drawn += text(
        zero, bottom + 16, "means at adapted weights, in standard deviations at the initial ones", "small target middle"
    )
    title = "After one inner step of MAML, most channels' means lie many standard deviations from where they were."
    return picture(620, bottom + 26, title, drawn)
