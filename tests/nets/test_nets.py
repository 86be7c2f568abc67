"""The nets: sizes and initial values as in the papers' code, and layers with weights for each task."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call

import tasknorm
from tasknorm import NORMS
from tasknorm.nets import (
    NETS,
    ClassifierGenerator,
    FiLM,
    FilmGenerator,
    SetEncoder,
    TaskConv2d,
    TaskLinear,
    maml_imagenet,
    maml_omniglot,
    protonets_conv4,
    resnet18,
    resnet_small,
)

CBN = NORMS["CBN"]
bare = partial(CBN, affine=False)


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_parameter_counts() -> None:
    assert size(maml_omniglot(bare, way=5)) == 111_749
    assert size(maml_omniglot(bare, way=20)) == 112_724
    assert size(maml_imagenet(bare)) == 32_645
    assert size(maml_omniglot(partial(CBN, affine="offset"))) == 111_749 + 4 * 64
    assert size(protonets_conv4(CBN)) == 111_936
    assert size(protonets_conv4(CBN, image_shape=(3, 84, 84))) == 113_088
    extractor = resnet18(CBN, film=True)
    assert size(extractor) == 11_171_904
    assert size(FilmGenerator(extractor)) == 8_448_960
    assert size(SetEncoder(CBN)) == 150_144
    generator = ClassifierGenerator(512)
    assert (size(generator.weight), size(generator.bias)) == (787_968, 517)


def test_resnet_sites() -> None:
    extractor = resnet18(CBN, film=True)
    films = [module for module in extractor.modules() if isinstance(module, FiLM)]
    assert len(films) == 16
    assert sum(2 * len(film.gamma) for film in films) == 7_680
    assert sum(isinstance(module, CBN) for module in extractor.modules()) == 20
    sizes = []
    for module in (extractor.norm, *(stage[-1].norm2 for stage in extractor.stages)):
        module.register_forward_hook(lambda _, inputs, __: sizes.append(inputs[0].shape[-1]))
    with torch.no_grad():
        assert extractor(torch.zeros(2, 3, 84, 84)).shape == (2, 512)
    assert sizes == [41, 41, 21, 11, 6]


def test_feature_sizes() -> None:
    assert protonets_conv4(CBN).features == 64
    assert protonets_conv4(CBN, image_shape=(3, 84, 84)).features == 1600
    assert maml_imagenet(CBN).features == 800


def test_initial_values_of_mamls_nets() -> None:
    torch.manual_seed(0)
    net = maml_omniglot(CBN, way=20)
    assert abs(net.classifier.weight.std().item() - 1) < 0.1
    conv = net.blocks[1].conv
    bound = (6 / (64 * 9 + 64 * 9)) ** 0.5
    assert conv.weight.abs().max().item() <= bound
    assert conv.weight.abs().max().item() > 0.99 * bound
    assert not conv.bias.any()
    assert maml_imagenet(CBN).classifier.weight.abs().max().item() < 0.1


@pytest.mark.parametrize("name", NETS)
def test_every_net_takes_every_kind_of_norm_as_a_callable(name: str) -> None:
    net = NETS[name](lambda channels: nn.GroupNorm(1, channels))
    assert not any(isinstance(module, tasknorm.Norm) for module in net.modules())
    assert net(torch.zeros(2, *net.image_shape)).ndim == 2


@pytest.mark.parametrize("channels", [1, 3])
def test_pooled_conv4_is_convolution_norm_relu_and_pooling(channels: int) -> None:
    net = protonets_conv4(lambda width: nn.GroupNorm(1, width), image_shape=(channels, 20, 20)).double()
    images = torch.randn(3, channels, 20, 20, dtype=torch.float64)
    x = images
    for block in net.blocks:
        x = nn.functional.max_pool2d(block.norm(nn.functional.conv2d(x, *block.conv.parameters(), padding=1)).relu(), 2)
    expected, found = x.flatten(1), net(images)
    torch.testing.assert_close(found, expected)
    weights = list(net.parameters())
    ours, theirs = (torch.autograd.grad(y.square().sum(), weights) for y in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_too_small_images() -> None:
    with pytest.raises(ValueError, match=r"at least 16 pixels a side, got image_shape=\(1, 8, 8\)"):
        protonets_conv4(CBN, image_shape=(1, 8, 8))


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (TaskConv2d(2, 3, 3, stride=2, padding=1), torch.randn(4, 5, 2, 8, 8)),
        (TaskConv2d(4, 6, 3, groups=2, bias=False), torch.randn(4, 5, 4, 8, 8)),
        (TaskConv2d(16, 3, 3, padding="same"), torch.randn(4, 5, 16, 8, 8)),
        (TaskConv2d(16, 3, 3), torch.randn(4, 5, 16, 64, 64)),
        (TaskLinear(6, 3), torch.randn(4, 5, 6)),
        (TaskLinear(6, 3, bias=False), torch.randn(4, 5, 6)),
    ],
)
def test_each_task_passes_through_its_own_weights(layer: nn.Module, x: torch.Tensor) -> None:
    weights = {name: torch.randn(4, *p.shape, dtype=torch.float64) for name, p in layer.named_parameters()}
    x = x.double()
    together = functional_call(layer, weights, (x.flatten(0, 1),)).unflatten(0, (4, 5))
    for task in range(4):
        alone = functional_call(layer, {name: w[task] for name, w in weights.items()}, (x[task],))
        torch.testing.assert_close(together[task], alone)


def test_film_is_almost_the_identity_at_first_and_differs_by_task() -> None:
    extractor = resnet_small(CBN, film=True).eval()
    generator = FilmGenerator(extractor, 8)
    x = torch.randn(6, 1, 28, 28)
    film = generator(torch.randn(2, 8))
    plain = extractor(x)
    torch.testing.assert_close(functional_call(extractor, film, (x,)), plain, rtol=0.1, atol=0.1)
    film = {name: torch.randn_like(numbers) for name, numbers in film.items()}
    together = functional_call(extractor, film, (x,))
    for task in range(2):
        alone = functional_call(extractor, {k: v[task] for k, v in film.items()}, (x[3 * task : 3 * task + 3],))
        torch.testing.assert_close(together[3 * task : 3 * task + 3], alone)


def test_the_regulariser_is_the_squares_of_the_scaling_vectors() -> None:
    generator = FilmGenerator(resnet_small(CBN, film=True), 8)
    vectors = [p for name, p in generator.named_parameters() if name.endswith(".size")]
    assert len(vectors) == 4 * 4
    torch.testing.assert_close(generator.regulariser(), sum(v.square().sum() for v in vectors))


def test_weights_trained_without_film_load_into_a_net_with_it() -> None:
    plain = resnet_small(CBN).eval()
    film = resnet_small(CBN, film=True).eval()
    film.load_state_dict(plain.state_dict())
    x = torch.randn(2, 1, 28, 28)
    torch.testing.assert_close(film(x), plain(x))


def test_a_generator_needs_film_layers() -> None:
    with pytest.raises(ValueError, match="make the net with film=True"):
        FilmGenerator(resnet_small(CBN))
