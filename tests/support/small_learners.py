"""Every learner with every norm, small enough to train in seconds, and trained."""

from __future__ import annotations

import copy
from functools import cache, partial
from typing import Any

import torch

import tasknorm
from support.glyph_tasks import episodes
from tasknorm import NORMS, Episode
from tasknorm.learners import LEARNERS, MAML, NCM, CNAPs, Learner, ProtoNets
from tasknorm.nets import ResNet, maml_omniglot, protonets_conv4

FILTERS = 16
TRAINED_AS = {"TBN": "CBN", "RN": "CBN"}  # one training serves all three
CHANCE_AT_TEST = ("CBN", "BRN", "Baseline")  # with MAML, as in the paper
ITERATIONS = {"protonets": 15, "maml": 50, "cnaps": 50}
LEARNING_RATE = {"protonets": 3e-3, "maml": 3e-3, "cnaps": 5e-3}


def options(learner: str, label: str) -> dict[str, Any]:
    """What the experiments of the paper give their norms."""
    settings: dict[str, Any] = {"alpha": "independent-shared"} if label.startswith("TaskNorm") else {}
    if learner == "cnaps":
        settings = {}
    if label == "BRN":
        settings["schedule"] = 200
    return settings | ({"affine": "offset", "eps": 1e-3} if learner == "maml" else {})


def fresh(learner: str, label: str, seed: int = 0) -> Any:
    """An untrained learner, with running moments where the norm is of no use without."""
    torch.manual_seed(seed)
    norm = partial(NORMS[label], **options(learner, label))
    if learner == "ncm":
        made: Any = NCM(_with_running(protonets_conv4, learner, label)(filters=FILTERS))
    elif learner == "protonets":
        made = ProtoNets(_with_running(protonets_conv4, learner, label)(filters=FILTERS))
    elif learner == "maml":
        made = MAML(_with_running(maml_omniglot, learner, label)(filters=FILTERS), inner_lr=0.1, test_steps=3)
    else:
        extractor = _with_running(ResNet, learner, label)(widths=(16, 32), depth=1, film=True, image_shape=(1, 28, 28))
        made = CNAPs(extractor, norm)
    return made


def _with_running(net: Any, learner: str, label: str) -> Any:
    """A net that has seen images as CBN, then been converted: running moments as after pretraining."""

    def make(**settings: Any) -> torch.nn.Module:
        model = net(partial(NORMS["CBN"], **options(learner, "CBN")), **settings)
        with torch.no_grad():
            for task in episodes(99, 30, shot=4):
                model(task.context_x)
        return tasknorm.convert(model, label, **options(learner, label))

    return make


@cache
def _trained(learner: str, label: str) -> tuple[Any, list[float]]:
    model = fresh(learner, label)
    if not model.meta_trained:
        return model, []
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=LEARNING_RATE[learner])
    losses = []
    for iteration in range(ITERATIONS[learner]):
        outcome = model.learn(episodes(iteration, 8))
        optimizer.zero_grad()
        outcome.losses.mean().backward()
        optimizer.step()
        losses.append(outcome.losses.mean().item())
    return model, losses


def trained(learner: str, label: str) -> Any:
    """A trained learner, in `eval()`; TBN, CBN and RN are conversions of one training."""
    model = copy.deepcopy(_trained(learner, TRAINED_AS.get(label, label))[0])
    if label in TRAINED_AS:
        model = tasknorm.convert(model, label, where=LEARNERS[learner].converted)
    return model.eval()


def training_losses(learner: str, label: str) -> list[float]:
    """The loss of each iteration of the training."""
    return _trained(learner, TRAINED_AS.get(label, label))[1]


@torch.no_grad()
def accuracy(model: Learner, tasks: list[Episode]) -> float:
    """Share of targets classified rightly."""
    right = [(logits.argmax(1) == task.target_y) for logits, task in zip(model.learn(tasks).logits, tasks, strict=True)]
    return torch.cat(right).double().mean().item()


__all__ = ["CHANCE_AT_TEST", "LEARNERS", "accuracy", "fresh", "trained", "training_losses"]
