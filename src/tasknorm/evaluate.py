"""Accuracies with their intervals, with targets all at once, by example and by class (section 5, appendix D)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice

import torch
from torch import Tensor

from tasknorm.audit import audit
from tasknorm.episode import TARGETS, Episode, Targets
from tasknorm.learners import MAML, Learner
from tasknorm.norms import Norm
from tasknorm.ranks import Ranks
from tasknorm.target_logits import target_logits

AT_ONCE = 32  # tasks that pass together


@dataclass(frozen=True)
class Mean:
    """A mean over tasks, in [0, 1], and half the width of its 95 % interval."""

    accuracy: float
    interval: float

    def __str__(self) -> str:
        return f"{self.accuracy:.1%} ± {self.interval:.1%}"


@dataclass(frozen=True)
class Evaluation:
    """Accuracy over tasks.

    Args:
        mean: the accuracy to report: for MAML, after the step that was fixed beforehand, or else the best step.
        tasks: how many.
        targets: how they came.
        label: "transductive" or "non-transductive".
        seconds: for each task, its images included.
        step: MAML's inner step of `mean`; None for learners without steps.
        steps: MAML's accuracy after each step; their largest is what the TaskNorm paper reports.
    """

    mean: Mean
    tasks: int
    targets: Targets
    label: str
    seconds: float
    step: int | None = None
    steps: tuple[Mean, ...] = ()

    @property
    def maximum(self) -> Mean:
        """The best step's accuracy, chosen with these very tasks, as in the TaskNorm paper."""
        return max(self.steps, key=lambda mean: mean.accuracy, default=self.mean)

    def __str__(self) -> str:
        at = "" if self.step is None else f" after step {self.step} (maximum over steps {self.maximum})"
        return f"{self.mean}{at}, {self.tasks} tasks, targets: {self.targets}, {self.label}"


def evaluate(
    learner: Learner,
    episode: Callable[[int], Episode],
    tasks: int = 600,
    targets: Targets = "all",
    *,
    step: int | None = None,
    label: str | None = None,
    ranks: Ranks | None = None,
) -> Evaluation:
    """Test a learner on tasks 0, 1, 2, ... of `episode`.

    Args:
        learner: any learner; it is put into `eval()` for the duration.
        episode: task number i, ready for the learner but for its device.
        tasks: how many.
        targets: predict a task's targets all at once, one example, or one class at a time.
        step: MAML's inner step to report, chosen on other tasks (see `Evaluation.step`); the best one if left out.
        label: what `transduction_label` said of this learner, if it has been asked before.
        ranks: the processes that share the tasks; this one alone if left out.

    Raises:
        ValueError: if there is no task, `targets` is unknown, or the learner takes fewer steps than `step`.
    """
    began = time.monotonic()
    table = accuracies(learner, episode, tasks, targets, ranks)
    seconds = (time.monotonic() - began) / tasks
    label = label or transduction_label(learner, episode(0))
    steps = tuple(mean_interval(column) for column in table.T)
    if not isinstance(learner, MAML):
        return Evaluation(steps[0], tasks, targets, label, seconds)
    if step is None:
        step = 1 + max(range(len(steps)), key=lambda s: steps[s].accuracy)
    if not 1 <= step <= len(steps):
        raise ValueError(f"step must be from 1 to the learner's test_steps={len(steps)}, got {step}")
    return Evaluation(steps[step - 1], tasks, targets, label, seconds, step, steps)


@torch.no_grad()
def accuracies(
    learner: Learner,
    episode: Callable[[int], Episode],
    tasks: int,
    targets: Targets = "all",
    ranks: Ranks | None = None,
) -> Tensor:
    """The accuracy on each task, after each of MAML's steps: `(tasks, steps)`; others have one step (see `evaluate`).

    Raises:
        ValueError: if there is no task, or `targets` is unknown.
    """
    if tasks < 1 or targets not in TARGETS:
        raise ValueError(f"tasks must be at least 1 and targets one of {', '.join(TARGETS)}, got {tasks}, {targets!r}")
    ranks = ranks or Ranks()
    share = ranks.share(tasks)
    table = torch.zeros(tasks, learner.test_steps if isinstance(learner, MAML) else 1, dtype=torch.float64)
    device = next(learner.parameters()).device
    was_training = learner.training
    learner.eval()
    try:
        for numbers, episodes in _batches(episode, share, device):
            predicted = target_logits(learner, episodes, targets)
            for number, task, logits in zip(numbers, episodes, predicted, strict=True):
                table[number] = torch.tensor([accuracy(scores, task.target_y) for scores in logits], dtype=table.dtype)
    finally:
        learner.train(was_training)
    ranks.add([table])
    return table


def _batches(
    episode: Callable[[int], Episode], share: range, device: torch.device
) -> Iterator[tuple[list[int], list[Episode]]]:
    """Numbered neighbours of one shape, which can pass together; others would only take memory."""
    found = ((number, episode(number).to(device)) for number in share)
    for _, alike in groupby(found, lambda pair: (pair[1].context_x.shape, pair[1].target_x.shape)):
        while batch := list(islice(alike, AT_ONCE)):
            numbers, episodes = zip(*batch, strict=True)
            yield list(numbers), list(episodes)


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of targets whose largest logit is that of their class."""
    return float((logits.argmax(-1) == labels).double().mean())


def mean_interval(accuracies: Tensor) -> Mean:
    """Mean and 1.96 population deviations of the mean.

    >>> print(mean_interval(torch.tensor([0.0, 1.0, 1.0, 0.0])))
    50.0% ± 49.0%
    """
    interval = 1.96 * accuracies.std(correction=0) / math.sqrt(len(accuracies))
    return Mean(float(accuracies.mean()), float(interval))


def transduction_label(learner: Learner, episode: Episode) -> str:
    """What the learner's norms say of themselves, checked with an audit of one episode.

    Raises:
        RuntimeError: if a norm promises not to be transductive and the audit finds that it is.
    """
    episode = episode.to(next(learner.parameters()).device)
    sees_targets = getattr(learner, "extractor", learner)  # CNAPs' set encoder sees contexts only
    promised = any(norm.transductive for norm in sees_targets.modules() if isinstance(norm, Norm))
    label = "transductive" if promised else "non-transductive"
    try:
        predictor = learner.adapt(episode.context_x, episode.context_y)
        found = audit(lambda x, y, targets: predictor(targets), episode)
    except ValueError as error:
        return f"{label} (not audited: {error})"
    if found.transductive and not promised:
        raise RuntimeError(f"the learner's norms promise not to be transductive, and an audit finds:\n{found}")
    if found.transductive is None:
        return f"{label} (not audited: the audit cannot tell, since {found.reason})"
    return label
