"""Accuracies with their intervals, with targets all at once, by example and by class (section 5, appendix D)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tasknorm.audit import audit
from tasknorm.episode import Episode
from tasknorm.norms import Norm
from tasknorm.ranks import Ranks

Targets = Literal["all", "example", "class"]
TARGETS: tuple[Targets, ...] = ("all", "example", "class")
AT_ONCE = 32  # tasks that pass together
STEPS = 10  # of MAML at meta-test


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
        step: MAML's inner step of `mean`; None for learners without steps.
        steps: MAML's accuracy after each step; their largest is what the TaskNorm paper reports.
    """

    mean: Mean
    tasks: int
    targets: Targets
    label: str
    step: int | None = None
    steps: tuple[Mean, ...] = ()

    @property
    def maximum(self) -> Mean:
        """The best step's accuracy, chosen with these very tasks, as in the TaskNorm paper."""
        return max(self.steps, key=lambda mean: mean.accuracy, default=self.mean)

    def __str__(self) -> str:
        at = "" if self.step is None else f" after step {self.step} (maximum over steps {self.maximum})"
        return f"{self.mean}{at}, {self.tasks} tasks, targets: {self.targets}, {self.label}"


@torch.no_grad()
def evaluate(
    learner: Any,
    episode: Callable[[int], Episode],
    tasks: int = 600,
    targets: Targets = "all",
    *,
    step: int | None = None,
    ranks: Ranks | None = None,
) -> Evaluation:
    """Test a learner on tasks 0, 1, 2, ... of `episode`.

    Args:
        learner: any learner; it is put into `eval()` for the duration.
        episode: task number i, ready for the learner but for its device.
        tasks: how many.
        targets: predict a task's targets all at once, one example, or one class at a time.
        step: MAML's inner step to report, chosen on other tasks (see `Evaluation.step`); the best one if left out.
        ranks: the processes that share the tasks; this one alone if left out.

    Raises:
        ValueError: if there is no task, or `targets` is unknown.
    """
    if tasks < 1 or targets not in TARGETS:
        raise ValueError(f"tasks must be at least 1 and targets one of {', '.join(TARGETS)}, got {tasks}, {targets!r}")
    ranks = ranks or Ranks()
    device = next(learner.parameters()).device
    was_training = learner.training
    learner.eval()
    try:
        share = ranks.share(tasks)
        rows = [torch.tensor(a) for a in _accuracies(learner, (episode(i).to(device) for i in share), targets)]
        table = torch.zeros(tasks, STEPS if hasattr(learner, "steps") else 1, dtype=torch.float64)
        if rows:
            table[share.start : share.stop] = torch.stack(rows).double()
        ranks.add([table])
        label = transduction_label(learner, episode(0).to(device))
    finally:
        learner.train(was_training)
    return _evaluation(table, targets, label, step, hasattr(learner, "steps"))


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of targets whose largest logit is that of their class."""
    return float((logits.argmax(-1) == labels).double().mean())


def mean_interval(accuracies: Tensor) -> Mean:
    """Mean and 1.96 population deviations of the mean.

    >>> mean_interval(torch.tensor([0.0, 1.0, 1.0, 0.0])).interval
    0.49
    """
    interval = 1.96 * accuracies.std(correction=0) / math.sqrt(len(accuracies))
    return Mean(float(accuracies.mean()), float(interval))


def transduction_label(learner: Any, episode: Episode) -> str:
    """What the learner's norms say of themselves, checked with an audit of one episode.

    Raises:
        RuntimeError: if a norm promises not to be transductive and the audit finds that it is.
    """
    promised = any(norm.transductive for norm in learner.modules() if isinstance(norm, Norm))
    label = "transductive" if promised else "non-transductive"
    try:
        found = audit(lambda x, y, targets: learner.adapt(x, y)(targets), episode)
    except ValueError as error:
        return f"{label} (not audited: {error})"
    if found.transductive and not promised:
        raise RuntimeError(f"the learner's norms promise not to be transductive, and an audit finds:\n{found}")
    return label


def _evaluation(table: Tensor, targets: Targets, label: str, step: int | None, has_steps: bool) -> Evaluation:
    """From accuracies `(tasks, steps)`."""
    steps = tuple(mean_interval(column) for column in table.T)
    if not has_steps:
        return Evaluation(steps[0], len(table), targets, label)
    if step is None:
        step = 1 + max(range(len(steps)), key=lambda s: steps[s].accuracy)
    return Evaluation(steps[step - 1], len(table), targets, label, step, steps)


def _accuracies(learner: Any, episodes: Iterator[Episode], targets: Targets) -> Iterator[list[float]]:
    """Of each task, after each step."""
    while batch := [episode for _, episode in zip(range(AT_ONCE), episodes, strict=False)]:
        for episode, logits in zip(batch, _logits(learner, batch, targets), strict=True):
            yield [accuracy(scores, episode.target_y) for scores in logits]


def _logits(learner: Any, episodes: Sequence[Episode], targets: Targets) -> list[Tensor]:
    """Logits `(steps, targets, way)` of each task, with its targets in their own order."""
    if targets == "all":
        return _all_at_once(learner, episodes)
    results = []
    for episode in episodes:
        parts = _parts(episode.target_y, targets)
        logits = torch.cat(_part_by_part(learner, episode, parts), dim=1)
        results.append(logits[:, torch.cat(parts).argsort()])
    return results


def _all_at_once(learner: Any, episodes: Sequence[Episode]) -> list[Tensor]:
    if hasattr(learner, "steps"):
        return list(learner.steps(episodes, STEPS))
    return [logits[None] for logits in learner.learn(episodes).logits]


def _part_by_part(learner: Any, episode: Episode, parts: Sequence[Tensor]) -> list[Tensor]:
    """Logits `(steps, part, way)`: the learner never sees two parts together."""
    x, y = episode.context_x, episode.context_y
    if hasattr(learner, "steps"):
        return list(
            learner.steps([Episode(x, y, episode.target_x[part], episode.target_y[part]) for part in parts], STEPS)
        )
    predictor: nn.Module = learner.adapt(x, y)
    return [predictor(episode.target_x[part])[None] for part in parts]


def _parts(labels: Tensor, targets: Targets) -> list[Tensor]:
    everything = torch.arange(len(labels), device=labels.device)
    if targets == "example":
        return list(everything.split(1))
    return [everything[labels == label] for label in labels.unique()]
