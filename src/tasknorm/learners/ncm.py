"""NCM: nearest class mean on frozen features, the baseline without meta-training (Mensink et al., 2013)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tasknorm.chunks import InParts
from tasknorm.learners.asked import META_DATASET, Asked, Values, meta_dataset_net
from tasknorm.learners.class_means import class_mean_logits, class_mean_predictor
from tasknorm.learners.learner import Learner
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks
from tasknorm.nets import is_backbone

UNTRAINED: Values = {"iterations": 0, "validate_every": 0, "meta_batch": 1}


class NCM(Learner):
    """Nearest class mean (see `class_means`) on the features of a pretrained net, as they are.

    It learns nothing but the class means of each task: the baseline that a few-shot method has to beat.

    Args:
        net: a pretrained net from images to features; its weights are frozen.

    >>> from tasknorm import NORMS, Episode, nets
    >>> learner = NCM(nets.resnet_small(NORMS["CBN"])).eval()
    >>> x, y = torch.rand(10, 1, 28, 28), torch.arange(10) % 5
    >>> learner(Episode(x, y, x, y)).shape
    torch.Size([10, 5])
    """

    label = "NCM"
    meta_trained = False
    wants_pretrained = True
    learns_again = True
    takes_parts = True

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.requires_grad_(False)

    @property
    def target_net(self) -> nn.Module:
        """The net; the learner has no other."""
        return self.net

    def logits(self, tasks: Tasks) -> Tensor:
        """Logits `(tasks, target, way)`, in one joint pass."""
        return class_mean_logits(self.net, tasks)

    @torch.no_grad()
    def adapt(self, context_x: Tensor | InParts, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context (see `Learner`)."""
        return class_mean_predictor(self.net, context_x, context_y)

    @classmethod
    def papers(cls, asked: Asked) -> Values:
        """The tasks, images and network of the Meta-Dataset experiments, and no iterations."""
        fixed = {} if asked.meta_dataset else {"sampling": "fixed", "targets": 15, "rotate": asked.turned}
        return META_DATASET | fixed | UNTRAINED | {"train_way": asked.way, "net": meta_dataset_net(asked)}

    @classmethod
    def contradictions(cls, settings: Any) -> Iterator[tuple[str, str]]:
        """Values that do not suit a learner without meta-training on the features of a pretrained net."""
        if settings.net.startswith("maml-"):
            yield "net", "learner=ncm, which needs a net that returns features"
        if settings.iterations:
            yield "iterations", "learner=ncm, which has no meta-training"
        if settings.validate_every:
            yield "validate_every", "learner=ncm, which has no meta-training"
        if settings.pretrained is None and not is_backbone(settings.net):
            yield "pretrained", "learner=ncm, which needs a pretrained net (see `tasknorm pretrain`)"
