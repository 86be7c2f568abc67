"""Predictions of a task's targets as they come: all at once, by example or by class (section 5, appendix D)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from tasknorm.episode import Episode, Targets
from tasknorm.phase import target

STEPS = 10  # of MAML at meta-test


def target_logits(learner: Any, episodes: Sequence[Episode], targets: Targets) -> list[Tensor]:
    """Logits of some tasks at meta-test.

    Args:
        learner: in `eval()`.
        episodes: the tasks.
        targets: predict a task's targets all at once, one example, or one class at a time.

    Returns:
        Logits `(steps, targets, way)` of each task, with its targets in their own order; learners other than MAML have
        one step.
    """
    if targets == "all":
        return _together(learner, episodes)
    divided = [_parts(episode.target_y, targets) for episode in episodes]
    logits = iter(_apart(learner, episodes, divided))
    results = []
    for parts in divided:
        joined = torch.cat([next(logits) for _ in parts], dim=1)
        results.append(joined[:, torch.cat(parts).argsort()])
    return results


def _together(learner: Any, episodes: Sequence[Episode]) -> list[Tensor]:
    if hasattr(learner, "steps"):
        return list(learner.steps(episodes, STEPS))
    return [logits[None] for logits in learner.learn(episodes).logits]


def _apart(learner: Any, episodes: Sequence[Episode], divided: Sequence[list[Tensor]]) -> Iterator[Tensor]:
    """Logits `(steps, part, way)` of each part of each task; no part is seen together with another."""
    if hasattr(learner, "steps"):
        # The first part of every task, then the second, ...: as many tasks pass together as with all targets at once,
        # so that each adapts to the same bits.
        columns = [
            learner.steps([_only(episode, part) for episode, part in zip(episodes, column, strict=True)], STEPS)
            for column in zip(*divided, strict=True)
        ]
        for row in zip(*columns, strict=True):
            yield from row
        return
    for episode, parts in zip(episodes, divided, strict=True):
        predictor = learner.adapt(episode.context_x, episode.context_y)
        if len({len(part) for part in parts}) > 1:
            yield from (predictor(episode.target_x[part])[None] for part in parts)
            continue
        with target(predictor.net, sets=len(parts)):  # together, each normalised by itself
            logits: Tensor = predictor.logits(episode.target_x[torch.cat(parts)])
        yield from logits[None].split(len(parts[0]), dim=1)


def _only(episode: Episode, part: Tensor) -> Episode:
    return Episode(episode.context_x, episode.context_y, episode.target_x[part], episode.target_y[part])


def _parts(labels: Tensor, targets: Targets) -> list[Tensor]:
    everything = torch.arange(len(labels), device=labels.device)
    if targets == "example":
        return list(everything.split(1))
    return [everything[labels == label] for label in labels.unique()]
