"""Predictions of a task's targets as they come: all at once, by example or by class (section 5, appendix D)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tasknorm.episode import Episode, Targets
from tasknorm.learners import MAML, Learner


def target_logits(learner: Learner, episodes: Sequence[Episode], targets: Targets) -> list[Tensor]:
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
    in_sets = [_with_targets(episode, torch.cat(parts)) for episode, parts in zip(episodes, divided, strict=True)]
    logits = _apart(learner, in_sets, [[len(part) for part in parts] for parts in divided])
    return [scores[:, torch.cat(parts).argsort()] for scores, parts in zip(logits, divided, strict=True)]


def _together(learner: Learner, episodes: Sequence[Episode]) -> list[Tensor]:
    if isinstance(learner, MAML):
        return list(learner.steps(episodes))
    return [logits[None] for logits in learner.learn(episodes).logits]


def _apart(learner: Learner, episodes: Sequence[Episode], sizes: Sequence[list[int]]) -> list[Tensor]:
    """Logits `(steps, target, way)` of each task, whose targets come in sets of these sizes, one after the other."""
    if isinstance(learner, MAML):
        # Tasks divided alike pass together, as many as with all targets at once, so that each adapts to the same bits.
        if all(each == sizes[0] for each in sizes):
            return list(learner.steps(episodes, sizes=sizes[0]))
        return [learner.steps([episode], sizes=each)[0] for episode, each in zip(episodes, sizes, strict=True)]
    found = []
    for episode, each in zip(episodes, sizes, strict=True):
        predictor = learner.adapt(episode.context_x, episode.context_y)
        if len(set(each)) == 1:
            logits = predictor.in_sets(episode.target_x, len(each))  # together, each normalised by itself
        else:
            logits = torch.cat([predictor(one) for one in episode.target_x.split(each)])
        found.append(logits[None])
    return found


def _with_targets(episode: Episode, chosen: Tensor) -> Episode:
    return Episode(episode.context_x, episode.context_y, episode.target_x[chosen], episode.target_y[chosen])


def _parts(labels: Tensor, targets: Targets) -> list[Tensor]:
    everything = torch.arange(len(labels), device=labels.device)
    if targets == "example":
        return list(everything.split(1))
    return [everything[labels == label] for label in labels.unique()]
