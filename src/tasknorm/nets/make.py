"""How a net is made: a name in `NETS` with its options, and its norms; so that a file can say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from tasknorm.nets.conv4 import Conv4, NormMaker, maml_imagenet, maml_omniglot, protonets_conv4
from tasknorm.nets.film import FiLM
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

    def maker(self) -> NormMaker:
        """Makes such norms; raises `KeyError` if the label is unknown."""
        options = self.model_dump(exclude={"label"}, exclude_none=True)
        return partial(NORMS[self.label], **options | {"momentum": self.momentum})


class NetMake(BaseModel):
    """How a net is made, apart from its norms.

    Args:
        name: a name in `NETS`.
        image_shape: channels, height and width of its images.
        filters, way, film: the options of this name that apply; None for those that do not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    image_shape: tuple[Channels, Side, Side]
    filters: int | None = Field(default=None, ge=1, le=1 << 16)
    way: int | None = Field(default=None, ge=1, le=1 << 16)
    film: bool | None = None

    def net(self, norm: NormMaker) -> nn.Module:
        """Such a net without weights, on the device "meta": give it some by `load_state_dict(..., assign=True)`.

        Raises:
            KeyError: if the name is unknown.
            TypeError, ValueError, RuntimeError: if the net does not take these options.
        """
        options = self.model_dump(exclude={"name"}, exclude_none=True)
        with torch.device("meta"):
            return NETS[self.name](norm, **options)


def norm_make(module: nn.Module) -> NormMake | None:
    """How the norms of a module are made; None if they are not all alike, or are none of `NORMS`."""
    norms = [norm for norm in module.modules() if isinstance(norm, Norm)]
    makes = [NormMake(label=norm.label, **norm.options) for norm in norms if NORMS.get(norm.label) is type(norm)]
    return makes[0] if makes and len(makes) == len(norms) and all(make == makes[0] for make in makes) else None


def net_make(net: nn.Module) -> NetMake | None:
    """How a net is made; None if it is not one that `NETS` makes."""
    norm = norm_make(net)
    if norm is None:
        return None
    for make in _candidates(net):
        if _outline(make.net(norm.maker())) == _outline(net):
            return make
    return None


def _candidates(net: nn.Module) -> Iterator[NetMake]:
    if type(net) is Conv4:
        names = {(True, True): "maml-imagenet", (False, True): "maml-omniglot", (True, False): "protonets-conv4"}
        name = names.get((net.pooled, net.way is not None))
        if name is not None:
            yield NetMake(name=name, image_shape=net.image_shape, filters=net.filters, way=net.way)
    if type(net) is ResNet:
        film = any(isinstance(module, FiLM) for module in net.modules())
        for name in ("resnet18", "resnet-small"):
            yield NetMake(name=name, image_shape=net.image_shape, film=film)


def _outline(net: nn.Module) -> tuple[Mapping[str, object], Mapping[str, object]]:
    modules = {name: type(module) for name, module in net.named_modules()}
    return modules, {name: tensor.shape for name, tensor in net.state_dict().items()}
