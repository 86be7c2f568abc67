"""What the page plays with: the learners that ship, their graphs, and those of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from support.glyph_tasks import episode
from support.runs import run, tiny
from tasknorm import audit, play
from tasknorm.data import SCALINGS
from tasknorm.data.formats.pixels import RESIZES
from tasknorm.errors import SettingsError
from tasknorm.learners import accuracy, first_output
from tasknorm.play import Playable, embedded_learner, of_run
from tasknorm.play.models import TRAINED, WEIGHTS

labels = pytest.mark.parametrize("label", TRAINED)


def test_all_that_ships_is_under_two_megabytes() -> None:
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) < 2_000_000
    about = json.loads((WEIGHTS / "about.json").read_text())
    assert set(about["validation_accuracy"]) == set(TRAINED)
    assert all(value > 0.9 for value in about["validation_accuracy"].values())


@labels
def test_the_learners_that_ship_know_characters_that_they_never_saw(label: str) -> None:
    learner = embedded_learner(label)
    with torch.no_grad():
        found = [accuracy(learner(task), task.target_y) for task in (episode(i, split="test") for i in range(10))]
    assert np.mean(found) > 0.9


@labels
def test_they_peek_as_their_norms_say(label: str) -> None:
    learner = embedded_learner(label)
    found = audit(lambda x, y, target: learner.adapt(x, y)(target), episode(3))
    assert found.transductive is (label == "TBN")


@labels
@pytest.mark.parametrize("size", [(7, 3, 4), (1, 1, 1), (30, 10, 12)])
def test_the_graphs_that_ship_are_the_learners(label: str, size: tuple[int, int, int]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    context, way, targets = size
    session = onnxruntime.InferenceSession(str(WEIGHTS / f"{label}.onnx"), providers=["CPUExecutionProvider"])
    x, target = torch.rand(context, 1, 28, 28), torch.rand(targets, 1, 28, 28)
    y = F.one_hot(torch.arange(context) % way, way).float()
    given = {"context_images": x.numpy(), "labels": y.numpy(), "target_images": target.numpy()}
    logits = torch.as_tensor(session.run(["logits"], given)[0])
    with torch.no_grad():
        predictor = embedded_learner(label).adapt(x, torch.arange(context) % way)
        expected = predictor(target)
    assert float((logits - expected).abs().max()) <= 1e-4 * float(expected.abs().max())


def test_the_page_knows_each_layer(playable: Playable) -> None:
    about = playable.about()
    assert [model["norm"] for model in about["models"]] == list(TRAINED)
    assert [model["transductive"] for model in about["models"]] == [False, True, False]
    for model in about["models"]:
        assert [layer["name"] for layer in model["layers"]] == [f"blocks.{i}.norm" for i in range(4)]
        assert all((layer["alpha"] is not None) == (model["norm"] == "TaskNorm-I") for layer in model["layers"])


def test_the_page_knows_every_scaling_and_resizing() -> None:
    """Names are looked up in its scripts; `test_page` compares the numbers."""
    page = Path(play.__file__).parent / "page"
    worker, pictures = ((page / name).read_text() for name in ("worker.js", "pictures.js"))
    assert all(f"\n  {name}: " in worker for name in SCALINGS)
    assert all(f'rule === "{name}"' in pictures for name in RESIZES if name != "antialiased")


def test_a_run_brings_all_norms_that_share_its_training(tmp_path: Path, glyph_cache: None) -> None:
    run(tiny(norm="CBN"), tmp_path / "my run")
    made = of_run(tmp_path / "my run", for_browser=False)
    assert {model.norm for model in made.models} == {"CBN", "TBN", "RN"}
    assert made.preparation["size"] == 28
    assert "my run" in made.words
    task = episode(1)
    found = made.models[0].graph(task.context_x, F.one_hot(task.context_y, 5).float(), task.target_x)
    assert first_output(found).shape == (len(task.target_y), 5)


def test_a_run_of_maml_is_refused(tmp_path: Path, glyph_cache: None) -> None:
    run(tiny(learner="maml", meta_batch=2, iterations=2, validate_every=0), tmp_path / "maml")
    with pytest.raises(SettingsError, match="MAML learns a task by gradients"):
        of_run(tmp_path / "maml", for_browser=False)


def test_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no finished training in this folder"):
        of_run(tmp_path, for_browser=False)
