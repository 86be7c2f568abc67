"""Images and labels as users have them: right answers, or errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from support.glyph_tasks import episode
from support.small_learners import fresh
from tasknorm import NORMS, Episode
from tasknorm.data import Direct, Episodes, FixedSampler, Glyphs
from tasknorm.learners import LEARNERS

learners = pytest.mark.parametrize("learner", LEARNERS)


@learners
def test_arrays_and_lists_give_what_tensors_give(learner: str) -> None:
    model, task = fresh(learner, "TaskNorm-I").eval(), episode(0, shot=2)
    expected = model.adapt(task.context_x, task.context_y)(task.target_x)
    double = task.context_x.numpy().astype(np.float64)
    for labels in (task.context_y.tolist(), task.context_y.numpy(), task.context_y.numpy().astype(np.int32)):
        predictor = model.adapt(double, labels)
        torch.testing.assert_close(predictor(task.target_x.numpy()), expected, rtol=1e-4, atol=1e-4)
        assert torch.equal(predictor.predict(task.target_x.numpy()), expected.argmax(1))
    for labels in (task.context_y.int(), task.context_y.to(torch.uint8)):
        torch.testing.assert_close(model.adapt(task.context_x, labels)(task.target_x), expected, rtol=1e-4, atol=1e-4)
    listed = Episode(double, task.context_y.tolist(), task.target_x.numpy(), task.target_y.numpy())
    torch.testing.assert_close(model(listed), model(task), rtol=1e-4, atol=1e-4)


def channels_last(x: Tensor) -> Any:
    return x.numpy().transpose(0, 2, 3, 1)


def with_nan(x: Tensor) -> Any:
    return torch.where(torch.rand_like(x) < 0.1, torch.nan, x)


@learners
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x * 255, r"must be scaled as in the net's training, .* got values up to 25\d.*; divide by 255"),
        (lambda x: (x * 255).numpy(), "got values up to 25.*; divide by 255"),
        (lambda x: (x * 255).byte(), r"images must be floats, .* got torch.uint8; .* x.float\(\) / 255"),
        (lambda x: (x * 255).byte().numpy(), "got torch.uint8"),
        (lambda x: (x * 255).long(), "got torch.int64"),
        (with_nan, "got values up to nan; check where they come from"),
        (channels_last, r"got images of shape \(28, 28, 1\); put the channels first: x.permute\(0, 3, 1, 2\)"),
        (lambda x: x[0], r"got images of shape \(28, 28\); pass a single image as a batch of one: x\[None\]"),
        (lambda x: ["cat.jpg"] * len(x), "images must be an array of floats, all of one shape, got list"),
    ],
)  # fmt: skip
def test_images_that_would_give_nonsense_are_refused(
    learner: str, change: Callable[[Tensor], Any], message: str
) -> None:
    model, task = fresh(learner, "TaskNorm-I").eval(), episode(0)
    with pytest.raises(ValueError, match=message):
        model.adapt(change(task.context_x), task.context_y)
    predictor = model.adapt(task.context_x, task.context_y)
    for call in (predictor, predictor.predict):
        with pytest.raises(ValueError, match=message):
            call(change(task.target_x))


@learners
def test_episodes_of_bytes_or_numbers_to_255_are_refused(learner: str) -> None:
    images = Direct(Glyphs(), size=28)
    raw = Episodes(images, FixedSampler(images.spec.splits["train"], way=5, shot=1, targets=2))[0]
    model = fresh(learner, "TaskNorm-I")
    floats = Episode(raw.context_x.float(), raw.context_y, raw.target_x.float(), raw.target_y)
    for wrong, message in ((raw, "got torch.uint8"), (floats, "got values up to 255; divide by 255")):
        with pytest.raises(ValueError, match=message):
            model.learn([wrong])
        with pytest.raises(ValueError, match=message):
            model.eval()(wrong)


@learners
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, 3], r"each context example needs one label, got images of .* and labels of shape \(4,\)"),
        ([[0], [1], [2], [3], [4]], r"pass labels of shape \(5,\)"),
        ([0, 1, 2, 3, 5], r"each class from 0 to 5 needs a context example, but \[4\] have none"),
        ([10, 20, 30, 40, 50], "number a task's classes 0..way-1 without gaps"),
        ([0.0, 1.0, 2.0, 3.0, 4.0], "labels must be integers from 0 to way - 1, got torch.float32"),
        (["cat", "dog", "eel", "fox", "owl"], "labels must be integers from 0 to way - 1, got list"),
        (np.array(["cat", "dog", "eel", "fox", "owl"]), "labels must be integers from 0 to way - 1, got ndarray"),
        (None, "labels must be integers from 0 to way - 1, got NoneType"),
    ],
)
def test_labels_that_would_give_nonsense_are_refused(learner: str, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fresh(learner, "LN").adapt(episode(0).context_x, labels)


def test_features_of_any_range_are_no_images() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), NORMS["TaskNorm-L"](4))
    x, y = 1000 * torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
    assert LEARNERS["protonets"](net).adapt(x, y)(x).shape == (4, 2)


def test_an_empty_context_is_refused() -> None:
    with pytest.raises(ValueError, match="a context needs at least one example, got none"):
        fresh("protonets", "LN").adapt(torch.zeros(0, 1, 28, 28), [])


def test_an_episode_of_things_that_are_no_numbers_is_refused() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="context_y must be a tensor, an array or a list of numbers, got"):
        Episode(x, ["cat", "dog"], x, [0, 1])
    assert Episode(x, [0, 1], x, [0, 1]).context_x.dtype == torch.float32
