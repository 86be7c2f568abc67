"""The loop: what it leaves behind, what it averages, when it stops."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from safetensors.torch import load_file

from support.runs import run, tiny
from tasknorm.errors import DivergedError
from tasknorm.machine.processes import Processes
from tasknorm.runs.parts import learner_of, task_of
from tasknorm.training.loop import learning_rate, train
from tasknorm.training.meta_step import meta_step

pytestmark = pytest.mark.usefixtures("glyph_cache")


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("learner", ["protonets", "maml", "cnaps"])
def test_a_run_leaves_its_records(tmp_path, learner):
    result = run(tiny(learner=learner, filters=None if learner == "cnaps" else 8, sampling="fixed"), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        ".lock",
        "config.json",
        "metrics.jsonl",
        "checkpoints",
        "model.safetensors",
        "best.safetensors",
        "calibration.json",
        "result.json",
    }
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert {row["label"] for row in result["accuracies"]} == {"non-transductive"}
    assert [line["iteration"] for line in lines(tmp_path) if "loss" in line] == list(range(1, 13))
    assert [line["iteration"] for line in lines(tmp_path) if "validation/TaskNorm-I" in line] == [5, 10, 12]


def test_tbn_trains_as_cbn_and_keeps_a_best_model_for_each(tmp_path):
    result = run(tiny(norm="TBN"), tmp_path)
    assert {path.name for path in tmp_path.glob("best*")} == {
        "best.safetensors",
        "best-CBN.safetensors",
        "best-RN.safetensors",
    }
    labels = {row["norm"]: row["label"] for row in result["accuracies"] if row["weights"] == "final"}
    assert labels == {"TBN": "transductive", "CBN": "non-transductive", "RN": "non-transductive"}
    run(tiny(norm="CBN"), tmp_path / "as_cbn")
    own, as_cbn = (load_file(folder / "model.safetensors") for folder in (tmp_path, tmp_path / "as_cbn"))
    assert all(torch.equal(own[name], as_cbn[name]) for name in own)


@pytest.mark.parametrize("norm", ["CBN", "BRN", "TaskNorm-r"])
@pytest.mark.parametrize("learner", ["protonets", "maml"])
def test_parts_change_neither_gradients_nor_running_moments(learner, norm):
    results = []
    for parts in (1, 3):
        settings = tiny(learner=learner, norm=norm, accumulate=parts)
        model = learner_of(settings).double().train()
        episode = task_of(settings, "train")
        episodes = [_doubled(episode(i)) for i in range(4)]
        step = meta_step(model, episodes, settings, Processes())
        results.append((step, {name: p.grad for name, p in model.named_parameters()}, dict(model.named_buffers())))
    (one, gradients, buffers), (three, *others) = results
    assert one == pytest.approx(three)
    for name, value in (gradients | buffers).items():
        torch.testing.assert_close(value, (others[0] | others[1])[name], msg=name)


def _doubled(episode):
    return type(episode)(episode.context_x.double(), episode.context_y, episode.target_x.double(), episode.target_y)


def test_variable_tasks_have_metadatasets_caps():
    settings = tiny(learner="cnaps", filters=None, sampling="variable")
    episodes = [task_of(settings, split)(i) for split in ("train", "test") for i in range(4)]
    assert len({episode.way for episode in episodes}) > 2
    assert max(episode.way for episode in episodes[:4]) <= 40


def test_the_learning_rate_is_halved():
    settings = tiny(halve_every=2, learning_rate=1.0)
    assert [learning_rate(settings, i) for i in range(1, 6)] == [1, 1, 0.5, 0.5, 0.25]


def test_clipping_bounds_what_adam_sees(tmp_path):
    settings = tiny(clip=1e-30, validate_every=0, test_tasks=0, iterations=2)
    learner = learner_of(settings)
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    train(learner, settings, task_of(settings, "train"), lambda learner: {}, tmp_path)
    for name, p in learner.named_parameters():
        torch.testing.assert_close(p, before[name])  # below Adam's eps


@pytest.mark.parametrize("learner", ["protonets", "maml"])
def test_a_nan_loss_stops_names_the_place_and_keeps_the_last_checkpoint(tmp_path, learner):
    settings = tiny(learner=learner, validate_every=0, test_tasks=0)
    model = learner_of(settings)
    episode = task_of(settings, "train")

    def poisoned(number):
        found = episode(number)
        if number == 38:  # in iteration 10
            with torch.no_grad():
                model.net.blocks[2].conv.bias[0] = torch.nan
        return found

    settings = settings.model_copy(update={"workers": 0})
    with pytest.raises(DivergedError, match=r"iteration 10: the loss of task 3\d is nan, from layer net.blocks.2.conv"):
        train(model, settings, poisoned, lambda learner: {}, tmp_path)
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == ["00000004", "00000008"]
    assert lines(tmp_path)[-1]["iteration"] == 9


def test_a_gradient_that_is_not_finite_stops_before_the_weights_suffer(tmp_path):
    settings = tiny(validate_every=0, test_tasks=0)
    learner = learner_of(settings)
    learner.net.blocks[0].conv.bias.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(DivergedError, match=r"iteration 1: the gradient of net.blocks.0.conv.bias is not finite"):
        train(learner, settings, task_of(settings, "train"), lambda learner: {}, tmp_path)
    assert all(torch.isfinite(p).all() for p in learner.parameters())


def test_recomputing_gives_the_same_weights(tmp_path):
    weights = []
    for again in (False, True):
        folder = tmp_path / str(again)
        run(tiny(norm="CBN", recompute=again, test_tasks=0, validate_every=0), folder)
        weights.append(load_file(folder / "model.safetensors"))
    for name, value in weights[0].items():
        slack = 2 * 12e-3 if name.endswith(("conv.bias", "running_mean")) else 1e-5  # see test_ranks
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=slack, msg=name)


def test_tensorboard_without_its_extra_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        run(tiny(tensorboard=True), tmp_path)


def test_tensorboard_gets_what_the_metrics_get(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(tiny(tensorboard=True, test_tasks=0, iterations=6), tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"loss", "accuracy", "seconds", "validation/TaskNorm-I"} <= set(events.Tags()["scalars"])
    written = [(event.step, event.value) for event in events.Scalars("loss")]
    assert written == [(line["iteration"], pytest.approx(line["loss"])) for line in lines(tmp_path) if "loss" in line]


def test_a_compiled_run_is_recorded_and_learns_the_same(tmp_path):
    losses = []
    for compiled in (False, True):
        folder = tmp_path / str(compiled)
        settings = tiny(norm="LN", compile=compiled, filters=4, iterations=3, validate_every=0, test_tasks=2)
        assert len(run(settings, folder)["accuracies"]) == 1
        assert json.loads((folder / "config.json").read_text())["compile"] is compiled
        losses.append([line["loss"] for line in lines(folder)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_bf16(tmp_path):
    run(tiny(bf16=True, test_tasks=0, iterations=4), tmp_path)
    assert all(torch.isfinite(value).all() for value in load_file(tmp_path / "model.safetensors").values())


@pytest.mark.parametrize(("learner", "chance"), [("protonets", 0.2), ("maml", 0.2)])
def test_training_beats_chance(tmp_path, learner, chance):
    settings = tiny(learner=learner, iterations=60, meta_batch=8, filters=16, test_tasks=50, validate_every=0)
    (result,) = run(settings, tmp_path)["accuracies"]
    assert result["accuracy"] - result["interval"] > chance + 0.2
