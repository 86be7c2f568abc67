"""Predictions of a task's targets as they come: all at once, by example or by class (section 5, appendix D)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tasknorm.episode import Episode, Targets
from tasknorm.learners import Learner


def target_logits(learner: Learner, episodes: Sequence[Episode], targets: Targets) -> list[Tensor]:
    """Logits of some tasks at meta-test.

    Args:
        learner: in `eval()`.
        episodes: the tasks.
        targets: predict a task's targets all at once, one example, or one class at a time.

    Returns:
        Logits `(steps, targets, way)` of each task, with its targets in their own order.
    """
    if targets == "all":
        return learner.step_logits(episodes)
    divided = [_parts(episode.target_y, targets) for episode in episodes]
    in_sets = [_with_targets(episode, torch.cat(parts)) for episode, parts in zip(episodes, divided, strict=True)]
    logits = learner.step_logits(in_sets, [[len(part) for part in parts] for parts in divided])
    return [scores[:, torch.cat(parts).argsort()] for scores, parts in zip(logits, divided, strict=True)]


def _with_targets(episode: Episode, chosen: Tensor) -> Episode:
    return Episode(episode.context_x, episode.context_y, episode.target_x[chosen], episode.target_y[chosen])


def _parts(labels: Tensor, targets: Targets) -> list[Tensor]:
    everything = torch.arange(len(labels), device=labels.device)
    if targets == "example":
        return list(everything.split(1))
    return [everything[labels == label] for label in labels.unique()]
