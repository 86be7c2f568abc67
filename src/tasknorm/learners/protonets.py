"""ProtoNets: Snell et al., 2017, "Prototypical networks for few-shot learning"; sections 5.1 and 5.2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from tasknorm.chunks import InParts
from tasknorm.episode import Episode
from tasknorm.learners.asked import META_DATASET, Asked, Values, meta_dataset_net
from tasknorm.learners.calibration import best_temperature
from tasknorm.learners.class_means import Temperature, class_mean_logits, class_mean_predictor
from tasknorm.learners.learner import Learner, OwnSettings
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks

PAPER: Values = {
    "net": "protonets-conv4",
    "affine": "all",
    "eps": 1e-5,
    "reduction": "mean",
    "meta_batch": 1,
    "targets": 15,
    "halve_every": 2000,
    "validate_every": 100,
}
ON_CHARACTERS: Values = {"train_way": 60, "train_targets": 5}
ON_PHOTOS: Values = {"train_targets": 15, "scale": "standard"}
# All weights of the ResNet are trained, starting from pretrained ones. The loss is the sum over targets, averaged over
# 16 tasks.
ON_META_DATASET: Values = {"reduction": "sum", "halve_every": 0}


FITTED = 8  # tasks on which the temperature's start is chosen


class ProtoNetsSettings(OwnSettings):
    """The settings that ProtoNets alone has."""

    reduction: Literal["mean", "sum"] | None = Field(
        None, description="ProtoNets: a task's loss is the mean or the sum over its targets."
    )
    temperature: bool | None = Field(
        None, description="ProtoNets: learn one factor of all logits, which starts where training tasks want it."
    )


class ProtoNets(Learner):
    """Nearest class mean (see `class_means`) on features that are meta-trained for it.

    Args:
        net: a net from images to features.
        reduction: whether a task's loss is the mean of its targets' cross-entropy, as in Snell et al., or the sum, as
            in the Meta-Dataset experiments.
        temperature: learn one positive factor of all logits. Squared distances of pretrained features may be far from
            the size that a softmax needs, and then nearly all of the loss is in this factor.

    >>> from tasknorm import NORMS, Episode, nets
    >>> learner = ProtoNets(nets.protonets_conv4(NORMS["TaskNorm-L"]))
    >>> x, y = torch.rand(10, 1, 28, 28), torch.arange(10) % 5
    >>> learner(Episode(x, y, x, y)).shape
    torch.Size([10, 5])
    """

    label = "ProtoNets"
    own_settings = ProtoNetsSettings
    learns_again = True
    takes_parts = True

    def __init__(
        self, net: nn.Module, *, reduction: Literal["mean", "sum"] = "mean", temperature: bool = False
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "sum"):
            raise ValueError(f'reduction must be "mean" or "sum", got {reduction!r}')
        self.net = net
        self.reduction = reduction
        self.temperature = Temperature() if temperature else None

    @property
    def target_net(self) -> nn.Module:
        """The net; the learner has no other."""
        return self.net

    def logits(self, tasks: Tasks) -> Tensor:
        """Logits `(tasks, target, way)`, in one joint pass."""
        return class_mean_logits(self.net, tasks, self.temperature)

    @torch.no_grad()
    def adapt(self, context_x: Tensor | InParts, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context (see `Learner`)."""
        return class_mean_predictor(self.net, context_x, context_y, self.temperature)

    @torch.no_grad()
    def begin(self, episode: Callable[[int], Episode]) -> None:
        """Set the temperature to what suits some tasks, if there is one: Adam's small steps would not get there."""
        if self.temperature is None:
            return
        self.temperature.start_at(1.0)
        was_training = self.training
        self.eval()
        found = [(self(task).double(), task.target_y) for task in map(episode, range(FITTED))]
        self.train(was_training)
        self.temperature.start_at(best_temperature(*zip(*found, strict=True)))

    def own_options(self) -> dict[str, bool | int]:
        """Whether there is a temperature (see `Learner`)."""
        return {} if self.temperature is None else {"temperature": True}

    @classmethod
    def papers(cls, asked: Asked) -> Values:
        """Snell et al. on Omniglot and miniImageNet; the TaskNorm paper's appendix B on Meta-Dataset."""
        if asked.meta_dataset:
            return META_DATASET | ON_META_DATASET | {"train_way": asked.way, "net": meta_dataset_net(asked)}
        on_photos = ON_PHOTOS | {"train_way": 30 if asked.shot < 5 else 20}
        return PAPER | {"rotate": asked.turned} | (ON_CHARACTERS if asked.characters else on_photos)

    @classmethod
    def contradictions(cls, settings: Any) -> Iterator[tuple[str, str]]:
        """A net of MAML's: it returns logits, and ProtoNets needs features."""
        if settings.net.startswith("maml-"):
            yield "net", f"learner={settings.learner}, which needs a net that returns features"
