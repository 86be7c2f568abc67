"""Accuracies with their intervals, with targets all at once, by example and by class (section 5, appendix D)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice

import torch
from torch import Tensor

from tasknorm.episode import TARGETS, Episode, Targets
from tasknorm.evaluation.accuracy import Accuracy
from tasknorm.evaluation.target_logits import target_logits
from tasknorm.learners import Learner, accuracy
from tasknorm.machine import Processes
from tasknorm.nets import Backbone
from tasknorm.norms import Norm
from tasknorm.transduction import audit

AT_ONCE = 32  # tasks that pass together

Note = Callable[[int], object]


def _nothing(tasks: int) -> None:
    """Note nothing."""


@dataclass(frozen=True)
class Evaluation:
    """Accuracy over tasks.

    Args:
        accuracy: what to report; of a learner with steps, after the step that was fixed beforehand, or else the best.
        tasks: the number of tasks.
        targets: how they came.
        label: "transductive" or "non-transductive".
        seconds: seconds per task, reading its images included.
        step: the inner step of `accuracy`; None for learners without steps.
        steps: the accuracy after each step; their largest is what the TaskNorm paper reports of MAML.
        by_task: the accuracy on each task, for differences between learners that saw the same ones.
    """

    accuracy: Accuracy
    tasks: int
    targets: Targets
    label: str
    seconds: float
    step: int | None = None
    steps: tuple[Accuracy, ...] = ()
    by_task: tuple[float, ...] = ()

    @property
    def maximum(self) -> Accuracy:
        """The best step's accuracy, chosen with these very tasks, as in the TaskNorm paper."""
        return max(self.steps, key=lambda step: step.mean, default=self.accuracy)

    def __str__(self) -> str:
        at = "" if self.step is None else f" after step {self.step} (maximum over steps {self.maximum} %)"
        return f"{self.accuracy} %{at}, {self.tasks} tasks, targets: {self.targets}, {self.label}"


def evaluate(
    learner: Learner,
    episode: Callable[[int], Episode],
    tasks: int = 600,
    targets: Targets = "all",
    *,
    step: int | None = None,
    label: str | None = None,
    processes: Processes | None = None,
    note: Note = _nothing,
) -> Evaluation:
    """Test a learner on tasks 0, 1, 2, ... of `episode`.

    Args:
        learner: any learner; it is put into `eval()` for the duration.
        episode: task number i, ready for the learner but for its device.
        tasks: the number of tasks.
        targets: predict a task's targets all at once, one example, or one class at a time.
        step: the inner step to report, chosen on other tasks (see `Evaluation.step`); the best one if left out.
        label: what `transduction_label` said of this learner, if it has been asked before.
        processes: the processes that share the tasks; this one alone if left out.
        note: takes the number of tasks that have just been done.

    Raises:
        ValueError: if there is no task, `targets` is unknown, or the learner takes fewer steps than `step`.
    """
    began = time.monotonic()
    table = accuracies(learner, episode, tasks, targets, processes, note)
    seconds = (time.monotonic() - began) / tasks
    label = label or transduction_label(learner, episode(0))
    steps = tuple(Accuracy.over(column) for column in table.T)
    if not learner.has_steps:
        return Evaluation(steps[0], tasks, targets, label, seconds, by_task=tuple(table[:, 0].tolist()))
    if step is None:
        step = 1 + max(range(len(steps)), key=lambda s: steps[s].mean)
    if not 1 <= step <= len(steps):
        raise ValueError(f"step must be from 1 to the learner's test_steps={len(steps)}, got {step}")
    by_task = tuple(table[:, step - 1].tolist())
    return Evaluation(steps[step - 1], tasks, targets, label, seconds, step, steps, by_task)


@torch.no_grad()
def accuracies(
    learner: Learner,
    episode: Callable[[int], Episode],
    tasks: int,
    targets: Targets = "all",
    processes: Processes | None = None,
    note: Note = _nothing,
) -> Tensor:
    """The accuracy on each task, after each of the learner's steps: `(tasks, steps)` (see `evaluate`).

    Raises:
        ValueError: if there is no task, or `targets` is unknown.
    """
    if tasks < 1 or targets not in TARGETS:
        raise ValueError(f"tasks must be at least 1 and targets one of {', '.join(TARGETS)}, got {tasks}, {targets!r}")
    processes = processes or Processes()
    table = torch.zeros(tasks, learner.test_steps, dtype=torch.float64)
    for number, labels, logits in predictions(learner, episode, processes.share(tasks), targets):
        table[number] = torch.tensor([accuracy(scores, labels) for scores in logits], dtype=table.dtype)
        note(1)
    processes.add([table])
    return table


@torch.no_grad()
def predictions(
    learner: Learner, episode: Callable[[int], Episode], share: range, targets: Targets = "all"
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """For each of some tasks its number, its targets' labels, and their logits `(steps, target, way)`.

    Args:
        learner: any learner; it is put into `eval()` for the duration.
        episode: task number i, ready for the learner but for its device.
        share: the tasks' numbers.
        targets: predict a task's targets all at once, one example, or one class at a time.
    """
    device = next(learner.parameters()).device
    was_training = learner.training
    learner.eval()
    try:
        for numbers, episodes in _batches(episode, share, device, _at_once(learner)):
            predicted = target_logits(learner, episodes, targets)
            for number, task, logits in zip(numbers, episodes, predicted, strict=True):
                yield number, task.target_y, logits
    finally:
        learner.train(was_training)


def _at_once(learner: Learner) -> int:
    """How many tasks pass together: one through networks of others, whose activations may be large."""
    return 1 if any(isinstance(module, Backbone) for module in learner.modules()) else AT_ONCE


def _batches(
    episode: Callable[[int], Episode], share: range, device: torch.device, at_once: int
) -> Iterator[tuple[list[int], list[Episode]]]:
    """Numbered neighbours of one shape, which can pass together; others would only take memory."""
    found = ((number, episode(number).to(device)) for number in share)
    for _, alike in groupby(found, lambda pair: (pair[1].context_x.shape, pair[1].target_x.shape)):
        while batch := list(islice(alike, at_once)):
            numbers, episodes = zip(*batch, strict=True)
            yield list(numbers), list(episodes)


def transduction_label(learner: Learner, *episodes: Episode) -> str:
    """What the learner's norms say of themselves, checked with an audit of one or more episodes.

    The label has nothing in parentheses exactly if the audit could tell on every episode.

    Raises:
        RuntimeError: if a norm promises not to be transductive and the audit finds that it is.
    """
    promised = any(norm.transductive for norm in learner.target_net.modules() if isinstance(norm, Norm))
    label = "transductive" if promised else "non-transductive"
    for episode in episodes:
        here = episode.to(next(learner.parameters()).device)
        try:
            predictor = learner.adapt(here.context_x, here.context_y)
            found = audit(lambda x, y, targets, predictor=predictor: predictor(targets), here)  # type: ignore[misc]
        except ValueError as error:
            return f"{label} (not audited: {error})"
        if found.transductive and not promised:
            raise RuntimeError(f"the learner's norms promise not to be transductive, and an audit finds:\n{found}")
        if found.transductive is None:
            return f"{label} (not audited: the audit cannot tell, since {found.reason})"
    return label
