"""A predictor is one file that knows everything: classes, images, net and norm; and it takes more examples later."""

from __future__ import annotations

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from tasknorm import NORMS
from tasknorm.data import DataError, Preparation, opened
from tasknorm.errors import WeightsError
from tasknorm.learners import LEARNERS, MAML, NCM, NONE, Calibration, CNAPs, Learner, Predictor, ProtoNets
from tasknorm.learners.about import About
from tasknorm.nets import NETS

GREY = Preparation(size=28, channels=1)
ADDING = [name for name in LEARNERS if LEARNERS[name].learns_again]
OF_CNAPS = ("TaskNorm-I", "TBN", "CBN", "MetaBN", "RN")
ALL_ADDING = [(name, label) for name in ADDING for label in (OF_CNAPS if name == "cnaps" else NORMS)]
learners = pytest.mark.parametrize("learner", LEARNERS)
adding = pytest.mark.parametrize("learner", ADDING)
norms = pytest.mark.parametrize("label", NORMS)


@cache
def made(learner: str, label: str) -> Learner:
    """A learner of `NETS`, with running moments that are not the initial ones."""
    torch.manual_seed(0)
    norm = partial(NORMS[label], eps=1e-4, **({"alpha": "independent-channel"} if label.startswith("Task") else {}))
    if learner == "maml":
        found: Learner = MAML(NETS["maml-omniglot"](norm, way=4, filters=6), inner_lr=0.1, test_steps=2)
    elif learner == "cnaps":
        found = CNAPs(NETS["resnet-small"](norm, film=True), norm, encoder_filters=8)
    else:
        found = {"protonets": ProtoNets, "ncm": NCM}[learner](NETS["protonets-conv4"](norm, filters=6))
    for name, buffer in found.named_buffers():
        if "running_mean" in name:
            buffer.normal_(std=0.1)
    return found.eval()


def drawings(class_id: int, *numbers: int) -> list[Any]:
    return [opened("glyphs").image(class_id, number) for number in numbers]


CONTEXT = {"é/è": drawings(3, 0, 1), "b": drawings(40, 0), "c c": drawings(90, 0, 1, 2), "📷": drawings(200, 0)}
TARGETS = drawings(3, 7, 8) + drawings(90, 7) + drawings(200, 7, 8)


def predictor(learner: str = "protonets", label: str = "TaskNorm-I", **options: Any) -> Predictor:
    return made(learner, label).adapt_to(CONTEXT, GREY, **options)


def saved(one: Predictor, folder: Path) -> Path:
    one.save(folder / "p.safetensors")
    return folder / "p.safetensors"


def same(one: Predictor, other: Predictor, tolerance: float = 0) -> None:
    x = GREY(TARGETS)
    assert one.names == other.names
    torch.testing.assert_close(one(x), other(x), rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(one.classify(TARGETS), other.classify(TARGETS), strict=True):
        assert ours.probabilities == pytest.approx(theirs.probabilities, abs=tolerance or 1e-12)


class TestOneFile:
    @learners
    @norms
    def test_it_needs_nothing_else(self, learner: str, label: str, tmp_path: Path) -> None:
        one = predictor(learner, label)
        one.calibration = Calibration(temperature=2.5, threshold=0.3, tasks=9, way=5, shot=1)
        loaded = Predictor.load(saved(one, tmp_path))
        same(one, loaded)
        assert loaded.names == tuple(CONTEXT)
        assert (loaded.preparation, loaded.calibration, loaded.learner) == (GREY, one.calibration, one.learner)
        assert loaded.label == ("transductive" if NORMS[label].transductive else "non-transductive")
        assert not any(parameter.requires_grad for parameter in loaded.parameters())
        assert (loaded.context is None) == (learner == "maml")
        if loaded.context is not None:
            assert {name: len(images) for name, images in loaded.context.items()} == {
                name: len(images) for name, images in CONTEXT.items()
            }
            assert torch.equal(loaded.context["b"], GREY.pixels(CONTEXT["b"]))

    @learners
    def test_equal_predictors_are_equal_files(self, learner: str, tmp_path: Path) -> None:
        first = saved(predictor(learner), tmp_path).read_bytes()
        again = Predictor.load(tmp_path / "p.safetensors")
        assert saved(again, tmp_path).read_bytes() == first

    def test_loading_leaves_random_numbers_alone(self, tmp_path: Path) -> None:
        file = saved(predictor("cnaps"), tmp_path)
        torch.manual_seed(3)
        expected = torch.rand(3)
        torch.manual_seed(3)
        Predictor.load(file)
        assert torch.equal(torch.rand(3), expected)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_the_dtype_is_kept(self, dtype: torch.dtype, tmp_path: Path) -> None:
        loaded = Predictor.load(saved(predictor().to(dtype), tmp_path))
        assert next(loaded.net.parameters()).dtype == dtype
        assert len(loaded.classify(TARGETS)) == len(TARGETS)
        assert loaded.add("b", drawings(40, 5)).classify(TARGETS)

    @pytest.mark.parametrize(
        ("net", "options"),
        [
            ("maml-imagenet", {"way": 3, "filters": 4, "image_shape": (3, 40, 40)}),
            ("protonets-conv4", {"filters": 4, "image_shape": (3, 33, 33)}),
            ("resnet-small", {"image_shape": (3, 30, 30)}),
        ],
    )
    def test_nets_of_other_shapes(self, net: str, options: dict[str, Any], tmp_path: Path) -> None:
        module = NETS[net](NORMS["GN"], **options)
        kind = MAML if net.startswith("maml") else ProtoNets
        preparation = Preparation(size=options["image_shape"][1], channels=3, scale="standard")
        one = kind(module).eval().adapt_to({name: CONTEXT[name] for name in ("b", "c c", "📷")}, preparation)
        loaded = Predictor.load(saved(one, tmp_path))
        assert loaded.classify(TARGETS) == one.classify(TARGETS)

    def test_a_predictor_made_in_code(self, tmp_path: Path) -> None:
        """Without names and preparation, as ever; they may be given later."""
        one = made("protonets", "LN").adapt(GREY(TARGETS), [0, 0, 1, 2, 2])
        loaded = Predictor.load(saved(one, tmp_path))
        assert loaded.names == ("0", "1", "2")
        assert torch.equal(loaded(GREY(TARGETS)), one(GREY(TARGETS)))
        with pytest.raises(DataError, match="does not know how images are prepared; set"):
            loaded.classify(TARGETS)
        with pytest.raises(DataError, match="needs the context that the predictor learned from, and it holds none"):
            loaded.add("3", TARGETS)
        loaded.names, loaded.preparation = ("x", "y", "z"), GREY
        assert loaded.classify(TARGETS)[0].name == "x"
        with pytest.raises(DataError, match="each of the 3 classes needs a name, got 2"):
            loaded.names = ("x", "y")

    def test_a_net_of_ones_own_must_be_given(self, tmp_path: Path) -> None:
        def net() -> nn.Module:
            torch.manual_seed(0)
            return nn.Sequential(
                nn.Conv2d(1, 4, 3), NORMS["TaskNorm-L"](4), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten()
            )

        one = ProtoNets(net()).eval().adapt_to(CONTEXT, GREY)
        file = saved(one, tmp_path)
        with pytest.raises(WeightsError, match=r"does not say how its net is made; pass a net of the same make"):
            Predictor.load(file)
        loaded = Predictor.load(file, net())
        same(loaded, one)
        loaded.add("b", drawings(40, 3))
        same(loaded, one.add("b", drawings(40, 3)), 1e-5)

    def test_files_of_version_0_1_load_with_a_net(self, tmp_path: Path) -> None:
        one = predictor()
        tensors = {name: tensor.contiguous() for name, tensor in one.adapted.state_dict().items()}
        shape = str(tuple(one.weight.shape))
        for metadata in ({"classifier": shape}, {}):
            content = {"format": "tasknorm predictor 1", "norms": "TaskNorm-I"} | metadata
            safetensors.torch.save_file(tensors, tmp_path / "old.safetensors", content)
            old = Predictor.load(tmp_path / "old.safetensors", copy.deepcopy(made("protonets", "TaskNorm-I").net))
            assert torch.equal(old(GREY(TARGETS)), one(GREY(TARGETS)))
            assert old.names == ("0", "1", "2", "3")
            with pytest.raises(WeightsError, match="does not say how its net is made; pass a net"):
                Predictor.load(tmp_path / "old.safetensors")


class TestAdding:
    @pytest.mark.parametrize(("learner", "label"), ALL_ADDING)
    def test_equals_having_had_them_from_the_start(self, learner: str, label: str, tmp_path: Path) -> None:
        later = Predictor.load(saved(predictor(learner, label), tmp_path))
        later.add("heron", drawings(300, 0, 1)).add("b", drawings(40, 4, 5)).add("heron", drawings(300, 2))
        whole = {**CONTEXT, "b": drawings(40, 0, 4, 5), "heron": drawings(300, 0, 1, 2)}
        same(later, made(learner, label).adapt_to(whole, GREY), 1e-4)
        same(Predictor.load(saved(later, tmp_path)), later)
        together = predictor(learner, label).extend({"heron": drawings(300, 0, 1, 2), "b": drawings(40, 4, 5)})
        same(together, made(learner, label).adapt_to({**whole}, GREY), 1e-4)

    def test_cnaps_without_film(self, tmp_path: Path) -> None:
        learner = CNAPs(NETS["resnet-small"](NORMS["MetaBN"]), NORMS["MetaBN"], film=False).eval()
        later = Predictor.load(saved(learner.adapt_to(CONTEXT, GREY), tmp_path)).add("b", drawings(40, 4))
        same(later, learner.adapt_to({**CONTEXT, "b": drawings(40, 0, 4)}, GREY), 1e-4)

    @adding
    def test_the_learner_may_be_trained_on(self, learner: str) -> None:
        """The predictor goes on from the weights that it was made of."""
        original = copy.deepcopy(made(learner, "TaskNorm-I"))
        one = original.adapt_to(CONTEXT, GREY)
        with torch.no_grad():
            for parameter in original.parameters():
                parameter.add_(0.1)
        same(one.add("b", drawings(40, 4)), predictor(learner).add("b", drawings(40, 4)))

    @adding
    def test_copies_add_for_themselves(self, learner: str) -> None:
        one = predictor(learner)
        for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            other.add("new", drawings(300, 0))
            assert len(other.names) == 5
            assert len(one.names) == 4
            same(one, predictor(learner))

    @adding
    def test_a_forgotten_context(self, learner: str, tmp_path: Path) -> None:
        whole, forgotten = predictor(learner), predictor(learner, forget=True)
        same(whole, forgotten)
        large = saved(whole, tmp_path).stat().st_size
        assert saved(forgotten, tmp_path).stat().st_size < large - 7 * 28 * 28
        loaded = Predictor.load(tmp_path / "p.safetensors")
        with safe_open(tmp_path / "p.safetensors", "pt") as file:
            assert not [name for name in file.keys() if name.startswith(("context", "learner"))]  # noqa: SIM118
        for one in (forgotten, loaded):
            assert one.context is None
            with pytest.raises(DataError, match=r"needs the context .* and it holds none; adapt again"):
                one.add("b", drawings(40, 4))

    def test_maml_takes_no_more_and_says_why(self, tmp_path: Path) -> None:
        for one in (predictor("maml"), Predictor.load(saved(predictor("maml"), tmp_path))):
            with pytest.raises(DataError, match="MAML takes no more examples: it learned by gradient steps"):
                one.add("b", drawings(40, 4))

    def test_what_cannot_be_added_changes_nothing(self, tmp_path: Path) -> None:
        one, before = predictor(), predictor()
        (tmp_path / "bad.jpg").write_bytes(b"no image")
        for name, images, message in (
            ("b", [], "class 'b' needs at least one image"),
            ("b", [tmp_path / "bad.jpg"], "bad.jpg: the image does not decode"),
            (NONE, drawings(0, 0), "other than 'none of these'"),
            ("", drawings(0, 0), "a text of 1 to 1000 characters"),
        ):
            with pytest.raises(DataError, match=message):
                one.add(name, images)
        same(one, before)
        assert one.add("b", drawings(40, 4)).names == before.names

    def test_threads_classify_while_another_adds(self) -> None:
        """Each answer is wholly from before or wholly from after an addition."""
        one = predictor("protonets", "TaskNorm-I")
        states = {one.names: [answer.probabilities for answer in one.classify(TARGETS)]}
        rehearsal = predictor("protonets", "TaskNorm-I")
        for number in range(6):
            rehearsal.add(f"new {number}", drawings(300 + number, 0, 1))
            states[rehearsal.names] = [answer.probabilities for answer in rehearsal.classify(TARGETS)]
        with ThreadPoolExecutor(5) as pool:
            asked = [pool.submit(one.classify, TARGETS) for _ in range(10)]
            for number in range(6):
                pool.submit(one.add, f"new {number}", drawings(300 + number, 0, 1)).result()
                asked += [pool.submit(one.classify, TARGETS) for _ in range(10)]
            for future in asked:
                found = future.result()
                expected = states[tuple(found[0].probabilities)]
                for answer, probabilities in zip(found, expected, strict=True):
                    assert answer.probabilities == pytest.approx(probabilities, abs=1e-5)
        same(one, rehearsal, 1e-5)

    def test_two_threads_that_add_lose_nothing(self) -> None:
        one = predictor()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: one.add(f"new {number}", drawings(300 + number, 0)), range(8)))
        assert set(one.names) == {*CONTEXT, *(f"new {number}" for number in range(8))}
        assert one.context is not None
        assert all(torch.equal(one.context[f"new {n}"], GREY.pixels(drawings(300 + n, 0))) for n in range(8))


class TestAnswers:
    @norms
    def test_one_at_a_time_unless_together(self, label: str) -> None:
        one, x = predictor("protonets", label), GREY(TARGETS)
        alone = torch.cat([one(image[None]) for image in x]).double().softmax(-1)
        for answer, row in zip(one.classify(TARGETS), alone, strict=True):
            assert list(answer.probabilities.values()) == pytest.approx(row.tolist(), abs=1e-5)
            assert answer.probability == max(answer.probabilities.values())
            assert answer.name == max(answer.probabilities, key=answer.probabilities.__getitem__)
        for answer, row in zip(one.classify(TARGETS, together=True), one(x).double().softmax(-1), strict=True):
            assert list(answer.probabilities.values()) == pytest.approx(row.tolist(), abs=1e-5)

    def test_many_images_in_parts(self) -> None:
        one = predictor("protonets", "TBN")
        many = one.classify(TARGETS * 30)
        assert len(many) == 150
        for answer, first in zip(many, one.classify(TARGETS) * 30, strict=True):
            assert answer.probabilities == pytest.approx(first.probabilities, abs=1e-5)

    def test_none_of_these(self) -> None:
        one = predictor()
        one.calibration = Calibration(temperature=3.0, threshold=1.0)
        assert {answer.name for answer in one.classify(TARGETS)} == {NONE}
        assert NONE not in {answer.name for answer in one.classify(TARGETS, none_below=0)}
        likeliest = one.classify(TARGETS)[0].probability
        assert one.classify(TARGETS, none_below=likeliest)[0].name != NONE
        assert one.classify(TARGETS, none_below=likeliest + 1e-9)[0].name == NONE

    def test_no_images_no_answers(self) -> None:
        assert predictor().classify([]) == predictor("protonets", "TBN").classify([], together=True) == []

    def test_a_net_that_overflows(self) -> None:
        one = predictor()
        one.net.blocks[0].conv.weight.fill_(1e38)
        with pytest.raises(WeightsError, match="logits are not finite"):
            one.classify(TARGETS)


class TestContexts:
    @learners
    def test_other_ways_than_in_training(self, learner: str) -> None:
        two = {name: CONTEXT[name] for name in ("b", "c c")}
        if learner == "maml":
            with pytest.raises(DataError, match="MAML's classifier was trained for 4 classes, got 2; give images of 4"):
                made(learner, "LN").adapt_to(two, GREY)
        else:
            assert made(learner, "LN").adapt_to(two, GREY).names == ("b", "c c")

    @pytest.mark.parametrize(
        ("context", "message"),
        [
            ({}, "at least two classes, got 0"),
            ({"a": TARGETS}, "at least two classes, got 1"),
            ({"a": TARGETS, "b": []}, "class 'b' needs at least one image, got none"),
            ({"a": TARGETS, NONE: TARGETS}, "other than 'none of these'"),
            ({"a": TARGETS, 7: TARGETS}, "must be a text"),
            ({"a": TARGETS, "b": ["nowhere/photo.jpg"]}, "nowhere/photo.jpg: the image cannot be read"),
        ],
    )
    def test_contexts_that_cannot_be_learned(self, context: dict[Any, Any], message: str) -> None:
        with pytest.raises(DataError, match=message):
            made("protonets", "LN").adapt_to(context, GREY)

    def test_images_of_another_size_than_the_nets(self) -> None:
        with pytest.raises(
            ValueError, match=r"made for images of shape \(1, 28, 28\), got images of shape \(3, 20, 20\)"
        ):
            made("protonets", "LN").adapt_to(CONTEXT, Preparation(size=20, channels=3))


def rewritten(
    path: Path, change: dict[str, Any], tensors: dict[str, Tensor | None] | None = None, sign: bool = True
) -> None:
    """Change what a file says and holds, and mend its checksum."""
    with safe_open(path, "pt") as file:
        said = json.loads(file.metadata()["about"])
        content = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    content |= tensors or {}
    content = {name: tensor for name, tensor in content.items() if tensor is not None}
    for place, value in change.items():
        *outer, last = place.split(".")
        target = said
        for key in outer:
            target = target[key]
        target[last] = value
    text = json.dumps(said)
    if sign:
        with suppress(ValueError):  # the schema alone refuses it
            text = About.model_validate_json(text).signed(content).model_dump_json()
    path.write_bytes(safetensors.torch.save(content, {"about": text}))


IMAGES, LABELS = torch.zeros(7, 1, 28, 28, dtype=torch.uint8), torch.tensor([0, 0, 1, 2, 2, 2, 3])
HUGE = 2**40


class TestDamagedFiles:
    @pytest.mark.parametrize(
        ("learner", "change", "tensors", "message"),
        [
            ("protonets", {"format": "tasknorm predictor 3"}, {}, "its format must be .* 2.*, got .*3"),
            ("protonets", {"names": ["a"] * 4}, {}, "about.names: damaged, the names of classes must be different"),
            ("protonets", {"names": ["a", "b"]}, {}, "about.names: damaged, each of the 4 classes needs a name"),
            ("protonets", {"names": ["a", "b", "c", NONE]}, {}, "about.names: damaged"),
            ("protonets", {"label": "transductive"}, {}, "about.label: damaged, its norms are non-transductive"),
            ("protonets", {"net": None}, {}, "does not say how its net is made"),
            ("protonets", {"net.name": "vgg"}, {}, "about.net: damaged, no such net can be made"),
            ("protonets", {"net.name": "resnet18"}, {}, "about.net: damaged, no such net can be made"),
            ("protonets", {"net.filters": 60000}, {}, "does not fit this net"),
            ("protonets", {"net.filters": HUGE}, {}, "about.net.filters: damaged"),
            ("protonets", {"net.image_shape": [1, 28, 64]}, {}, "classifier is for other features than the net's"),
            ("protonets", {"net.image_shape": [1, HUGE, HUGE]}, {}, "about.net.image_shape.1: damaged"),
            ("protonets", {"net.image_shape": [1, 28]}, {}, "about.net.image_shape"),
            ("maml", {"net.way": 60000}, {}, "does not fit this net"),
            ("protonets", {"norm.label": "LN"}, {}, "no such net can be made"),
            ("protonets", {"norm.label": "magic"}, {}, "no such net can be made"),
            ("protonets", {"norm.device": "cuda"}, {}, "about.norm.device: damaged"),
            ("protonets", {"norm.eps": "x"}, {}, "about.norm.eps: damaged"),
            ("protonets", {"norm.alpha": "magic"}, {}, "no such net can be made"),
            ("protonets", {"norm.num_groups": 2}, {}, "no such net can be made"),
            ("protonets", {"norms": "LN"}, {}, "holds a net with norms LN"),
            ("protonets", {"classifier": [4, 5]}, {}, r"the classifier must be \(4, 5\), got \(4, 6\)"),
            (
                "protonets",
                {"preparation.size": 32},
                {},
                r"about.preparation: damaged, images must have shape \(1, 28, 28\)",
            ),
            ("protonets", {"preparation.size": HUGE}, {}, "about.preparation.size: damaged"),
            ("protonets", {"calibration.temperature": 0}, {}, "about.calibration.temperature: damaged"),
            ("protonets", {"calibration.threshold": 2}, {}, "about.calibration.threshold: damaged"),
            ("protonets", {"more": 1}, {}, "about.more: damaged"),
            ("protonets", {"kept": None}, {}, "context: damaged, images and labels are there if it was kept"),
            ("cnaps", {"kept": None}, {}, "the context was forgotten, and this is needed only with it"),
            ("maml", {"kept": {"norm": None, "own": {}}}, {}, "'MAML' keeps no context"),
            ("protonets", {"learner": "Magic"}, {}, "'Magic' keeps no context"),
            ("protonets", {"learner": "CNAPs"}, {}, "about.kept: damaged|does not fit this learner"),
            ("cnaps", {"kept.own.encoder_filters": 9}, {}, "does not fit this learner: 'learner."),
            ("cnaps", {"kept.own.encoder_filters": HUGE}, {}, "does not fit|no such learner can be made"),
            ("cnaps", {"kept.own": {"magic": 1}}, {}, "no such learner can be made"),
            ("cnaps", {"kept.norm.label": "CBN"}, {}, "does not fit this learner|no such learner"),
            ("protonets", {}, {"context.images": None}, "images and labels are there"),
            ("protonets", {}, {"context.images": IMAGES.float()}, "context.images: damaged, images must be bytes"),
            ("protonets", {}, {"context.images": IMAGES.reshape(7, 1, 14, 56)}, "context.images: damaged, images"),
            ("protonets", {}, {"context.images": IMAGES[:5]}, "each image needs a label"),
            ("protonets", {}, {"context.labels": LABELS + 1}, "each of the 4 classes needs an image, and no other"),
            ("protonets", {}, {"context.labels": LABELS.float()}, "each image needs a label"),
            ("protonets", {}, {"learner.more": torch.ones(1)}, "'learner.more' is not of this learner"),
            ("protonets", {}, {"net.more": torch.ones(1)}, "'net.more' is not of this net"),
            ("protonets", {}, {"more": torch.ones(1)}, "'more' is not of this net"),
            ("protonets", {}, {"net.blocks.0.conv.bias": torch.full((6,), torch.inf)}, "not all numbers are finite"),
            ("protonets", {}, {"net.blocks.0.conv.bias": torch.ones(6).to(torch.float8_e5m2)}, "does not fit this net"),
            ("protonets", {}, {"net.blocks.0.conv.bias": torch.ones(6).double()}, "of one dtype"),
        ],
    )
    def test_one_clear_error(self, learner: str, change: dict, tensors: dict, message: str, tmp_path: Path) -> None:
        path = saved(predictor(learner), tmp_path)
        rewritten(path, change, tensors)
        with pytest.raises(WeightsError, match=message) as error:
            Predictor.load(path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)

    def test_a_changed_file_has_a_wrong_checksum(self, tmp_path: Path) -> None:
        path = saved(predictor(), tmp_path)
        content = bytearray(path.read_bytes())
        for at in (len(content) - 1, len(content) - 3000, len(content) - 6000):
            damaged = content.copy()
            damaged[at] ^= 1
            path.write_bytes(damaged)
            with pytest.raises(WeightsError, match=r"its checksum is wrong; save it again|damaged"):
                Predictor.load(path)
        path.write_bytes(content)
        rewritten(path, {"calibration.temperature": 1.5}, sign=False)
        with pytest.raises(WeightsError, match="its checksum is wrong"):
            Predictor.load(path)

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"format": "tasknorm predictor 2"}', "[" * 9999])
    def test_no_description(self, text: str, tmp_path: Path) -> None:
        (tmp_path / "p").write_bytes(safetensors.torch.save({"weight": torch.ones(2, 2)}, {"about": text}))
        with pytest.raises(WeightsError, match=r"about.*damaged"):
            Predictor.load(tmp_path / "p")

    def test_a_run_is_no_predictor(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match="is a folder, and a predictor is a file; make one from a run's folder"):
            Predictor.load(tmp_path)


def test_names_stay_in_the_order_of_the_logits(tmp_path: Path) -> None:
    context = {str(number): CONTEXT["b"] for number in range(12)}
    one = made("protonets", "LN").adapt_to(context | {"10": drawings(3, 0)}, GREY)
    loaded = Predictor.load(saved(one, tmp_path))
    assert loaded.names == tuple(map(str, range(12)))
    assert loaded.classify([np.asarray(drawings(3, 0)[0])])[0].name == "10"
