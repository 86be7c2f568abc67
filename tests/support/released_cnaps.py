"""A made-up file of CNAPs' authors, FiLM with TaskNorm: its names and shapes, and what such tensors compute.

Written from the papers and the authors' description alone, without a look at how weights are imported.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor
from torch.nn import functional as F

WIDTHS = (64, 128, 256, 512)
Shapes = dict[str, tuple[int, ...]]


def norm_shapes(name: str, channels: int) -> Shapes:
    """A batch norm: its scale and offset, and running moments."""
    lasts = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{last}": (channels,) for last in lasts} | {f"{name}.num_batches_tracked": ()}


def task_norm_shapes(name: str, channels: int) -> Shapes:
    """The authors' TaskNorm: a batch norm with SCALE and OFFSET."""
    return norm_shapes(name, channels) | {f"{name}.a": (1,), f"{name}.b": (1,)}


def linear_shapes(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def resnet_shapes(prefix: str, norm) -> Shapes:
    """ResNet-18 with a stem of 5 x 5."""
    shapes = {f"{prefix}conv1.weight": (64, 3, 5, 5)} | norm(f"{prefix}bn1", 64)
    before = 64
    for stage, width in enumerate(WIDTHS, 1):
        for block in range(2):
            at = f"{prefix}layer{stage}.{block}"
            shapes |= {f"{at}.conv1.weight": (width, before, 3, 3)} | norm(f"{at}.bn1", width)
            shapes |= {f"{at}.conv2.weight": (width, width, 3, 3)} | norm(f"{at}.bn2", width)
            if before != width:
                shapes |= {f"{at}.downsample.0.weight": (width, before, 1, 1)} | norm(f"{at}.downsample.1", width)
            before = width
    return shapes


def cnaps_shapes() -> Shapes:
    """Every tensor of `meta_trained_film+task_norm.pt`."""
    shapes: Shapes = {}
    for layer in range(1, 6):
        at = f"set_encoder.pre_pooling_fn.layer{layer}"
        shapes |= {f"{at}.0.weight": (64, 3 if layer == 1 else 64, 3, 3), f"{at}.0.bias": (64,)}
        shapes |= task_norm_shapes(f"{at}.1", 64)
    for last in (1, 2, 3):
        at = "classifier_adaptation_network"
        shapes |= linear_shapes(f"{at}.weight_means_processor.linear{last}", 512, 512)
        shapes |= linear_shapes(f"{at}.bias_means_processor.linear{last}", 512 if last == 1 else 1, 1)
    shapes |= resnet_shapes("feature_extractor.", task_norm_shapes)
    for stage, width in enumerate(WIDTHS):
        at = f"feature_adaptation_network.layers.{stage}"
        shapes |= linear_shapes(f"{at}.shared_layer.0", 64, width)
        for what in ("gamma1", "gamma2", "beta1", "beta2"):
            for block in range(2):
                for place in (0, 2, 4):
                    shapes |= linear_shapes(f"{at}.{what}_processors.{block}.{place}.linear", width, width)
                shapes[f"{at}.{what}_regularizers.{block}"] = (width,)
    return shapes


def made_up(shapes: Shapes) -> OrderedDict[str, Tensor]:
    """Random tensors of these names, large enough that each matters to a logit."""
    random = torch.Generator().manual_seed(19)
    made: OrderedDict[str, Tensor] = OrderedDict()
    for name, shape in shapes.items():
        last = name.rpartition(".")[2]
        noise = torch.randn(shape, generator=random)
        if last == "num_batches_tracked":
            made[name] = torch.tensor(7)
        elif last == "a":
            made[name] = 0.1 * noise
        elif last == "running_var" or (last == "weight" and len(shape) == 1):
            made[name] = 1 + 0.2 * noise.abs()
        elif last == "weight":
            made[name] = noise / noise[0].numel() ** 0.5
        else:
            made[name] = 0.3 * noise
    return made


def task_norm(t: dict[str, Tensor], name: str, x: Tensor, stored: tuple[Tensor, Tensor, int] | None):
    """TaskNorm-I (equations 10 and 11), all variances unbiased: the output, and what it keeps of a context."""
    if stored is None:
        stored = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, correction=1), len(x)
    mu_b, var_b, size = stored
    mu_i, var_i = x.mean((2, 3), keepdim=True), x.var((2, 3), keepdim=True, correction=1)
    alpha = 1 / (1 + torch.exp(-(t[f"{name}.a"] * size + t[f"{name}.b"])))
    mu = alpha * mu_b + (1 - alpha) * mu_i
    var = alpha * (var_b + (mu_b - mu) ** 2) + (1 - alpha) * (var_i + (mu_i - mu) ** 2)
    scale, offset = (t[f"{name}.{last}"].view(1, -1, 1, 1) for last in ("weight", "bias"))
    return scale * (x - mu) / (var + 1e-5).sqrt() + offset, stored


class Extractor:
    """The adapted ResNet-18: the context first, whose moments then serve the targets."""

    def __init__(self, t: dict[str, Tensor], film: dict[str, Tensor]) -> None:
        self.t, self.film, self.stored = t, film, {}

    def norm(self, name: str, x: Tensor) -> Tensor:
        y, self.stored[name] = task_norm(self.t, name, x, self.stored.get(name))
        return y

    def filmed(self, x: Tensor, stage: int, block: int, place: int) -> Tensor:
        gamma, beta = (self.film[f"{stage}.{block}.{what}{place}"].view(1, -1, 1, 1) for what in ("gamma", "beta"))
        return gamma * x + beta

    def __call__(self, x: Tensor) -> Tensor:
        at = "feature_extractor"
        x = F.relu(self.norm(f"{at}.bn1", F.conv2d(x, self.t[f"{at}.conv1.weight"], stride=2, padding=1)))
        for stage in range(4):
            for block in range(2):
                b, stride = f"{at}.layer{stage + 1}.{block}", 2 if stage and not block else 1
                y = F.conv2d(x, self.t[f"{b}.conv1.weight"], stride=stride, padding=1)
                y = F.relu(self.filmed(self.norm(f"{b}.bn1", y), stage, block, 1))
                y = F.conv2d(y, self.t[f"{b}.conv2.weight"], padding=1)
                y = self.filmed(self.norm(f"{b}.bn2", y), stage, block, 2)
                if stride == 2:
                    x = F.conv2d(x, self.t[f"{b}.downsample.0.weight"], stride=2)
                    x = self.norm(f"{b}.downsample.1", x)
                x = F.relu(x + y)
        return x.mean((2, 3))


def representation(t: dict[str, Tensor], x: Tensor) -> Tensor:
    """The set encoder: a vector of the whole context."""
    for layer in range(1, 6):
        at = f"set_encoder.pre_pooling_fn.layer{layer}"
        x = F.conv2d(x, t[f"{at}.0.weight"], t[f"{at}.0.bias"], padding=1)
        x = F.max_pool2d(F.relu(task_norm(t, f"{at}.1", x, None)[0]), 2)
    return x.mean((0, 2, 3))


def generated_film(t: dict[str, Tensor], z: Tensor) -> dict[str, Tensor]:
    """gamma and beta of every FiLM layer, by stage, block and place."""
    film = {}
    for stage in range(4):
        at = f"feature_adaptation_network.layers.{stage}"
        shared = F.relu(t[f"{at}.shared_layer.0.weight"] @ z + t[f"{at}.shared_layer.0.bias"])
        for what in ("gamma1", "gamma2", "beta1", "beta2"):
            for block in range(2):
                h = shared
                for place in (0, 2, 4):
                    layer = f"{at}.{what}_processors.{block}.{place}.linear"
                    h = F.relu(h) if place else h
                    h = h + t[f"{layer}.weight"] @ h + t[f"{layer}.bias"]
                h = h * t[f"{at}.{what}_regularizers.{block}"]
                film[f"{stage}.{block}.{what}"] = 1 + h if what.startswith("gamma") else h
    return film


def classifier(t: dict[str, Tensor], nu: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and bias of a class with these mean features."""
    outputs = []
    for what in ("weight", "bias"):
        h = nu
        for last in (1, 2, 3):
            at = f"classifier_adaptation_network.{what}_means_processor.linear{last}"
            h = F.elu(h) if last > 1 else h
            h = t[f"{at}.weight"] @ h + t[f"{at}.bias"]
        outputs.append(h)
    return outputs[0] + nu, outputs[1]


def logits(t: dict[str, Tensor], context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """What CNAPs with these tensors says of targets, `(targets, way)`."""
    extractor = Extractor(t, generated_film(t, representation(t, context_x)))
    of_context, of_targets = extractor(context_x), extractor(target_x)
    columns = []
    for label in context_y.unique():
        weight, bias = classifier(t, of_context[context_y == label].mean(0))
        columns.append(of_targets @ weight + bias)
    return torch.stack(columns, 1)
