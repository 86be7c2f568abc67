"""CNAPs: Requeima et al., 2019, "Fast and flexible multi-task classification using conditional neural adaptive
processes"; section 5.2 of the TaskNorm paper."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from tasknorm.chunks import InParts, chunked, fitted, unchunked
from tasknorm.learners.asked import META_DATASET, Asked, Values, meta_dataset_net
from tasknorm.learners.class_means import class_means
from tasknorm.learners.learner import Learner, OwnSettings
from tasknorm.learners.phases import context_pass, joint_pass
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.tasks import Tasks, check_images, given_context
from tasknorm.nets import ClassifierGenerator, FilmGenerator, NormMaker, SetEncoder, is_backbone
from tasknorm.norms import TBN, Norm, TaskNorm
from tasknorm.phase import contexts

PAPER: Values = {"film": True, "regulariser": 0.016, "encoder_filters": 64}  # 0.001 for each of 16 tasks
TASKS = {"Baseline": 110_000, "TBN": 70_000, "CBN": 70_000, "BRN": 70_000, "RN": 70_000, "LN": 110_000, "IN": 200_000}


class CNAPsSettings(OwnSettings):
    """The settings that CNAPs alone has."""

    film: bool | None = Field(None, description="CNAPs: adapt the features by FiLM; otherwise only the classifier.")
    regulariser: float | None = Field(None, ge=0, description="CNAPs: weight of the FiLM generator's regulariser.")
    encoder_filters: int | None = Field(None, ge=1, description="CNAPs: number of channels of the set encoder.")


class CNAPs(Learner):
    """A frozen feature extractor whose FiLM layers and linear classifier are generated from the context.

        z      = mean over the context of set_encoder(x)
        film   = generator(z)
        nu_c   = mean over class c's context of extractor(x; film)
        logits = extractor(x*; film) . w(nu_c) + b(nu_c)

    Meta-training learns the set encoder, the generators, and alpha of the extractor's norms. The rest of the extractor
    is frozen.

    The set encoder sees the context alone, always in the context phase. It never uses running moments: in place of CBN,
    BRN and Baseline it gets TBN, as in the authors' code. So convert the extractor alone:
    `tasknorm.convert(learner, "RN", where="extractor.*")`.

    Args:
        extractor: a pretrained net from images to features, with FiLM layers and the attributes `features` and
            `image_shape`.
        norm: makes the set encoder's norms.
        film: generate FiLM parameters; if False, only the classifier is adapted.
        regulariser: weight of the FiLM generator's regulariser in a task's loss, which is added to the sum of its
            targets' cross-entropy. The authors use 0.001 with each of 16 tasks, whose cross-entropy they divide by 16;
            in a mean over tasks that is 0.016.
        encoder_filters: number of channels of the set encoder.

    >>> from tasknorm import NORMS, Episode, nets
    >>> learner = CNAPs(nets.resnet_small(NORMS["TaskNorm-I"], film=True), NORMS["TaskNorm-I"])
    >>> x, y = torch.rand(10, 1, 28, 28), torch.arange(10) % 5
    >>> learner(Episode(x, y, x, y)).shape
    torch.Size([10, 5])
    """

    label = "CNAPs"
    own_settings = CNAPsSettings
    wants_pretrained = True
    learns_again = True
    takes_parts = True
    converted = "extractor.*"
    reduction: Literal["mean", "sum"] = "sum"

    def __init__(
        self,
        extractor: nn.Module,
        norm: NormMaker,
        *,
        film: bool = True,
        regulariser: float = 0.016,
        encoder_filters: int = 64,
    ) -> None:
        super().__init__()
        features, channels = _size(extractor)
        self.extractor = extractor.requires_grad_(False)
        for module in extractor.modules():
            if isinstance(module, TaskNorm):
                for parameter in (module.alpha_scale, module.alpha_offset):
                    if parameter is not None:
                        parameter.requires_grad_(True)
        self.set_encoder: SetEncoder | None = None
        self.film_generator: FilmGenerator | None = None
        if film:
            blocks = min(5, min(extractor.image_shape[1:]).bit_length() - 1)  # type: ignore[index]
            self.set_encoder = SetEncoder(_own_batch(norm), channels=channels, features=encoder_filters, blocks=blocks)
            self.film_generator = FilmGenerator(extractor, self.set_encoder.features)
        self.classifier_generator = ClassifierGenerator(features)
        self.regulariser = regulariser

    def penalty(self) -> Tensor | float:
        """The weighted regulariser of the FiLM generator; 0 without FiLM."""
        return 0.0 if self.film_generator is None else self.regulariser * self.film_generator.regulariser()

    @property
    def target_net(self) -> nn.Module:
        """The extractor; the set encoder never sees targets."""
        return self.extractor

    def own_options(self) -> dict[str, bool | int]:
        """Whether there is FiLM, and the size of the set encoder (see `Learner`)."""
        encoder = self.set_encoder
        return {"film": encoder is not None} | ({} if encoder is None else {"encoder_filters": encoder.features})

    @classmethod
    def of(cls, net: nn.Module, norm: NormMaker, own: Mapping[str, Any], *, compiled: bool = False) -> Self:
        """The learner of a run (see `Learner`)."""
        if compiled:
            net.compile()
        return cls(net, norm, **own)

    @classmethod
    def net_options(cls, settings: Any) -> dict[str, Any]:
        """FiLM layers for the net, if FiLM is on."""
        return {"film": True} if settings.own.film else {}

    @classmethod
    def papers(cls, asked: Asked) -> Values:
        """Requeima et al. on Meta-Dataset, with the TaskNorm paper's number of tasks for each norm (appendix B)."""
        tasks = TASKS.get(asked.norm, 60_000)
        values = META_DATASET | PAPER | {"iterations": tasks // 16}
        return values | {"train_way": asked.way, "net": meta_dataset_net(asked)}

    @classmethod
    def contradictions(cls, settings: Any) -> Iterator[tuple[str, str]]:
        """A net without FiLM layers: ResNets have them, and networks of others get them."""
        if not settings.net.startswith("resnet") and not is_backbone(settings.net):
            yield "net", "learner=cnaps, which needs resnet18, resnet-small, or a network of others"

    @torch.no_grad()
    def adapt(self, context_x: Tensor | InParts, context_y: Tensor) -> Predictor:
        """A predictor for the task of this context (see `Learner`)."""
        context_x, context_y, way = given_context(self.extractor, context_x, context_y)
        learner = copy.deepcopy(self).eval()
        film = {name: numbers[0] for name, numbers in learner._film(context_x, 1).items()}
        extractor = learner.extractor
        extractor.load_state_dict(film, strict=False)
        images = fitted(extractor, context_x)
        with context_pass(extractor):
            features = extractor(images)
        weight, bias = learner.classifier_generator(class_means(features[None], context_y[None], way))
        return Predictor(unchunked(extractor), weight[0], bias[0])

    def in_chunks(self, examples: int, *, lean: bool = False) -> Self:
        """Make its nets take their batches in chunks (see `Learner`); the extractor lean: it takes little time."""
        super().in_chunks(examples, lean=lean)
        chunked(self.extractor, examples, lean=True)
        return self

    def logits(self, tasks: Tasks) -> Tensor:
        """Logits `(tasks, target, way)`, in one joint pass."""
        images = tasks.images
        check_images(self.extractor, images)
        film = self._film(tasks.context_x.flatten(0, 1), tasks.count)
        with joint_pass(self.extractor, tasks.context_size, tasks.count):
            features: Tensor = functional_call(self.extractor, film, (images,)).unflatten(0, (tasks.count, -1))
        of_context, of_targets = features.tensor_split([tasks.context_size], dim=1)
        weight, bias = self.classifier_generator(class_means(of_context, tasks.context_y, tasks.way))
        return torch.baddbmm(bias.unsqueeze(1), of_targets, weight.transpose(1, 2))

    def _film(self, context_x: Tensor | InParts, tasks: int) -> dict[str, Tensor]:
        """FiLM parameters `(tasks, C)` by name, from contexts of equal size, `(tasks * context, ...)`."""
        if self.set_encoder is None or self.film_generator is None:
            return {}
        _check_encoder(self.set_encoder)
        images = fitted(self.set_encoder, context_x)
        with contexts(self.set_encoder, tasks):
            vectors = self.set_encoder(images)
        film: dict[str, Tensor] = self.film_generator(vectors.unflatten(0, (tasks, -1)).mean(1))
        return film


def _size(extractor: nn.Module) -> tuple[int, int]:
    """The number of features that an extractor returns, and of channels of its images."""
    features, shape = getattr(extractor, "features", None), getattr(extractor, "image_shape", None)
    if not isinstance(features, int) or shape is None:
        raise ValueError(
            f"CNAPs' extractor must have the attributes features and image_shape, got {type(extractor).__name__} with "
            f"features={features!r} and image_shape={shape!r}; set them, or use a ResNet of tasknorm.nets"
        )
    return features, shape[0]


def _own_batch(norm: NormMaker) -> NormMaker:
    """The same norm, or TBN in place of a norm with running moments."""

    def made(channels: int) -> nn.Module:
        own = norm(channels)
        return TBN(channels, unbiased=own.unbiased) if isinstance(own, Norm) and own.by_running else own

    return made


def _check_encoder(encoder: SetEncoder) -> None:
    for norm in encoder.norms:
        if isinstance(norm, Norm) and norm.by_running:
            raise ValueError(
                f"CNAPs' set encoder cannot use running moments, got a set encoder with {norm.label}; convert the "
                'extractor alone: tasknorm.convert(learner, ..., where="extractor.*")'
            )
