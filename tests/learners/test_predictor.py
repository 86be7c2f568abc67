"""Predictors as files: saved, loaded, exported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from support.glyph_tasks import episode
from support.small_learners import fresh, trained
from tasknorm.learners import LEARNERS, Predictor

learners = pytest.mark.parametrize("learner", LEARNERS)
ONNX = importlib.util.find_spec("onnx") is not None and importlib.util.find_spec("onnxscript") is not None


def predictor(learner: str = "protonets", label: str = "TaskNorm-I") -> Predictor:
    task = episode(5)
    adapted: Predictor = trained(learner, label).adapt(task.context_x, task.context_y)
    return adapted


@learners
@pytest.mark.parametrize("label", ["TaskNorm-I", "CBN"])
def test_export_takes_any_batch(learner: str, label: str, tmp_path: Path) -> None:
    adapted, x = predictor(learner, label), episode(5).target_x
    adapted.export(tmp_path / "predictor.pt2", x[:2])
    program = torch.export.load(tmp_path / "predictor.pt2").module()
    for batch in (x, x[:1], torch.cat((x, x))):
        torch.testing.assert_close(program(batch), adapted(batch), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not ONNX, reason="onnx and onnxscript are not installed: pip install 'tasknorm[onnx]'")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@learners
def test_export_to_onnx(learner: str, tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    adapted, x = predictor(learner), episode(5).target_x
    adapted.export(tmp_path / "predictor.onnx", x[:2])
    evaluator = ReferenceEvaluator(str(tmp_path / "predictor.onnx"))
    (logits,) = evaluator.run(None, {evaluator.input_names[0]: x[:3].numpy()})
    torch.testing.assert_close(torch.as_tensor(logits), adapted(x[:3]), rtol=1e-3, atol=1e-3)


def test_export_checks_its_arguments(tmp_path: Path) -> None:
    x = episode(5).target_x
    with pytest.raises(ValueError, match=r"ends in \.pt2 or \.onnx, got 'predictor.bin'"):
        predictor().export(tmp_path / "predictor.bin", x)
    with pytest.raises(ValueError, match="at least two images, got 1"):
        predictor().export(tmp_path / "predictor.pt2", x[:1])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "predictor.safetensors"
    file.write_bytes(b"no such thing")
    with pytest.raises(ValueError, match="is not a predictor"):
        Predictor.load(file, fresh("protonets", "LN").net)


def test_a_file_of_another_norm_is_refused(tmp_path: Path) -> None:
    predictor(label="LN").save(tmp_path / "predictor.safetensors")
    with pytest.raises(ValueError, match="holds a net with norms LN, got one with IN"):
        Predictor.load(tmp_path / "predictor.safetensors", fresh("protonets", "IN").net)


def test_a_file_of_another_net_is_refused(tmp_path: Path) -> None:
    predictor("protonets", "LN").save(tmp_path / "predictor.safetensors")
    with pytest.raises(ValueError, match="does not fit this net"):
        Predictor.load(tmp_path / "predictor.safetensors", fresh("maml", "LN").net)
