import pytest
import torch
from torch import nn

import tasknorm
from tasknorm.norms import CBN, MetaBN

LAYERS = [
    (nn.BatchNorm1d, (5, 6)),
    (nn.BatchNorm1d, (5, 6, 4)),
    (nn.BatchNorm2d, (5, 6, 4, 3)),
    (nn.BatchNorm3d, (5, 6, 2, 2, 2)),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS)
@pytest.mark.parametrize("momentum", [0.1, 0.01, None])
def test_cbn_is_torchs_batch_norm_in_both_modes(layer: type[nn.Module], shape: tuple[int, ...], momentum) -> None:
    ours, theirs = CBN(6, momentum=momentum).double(), layer(6, momentum=momentum).double()
    for step in range(3):
        x = torch.randn(shape, dtype=torch.float64) * (step + 1) + step
        pair = [x.clone().requires_grad_() for _ in range(2)]
        outputs = [ours(pair[0]), theirs(pair[1])]
        torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
        for output in outputs:
            output.sin().sum().backward()
        torch.testing.assert_close(pair[0].grad, pair[1].grad, rtol=0, atol=1e-12)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=0, atol=1e-12)


def test_a_checkpoint_of_torchs_batch_norm_loads() -> None:
    theirs = nn.BatchNorm2d(6)
    theirs(torch.randn(4, 6, 3, 3))
    ours = CBN(6)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 6, 3, 3)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_a_checkpoint_without_a_context_leaves_none() -> None:
    ours = MetaBN(6)
    with tasknorm.context(ours):
        ours(torch.randn(2, 6, 3))
    ours.load_state_dict(nn.BatchNorm2d(6).state_dict())
    with pytest.raises(tasknorm.PhaseError, match="before any context"), tasknorm.target(ours):
        ours(torch.randn(2, 6, 3))


def test_each_set_updates_once_whatever_the_number_of_tasks() -> None:
    norm = CBN(6)
    with tasknorm.joint(norm, context_size=2, tasks=3):
        norm(torch.randn(12, 6, 3))
    assert norm.num_batches_tracked == 2
