"""The base class of few-shot learners: what MAML, ProtoNets, CNAPs and NCM share (section 2.1).

A learner is one file here and one entry in `LEARNERS`. Settings, commands, tables and pages get all that they need to
know about a learner from its class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from tasknorm.chunks import InParts, chunked
from tasknorm.data import Pictures, Preparation
from tasknorm.episode import Episode
from tasknorm.errors import DataError
from tasknorm.learners.adapted import Kept, checked_names, class_pixels, joined
from tasknorm.learners.asked import Asked
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks, for_net, groups
from tasknorm.nets import NormMaker
from tasknorm.norms import Norm

MANY = 256  # images of a context in bytes, beyond which they pass through nets in chunks
CHUNK = 32


class Outcome(NamedTuple):
    """Losses and logits of a meta-batch.

    Args:
        losses: the loss of each task, `(tasks,)`; training minimises their mean over the meta-batch.
        logits: for each task, the logits of its targets, `(target, way)`, detached.
    """

    losses: Tensor
    logits: list[Tensor]


class OwnSettings(BaseModel):
    """Base class of the settings that only one learner has; used as it is by a learner without any."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Learner(nn.Module):
    """A few-shot learner: in `train()` it meta-trains, in `eval()` it meta-tests.

    A subclass defines `adapt`. It also defines `logits` if it learns a task by forward passes alone; otherwise it
    defines `forward` and `learn`. All other methods and attributes have defaults; the commands use them.

    Attributes:
        label: the learner's name as papers print it.
        own_settings: class of the settings that only this learner has.
        meta_trained: whether it is meta-trained; False if it uses its weights as they are.
        wants_pretrained: whether its net should start from pretrained weights.
        has_steps: whether it predicts after each of several inner steps, as MAML does.
        learns_again: whether adapting from an adapted net gives what adapting from the learner's own net gives, so that
            its predictors can learn more examples later.
        takes_parts: whether `adapt` also takes images that are made in parts (see `tasknorm.chunks.InParts`).
        machine_settings: names of its own settings that change only memory and speed.
        converted: pattern of the norms to convert when one training serves several norms; None for all norms.
        test_steps: number of inner steps at meta-test.
        reduction: whether a task's loss is the mean or the sum of its targets' cross-entropy.
        chunk: how many examples pass through its nets at a time; None for all (see `in_chunks`).
    """

    label: ClassVar[str] = ""
    own_settings: ClassVar[type[OwnSettings]] = OwnSettings
    meta_trained: ClassVar[bool] = True
    wants_pretrained: ClassVar[bool] = False
    has_steps: ClassVar[bool] = False
    learns_again: ClassVar[bool] = False
    takes_parts: ClassVar[bool] = False
    machine_settings: ClassVar[tuple[str, ...]] = ()
    converted: ClassVar[str | None] = None
    test_steps: int = 1
    reduction: Literal["mean", "sum"] = "mean"
    chunk: int | None = None

    # What it computes

    def logits(self, tasks: Tasks) -> Tensor:
        """Logits `(tasks, target, way)` of tasks of one shape."""
        raise NotImplementedError(f"{type(self).__name__} cannot predict; define `logits`, or `forward` and `learn`")

    def adapt(self, context_x: Tensor, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context, for targets that come later, as at meta-test.

        Args:
            context_x: images `(context, ...)`, floats scaled as in training; a tensor or a numpy array. A learner that
                `takes_parts` also gets large contexts as `InParts`.
            context_y: labels `(context,)`, integers from 0 to way - 1 without gaps; a tensor, an array or a list.

        Raises:
            ValueError: if images are integers, have values up to 255 or another shape than the net's, or if labels have
                gaps.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot adapt to a context; define `adapt`")

    def adapt_to(self, context: Mapping[str, Pictures], preparation: Preparation, *, forget: bool = False) -> Predictor:
        """A predictor that knows the names of its classes and takes images as they are.

        Args:
            context: images of each class by its name (see `Preparation`), at least one of each.
            preparation: what happens to images before the net sees them.
            forget: leave the context out of the predictor, which then takes no more examples.

        Raises:
            DataError: if an image cannot be read, or classes or names cannot be used.
        """
        names = checked_names(tuple(context))
        if len(names) < 2:
            raise DataError(f"a task needs at least two classes, got {len(names)}; add images of another class")
        pixels = list(class_pixels(context, preparation).values())
        labels = torch.arange(len(names)).repeat_interleave(torch.tensor([len(each) for each in pixels]))
        images = joined(pixels)
        outputs = getattr(self.target_net, "way", None)
        if outputs is not None and outputs != len(names):
            raise DataError(
                f"{self.label}'s classifier was trained for {outputs} classes, got {len(names)}; give images of "
                f"{outputs} classes, or train with way={len(names)}"
            )
        predictor = self.adapt(self.prepared(images, preparation), labels)
        predictor.names, predictor.preparation, predictor.learner = names, preparation, self.label or None
        if self.learns_again and not forget:
            predictor.adapted.kept = Kept.of(self, predictor.net, images, labels)
        return predictor

    def prepared(self, images: Tensor, preparation: Preparation) -> Any:
        """Images in bytes `(images, channels, size, size)` as `adapt` takes them: many of them in parts."""
        parts = InParts(images, lambda some: for_net(self.target_net, preparation.scaled(some)), self.chunk or CHUNK)
        return parts if self.takes_parts and len(images) > MANY else parts.rows(slice(None))

    def forward(self, episode: Episode) -> Tensor:
        """Logits of the episode's targets, `(target, way)`."""
        (tasks,) = groups([episode])
        return self.logits(tasks)[0]

    def learn(self, episodes: Sequence[Episode]) -> Outcome:
        """Losses and logits of a meta-batch; consecutive episodes of equal shape pass through the net together.

        A task's loss is the mean or sum of its targets' cross-entropy, as `reduction` says, plus the penalty.
        """
        losses: list[Tensor] = []
        logits: list[Tensor] = []
        for tasks in groups(episodes):
            scores = self.logits(tasks)
            cross_entropy = tasks.cross_entropy(scores)
            losses.append(cross_entropy.mean(1) if self.reduction == "mean" else cross_entropy.sum(1))
            logits.extend(scores.detach())
        return Outcome(torch.cat(losses) + self.penalty(), logits)

    def begin(self, episode: Callable[[int], Episode]) -> None:
        """Set what is set from data before the first iteration, from training tasks; nothing by default.

        Args:
            episode: training task number i, on the learner's device.
        """
        return

    def penalty(self) -> Tensor | float:
        """The term that is added to the loss of each task; 0 by default."""
        return 0.0

    def step_logits(self, episodes: Sequence[Episode], sizes: Sequence[Sequence[int]] | None = None) -> list[Tensor]:
        """Logits of each episode's targets after each of its `test_steps`, `(steps, target, way)`, in `eval()`.

        Args:
            episodes: the tasks.
            sizes: for each episode, the sizes of the consecutive groups in which its targets arrive; None for all at
                once.
        """
        if sizes is None:
            return [scores[None] for scores in self.learn(episodes).logits]
        return [self._apart(episode, each)[None] for episode, each in zip(episodes, sizes, strict=True)]

    def _apart(self, episode: Episode, sizes: Sequence[int]) -> Tensor:
        predictor = self.adapt(episode.context_x, episode.context_y)
        if len(set(sizes)) == 1:
            return predictor.in_sets(episode.target_x, len(sizes))  # together, each normalised by itself
        return torch.cat([predictor(one) for one in episode.target_x.split(list(sizes))])

    @property
    def target_net(self) -> nn.Module:
        """The part of the learner that targets pass through; its norms decide whether the learner is transductive."""
        return self

    def own_options(self) -> dict[str, bool | int]:
        """Own settings with which `of` makes a learner of the same networks; none by default."""
        return {}

    def in_chunks(self, examples: int, *, lean: bool = False) -> Self:
        """Make its nets take their batches a chunk of examples at a time (see `tasknorm.chunked`).

        Args:
            examples: how many pass at a time; of tasks that pass together, a chunk holds as many of each.
            lean: keep less for the backward pass, and compute more again.

        Raises:
            ValueError: if the number is not positive, or a net is compiled or cannot be divided into chunks.
        """
        if getattr(self, "compiled", False):
            raise ValueError(f"{self.label}'s compiled passes take a batch whole; leave compiled or chunks out")
        parts = [net for net in self.children() if any(isinstance(module, Norm) for module in net.modules())]
        if not parts:
            raise ValueError(f"chunks need a net with norms of tasknorm, and {self.label} has none; leave chunk out")
        for net in parts:
            chunked(net, examples, lean=lean)
        self.chunk = examples
        return self

    # What it declares about itself, for the settings and commands

    @classmethod
    def of(cls, net: nn.Module, norm: NormMaker, own: Mapping[str, Any], *, compiled: bool = False) -> Self:
        """The learner of a run.

        Args:
            net: the run's net.
            norm: makes the run's norms, for networks that the learner has in addition to the net.
            own: values of the learner's own settings, without those that are None.
            compiled: whether to compile the net.
        """
        if compiled:
            net.compile()
        return cls(net, **own)

    @classmethod
    def title(cls, own: Any) -> str:
        """The learner's name with these own settings, as papers print it: another than `label` if it is a variant."""
        return cls.label

    @classmethod
    def net_options(cls, settings: Any) -> dict[str, Any]:
        """Keyword arguments of the net, in addition to its norm, image shape and filters."""
        return {}

    @classmethod
    def papers(cls, asked: Asked) -> dict[str, Any]:
        """The settings of the papers' experiment that is nearest to what is asked for."""
        return {}

    @classmethod
    def contradictions(cls, settings: Any) -> Iterator[tuple[str, str]]:
        """Names of settings whose values this learner cannot have, each with what it contradicts."""
        yield from ()
