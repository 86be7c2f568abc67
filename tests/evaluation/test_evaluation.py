"""Evaluation: intervals, targets in three ways, labels, MAML's steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from support.runs import run, tiny
from tasknorm import convert
from tasknorm.evaluation import Accuracy, accuracies, evaluate
from tasknorm.evaluation.target_logits import target_logits
from tasknorm.runs.meta_test import loaded
from tasknorm.runs.parts import as_norm, learner_of, task_of

pytestmark = pytest.mark.usefixtures("glyph_cache")
LEARNERS = ["protonets", "maml", "cnaps"]


def trained(learner, norm):
    """A learner whose weights have been somewhere, and its test tasks."""
    settings = tiny(learner=learner, norm=norm, filters=None if learner == "cnaps" else 8, sampling="fixed")
    model = learner_of(settings)
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(3):
        model.train().learn([task_of(settings, "train")(i)]).losses.sum().backward()
        optimizer.step()
    return as_norm(model, norm, settings), task_of(settings, "test")


def test_the_interval_is_the_papers():
    values = torch.rand(600, dtype=torch.float64)
    found = Accuracy.over(values)
    assert found.interval == pytest.approx(1.96 * np.std(values.numpy()) / np.sqrt(600))
    assert str(Accuracy(0.5, 0.012)) == "50.0 ± 1.2"


@pytest.mark.parametrize("learner", LEARNERS)
def test_without_transduction_not_one_prediction_changes(learner):
    model, tasks = trained(learner, "TaskNorm-I")
    tables = [accuracies(model, tasks, 10, targets) for targets in ("all", "example", "class")]
    assert torch.equal(tables[0], tables[1])
    assert torch.equal(tables[0], tables[2])
    assert evaluate(model, tasks, 2).label == "non-transductive"


@pytest.mark.parametrize("norm", ["TBN", "TaskNorm-L", "RN", "TaskNorm-r"])
@pytest.mark.parametrize("learner", ["protonets", "cnaps"])
def test_parts_that_pass_together_are_as_if_they_came_alone(learner, norm):
    model, tasks = trained(learner, norm)
    model, task = model.double().eval(), tasks(0)
    task = replace(task, context_x=task.context_x.double(), target_x=task.target_x.double())
    predictor = model.adapt(task.context_x, task.context_y)
    for targets, parts in (("example", torch.arange(10).split(1)), ("class", torch.arange(10).split(2))):
        (together,) = target_logits(model, [task], targets)
        with torch.no_grad():
            alone = torch.cat([predictor(task.target_x[part]) for part in parts])
        torch.testing.assert_close(together[0], alone)
        if norm == "TBN":
            assert not torch.allclose(alone, predictor(task.target_x))


@pytest.mark.parametrize("learner", LEARNERS)
def test_with_transduction_the_label_says_so(learner):
    model, tasks = trained(learner, "TBN")
    assert evaluate(model, tasks, 2, "example").label == "transductive"


def test_a_broken_promise_is_an_error():
    model, tasks = trained("protonets", "TBN")
    convert(model, "TBN", inplace=True)
    for module in model.modules():
        if hasattr(module, "transductive"):
            module.transductive = False
    with pytest.raises(RuntimeError, match="promise not to be transductive"):
        evaluate(model, tasks, 2)


def test_scores_that_are_not_finite_are_labelled_as_promised():
    model, tasks = trained("protonets", "LN")
    with torch.no_grad():
        model.net.blocks[0].conv.bias.fill_(torch.inf)
    assert evaluate(model, tasks, 2).label.startswith("non-transductive (not audited: ")


def test_an_audit_that_cannot_tell_is_said_beside_the_promise(monkeypatch):
    model, tasks = trained("protonets", "LN")

    def random_scores(targets):
        return np.random.default_rng().random((len(targets), 5))

    monkeypatch.setattr(type(model), "adapt", lambda self, x, y: random_scores)
    assert evaluate(model, tasks, 2).label.startswith("non-transductive (not audited: the audit cannot tell, since ")


def test_maml_reports_every_step_the_maximum_and_a_fixed_one():
    model, tasks = trained("maml", "TaskNorm-I")
    free, fixed = evaluate(model, tasks, 8), evaluate(model, tasks, 8, step=2)
    assert len(free.steps) == model.test_steps == 10
    assert free.accuracy == free.maximum == fixed.maximum == free.steps[free.step - 1]
    assert fixed.accuracy == free.steps[1]
    assert "after step 2 (maximum over steps" in str(fixed)
    with pytest.raises(ValueError, match="step must be from 1 to the learner's test_steps=10, got 11"):
        evaluate(model, tasks, 8, step=11)


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_seed_gives_the_same_result(learner):
    model, tasks = trained(learner, "TaskNorm-I")
    assert torch.equal(accuracies(model, tasks, 10), accuracies(model, tasks, 10))


def test_batches_make_no_difference(monkeypatch):
    model, tasks = trained("protonets", "TaskNorm-I")
    once = accuracies(model, tasks, 10)
    monkeypatch.setattr("tasknorm.evaluation.evaluation.AT_ONCE", 3)
    assert torch.equal(once, accuracies(model, tasks, 10))


def test_evaluation_changes_nothing():
    model, tasks = trained("protonets", "CBN")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    evaluate(model, tasks, 3)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(("tasks", "targets"), [(0, "all"), (1, "none")])
def test_bad_arguments(tasks, targets):
    with pytest.raises(ValueError, match="tasks must be at least 1 and targets one of all, example, class"):
        evaluate(None, None, tasks, targets)


def test_transduction_is_what_lets_maml_with_tbn_work(tmp_path):
    """Section 5.1: with its targets one at a time, MAML with TBN falls to near chance."""
    settings = tiny(
        learner="maml", norm="TBN", iterations=120, meta_batch=8, filters=16, validate_every=0, test_tasks=0
    )
    run(settings, tmp_path)
    model = loaded(settings, tmp_path / "model.safetensors", "TBN")
    together, alone = (evaluate(model, task_of(settings, "test"), 30, way, step=5) for way in ("all", "example"))
    assert together.accuracy.mean > 0.5
    assert alone.accuracy.mean < 0.35
