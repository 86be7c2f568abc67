"""`--chunk` in runs: the same weights, tests and predictors, with whatever else saves memory, and with ranks."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from support.exact_learners import learner_of as small_learner
from support.photos import write_photos
from support.runs import ended, flags, run, started, tiny
from tasknorm.cli.adapt import app as adapt_app
from tasknorm.cli.evaluate import app as evaluate_app
from tasknorm.data import Preparation, Prepared
from tasknorm.errors import SettingsError
from tasknorm.learners import learner as learner_module
from tasknorm.machine import Processes
from tasknorm.runs import Adapter, evaluated, settled
from tasknorm.runs.parts import learner_of, task_of
from tasknorm.settings import Settings
from tasknorm.training.meta_step import meta_step

pytestmark = pytest.mark.usefixtures("glyph_cache")
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--rdzv-backend=c10d")
TORCHRUN = (*TORCHRUN, "--rdzv-endpoint=localhost:0")
BRANCHING = """
from torch import nn

class Branching(nn.Sequential):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else super().forward(-x)

def net():
    return Branching(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
"""
SHORT = {"iterations": 3, "test_tasks": 0, "validate_every": 0}


@pytest.mark.parametrize(
    "also",
    [
        {},
        {"recompute": True},
        {"accumulate": 2},
        {"sampling": "variable", "max_context": 20, "max_way": 9, "filters": None},
        {"learner": "maml"},
    ],
    ids=str,
)
def test_a_meta_batch_in_chunks_gives_the_same_gradient(also: dict[str, Any]) -> None:
    found = []
    for chunk in (None, 3):
        settings = tiny(norm="CBN", train_way=2 if "maml" in also.values() else 3, way=2, chunk=chunk, **also)
        learner = learner_of(settings).double()
        drawn = [task_of(settings, "train")(number) for number in range(settings.meta_batch)]
        tasks = [replace(each, context_x=each.context_x.double(), target_x=each.target_x.double()) for each in drawn]
        meta_step(learner, tasks, settings, Processes())
        gradients = {name: p.grad for name, p in learner.named_parameters() if p.grad is not None}
        found.append(gradients | dict(learner.named_buffers()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-10)


@pytest.mark.skipif(sys.platform == "win32", reason="gloo and torchrun")
def test_ranks_in_chunks_give_the_weights_of_one_process(tmp_path: Path) -> None:
    settings = tiny(learner="maml", norm="CBN", **SHORT)
    run(settings, tmp_path / "one")
    words = [*flags(settings), "--chunk", "3"]
    code, _, error = ended(started("train", *words, "--out", tmp_path / "two", launcher=TORCHRUN))
    assert code == 0, error
    plain, other = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, value in plain.items():
        # Adam makes the gradient of a bias before a norm, which is rounding alone, as large as any other.
        slack = 6 * settings.learning_rate if name.endswith(("conv.bias", "running_mean")) else 2e-5
        torch.testing.assert_close(other[name], value, rtol=1e-4, atol=slack, msg=name)


def test_a_run_may_be_resumed_with_another_chunk(tmp_path: Path) -> None:
    first = tiny(norm="CBN", **SHORT, chunk=3)
    run(first, tmp_path)
    longer = settled(Settings, {"iterations": 5, "chunk": 2}, tmp_path, True, None)
    assert (longer.iterations, longer.chunk) == (5, 2)
    run(longer, tmp_path)


def test_bfloat16_trains_in_chunks(tmp_path: Path) -> None:
    run(tiny(**SHORT, chunk=3, bf16=True), tmp_path)
    assert all(value.isfinite().all() for value in load_file(tmp_path / "model.safetensors").values())


class TestARun:
    @pytest.fixture(scope="class")
    @staticmethod
    def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("runs")
        run(tiny(norm="TBN", iterations=3, shot=2), folder)
        return folder

    @pytest.mark.parametrize("norm", ["TBN", "RN"])
    def test_tests_give_the_same(self, trained: Path, norm: str) -> None:
        plain, other = (evaluated(trained, ["all", "example"], norm, 3, 0, chunk) for chunk in (None, 2))
        assert [row.row() for row in plain] == [row.row() for row in other]

    def test_predictors_are_the_same(self, trained: Path) -> None:
        images = {str(c): Prepared(torch.randint(256, (5, 1, 28, 28), dtype=torch.uint8)) for c in range(3)}
        plain, other = (Adapter(trained, "RN", chunk=chunk)(images) for chunk in (None, 2))
        x = torch.rand(4, 1, 28, 28)
        torch.testing.assert_close(other(x), plain(x), rtol=1e-4, atol=1e-4)
        assert "forward" not in vars(other.net)

    def test_the_commands(self, trained: Path, tmp_path: Path) -> None:
        write_photos(tmp_path / "photos", {"one": 0, "two": 180}, 3)
        words = [str(trained), "--context", str(tmp_path / "photos"), "--out", str(tmp_path / "two.safetensors")]
        made = CliRunner().invoke(adapt_app, [*words, "--chunk", "2"])
        assert made.exit_code == 0, made.output
        tested = CliRunner().invoke(evaluate_app, [str(trained), "--tasks", "2", "--chunk", "2"])
        assert tested.exit_code == 0, tested.output
        refused = CliRunner().invoke(evaluate_app, [str(trained), "--chunk", "0"])
        assert refused.exit_code == 2


@pytest.mark.parametrize("name", ["protonets", "cnaps", "maml", "ncm"])
@pytest.mark.parametrize("norm", ["TaskNorm-I", "TBN"])
def test_many_images_are_adapted_to_in_chunks(name: str, norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = small_learner(name, norm)
    images = {str(c): Prepared(torch.randint(256, (4, 1, 16, 16), dtype=torch.uint8)) for c in range(2)}
    preparation = Preparation(size=16, channels=1)
    x = torch.rand(3, 1, 16, 16, dtype=torch.float64)
    before = copy.deepcopy(learner.state_dict())
    plain = learner.adapt_to(images, preparation)
    monkeypatch.setattr(learner_module, "MANY", 3)
    monkeypatch.setattr(learner_module, "CHUNK", 3)
    many = learner.adapt_to(images, preparation)
    torch.testing.assert_close(many(x), plain(x), rtol=1e-10, atol=1e-10)
    if learner.learns_again:
        for predictor in (plain, many):
            predictor.add("0", images["1"])
        torch.testing.assert_close(many(x), plain(x), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(learner.state_dict(), before, rtol=0, atol=0)


class TestRefusals:
    def test_compiled_runs(self) -> None:
        with pytest.raises(SettingsError, match=r"compile=True contradicts chunk=8: a compiled net takes its batches"):
            Settings.of({"learner": "protonets", "compile": True, "chunk": 8})

    def test_no_examples(self) -> None:
        with pytest.raises(SettingsError, match=r"chunk.*got 0"):
            tiny(chunk=0)

    def test_compiled_learners(self) -> None:
        learner = small_learner("maml", "TBN")
        learner.compiled = True
        with pytest.raises(ValueError, match=r"MAML's compiled passes take a batch whole"):
            learner.in_chunks(2)

    def test_a_network_that_cannot_be_divided(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "branching.py").write_text(BRANCHING)
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(SettingsError, match=r"net=branching:net: chunks need a net whose forward torch.fx can"):
            learner_of(tiny(net="branching:net", filters=None, chunk=2))
