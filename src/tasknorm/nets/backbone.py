"""Networks that are not ours, by name: any function that makes one, or a vision network of transformers.

| name | what it makes |
|---|---|
| `package.module:function` | what the function returns when it is called without arguments |
| `hf:FOLDER` | the network of a folder with transformers' `config.json` and `model.safetensors`, or of a hub's name |
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from tasknorm.errors import SettingsError, WeightsError, at, one_line, reason, short
from tasknorm.kernels import channels_last
from tasknorm.machine import open_regular
from tasknorm.nets.conv4 import Shape

HF = "hf:"


class Backbone(nn.Module):
    """Features `(N, features)` of images, from any network that returns features, maps or transformers' outputs.

    Maps `(N, C, H, W)` and tokens `(N, L, C)` are averaged. It is made with the network's own batch norms, which
    `tasknorm.convert` then replaces.

    Args:
        net: the network; its classifier, if it has one, is part of it.
        image_shape: channels, height and width of the images.
        name: what it was made by (see `backbone`); None if that is unknown.

    Raises:
        SettingsError: if the network does not take such images, or returns something else.
    """

    def __init__(self, net: nn.Module, image_shape: Shape, name: str | None = None) -> None:
        super().__init__()
        self.net = net
        self.image_shape = image_shape
        self.name = name
        self.features = self._probed()

    def forward(self, x: Tensor) -> Tensor:
        """Features `(N, features)` of images `(N, *image_shape)`."""
        return features_of(self.net(channels_last(x)))

    @torch.no_grad()
    def _probed(self) -> int:
        was_training = self.net.training
        try:
            found = self.eval()(torch.zeros(1, *self.image_shape))
        except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise SettingsError(
                f"the network {type(self.net).__name__} does not take images of shape {self.image_shape}: "
                f"{one_line(str(error))}; set another image_size, or wrap it"
            ) from None
        finally:
            self.train(was_training)
        return int(found.shape[1])


def features_of(output: Any) -> Tensor:
    """What a network returns, as features `(N, features)`.

    Raises:
        TypeError: if it is neither a tensor nor an output of transformers.
        ValueError: if the tensor has another number of axes than 2, 3 or 4.
    """
    if not isinstance(output, Tensor):
        pooled = getattr(output, "pooler_output", None)
        output = pooled if pooled is not None else getattr(output, "last_hidden_state", output)
    if not isinstance(output, Tensor):
        raise TypeError(f"a network must return features or maps, got {type(output).__name__}")
    if output.ndim == 2:
        return output
    if output.ndim == 3:
        return output.mean(1)
    if output.ndim == 4:
        return output.mean((2, 3))
    raise ValueError(f"features must have axes (N, C), (N, L, C) or (N, C, H, W), got {tuple(output.shape)}")


def is_backbone(name: str) -> bool:
    """Whether a net's name is that of a network which is not ours."""
    return ":" in name


def backbone(name: str, image_shape: Shape) -> Backbone:
    """The network of a name.

    Raises:
        SettingsError: if there is no such module, function, folder or package.
    """
    net = _from_transformers(name.removeprefix(HF)) if name.startswith(HF) else _called(name)
    return Backbone(net.float(), image_shape, name)  # computed in float32, however it was saved


def load_backbone(net: Backbone, path: Path) -> None:
    """Load published weights into a network: safetensors, or `.pth` without pickled objects.

    A network may have a method `renamed(weights)` that gives published weights the names that they have there.

    Raises:
        WeightsError: if the file is damaged or of another network.
    """
    weights = _read(path)
    renamed = getattr(net.net, "renamed", None)
    try:
        net.net.load_state_dict(renamed(weights) if renamed else dict(weights))
    except RuntimeError as error:
        first = one_line(str(error).splitlines()[1].strip())
        raise WeightsError(
            f"{at(path)}: these weights are not of the network {type(net.net).__name__}: {first}; name the network "
            "that they were trained with"
        ) from None


def _called(name: str) -> nn.Module:
    module, _, function = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as with python -m: modules of the current folder
    try:
        make = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"net={name}: there is no function {function!r} in a module {module!r} ({one_line(str(error))}); install "
            "the package, or correct the name"
        ) from None
    try:
        net = make()
    except TypeError as error:
        raise SettingsError(
            f"net={name}: the function must make a network without arguments ({one_line(str(error))}); wrap it in one "
            "that does"
        ) from None
    if not isinstance(net, nn.Module):
        raise SettingsError(f"net={name}: the function must return a torch module, got {type(net).__name__}")
    return net


def _from_transformers(folder: str) -> nn.Module:
    try:
        from transformers import AutoModel
        from transformers.utils import logging
    except ImportError:
        raise SettingsError(
            f"net={HF}{folder} needs transformers, which is not installed; pip install 'tasknorm[hf]'"
        ) from None
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        net: nn.Module = AutoModel.from_pretrained(folder, use_safetensors=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise SettingsError(
            f"net={HF}{folder}: transformers cannot load it ({one_line(str(error))}); name a folder with config.json "
            "and model.safetensors"
        ) from None
    return net


def _read(path: Path) -> Mapping[str, Tensor]:
    try:
        open_regular(path).close()  # what follows would wait for a pipe
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsError(f"{at(path)}: the weights cannot be read ({reason(error)}); correct the path") from None
    except SafetensorError as error:
        raise WeightsError(f"{at(path)}: damaged, {reason(error)}; download it again") from None
    except Exception as error:  # torch raises nearly anything on a damaged file
        raise WeightsError(
            f"{at(path)}: this is no file of weights alone ({one_line(str(error))}); save its state_dict as safetensors"
        ) from None
    found = found.get("state_dict", found) if isinstance(found, Mapping) else found
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise WeightsError(
            f"{at(path)}: a table of tensors is needed, got {short(type(found).__name__)}; save the state_dict alone"
        )
    return found
