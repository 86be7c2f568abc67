"""How far the scores of a target moved: centred, and relative to the target's own spread."""

from __future__ import annotations

import torch
from torch import Tensor


def centred(scores: Tensor) -> Tensor:
    """How far each score lies below the best of its row, `(targets, way)`; -inf where a class is ruled out."""
    return scores - scores.amax(1, keepdim=True)


def spread(scores: Tensor) -> Tensor:
    """Each target's lead, `(targets,)`: by how much its best score exceeds the next that differs from it.

    At least the median lead, since near ties are no measure. Neither a shift of all scores nor padding for absent
    classes enters it.
    """
    behind = -centred(scores)
    lead = behind.masked_fill(behind <= 0, torch.inf).amin(1)
    known = lead[lead.isfinite()]
    usual = float(known.median()) if len(known) else torch.finfo(torch.float32).tiny
    return lead.masked_fill(lead.isinf(), usual).clamp(min=usual)


def moved(one: Tensor, other: Tensor) -> Tensor:
    """By how much each row's centred scores differ at most, `(targets,)`; inf if a class is ruled out in one only."""
    one, other = centred(one), centred(other)
    difference = (one - other).abs().masked_fill(one == other, 0.0)  # -inf in both is no difference
    return difference.amax(1)


def largest(relative: Tensor) -> float:
    """The largest movement, 0 of none."""
    return float(relative.max()) if len(relative) else 0.0


def working_precision(scores: Tensor) -> float:
    """The relative precision of the coarsest dtype that holds all these scores, bfloat16 to float64."""
    finite = scores[scores.isfinite()].double()
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        if bool((finite.to(dtype).double() == finite).all()):
            return torch.finfo(dtype).eps
    return torch.finfo(torch.float64).eps
