"""Source-prior batch norm: exactly n / (n + N), between the running moments and the batch's own."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import tasknorm
from tasknorm.norms import SourcePrior


def images(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, 6, 6, generator=torch.Generator().manual_seed(seed)) * 2 + 1


def trained() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    net(images(20, 9) / 3)
    return net.eval()


@pytest.mark.parametrize("prior", [0.5, 16, 256])
@pytest.mark.parametrize("count", [1, 8, 200])
def test_moments_are_those_of_both_sets_put_together(prior: float, count: int) -> None:
    norm = tasknorm.convert(trained()[1], partial(SourcePrior, prior=prior), start="preserve")
    x = images(count)[:, :1].expand(-1, 4, -1, -1) * torch.arange(1.0, 5.0).view(1, 4, 1, 1)
    with tasknorm.context(norm):
        found = norm(x)
    own, var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    mean = (count * own + prior * norm.running_mean) / (count + prior)
    square = (count * (var + own**2) + prior * (norm.running_var + norm.running_mean**2)) / (count + prior)
    scale = (square - mean**2 + norm.eps).rsqrt()
    expected = (x - mean.view(-1, 1, 1)) * scale.view(-1, 1, 1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_it_lies_between_the_untouched_network_and_prediction_time_batch_norm() -> None:
    net, x = trained(), images(32)

    def scores(prior: float) -> Tensor:
        model = tasknorm.convert(net, partial(SourcePrior, prior=prior), start="preserve")
        with torch.no_grad(), tasknorm.context(model):
            return model(x)

    torch.testing.assert_close(scores(1e9), net(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scores(1e-9), tasknorm.convert(net, "TBN", start="paper")(x), rtol=1e-4, atol=1e-4)


def test_several_batches_in_one_pass_and_the_prior_in_the_state_dict() -> None:
    model = tasknorm.convert(trained(), partial(SourcePrior, prior=7), start="preserve")
    x = images(24)
    with torch.no_grad(), tasknorm.contexts(model, tasks=3):
        together = model(x)
    for number, part in enumerate(x.split(8)):
        with torch.no_grad(), tasknorm.context(model):
            torch.testing.assert_close(model(part), together.split(8)[number], rtol=1e-4, atol=1e-5)
    other = tasknorm.convert(trained(), SourcePrior, start="preserve")
    other.load_state_dict(model.state_dict())
    assert float(other[1].alpha(7).detach()) == pytest.approx(0.5)


def test_a_prior_is_a_positive_number() -> None:
    for prior in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="positive number of examples"):
            SourcePrior(4, prior=prior)
