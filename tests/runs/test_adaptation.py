"""A run put to use: adapted to new classes, calibrated, and as accurate as its evaluation says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from support.photos import write_photos
from support.runs import run, tiny
from tasknorm.data import Episodes, Prepared
from tasknorm.episode import Episode
from tasknorm.errors import DataError, SettingsError, WeightsError
from tasknorm.evaluation import predictions
from tasknorm.learners import NONE, Predictor, calibration_error, negative_log_likelihood
from tasknorm.runs import Adapter, adapted, evaluated
from tasknorm.runs.calibration import read_calibration
from tasknorm.runs.meta_test import chosen_step, settings_of
from tasknorm.runs.parts import _opened, images_of, opened_once, sampler_of, task_of
from tasknorm.settings import Settings
from tasknorm.training import RunFolder

pytestmark = pytest.mark.usefixtures("glyph_cache")
TASKS = 5


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished runs on glyphs: `tbn`, which serves CBN and RN too, `maml` and `tasknorm`."""
    folder = tmp_path_factory.mktemp("runs")
    run(tiny(norm="TBN", shot=2), folder / "tbn")
    run(tiny(learner="maml", norm="TaskNorm-I", test_steps=3, inner_lr=0.1, shot=2), folder / "maml")
    run(
        tiny(norm="TaskNorm-I", shot=2, iterations=60, train_way=10, filters=16, validation_tasks=40),
        folder / "tasknorm",
    )
    return folder


@pytest.fixture
def copied(runs: Path, tmp_path: Path) -> Path:
    """A copy of the folder of runs that a test may change."""
    shutil.copytree(runs, tmp_path / "runs")
    return tmp_path / "runs"


def test_episode(settings: Settings, number: int) -> Episode:
    """A test task as `evaluate` draws it, in bytes."""
    source = opened_once(settings.source)
    return Episodes(images_of(source, settings.image_size, 1), sampler_of(settings, source.spec, "test"), 0)[number]


test_episode.__test__ = False


def by_class(task: Episode) -> dict[str, Prepared]:
    return {f"class {c}": Prepared(task.context_x[task.context_y == c]) for c in range(task.way)}


@pytest.mark.parametrize(("name", "norm"), [("tbn", "TBN"), ("tbn", "CBN"), ("tbn", "RN"), ("maml", "TaskNorm-I")])
def test_predictions_are_those_of_the_evaluation(runs: Path, name: str, norm: str) -> None:
    settings, adapt = settings_of(RunFolder(runs / name)), Adapter(runs / name, norm)
    right: dict[str, list[float]] = {"example": [], "all": []}
    for number in range(TASKS):
        task = test_episode(settings, number)
        predictor = adapt(by_class(task))
        for targets, accuracies in right.items():
            answers = predictor.classify(Prepared(task.target_x), together=targets == "all", none_below=0)
            classes = [predictor.names.index(answer.name) for answer in answers]
            accuracies.append((torch.tensor(classes) == task.target_y).double().mean().item())
    for row in evaluated(runs / name, list(right), norm, TASKS, 0):
        if row.weights == "best":
            assert sum(right[row.targets]) / TASKS == pytest.approx(row.accuracy.mean, abs=1e-9)


class TestCalibration:
    def test_it_is_kept_with_the_run(self, runs: Path) -> None:
        found = read_calibration(RunFolder(runs / "tbn"))
        assert found is not None
        assert list(found.norms) == ["TBN", "CBN", "RN"]
        assert found.norms["TBN"].example != found.norms["TBN"].all  # transductive
        assert found.norms["CBN"].example == found.norms["CBN"].all
        assert found.norms["CBN"].all.way == 5
        assert found.norms["CBN"].all.tasks == 4
        predictor = adapted(runs / "tbn", by_class(test_episode(settings_of(RunFolder(runs / "tbn")), 0)))
        assert predictor.calibration == found.norms["TBN"].example
        assert predictor.calibration_together == found.norms["TBN"].all
        assert predictor.preparation == found.preparation

    def test_mamls_step_is_the_one_that_is_evaluated(self, runs: Path) -> None:
        settings, adapt = settings_of(RunFolder(runs / "maml")), Adapter(runs / "maml")
        assert adapt.learner.test_steps == read_calibration(RunFolder(runs / "maml")).norms["TaskNorm-I"].step
        adapt.learner.test_steps = 3
        assert read_calibration(RunFolder(runs / "maml")).norms["TaskNorm-I"].step == chosen_step(
            adapt.learner, settings
        )

    def test_it_holds_on_fresh_tasks(self, runs: Path) -> None:
        """Other tasks of the validation classes: better probabilities, and one known image in twenty is rejected."""
        settings, adapt = settings_of(RunFolder(runs / "tasknorm")), Adapter(runs / "tasknorm")
        fresh = task_of(settings, "valid", seed=settings.seed + 1)
        found = list(predictions(adapt.learner, fresh, range(150)))
        logits, labels = torch.cat([logits[0] for *_, logits in found]), torch.cat([labels for _, labels, _ in found])
        kept = read_calibration(RunFolder(runs / "tasknorm")).norms["TaskNorm-I"].example
        after, before = kept.probabilities(logits), kept.model_copy(update={"temperature": 1.0}).probabilities(logits)
        assert negative_log_likelihood(after, labels) < negative_log_likelihood(before, labels)
        assert calibration_error(after, labels) < max(0.03, calibration_error(before, labels))
        assert (after.amax(-1) < kept.threshold).double().mean() == pytest.approx(0.05, abs=0.025)

    @pytest.mark.parametrize("damage", ["missing", "empty", "other", "stale", "deep"])
    def test_it_is_made_again_where_it_is_missing_or_of_other_weights(self, copied: Path, damage: str) -> None:
        files = RunFolder(copied / "tbn")
        task, of_run = by_class(test_episode(settings_of(files), 0)), json.loads(files.calibration.read_text())
        files.calibration.unlink()
        adapted(copied / "tbn", task)
        before = json.loads(files.calibration.read_text())
        # Weights that were read lie otherwise in memory than trained ones, and some processors then round otherwise:
        # what TBN makes of one image's small maps is rounding errors divided by their deviation.
        for made, again in zip(of_run["norms"]["TBN"].values(), before["norms"]["TBN"].values(), strict=True):
            assert made == again or made["temperature"] == pytest.approx(again["temperature"], rel=1e-3)
        if damage == "missing":
            files.calibration.unlink()
        elif damage == "stale":
            other = json.loads(files.calibration.read_text())
            other["norms"]["TBN"] |= {"weights": "0" * 64, "example": {"temperature": 9.0}}
            files.calibration.write_text(json.dumps(other))
        else:
            files.calibration.write_text({"empty": "", "other": '{"norms": 3}', "deep": "[" * 99_999}[damage])
        expected = before["norms"]["TBN"]["example"]["temperature"]
        assert adapted(copied / "tbn", task).calibration.temperature == pytest.approx(expected)
        assert json.loads(files.calibration.read_text())["norms"]["TBN"] == before["norms"]["TBN"]

    def test_a_run_that_goes_on_is_calibrated_again(self, copied: Path) -> None:
        files = RunFolder(copied / "tbn")
        before = read_calibration(files)
        run(settings_of(files).with_length(20), copied / "tbn")
        after = read_calibration(files)
        assert before.norms["TBN"].weights != after.norms["TBN"].weights
        adapted(copied / "tbn", by_class(test_episode(settings_of(files), 0)))
        assert read_calibration(files) == after


class TestPhotos:
    """Runs on a folder of one's own: 8 classes to train on, and none or three to validate on."""

    @pytest.fixture
    def photos(self, tmp_path: Path) -> Path:
        write_photos(tmp_path / "photos", {f"class {c}": 20 * c for c in range(11)}, 5)
        return tmp_path / "photos"

    def settings(self, photos: Path, valid: int, **changes) -> Settings:
        names = sorted(path.name for path in photos.iterdir())
        splits = {"train": names[:8], "valid": names[8 : 8 + valid]}
        photos.with_name("photos.splits.json").write_text(json.dumps(splits))
        options = {"source": f"folder:{photos}", "image_size": 20, "train_way": 4, "way": 3, "shot": 2, "scale": "unit"}
        return tiny(**options | {"iterations": 2, "test_tasks": 0, "validate_every": 0} | changes)

    def test_without_validation_classes(self, photos: Path, tmp_path: Path) -> None:
        run(self.settings(photos, 0), tmp_path / "run")
        predictor = adapted(tmp_path / "run", {"a": [photos / "class 0/00.jpg"], "b": [photos / "class 1/01.png"]})
        assert (predictor.calibration.temperature, predictor.calibration.threshold) == (1.0, None)
        assert predictor.preparation.resize == "antialiased"
        assert NONE not in {answer.name for answer in predictor.classify(sorted(photos.glob("*/*")))}

    def test_the_data_may_go_once_the_run_is_calibrated(self, photos: Path, tmp_path: Path) -> None:
        run(self.settings(photos, 3), tmp_path / "run")
        new = {"a": [photos / "class 0/00.jpg"], "b": [photos / "class 1/01.png", photos / "class 1/02.jpg"]}
        new = {name: [path.read_bytes() for path in paths] for name, paths in new.items()}
        before = adapted(tmp_path / "run", new)
        assert before.calibration.threshold is not None
        shutil.rmtree(photos)
        _opened.cache_clear()
        again = adapted(tmp_path / "run", new)
        assert again.calibration == before.calibration
        torch.testing.assert_close(again(before.preparation(new["a"])), before(before.preparation(new["a"])))
        (tmp_path / "run" / "calibration.json").unlink()
        with pytest.raises(DataError, match=r"how the run's images are prepared follows from its data; .*photos"):
            adapted(tmp_path / "run", new)


class TestWhatCannotBe:
    def test_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="no finished training in this folder"):
            adapted(tmp_path, {})

    def test_a_norm_of_another_training(self, runs: Path) -> None:
        with pytest.raises(
            SettingsError, match="norm=LN contradicts the run, which trained CBN and serves TBN, CBN, RN"
        ):
            adapted(runs / "tbn", {}, norm="LN")

    def test_damaged_weights(self, copied: Path) -> None:
        (copied / "tbn" / "best.safetensors").write_bytes(b"no weights")
        with pytest.raises(WeightsError, match=r"best.safetensors: damaged"):
            adapted(copied / "tbn", {})

    def test_mamls_way_is_fixed(self, runs: Path) -> None:
        task = by_class(test_episode(settings_of(RunFolder(runs / "maml")), 0))
        task.pop("class 4")
        with pytest.raises(DataError, match="MAML's classifier was trained for 5 classes, got 4"):
            adapted(runs / "maml", task)


def test_any_way_and_unequal_shots(runs: Path, tmp_path: Path) -> None:
    task = test_episode(settings_of(RunFolder(runs / "tbn")), 0)
    context = {"one": Prepared(task.context_x[:1]), "two": Prepared(task.context_x[2:6])}
    predictor = adapted(runs / "tbn", context, norm="RN", forget=True)
    predictor.save(tmp_path / "p.safetensors")
    assert Predictor.load(tmp_path / "p.safetensors").classify(Prepared(task.target_x)) == predictor.classify(
        Prepared(task.target_x)
    )
