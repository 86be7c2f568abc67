"""`tasknorm compare`: the main job, from the command to the table, by real processes that are also killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from support.data_files import write_pets
from support.own_network import MINE, write_place
from support.runs import ended, run, started
from tasknorm.cli import app
from tasknorm.compare.comparing import _Job
from tasknorm.compare.presets import COMPARED, settings_of
from tasknorm.compare.rounds import Plan, planned
from tasknorm.errors import SettingsError
from tasknorm.report import Comparison
from tasknorm.runs import evaluated, parts, read_record
from tasknorm.runs.parts import learner_of, task_of
from tasknorm.settings import Settings

NORMS = ["TBN", "LN", "TaskNorm-I"]
TRAINED = ["maml-CBN", "maml-LN", "maml-TaskNorm-I"]  # TBN, CBN and RN share a training
ASKED = ("--norms", ",".join(NORMS), "--iterations", "12", "--tasks", "4", "--processes", "2")
TIMES = re.compile(r"\d+(\.\d+)? (ms|s|min)\b|\d+\.\d\n|\s+\d+\.\d\s*$", re.MULTILINE)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals")


def start(folder: Path, *words: object) -> subprocess.Popen[str]:
    return started("compare", *words, "--out", folder, COLUMNS="120")


def compare(folder: Path, *words: object) -> tuple[int, str, str]:
    return ended(start(folder, *words))


def here(folder: Path, *words: object) -> tuple[int, str, str]:
    """As `compare`, the command itself in this process."""
    done = CliRunner().invoke(app, ["compare", *map(str, words), "--out", str(folder)])
    return done.exit_code, done.stdout, done.stderr


def untimed(printed: str, folder: Path) -> str:
    """What was printed without its times and its folder, which alone may differ from one time to the next."""
    lines = [line for line in printed.splitlines() if not re.search(r"takes .* ms for a test task", line)]
    return TIMES.sub("", "\n".join(lines).replace(shlex.quote(str(folder)), "FOLDER").replace(str(folder), "FOLDER"))


def weights(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("model.safetensors"))}


def accuracies(folder: Path) -> dict[str, list[dict[str, object]]]:
    found = sorted(folder.rglob("result.json"))
    return {str(path.parent.relative_to(folder)): json.loads(path.read_text())["accuracies"] for path in found}


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not reached():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def workers(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [int(pid) for pid, of, words in rows if int(of) == parent and "tasknorm.cli.worker" in words]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of a small comparison, and what it printed on both streams."""
    folder = tmp_path_factory.mktemp("compare") / "with spaces ü"
    code, out, err = compare(folder, *ASKED, "--seeds", 2)
    assert code == 0, err
    return folder, out, err


def test_the_table_has_every_norm_with_its_label_and_a_verdict(compared: tuple[Path, str, str]) -> None:
    folder, out, err = compared
    table = [line.split() for line in out.splitlines() if line.startswith(" ")]
    lines = {words[0]: words for words in table if words and words[0] in NORMS}
    assert {norm: "yes" in words for norm, words in lines.items()} == {"TBN": True, "LN": False, "TaskNorm-I": False}
    assert "MAML on glyphs, 5-way 1-shot, 2 seeds: accuracy in % by how targets arrive" in out
    assert re.search(r"^Use (TaskNorm-I|LN)", out, re.MULTILINE)
    assert "TBN peeks at the other targets: " in out
    assert str(folder / "report.html") in out
    assert (folder / "report.html").is_file()
    told = err.splitlines()
    assert [line.split(" done after ")[0] for line in told] == ["seed 1 of 2", "seed 2 of 2"]  # a line a round
    assert all("accuracy in %: " in line for line in told)


def test_what_is_shown_is_what_was_measured_and_nothing_is_tested_twice(compared: tuple[Path, str, str]) -> None:
    folder, out, _ = compared
    assert sorted(str(p.parent.relative_to(folder)) for p in folder.rglob("result.json")) == [
        f"seed{seed}/{name}" for seed in (0, 1) for name in TRAINED
    ]
    rounds = [[read_record(folder / f"seed{seed}" / name) for name in TRAINED] for seed in (0, 1)]
    found = Comparison(rounds, NORMS)
    for norm in NORMS:
        assert str(found.accuracy(norm)).replace(" ", "") in out
    tested = [(row.weights, row.norm, row.targets) for row in rounds[0][0].results]
    assert tested == [
        ("final", "CBN", "all"),
        *(("final", "TBN", come) for come in ("all", "example", "class")),
        ("final", "RN", "all"),
    ]
    for records in rounds:
        for record in records:
            assert record.result["audited"] == 2
            assert set(record.result["spent"]) == {"training", "validation", "test", "audit"}
            assert record.result["threads"] == [1]


def test_a_run_of_a_worker_is_what_train_makes_of_the_same_settings(
    compared: tuple[Path, str, str], tmp_path: Path
) -> None:
    """The last run of a process that has done others before: bit for bit a run of its own."""
    folder, _, _ = compared
    for name in ("seed1/maml-TaskNorm-I", "seed1/maml-CBN"):
        record = read_record(folder / name)
        alone = run(record.settings, tmp_path / name)
        assert alone["accuracies"] == record.result["accuracies"]
        assert (tmp_path / name / "model.safetensors").read_bytes() == (
            folder / name / "model.safetensors"
        ).read_bytes()
    rows = evaluated(folder / name, ["all", "example"], "CBN", 4, 1)
    measured = {row.targets: row.accuracy for row in rows if row.weights == "final"}
    assert measured["all"] == measured["example"] == record.results[0].accuracy  # as the audit proved


def test_norms_of_a_seed_share_weights_and_tasks_and_seeds_do_not() -> None:
    plan = Plan({"learner": "maml"}, ["LN", "TaskNorm-I"], Path("unused"))
    one, other, later = (
        plan.settings("maml", "LN", 0),
        plan.settings("maml", "TaskNorm-I", 0),
        plan.settings("maml", "LN", 1),
    )
    first = {
        settings.norm + str(settings.seed): learner_of(settings).net.state_dict() for settings in (one, other, later)
    }
    convolutions = [name for name, value in first["LN0"].items() if value.dim() == 4]
    assert convolutions
    for name in convolutions:
        assert torch.equal(first["LN0"][name], first["TaskNorm-I0"][name])
        assert not torch.equal(first["LN0"][name], first["LN1"][name])
    for split in ("train", "test"):
        seed = None if split == "train" else one.test_seed
        task = task_of(one, split, seed)(3)
        assert torch.equal(task.target_x, task_of(other, split, seed)(3).target_x)
        assert not torch.equal(task.target_x, task_of(later, split, later.test_seed)(3).target_x)


def test_asked_again_it_answers_at_once_and_more_seeds_go_on(compared: tuple[Path, str, str], tmp_path: Path) -> None:
    folder, out, _ = compared
    code, again, _ = compare(folder, *ASKED, "--seeds", 2)
    assert code == 0
    assert untimed(again, folder) == untimed(out, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("result.json")}
    code, more, _ = compare(folder, *ASKED, "--seeds", 3)
    assert code == 0
    assert "3 seeds" in more
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    code, fewer, _ = compare(folder, *ASKED, "--seeds", 2)
    assert untimed(fewer, folder) == untimed(out, folder)
    code, _, err = here(folder, *ASKED, "--shot", 2)
    assert code == 2
    assert "shot=2 contradicts the run in" in err
    code, _, err = here(folder, *ASKED, "--iterations", 13)
    assert code == 2
    assert "iterations=13 contradicts the comparison in" in err
    assert "whose trainings have 12; choose another --out" in err


def test_killed_and_gone_on_it_equals_one_that_was_never_killed(
    compared: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, out, _ = compared
    there = tmp_path / "killed"
    process = start(there, *ASKED, "--seeds", 2)
    wait_until(lambda: any(path.read_bytes().count(b"\n") > 2 for path in there.rglob("metrics.jsonl")), process)
    victim = workers(process.pid)[0]
    os.kill(victim, signal.SIGKILL)  # a worker: its run goes on in another one
    wait_until(lambda: len(workers(process.pid)) == 2 and victim not in workers(process.pid), process)
    wait_until(lambda: (there / "seed1").exists(), process)
    orphans = workers(process.pid)
    process.kill()  # the whole comparison
    process.communicate()
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in orphans) and time.monotonic() < end:
        time.sleep(0.01)
    code, told, err = compare(there, *ASKED, "--seeds", 2)
    assert code == 0, err
    assert untimed(told, there) == untimed(out, folder)
    mine = {name: value for name, value in weights(folder).items() if not name.startswith("seed2")}
    assert weights(there) == mine
    assert accuracies(there) == {
        name: rows for name, rows in accuracies(folder).items() if not name.startswith("seed2")
    }


def test_ctrl_c_after_a_round_leaves_its_table_and_page_and_a_budget_goes_on(tmp_path: Path) -> None:
    words = ("--norms", "LN,IN", "--iterations", 3, "--tasks", 2, "--processes", 1)
    process = start(tmp_path / "c", *words, "--seeds", 50)
    wait_until(lambda: (tmp_path / "c" / "report.html").exists(), process)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code == 130
    rounds = rounds_of(out)
    assert re.search(r"^ (LN|IN) +\d", out, re.MULTILINE)
    assert "the same command goes on with them" in err
    assert not workers(process.pid)
    code, out, err = compare(tmp_path / "c", *words, "--budget", 0.1)  # goes on if a round takes five seconds
    assert code == 0, err
    assert rounds_of(out) >= rounds
    code, out, err = compare(tmp_path / "c", *words, "--budget", 5, "--seeds", (more := rounds_of(out) + 1))
    assert code == 0, err
    assert rounds_of(out) == more


def rounds_of(printed: str) -> int:
    (found,) = re.findall(r"5-way 1-shot, (\d+) seeds?: accuracy", printed)
    return int(found)


def test_a_budget_buys_rounds_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    job = _Job(Plan({"learner": "maml"}, ["LN"], Path("unused")), 99, 2.0, 1, lambda found: None, time.monotonic())
    for begun, elapsed, fits in ((0, 1000, True), (1, 40, True), (1, 60, False), (2, 70, True), (3, 100, False)):
        job.begun = begun
        monkeypatch.setattr(time, "monotonic", lambda now=job.began + elapsed: now)
        assert job._in_time() is fits, (begun, elapsed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--norms", "TBN,Batch"), "unknown norm 'Batch'; known: "),
        (("--norms", "tasknorm-i"), "unknown norm 'tasknorm-i'; did you mean 'TaskNorm-I'?"),
        (("--norms", "TaskNorm"), "did you mean 'TaskNorm-I', 'TaskNorm-L' or 'TaskNorm-r'?"),
        (("--norms", "TBN,TBN"), "each norm to compare must be named once"),
        (("--norms", "Baseline"), "Baseline needs a pretrained network, and maml trains from scratch"),
        (("--learner", "reptile"), "learner must be one of"),
        (("--learner", "maml,maml"), "each learner must be named once"),
        (("--source", "nowhere"), "nowhere: there is no data set or path of this name"),
        (("--source", "folder:nowhere"), "nowhere: there is no folder or archive of this name; correct the path"),
        (("--way", "500"), "glyphs: comparing on 500-way tasks needs at least 1000 classes"),
    ],
)
def test_bad_questions_get_clear_answers(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    code, _, err = here(tmp_path / "new", *words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "new").exists()  # the corrected question is not refused


def test_an_old_comparison_of_one_seed_is_not_mixed_with_seeds(tmp_path: Path) -> None:
    (tmp_path / "maml-CBN").mkdir()
    (tmp_path / "maml-CBN" / "config.json").write_text("{}")
    code, _, err = here(tmp_path)
    assert code == 2
    assert "a comparison of an earlier version, with one training for each norm (maml-CBN, ...); choose another" in err


def test_any_of_the_twelve_norms_has_settings_and_the_same_ones_everywhere() -> None:
    for norm in (*COMPARED, "GN", "BRN", "TaskNorm-r"):
        settings = settings_of({"learner": "maml"}, norm)
        assert (settings.iterations, settings.filters) == (200, 32)
    assert settings_of({"learner": "cnaps", "pretrained": "x"}, "Baseline").norm == "Baseline"
    assert settings_of({"learner": "maml", "iterations": 7, "filters": 8}, "LN").filters == 8


def test_variants_of_maml_have_names_of_their_own() -> None:
    anil, steps = (settings_of({"learner": name, "seed": 3}, "LN") for name in ("anil", "maml-step-norms"))
    assert (anil.learner, anil.own.anil, anil.own.step_norms, anil.seed) == ("maml", True, None, 3)
    assert (steps.learner, steps.own.step_norms, steps.own.inner_steps) == ("maml", True, 3)
    assert [one.kind.title(one.own) for one in (anil, steps)] == ["ANIL", "MAML with step norms"]
    plan = Plan({"learner": "anil,maml"}, ["LN"], Path("x"))
    assert [run.name for run in plan.runs(0)] == ["seed0/anil-LN", "seed0/maml-LN"]


def test_the_guide_lists_the_presets() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guide.md").read_text()
    names = {"maml": "MAML", "anil": "ANIL", "maml-step-norms": "MAML with step norms"}
    for learner, label in (names | {"protonets": "ProtoNets", "cnaps": "CNAPs"}).items():
        settings = settings_of({"learner": learner, "pretrained": "x" if learner == "cnaps" else None}, "LN")
        assert f"| {label} | {settings.iterations} | {settings.meta_batch} |" in guide
        assert f"| {settings.learning_rate:g} |" in guide


# Own photos


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve classes of seven images: too few for 5-way tasks in splits of 70, 15 and 15 %."""
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    write_pets(tmp_path / "my photos", classes=12, images=7)
    (tmp_path / "my photos.splits.json").unlink()
    return tmp_path / "my photos"


SMALL = ("--iterations", "2", "--tasks", "2", "--processes", "2")


def test_all_learners_on_few_classes_in_folds(photos: Path, tmp_path: Path) -> None:
    source = ("--source", f"folder:{photos}", "--learner", "maml,protonets,cnaps,ncm")
    code, out, err = compare(tmp_path / "c", *SMALL, *source, "--norms", "TaskNorm-I")
    assert code == 0, err
    for learner in ("MAML", "ProtoNets", "CNAPs", "NCM"):
        assert f"{learner} on folder:my photos, 5-way 1-shot, 2 folds: accuracy in %" in out
    assert sorted(path.name for path in (tmp_path / "c").iterdir() if path.is_dir()) == ["fold1", "fold2"]
    configs = [read_record(tmp_path / "c" / f"fold{n}" / "maml-TaskNorm-I").settings for n in (1, 2)]
    tested = [set(task_classes_of(settings, "test")) for settings in configs]
    assert tested[0] | tested[1] == set(range(12))
    assert not tested[0] & tested[1]
    for settings, classes in zip(configs, tested, strict=True):
        assert not classes & set(task_classes_of(settings, "train"))
        assert not settings.validate_every
    page = (tmp_path / "c" / "report.html").read_text()
    assert all(learner in page for learner in ("MAML", "ProtoNets", "CNAPs", "NCM"))


def task_classes_of(settings: Settings, split: str) -> tuple[int, ...]:
    from tasknorm.data import folded
    from tasknorm.runs import opened_once

    return folded(opened_once(settings.source).spec, settings.fold).splits[split].classes


def test_too_few_classes_images_or_a_corrupt_image_are_clear_errors(photos: Path, tmp_path: Path) -> None:
    source = ("--source", f"folder:{photos}", "--norms", "LN,IN")
    code, _, err = here(tmp_path / "c", *SMALL, *source, "--way", 7)
    assert code == 2
    assert "comparing on 7-way tasks needs at least 14 classes, half of them to train and half to test, got 12; " in err
    assert "lower --way to 6, or add classes" in err
    code, _, err = here(tmp_path / "c", *SMALL, *source, "--shot", 3)
    assert code == 2
    assert "has 7 images, and a task needs 8 (3 shots and 5 targets)" in err
    (photos / "pet03" / "2.png").write_bytes(b"cut")
    parts._opened.cache_clear()  # as in another process
    code, _, err = here(tmp_path / "c", *SMALL, *source, "--learner", "protonets")
    assert code == 2
    assert "pet03/2.png" in err
    assert "--skip-bad" in err
    assert "Traceback" not in err
    code, out, err = here(tmp_path / "c", *SMALL, *source, "--learner", "protonets", "--skip-bad", "--seeds", 1)
    assert code == 0, err
    assert "left out: 1 image and 0 classes" in err
    assert "one fold cannot tell norms apart" in " ".join(out.split())


def test_folds_are_planned_only_where_splits_are_too_small(photos: Path, tmp_path: Path) -> None:
    question = {"learner": "protonets", "source": f"folder:{photos}", "shot": 1}
    assert planned(question | {"way": 2}, ["LN"], tmp_path).folds == 0
    assert planned(question | {"way": 3}, ["LN"], tmp_path).folds == 4
    assert planned(question | {"way": 6}, ["LN"], tmp_path).folds == 2
    assert planned({"learner": "protonets", "way": 5}, ["LN"], tmp_path).folds == 0
    with pytest.raises(SettingsError, match="each norm to compare must be named once"):
        planned(question, [], tmp_path)


def test_norms_are_compared_on_a_pretrained_network_tuned_and_untuned(tmp_path, monkeypatch):
    write_place(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKNORM_CACHE", str(tmp_path / "cache"))
    words = ["compare", "--net", MINE, "--source", "folder:photos", "--norms", "TaskNorm-r,TBN", "--way", "3"]
    words += ["--shot", "1", "--iterations", "2", "--tasks", "3", "--image-size", "32", "--seeds", "2"]
    result = CliRunner().invoke(app, [*words, "--out", "found"])
    assert result.exit_code == 0, result.output
    table = [line.split() for line in result.stdout.splitlines()]
    heading = next(line for line in table if line[:2] == ["norm", "untuned"])
    assert heading[:5] == ["norm", "untuned", "all", "example", "class"]
    for name in ("as", "TaskNorm-r", "TBN"):
        assert any(line and line[0] == name for line in table), result.stdout
    record = read_record(tmp_path / "found" / "seed1" / "protonets-TaskNorm-r")
    assert [row.weights for row in record.results if row.targets == "all"] == ["as it was", "start", "final"]
    assert "the network as it was" in result.stdout.lower()
    assert "series-as-it-was" in (tmp_path / "found" / "report.html").read_text()
