"""Many drawings of one clean shape: affine and elastic jitter, and a thinner or thicker stroke.

The elastic field is smooth noise as in Simard et al. (2003), here from a coarse random grid.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tasknorm.data.formats.pixels import Pixels

TURN = math.radians(12)
SHEAR = 0.15
SCALE = (0.82, 1.05)
SHIFT = 0.08  # of half the picture's side, as are all lengths here
BEND = 0.055
GRID = 5
STROKE = (0.26, 0.5)  # which level of the blurred shape is the stroke's edge
BLUR = 1.6
SHARPNESS = 3.5


def drawn(shapes: Tensor, size: int, random: np.random.Generator) -> Pixels:
    """One drawing of each clean shape.

    Args:
        shapes: uint8 `(drawings, canvas, canvas)`.
        size: side of a drawing.
        random: where the jitter comes from.

    Returns:
        uint8 `(drawings, size, size)`, strokes white on black.
    """
    drawings = len(shapes)
    where = _affine(drawings, 2 * size, random) + _bends(drawings, 2 * size, random)
    levels = F.grid_sample(_blurred(shapes), where, align_corners=True)  # (drawings, 1, 2 size, 2 size)
    edges = _uniform(random, *STROKE, drawings).view(-1, 1, 1, 1)
    ink = ((levels - edges) * SHARPNESS + 0.5).clamp(0, 1)
    pictures: Pixels = F.avg_pool2d(ink, 2)[:, 0].mul(255).round().to(torch.uint8).numpy()
    return pictures


def _blurred(shapes: Tensor) -> Tensor:
    """`(drawings, 1, canvas, canvas)`, from 0 to 1: falls off smoothly across the edge of a stroke."""
    reach = math.ceil(3 * BLUR)
    kernel = torch.exp(-(torch.arange(-reach, reach + 1) ** 2) / (2 * BLUR**2))
    kernel = kernel / kernel.sum()
    levels = F.conv2d(shapes[:, None].float() / 255, kernel.view(1, 1, -1, 1), padding=(reach, 0))
    levels = F.conv2d(levels, kernel.view(1, 1, 1, -1), padding=(0, reach))
    return levels / levels.amax((2, 3), keepdim=True)


def _affine(drawings: int, side: int, random: np.random.Generator) -> Tensor:
    """Where each pixel comes from, `(drawings, side, side, 2)`: turned, sheared, scaled and moved."""
    turn = _uniform(random, -TURN, TURN, drawings)
    shear = _uniform(random, -SHEAR, SHEAR, drawings)
    wide, high = 1 / _uniform(random, *SCALE, drawings), 1 / _uniform(random, *SCALE, drawings)
    shift = _uniform(random, -SHIFT, SHIFT, drawings, 2)
    cos, sin = torch.cos(turn), torch.sin(turn)
    rows = [
        wide * cos,
        wide * (shear * cos - sin),
        shift[:, 0],
        high * sin,
        high * (shear * sin + cos),
        shift[:, 1],
    ]
    return F.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), [drawings, 1, side, side], align_corners=True)


def _bends(drawings: int, side: int, random: np.random.Generator) -> Tensor:
    """A smooth random displacement of each pixel, `(drawings, side, side, 2)`."""
    coarse = torch.from_numpy(random.standard_normal((drawings, 2, GRID, GRID))).float() * BEND
    return F.interpolate(coarse, (side, side), mode="bicubic", align_corners=True).permute(0, 2, 3, 1)


def _uniform(random: np.random.Generator, low: float, high: float, *shape: int) -> Tensor:
    return torch.from_numpy(random.uniform(low, high, shape)).float()
