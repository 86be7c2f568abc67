"""The record of a run: what is written can be read, and times and curves come from the metrics."""

from __future__ import annotations

import json
import shutil

import pytest

from support.runs import run, tiny
from tasknorm.errors import SettingsError
from tasknorm.runs import Result, read_record, records
from tasknorm.runs.curves import curves

EMPTY = {
    "seconds": 0.0,
    "seconds_per_iteration": 0.0,
    "contexts": 0.0,
    "curve": {"iteration": [], "loss": [], "accuracy": [], "seconds": []},
    "validation": {"iteration": [], "seconds": [], "accuracy": {}},
    "alphas": [],
    "accuracies": [],
}
pytestmark = pytest.mark.usefixtures("glyph_cache")


def test_a_record_holds_all_that_tables_and_figures_need(tmp_path):
    settings = tiny(norm="TBN", test_targets="class,all", test_ways=[5, 8], test_tasks=2)
    run(settings, tmp_path / "b" / "run")
    record = read_record(tmp_path / "b" / "run")
    assert record.settings == settings
    rows = record.results
    assert [(row.weights, row.norm, row.way, row.targets) for row in rows] == [
        (weights, norm, way, targets)
        for weights in ("final", "best")
        for norm in ("TBN", "CBN", "RN")
        for way in (5, 8)
        for targets in ("all", "class")
    ]
    assert {(row.source, row.shot, row.tasks, row.step) for row in rows} == {("glyphs", 1, 2, None)}
    assert {row.norm for row in rows if row.label == "transductive"} == {"TBN"}
    assert set(record.result) == {
        "tasknorm",
        "torch",
        "threads",
        "seconds",
        "seconds_per_iteration",
        "seconds_per_test_task",
        "contexts",
        "curve",
        "validation",
        "alphas",
        "accuracies",
        "audited",
        "spent",
    }
    assert set(record.result["seconds_per_test_task"]) == {"TBN", "CBN", "RN"}
    assert record.result["contexts"] == 5
    assert record.result["validation"]["iteration"] == [5, 10, 12]
    assert {norm: len(values) for norm, values in record.result["validation"]["accuracy"].items()} == {
        "TBN": 3,
        "CBN": 3,
        "RN": 3,
    }
    assert record.result["alphas"] == []


def test_mamls_steps_and_alphas(tmp_path):
    run(tiny(learner="maml", test_tasks=2), tmp_path)
    record = read_record(tmp_path)
    for row in record.results:
        assert row.maximum in row.steps
        assert row.steps[row.step - 1] == row.accuracy
        assert Result.of_row(row.row()) == row
        assert Result.of_row(json.loads(json.dumps(row.row()))) == row
    alphas = record.result["alphas"]
    assert [alpha["layer"] for alpha in alphas] == [f"blocks.{i}.norm" for i in range(4)]
    assert all(alpha["scale"] is None and isinstance(alpha["offset"], float) for alpha in alphas)


def test_times_and_curves_come_from_the_metrics(tmp_path):
    lines = []
    for i in range(1, 451):
        line = {"iteration": i, "loss": 1.0 * i, "accuracy": 0.5, "context": 10 + i % 2}
        lines.append(line | {"learning_rate": 1e-3, "seconds": 0.5})
        if i % 150 == 0:
            accuracies = {"validation/LN": i / 1000, "validation/LN/a": 0.1, "validation/LN/b": 0.2}
            lines.append({"iteration": i} | accuracies | {"seconds": 10.0})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = curves(tmp_path)
    assert found["seconds"] == 450 * 0.5 + 30
    assert found["seconds_per_iteration"] == 0.5
    assert found["contexts"] == 10.5
    assert found["curve"]["iteration"] == list(range(3, 451, 3))
    assert found["curve"]["loss"] == list(range(2, 450, 3))
    assert found["curve"]["seconds"][-1] == 450 * 0.5 + 20  # the last validation comes after it
    assert found["validation"] == {
        "iteration": [150, 300, 450],
        "seconds": [85.0, 170.0, 255.0],
        "accuracy": {"LN": [0.15, 0.3, 0.45]},
        "sources": {"LN": {"a": [0.1] * 3, "b": [0.2] * 3}},
    }


def test_finished_runs_are_found_by_path(tmp_path):
    for name in ("b/two", "a", "unfinished"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(tiny().values()))
        if name != "unfinished":
            (folder / "result.json").write_text(json.dumps(EMPTY))
    shutil.copytree(tmp_path / "a", tmp_path / ".timing" / "a")  # what a killed grid may leave
    assert [record.folder for record in records(tmp_path)] == [tmp_path / "a", tmp_path / "b" / "two"]
    assert [record.folder for record in records(tmp_path / "a", tmp_path)] == [tmp_path / "a", tmp_path / "b" / "two"]
    with pytest.raises(SettingsError, match=r"no finished training in this folder \(no result\.json\)"):
        read_record(tmp_path / "unfinished")
    for damage, place in (
        ('{"final": {}}', "seconds: Field required"),
        (json.dumps(EMPTY | {"accuracies": [{"norm": "LN"}]}), "accuracies.0.accuracy: Field required"),
        (json.dumps(EMPTY | {"seconds": "long"}), "seconds: Input should be a valid number"),
        (json.dumps(EMPTY)[:-5], "Invalid JSON"),
        ("", "Invalid JSON"),
    ):
        (tmp_path / "a" / "result.json").write_text(damage)
        with pytest.raises(
            SettingsError, match=f"result.json: damaged .{place}.*; .tasknorm train --out .* --resume. tests"
        ):
            read_record(tmp_path / "a")
    shutil.copy(tmp_path / "b" / "two" / "result.json", tmp_path / "a" / "result.json")
    (tmp_path / "a" / "config.json").write_text('{"learner": "maml", "bogus": 1}')
    with pytest.raises(SettingsError, match=r"config.json: unknown setting .bogus."):
        read_record(tmp_path / "a")
