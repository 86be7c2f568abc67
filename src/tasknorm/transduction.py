"""Is this predictor transductive? The paper's test (section 2.3, appendix D), for any predictor at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tasknorm.episode import Episode

Predict = Callable[[Tensor, Tensor, Tensor], Tensor]

TOLERANCE = 1e-4  # of the scores' size: below it, a difference is rounding
NOISE_FACTOR = 3  # one repeated call underestimates the largest of several differences


@dataclass(frozen=True)
class Audit:
    """What `audit` found.

    Args:
        transductive: whether a prediction depends on the other targets.
        random: whether two identical calls disagree.
        movement: by how much the scores moved when the targets came by `example`, by `class` and in another `order`,
            relative to the largest score.
        noise: by how much they moved between two identical calls.
        accuracy: share of correct predictions with `all` targets at once, by `example`, by `class` and in another
            `order`.
    """

    transductive: bool
    random: bool
    movement: dict[str, float]
    noise: float
    accuracy: dict[str, float]

    @property
    def label(self) -> str:
        """The word to print beside an accuracy."""
        return ("transductive" if self.transductive else "non-transductive") + (", random" if self.random else "")

    def __str__(self) -> str:
        lines = [self.label, f"{'targets':<10}{'accuracy':>10}{'scores move by':>18}"]
        for come, accuracy in self.accuracy.items():
            moved = f"{self.movement[come]:.1e}" if come in self.movement else "-"
            lines.append(f"{come:<10}{accuracy:>10.1%}{moved:>18}")
        lines.append(f"the same call twice: scores move by {self.noise:.1e}")
        return "\n".join(lines)


@torch.no_grad()
def audit(predict: Predict, episode: Episode) -> Audit:
    """Tell whether a predictor peeks at the other targets, and what that is worth.

    The targets are predicted all at once, one example at a time, one class at a time, and in another order. If a
    target's scores differ between these by more than 1e-4 of the largest score, and by more than the predictor differs
    from itself when asked twice, then it is transductive.

    Args:
        predict: `predict(context_x, context_y, target_x) -> scores`, scores of shape `(targets, way)`; any callable,
            ours or not. It is asked about targets in batches of every size.
        episode: the task to try it on, with at least two targets of at least two classes.

    Returns:
        An `Audit`; print it to read it.

    Raises:
        ValueError: if the scores have another shape or are not finite, or the episode is too small to tell.

    >>> def centred(context_x, context_y, target_x):
    ...     scores = target_x.flatten(1)[:, :5]
    ...     return scores - scores.mean(0)
    >>> x, y = torch.randn(10, 8, generator=torch.Generator().manual_seed(0)), torch.arange(10) % 5
    >>> audit(centred, Episode(x, y, x, y)).label
    'transductive'
    """
    labels = episode.target_y
    if len(labels) < 2 or len(labels.unique()) < 2:
        raise ValueError(
            f"an audit needs at least two targets of two classes to tell, got {len(labels)} of "
            f"{len(labels.unique())}; pass a larger episode"
        )
    everything = torch.arange(len(labels), device=labels.device)
    splits = {
        "all": [everything],
        "example": list(everything.split(1)),
        "class": [everything[labels == label] for label in labels.unique()],
        "order": [everything.flip(0)],
    }
    scores = {come: _scores(predict, episode, parts) for come, parts in splits.items()}
    again = _scores(predict, episode, [everything])
    size = scores["all"].abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    movement = {come: float((scores[come] - scores["all"]).abs().max() / size) for come in splits if come != "all"}
    noise = float((again - scores["all"]).abs().max() / size)
    return Audit(
        transductive=max(movement.values()) > max(TOLERANCE, NOISE_FACTOR * noise),
        random=noise > TOLERANCE,
        movement=movement,
        noise=noise,
        accuracy={come: float((s.argmax(1) == labels).double().mean()) for come, s in scores.items()},
    )


def _scores(predict: Predict, episode: Episode, parts: list[Tensor]) -> Tensor:
    """Scores of all targets in their own order, `(targets, way)`, predicted part by part."""
    rows = [_checked(predict(episode.context_x, episode.context_y, episode.target_x[part]), part) for part in parts]
    scores = torch.cat(rows)
    result = torch.empty_like(scores)
    result[torch.cat(parts)] = scores
    return result


def _checked(scores: Tensor, part: Tensor) -> Tensor:
    if scores.ndim != 2 or len(scores) != len(part):
        raise ValueError(
            f"predict must return scores of shape (targets, way), got {tuple(scores.shape)} for {len(part)} targets"
        )
    if not torch.isfinite(scores).all():
        raise ValueError(f"predict returned scores that are not finite for {len(part)} targets")
    return scores.double()
