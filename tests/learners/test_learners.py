"""Every learner with every norm: 4 x 12 contracts, so that adding either adds its tests."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

import tasknorm
from support.glyph_tasks import episode, episodes
from support.small_learners import CHANCE_AT_TEST, accuracy, fresh, trained, training_losses
from tasknorm import NORMS, Episode
from tasknorm.learners import LEARNERS, Predictor

learners = pytest.mark.parametrize("learner", LEARNERS)
norms = pytest.mark.parametrize("label", NORMS)


def in_float64(task: Episode) -> Episode:
    return Episode(task.context_x.double(), task.context_y, task.target_x.double(), task.target_y)


@learners
@norms
class TestEveryLearnerWithEveryNorm:
    def test_gradients_reach_all_that_is_trained(self, learner: str, label: str) -> None:
        model = fresh(learner, label)
        outcome = model.learn(episodes(0, 2))
        if not model.meta_trained:
            assert not outcome.losses.requires_grad
            assert not any(parameter.requires_grad for parameter in model.parameters())
            return
        outcome.losses.mean().backward()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None, name
                assert torch.isfinite(parameter.grad).all(), name
            else:
                assert learner == "cnaps"
                assert name.startswith("extractor.")
        alphas = [p for name, p in model.named_parameters() if "alpha_offset" in name]
        assert len(alphas) == (len(_norms(model)) if label.startswith("TaskNorm") else 0)
        assert all(alpha.grad is not None and alpha.grad.any() for alpha in alphas)

    def test_beats_chance(self, learner: str, label: str) -> None:
        if learner == "maml" and label in CHANCE_AT_TEST:
            losses = training_losses(learner, label)
            assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
        else:
            assert (
                accuracy(trained(learner, label), episodes(777, 20, split="test")) > 0.27
            )  # chance is 0.2, 300 targets

    def test_is_as_transductive_as_its_norm_says(self, learner: str, label: str) -> None:
        model = trained(learner, label)

        def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
            return model(Episode(context_x, context_y, target_x, torch.zeros(len(target_x), dtype=torch.long)))

        def predict_later(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
            return model.adapt(context_x, context_y)(target_x)

        for function in (predict, predict_later):
            assert tasknorm.audit(function, episode(5)).transductive is NORMS[label].transductive

    def test_a_predictor_gives_the_learners_logits(self, learner: str, label: str) -> None:
        model, task = trained(learner, label), episode(5)
        before = copy.deepcopy(model.state_dict())
        predictor = model.adapt(task.context_x, task.context_y)
        torch.testing.assert_close(predictor(task.target_x), model(task).detach(), rtol=1e-3, atol=1e-3)
        assert predictor.predict(task.target_x).shape == task.target_y.shape
        torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)

    def test_tasks_together_give_what_each_gives_alone(self, learner: str, label: str) -> None:
        """In float64: in float32, rounding may carry an activation across the ReLU's kink."""
        model, tasks = trained(learner, label).double(), [in_float64(task) for task in episodes(3, 3)]
        outcome = model.learn(tasks)
        for task, logits, loss in zip(tasks, outcome.logits, outcome.losses, strict=True):
            torch.testing.assert_close(logits, model(task).detach(), rtol=1e-8, atol=1e-8)
            torch.testing.assert_close(loss.detach(), model.learn([task]).losses[0].detach(), rtol=1e-8, atol=1e-8)

    def test_a_saved_predictor_loads(self, learner: str, label: str, tmp_path: Path) -> None:
        model, task = trained(learner, label), episode(5)
        predictor = model.adapt(task.context_x, task.context_y)
        predictor.save(tmp_path / "predictor.safetensors")
        other = fresh(learner, label, seed=1)
        net = other.extractor if learner == "cnaps" else other.net
        loaded = Predictor.load(tmp_path / "predictor.safetensors", net)
        torch.testing.assert_close(loaded(task.target_x), predictor(task.target_x), rtol=0, atol=0)


@learners
class TestEveryLearner:
    def test_tasks_of_different_shapes_may_be_mixed(self, learner: str) -> None:
        model = trained(learner, "TaskNorm-I")
        tasks = [episode(1), episode(2, shot=2), episode(3, way=4), episode(4, way=4)]
        outcome = model.learn(tasks)
        assert [len(logits) for logits in outcome.logits] == [15, 15, 12, 12]
        torch.testing.assert_close(outcome.logits[3], model(tasks[3]).detach(), rtol=1e-3, atol=1e-3)

    def test_running_moments_move_at_meta_train_alone(self, learner: str) -> None:
        model = fresh(learner, "CBN")
        norm = _norms(model)[0]
        before = norm.running_mean.clone()
        model.eval().learn(episodes(0, 2))
        assert torch.equal(norm.running_mean, before)
        model.train().learn(episodes(0, 2))
        assert not torch.equal(norm.running_mean, before)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([0, 1, 3, 3, 4], r"each class from 0 to 4 needs a context example, but \[2\] have none"),
            ([1, 2, 3, 4, 5], r"\[0\] have none"),
            ([-1, 0, 1, 2, 3], "integers from 0 to way - 1, got -1"),
        ],
    )
    def test_labels_that_are_not_0_to_way_are_refused(self, learner: str, labels: list[int], message: str) -> None:
        model, task = fresh(learner, "LN"), episode(0)
        wrong = Episode(task.context_x, torch.tensor(labels), task.target_x, task.target_y)
        for call in (lambda: model(wrong), lambda: model.adapt(wrong.context_x, wrong.context_y)):
            with pytest.raises(ValueError, match=message):
                call()

    def test_targets_of_a_class_that_the_context_lacks_are_refused(self, learner: str) -> None:
        task = episode(0)
        wrong = Episode(task.context_x, task.context_y, task.target_x, task.target_y + 1)
        with pytest.raises(ValueError, match="target labels must be classes of the context, 0 to 4, got 1 to 5"):
            fresh(learner, "LN")(wrong)

    def test_labels_that_are_no_integers_are_refused(self, learner: str) -> None:
        task = episode(0)
        with pytest.raises(ValueError, match=r"got torch.float32; convert them: y.long\(\)"):
            fresh(learner, "LN").adapt(task.context_x, task.context_y.float())

    def test_images_of_another_size_are_refused(self, learner: str) -> None:
        model, task = fresh(learner, "LN"), episode(0)
        small = [x[..., :20, :20] for x in (task.context_x, task.target_x)]
        message = r"made for images of shape \(1, 28, 28\), got images of shape \(1, 20, 20\)"
        with pytest.raises(ValueError, match=message):
            model(Episode(small[0], task.context_y, small[1], task.target_y))
        with pytest.raises(ValueError, match=message):
            model.adapt(small[0], task.context_y)
        with pytest.raises(ValueError, match=message):
            model.adapt(task.context_x, task.context_y)(small[1])

    def test_an_empty_meta_batch_is_refused(self, learner: str) -> None:
        with pytest.raises(ValueError, match="at least one episode"):
            fresh(learner, "LN").learn([])


def _norms(model: torch.nn.Module) -> list[tasknorm.Norm]:
    return [module for module in model.modules() if isinstance(module, tasknorm.Norm)]
