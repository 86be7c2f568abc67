import pytest
import torch

from tasknorm import Episode


def test_labels_must_match_inputs() -> None:
    x, y = torch.zeros(4, 3), torch.arange(4)
    with pytest.raises(ValueError, match=r"each target example needs one label.*pass labels of shape \(4,\)"):
        Episode(x, y, x, y[:3])
    with pytest.raises(ValueError, match="at least one target example"):
        Episode(x, y, x[:0], y[:0])


def test_way_and_device() -> None:
    x = torch.zeros(4, 3)
    episode = Episode(x, torch.tensor([0, 1, 2, 0]), x, torch.tensor([0, 0, 1, 1])).to("cpu")
    assert episode.way == 3
