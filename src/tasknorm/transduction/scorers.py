"""Does a score depend on who else is in the batch? The audit for models that are not few-shot at all."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tasknorm.episode import Episode
from tasknorm.errors import at, one_line
from tasknorm.transduction.auditing import audit

Score = Callable[[Any], Any]  # a batch of images to their scores
COME = {"example": "one at a time", "class": "in two halves", "order": "in another order"}


class ScorerError(RuntimeError):
    """A scorer raised an error; the message says which, where, and for what batch."""


@dataclass(frozen=True)
class ScorerAudit:
    """What `audit_scorer` found.

    Args:
        depends: whether an image's scores depend on the other images of its batch; None if the audit cannot tell.
        random: whether two identical calls disagree.
        reason: what the verdict rests on.
        movement: by how much the scores moved when the images came `one at a time`, `in two halves` and `in another
            order` rather than all at once, relative to the lead of an image's best score over the next, where 0 counts
            as a score too.
        noise: by how much they moved between two identical calls.
        calls: how often the scorer was asked.
    """

    depends: bool | None
    random: bool
    reason: str
    movement: dict[str, float]
    noise: float
    calls: int

    @property
    def label(self) -> str:
        """The verdict in words."""
        word = {True: "depends on the batch", False: "independent of the batch", None: "cannot tell"}[self.depends]
        return word + (", random" if self.random else "")

    def __str__(self) -> str:
        lines = [self.label, f"{'images come':<20}{'scores move by':>14}"]
        lines += [f"{come:<20}{movement:>14.1e}" for come, movement in self.movement.items()]
        lines.append(f"{'as before, again':<20}{self.noise:>14.1e}")
        lines.append(f"after {self.calls} calls: {self.reason}")
        return "\n".join(lines)


def audit_scorer(score: Score, images: Tensor, *, others: Tensor | None = None, arrays: bool = False) -> ScorerAudit:
    """Tell whether the scores of an image depend on the other images in its batch.

    The experiments, and what they cannot see, are those of `tasknorm.audit`: images alone and together, the same image
    at the same place among other neighbours, in other orders, after other batches; on fresh copies of the scorer where
    copies can be made. Unlike there, a shift that all scores of an image share counts too.

    Args:
        score: takes a batch of images, returns one row of scores for each: a tensor, an array or lists, `(images,)` or
            `(images, ...)`. A module is asked in the mode, train or eval, that it is in.
        images: `(images, ...)`, at least two; no batch is larger than this.
        others: further images of the same shape, to serve as neighbours.
        arrays: hand the scorer numpy arrays instead of tensors.

    Returns:
        A `ScorerAudit`; print it to read it.

    Raises:
        TypeError: if the scores are no numbers.
        ValueError: if there are too few images, or the scores have another shape or are not finite.
        ScorerError: if the scorer raises an error.

    >>> images = torch.randn(8, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> audit_scorer(lambda x: x.mean((1, 2, 3)), images).label
    'independent of the batch'
    >>> audit_scorer(lambda x: x.mean((1, 2, 3)).softmax(0), images).label
    'depends on the batch'
    """
    if not callable(score):
        raise TypeError(f"a scorer must be a function of a batch of images, got {type(score).__name__}")
    if len(images) < 2:
        raise ValueError(f"at least two images are needed to see whether they matter to each other, got {len(images)}")
    neighbours = images[:1] if others is None or not len(others) else others
    halves = torch.arange(len(images)) % 2
    episode = Episode(neighbours, torch.zeros(len(neighbours), dtype=torch.long), images, halves)
    found = audit(_Scored(score, arrays), episode)
    return ScorerAudit(
        depends=found.transductive,
        random=found.random,
        reason=found.reason.replace("target", "image"),
        movement={COME[come]: movement for come, movement in found.movement.items()},
        noise=found.noise,
        calls=found.calls,
    )


class _Scored:
    """A scorer as a predictor that ignores its context."""

    def __init__(self, score: Score, arrays: bool) -> None:
        self.score, self.arrays = score, arrays

    def __call__(self, context_x: Tensor, context_y: Tensor, images: Tensor) -> Tensor:
        """The scores, and a column of zeros beside them: scores that move together move against it."""
        try:
            found = self.score(images.cpu().numpy() if self.arrays else images)
        except (Exception, SystemExit) as error:
            raise ScorerError(_what_failed(error, images)) from None
        table = _table(found, images)
        return torch.cat([table, table.new_zeros(len(table), 1)], 1)


def _table(found: Any, images: Tensor) -> Tensor:
    """The scores as numbers `(images, scores)`."""
    given = f"for a batch of shape {tuple(images.shape)}"
    try:
        scores = torch.as_tensor(found).detach().to("cpu", torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"scores must be a tensor, an array or a list of numbers, got {type(found).__name__} {given} "
            f"({one_line(str(error))}); return the numbers alone"
        ) from None
    if not scores.ndim or len(scores) != len(images) or not scores.numel():
        raise ValueError(
            f"each image needs scores of its own, got scores of shape {tuple(scores.shape)} {given}; return one row "
            "for each image"
        )
    if bool(scores.isnan().any() | (scores == torch.inf).any()):
        raise ValueError(
            f"scores must be finite, got NaN or inf {given}; check how the images are prepared, or the scorer"
        )
    return scores.flatten(1) if scores.ndim > 1 else scores[:, None]


def _what_failed(error: BaseException, images: Tensor) -> str:
    """What a scorer raised, the deepest place in it that belongs to no installed package, and what it was given."""
    frames = [each for each in traceback.extract_tb(error.__traceback__)[1:] if "site-packages" not in each.filename]
    where = f" in {at(frames[-1].filename, f'line {frames[-1].lineno}')}" if frames else ""
    said = one_line(" ".join(str(error).split()))
    return (
        f"the scorer raised {type(error).__name__}{where} for a batch of shape {tuple(images.shape)} "
        f"({str(images.dtype).removeprefix('torch.')}): {said or 'no message'}"
    )
