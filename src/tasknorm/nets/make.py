"""How a net is made: a name with its options, and its norms; so that a file can say it.

A file makes only nets of `NETS` and of `tasknorm.nets.known`; for others it says no more than their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal, cast

import torch
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from torch import nn

from tasknorm.conversion import convert
from tasknorm.nets.backbone import HF, Backbone, backbone, is_backbone
from tasknorm.nets.conv4 import Conv4, NormMaker, maml_imagenet, maml_omniglot, protonets_conv4
from tasknorm.nets.film import FiLM, with_film
from tasknorm.nets.known import KNOWN, Config, config_of, family_of, of_config
from tasknorm.nets.resnet import ResNet, resnet18, resnet_small
from tasknorm.norms import NORMS, Norm

NETS: dict[str, Callable[..., nn.Module]] = {
    "maml-omniglot": maml_omniglot,
    "maml-imagenet": maml_imagenet,
    "protonets-conv4": protonets_conv4,
    "resnet18": resnet18,
    "resnet-small": resnet_small,
}

Channels = Annotated[int, Field(ge=1, le=1 << 10)]
Side = Annotated[int, Field(ge=1, le=1 << 12)]


class NormMake(BaseModel):
    """How norms are made: a label of `NORMS` and its options; those that are None are left out (but for momentum)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    label: str
    eps: float = Field(ge=0)
    momentum: float | None = Field(ge=0, le=1)
    affine: bool | Literal["offset"]
    unbiased: bool
    alpha: str | None = None
    r_max: float | None = None
    d_max: float | None = None
    schedule: int | None = None
    num_groups: int | None = None
    running: Literal["moving", "fixed"] | None = None

    @model_serializer(mode="wrap")
    def _without_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is usual and came later: files stay as they were."""
        return _without(handler(self), "running")

    def maker(self) -> NormMaker:
        """Makes such norms; raises `KeyError` if the label is unknown."""
        options = self.model_dump(exclude={"label"}, exclude_none=True)
        return partial(NORMS[self.label], **options | {"momentum": self.momentum})


class NetMake(BaseModel):
    """How a net is made, apart from its norms.

    Args:
        name: a name in `NETS`, or that of a network of others; `hf:` and the family for one of transformers.
        image_shape: channels, height and width of its images.
        filters, way, film: the options of this name that apply; None for those that do not.
        config: what makes the shape of a network of transformers; None for others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(max_length=1000)
    image_shape: tuple[Channels, Side, Side]
    filters: int | None = Field(default=None, ge=1, le=1 << 16)
    way: int | None = Field(default=None, ge=1, le=1 << 16)
    film: bool | None = None
    config: Config | None = None

    @model_serializer(mode="wrap")
    def _without_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is usual and came later: files stay as they were."""
        return _without(handler(self), "config")

    @property
    def is_known(self) -> bool:
        """Whether the net may be made for a file whose writer is not known."""
        return not is_backbone(self.name) or self.name in KNOWN or self.config is not None

    def net(self, norm: NormMaker | None, trusted: str | None = None) -> nn.Module:
        """Such a net without weights, on the device "meta": give it some by `load_state_dict(..., assign=True)`.

        Args:
            norm: makes its norms; None if it has none that are converted.
            trusted: name of the network of others, given by the caller: modules are imported and functions called.

        Raises:
            KeyError: if the name is unknown.
            SettingsError: if there is no network of the trusted name.
            TypeError, ValueError, RuntimeError, ImportError: if the net does not take these options, or cannot be made.
        """
        if trusted is not None:
            return self._of_others(backbone(trusted, self.image_shape).to("meta"), norm)
        if not self.is_known:
            raise ValueError(f"a file may not call {self.name!r}")
        if self.config is not None:
            with torch.device("meta"):
                made = of_config(self.name.removeprefix(HF), self.config)
                return self._of_others(Backbone(made, self.image_shape, self.name), norm)
        if is_backbone(self.name):
            with torch.device("meta"):
                return self._of_others(backbone(self.name, self.image_shape), norm)
        options = self.model_dump(exclude={"name", "config"}, exclude_none=True)
        with torch.device("meta"):
            return NETS[self.name](norm, **options)

    def _of_others(self, net: Backbone, norm: NormMaker | None) -> Backbone:
        if norm is not None:
            convert(net, cast(Callable[..., Norm], norm), start="paper", inplace=True)
        if self.film:
            with_film(net)
        return net


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return values if values.get(name) is not None else {key: value for key, value in values.items() if key != name}


def norm_make(module: nn.Module) -> NormMake | None:
    """How the norms of a module are made; None if they are not all alike, or are none of `NORMS`."""
    norms = [norm for norm in module.modules() if isinstance(norm, Norm)]
    makes = [NormMake(label=norm.label, **norm.options) for norm in norms if NORMS.get(norm.label) is type(norm)]
    return makes[0] if makes and len(makes) == len(norms) and all(make == makes[0] for make in makes) else None


def net_make(net: nn.Module) -> NetMake | None:
    """How a net is made; None if it is not one that a name makes."""
    norm = norm_make(net)
    if norm is None and any(isinstance(module, Norm) for module in net.modules()):
        return None
    for make in _candidates(net):
        if not make.is_known or _outline(make.net(None if norm is None else norm.maker())) == _outline(net):
            return make
    return None


def _candidates(net: nn.Module) -> Iterator[NetMake]:
    film = any(isinstance(module, FiLM) for module in net.modules())
    if type(net) is Backbone and net.name is not None:
        config = config_of(net.net) if net.name.startswith(HF) else None
        called = f"{HF}{family_of(net.net)}" if net.name.startswith(HF) else net.name
        yield NetMake(name=called, image_shape=net.image_shape, film=film or None, config=config)
    if type(net) is Conv4:
        names = {(True, True): "maml-imagenet", (False, True): "maml-omniglot", (True, False): "protonets-conv4"}
        name = names.get((net.pooled, net.way is not None))
        if name is not None:
            yield NetMake(name=name, image_shape=net.image_shape, filters=net.filters, way=net.way)
    if type(net) is ResNet:
        for name in ("resnet18", "resnet-small"):
            yield NetMake(name=name, image_shape=net.image_shape, film=film)


def _outline(net: nn.Module) -> tuple[Mapping[str, object], Mapping[str, object]]:
    modules = {name: type(module) for name, module in net.named_modules()}
    return modules, {name: tensor.shape for name, tensor in net.state_dict().items()}
