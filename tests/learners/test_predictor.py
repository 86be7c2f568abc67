"""Predictors as files: saved, loaded, exported."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import safetensors.torch
import torch
from safetensors import safe_open
from torch import nn

from support.glyph_tasks import episode
from support.small_learners import fresh, trained
from tasknorm import NORMS, Norm
from tasknorm.errors import WeightsError
from tasknorm.learners import LEARNERS, Predictor
from tasknorm.learners.about import About
from tasknorm.learners.adapted import sharing

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


class TestForLife:
    """A predictor is in its target phase from its making on, for every thread and as every copy."""

    @pytest.mark.parametrize("label", NORMS)
    def test_many_threads_at_once_get_right_answers(self, label: str) -> None:
        adapted, x = predictor("protonets", label), episode(5).target_x
        parts = [x[i : i + size] for size in (1, 3, 7) for i in range(0, len(x) - size, size)]
        expected = [adapted(part) for part in parts]
        with ThreadPoolExecutor(6) as pool:
            for _ in range(3):
                for ours, theirs in zip(pool.map(adapted, parts), expected, strict=True):
                    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)

    @learners
    def test_copies_casts_and_modes(self, learner: str) -> None:
        adapted, x = predictor(learner), episode(5).target_x
        expected = adapted(x)
        duplicates = [
            copy.deepcopy(adapted),
            copy.copy(adapted),
            pickle.loads(pickle.dumps(adapted)),
            copy.deepcopy(adapted).double().float(),
            copy.deepcopy(adapted).to("cpu").eval(),
            copy.deepcopy(adapted).train(),
            nn.Sequential(copy.deepcopy(adapted)).train()[0],
        ]
        for same in duplicates:
            torch.testing.assert_close(same(x), expected, rtol=1e-4, atol=1e-4)
            assert not any(module.training for module in same.modules())

    @pytest.mark.parametrize("label", NORMS)
    def test_training_mode_changes_nothing(self, label: str) -> None:
        adapted, x = predictor("protonets", label), episode(5).target_x
        expected, before = adapted(x), copy.deepcopy(adapted.state_dict())
        torch.testing.assert_close(adapted.train()(x), expected, rtol=0, atol=0)
        assert all(torch.equal(value, before[name]) for name, value in adapted.state_dict().items())

    @pytest.mark.parametrize("label", NORMS)
    def test_after_loading(self, label: str, tmp_path: Path) -> None:
        adapted, x = predictor("protonets", label), episode(5).target_x
        adapted.save(tmp_path / "predictor.safetensors")
        loaded = Predictor.load(tmp_path / "predictor.safetensors", fresh("protonets", label).net)
        other = predictor("protonets", label)
        other.load_state_dict(adapted.state_dict())
        for same in (loaded, other):
            torch.testing.assert_close(same(x), adapted(x), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("label", NORMS)
    def test_several_target_sets_pass_together_as_if_each_came_alone(self, label: str) -> None:
        adapted, x = predictor("protonets", label), episode(5).target_x[:12]
        expected = torch.cat([adapted(part) for part in x.chunk(4)])
        torch.testing.assert_close(adapted.in_sets(x, 4), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(adapted(x[:3]), expected[:3], rtol=1e-4, atol=1e-4)  # and is as it was
        with pytest.raises(ValueError, match="does not divide"):
            adapted.in_sets(x, 5)

    def test_in_sets_copies_no_tensor_and_may_run_in_threads(self) -> None:
        adapted, x = predictor("protonets", "TBN"), episode(5).target_x[:12]
        pointers = {tensor.data_ptr() for tensor in adapted.state_dict().values()}
        assert {tensor.data_ptr() for tensor in sharing(adapted).state_dict().values()} == pointers
        expected = {sets: adapted.in_sets(x, sets) for sets in (1, 2, 3, 4, 6)}
        with ThreadPoolExecutor(5) as pool:
            for sets, logits in zip(expected, pool.map(lambda sets: adapted.in_sets(x, sets), expected), strict=True):
                torch.testing.assert_close(logits, expected[sets], rtol=1e-5, atol=1e-5)

    def test_the_learner_it_came_from_goes_on(self) -> None:
        task, learner = episode(5), fresh("protonets", "TaskNorm-I")
        learner.adapt(task.context_x, task.context_y)
        assert learner(task).shape == (len(task.target_y), 5)

    def test_a_net_whose_loading_failed_is_free_again(self, tmp_path: Path) -> None:
        predictor("protonets", "LN").save(tmp_path / "predictor.safetensors")
        net = fresh("maml", "LN").net
        with pytest.raises(ValueError, match="does not fit this net"):
            Predictor.load(tmp_path / "predictor.safetensors", net)
        assert all(module.phase is None for module in net.modules() if isinstance(module, Norm))

    def test_compiled(self) -> None:
        adapted, x = predictor("protonets", "TaskNorm-I"), episode(5).target_x
        compiled = torch.compile(adapted, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), adapted(x), rtol=1e-4, atol=1e-4)


def rewritten(path: Path, metadata: dict[str, str] | None = None, **tensors: torch.Tensor | None) -> None:
    """Change some tensors of a predictor's file, with a right checksum, or all that it says of itself."""
    with safe_open(path, "pt") as file:
        said = file.metadata()
        content = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    content |= {name.replace("__", "."): tensor for name, tensor in tensors.items() if tensor is not None}
    content = {name: tensor for name, tensor in content.items() if tensors.get(name, tensor) is not None}
    if metadata is None:
        metadata = {"about": About.model_validate_json(said["about"]).signed(content).model_dump_json()}
    path.write_bytes(safetensors.torch.save(content, metadata))


OLD = {"format": "tasknorm predictor 1", "norms": "TaskNorm-I"}  # as 0.1.0 wrote it


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        (None, {"bias": torch.zeros(1)}, r"bias: damaged, weight and bias must be .*\(way,\), got .* of \(1,\)"),
        (OLD, {"bias": torch.zeros(1)}, r"bias: damaged, weight and bias must be"),
        (None, {"bias": None}, r"bias: damaged, the classifier has no bias"),
        (None, {"weight": None}, r"weight: damaged, the classifier must be \(5, 16\), got none"),
        (OLD, {"weight": None}, r"weight: damaged, the classifier has no weight"),
        (None, {"weight": None, "bias": None}, r"the classifier must be \(5, 16\), got none"),
        (OLD, {"weight": torch.ones(5, 3)}, r"weight: damaged, the classifier is for other features than the net's"),
        (OLD, {"weight": torch.ones(5)}, r"bias: damaged, weight and bias must be"),
        (OLD, {"bias": torch.zeros(5, dtype=torch.long)}, r"must be floats"),
        (None, {"bias": torch.full((5,), float("nan"))}, r"'bias': damaged, not all numbers are finite"),
        (None, {"net__more": torch.ones(1)}, r"does not fit this net: 'net.more' is not of this net"),
        (None, {"net__blocks__0__conv__weight": torch.ones(16, 1, 3, 1)}, r"does not fit this net: 'net.blocks.0.conv"),
        (OLD, {"net__blocks__0__norm__context_size": torch.tensor(0)}, r"needs a context of 1 image or more, got 0"),
        (None, {"net__blocks__0__norm__context_size": torch.tensor(-5)}, r"needs a context of 1 image or more, got -5"),
        ({"format": "tasknorm predictor 1"}, {}, "holds a net with norms"),
        ({}, {}, "has format None"),
    ],
)
def test_a_damaged_file_is_refused_and_the_net_stays(metadata, tensors, message, tmp_path: Path) -> None:
    path, net = tmp_path / "predictor.safetensors", fresh("protonets", "TaskNorm-I", seed=1).net
    predictor().save(path)
    rewritten(path, metadata, **tensors)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with pytest.raises(WeightsError, match=message) as error:
        Predictor.load(path, net)
    assert str(path) in str(error.value)
    torch.testing.assert_close(dict(net.state_dict()), before, rtol=0, atol=0)
    predictor().save(path)
    assert Predictor.load(path, net)(episode(5).target_x).shape[1] == 5  # in no phase, so that it can be used


def test_a_classifier_without_bias_comes_back(tmp_path: Path) -> None:
    whole = predictor()
    Predictor(copy.deepcopy(whole.net), whole.weight).save(tmp_path / "p.safetensors")
    again = Predictor.load(tmp_path / "p.safetensors", fresh("protonets", "TaskNorm-I").net)
    x = episode(5).target_x
    torch.testing.assert_close(again(x), Predictor(copy.deepcopy(whole.net), whole.weight)(x))
