"""CNAPs: what is frozen, what its set encoder normalises with, and its loss."""

from __future__ import annotations

import pytest
import torch

import tasknorm
from support.glyph_tasks import episode, episodes
from support.small_learners import fresh, trained
from tasknorm import NORMS
from tasknorm.learners import CNAPs
from tasknorm.nets import protonets_conv4, resnet_small


@pytest.mark.parametrize("label", NORMS)
def test_of_the_extractor_only_alpha_is_trained(label: str) -> None:
    model = fresh("cnaps", label)
    names = [name for name, parameter in model.extractor.named_parameters() if parameter.requires_grad]
    assert all(".alpha_" in f".{name}" for name in names)
    assert bool(names) is label.startswith("TaskNorm")


@pytest.mark.parametrize("label", NORMS)
def test_the_set_encoder_normalises_with_its_own_batch(label: str) -> None:
    expected = "TBN" if label in ("CBN", "BRN", "Baseline") else label
    assert {norm.label for norm in fresh("cnaps", label).set_encoder.norms} == {expected}


def test_a_converted_set_encoder_is_refused() -> None:
    model = tasknorm.convert(trained("cnaps", "CBN"), "CBN")
    with pytest.raises(ValueError, match="convert the extractor alone"):
        model(episode(0))


def test_the_loss_is_the_sum_over_targets_and_the_regulariser() -> None:
    model, tasks = fresh("cnaps", "LN"), episodes(0, 2)
    outcome = model.learn(tasks)
    for loss, logits, task in zip(outcome.losses, outcome.logits, tasks, strict=True):
        expected = torch.nn.functional.cross_entropy(logits, task.target_y, reduction="sum")
        torch.testing.assert_close(loss, expected + 0.016 * model.film_generator.regulariser())


def test_without_film_nothing_but_the_classifier_adapts() -> None:
    norm = NORMS["TaskNorm-I"]
    model, task = CNAPs(resnet_small(norm), norm, film=False).eval(), episode(0)
    assert model.set_encoder is None
    predictor = model.adapt(task.context_x, task.context_y)
    torch.testing.assert_close(predictor(task.target_x), model(task).detach(), rtol=1e-3, atol=1e-3)
    model.learn(episodes(0, 2)).losses.mean().backward()


def test_an_extractor_without_film_is_refused() -> None:
    with pytest.raises(ValueError, match="make the net with film=True"):
        CNAPs(protonets_conv4(NORMS["LN"]), NORMS["LN"])


def test_an_extractor_must_say_its_size() -> None:
    with pytest.raises(ValueError, match="must have the attributes features and image_shape"):
        CNAPs(torch.nn.Flatten(), NORMS["LN"])
