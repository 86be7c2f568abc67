"""The benchmarks run, and the pages say what they measured; how fast is not tested, machines differ."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import layers
import memory
import tasknorm

ROOT = Path(__file__).parents[1]


def measured(name: str, *words: str) -> dict[str, Any]:
    """What a benchmark prints as JSON."""
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_layers_reports_every_norm() -> None:
    ratios = measured("layers", "--quick", "--eager")["ratios"]
    assert set(ratios) == {*tasknorm.NORMS, "transcription"}
    assert all(value > 0 for modes in ratios.values() for value in modes["eager"].values())


def test_sampling_reports_episodes_and_images_per_second() -> None:
    found = measured("sampling", "--seconds", "0.05", "--classes", "20")
    assert set(found) == {"fixed_from_cache", "variable_from_cache", "variable_from_records"}
    assert all(value["episodes_per_second"] > 0 for value in found.values())
    assert all(value["images_per_second"] > 0 for value in found.values())


def test_episode_compares_a_joint_pass_with_two() -> None:
    found = measured("episode", "--repeats", "1")
    assert all(found[learner]["ratio_to_two_passes"] > 0 for learner in ("protonets", "cnaps"))


def test_compare_says_how_its_time_was_spent_and_what_it_tells_apart() -> None:
    found = measured("compare", "--seeds", "2", "--iterations", "1", "--tasks", "1")
    assert sum(found["shares"].values()) == pytest.approx(1, abs=0.01)
    assert set(found["shares"]) == {"training", "validation", "test", "audit", "other"}
    assert len(found["apart"]) == 3


@pytest.mark.realdata
def test_pretrained_tests_a_norm_before_and_after_tuning(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKNORM_DATA", str(data_root))
    found = measured("pretrained", "--out", str(tmp_path), "--norms", "Baseline", "--tasks", "1", "--iterations", "1")
    rows = found["norms"]["Baseline"]
    assert all(cell["difference"]["mean"] == 0 for cell in rows["start"].values())  # batch norm itself
    assert set(rows["tuned"]) == set(found["as it was"])
    assert rows["candidates"][0] in ("as it was", "start", "iteration 1")


def test_the_readmes_table_is_what_make_demo_printed() -> None:
    printed = (ROOT / "results" / "demo.txt").read_text()
    assert f"```\n{printed.strip()}\n```" in (ROOT / "README.md").read_text()


def test_the_fall_of_tbn_on_the_pages_is_what_make_demo_printed() -> None:
    (row,) = re.findall(r"^ TBN +([\d.]+)±[\d.]+ +([\d.]+)±", (ROOT / "results" / "demo.txt").read_text(), re.MULTILINE)
    together, alone = row
    assert f"reaches {together} % if all targets are predicted in one batch and {alone} %" in told("docs/index.md")
    assert f"has {together} % with all targets at once, and {alone} %" in told("docs/concepts/transduction.md")


@pytest.mark.usefixtures("glyph_cache")
def test_serve_compares_batched_with_unbatched_requests_and_a_plain_loop() -> None:
    (found,) = measured("serve", "--seconds", "0.3", "--nets", "Conv-4").values()
    for service in ("one client", "batched", "unbatched", "plain loop", "overload"):
        assert all(found[service][number] > 0 for number in ("requests_per_second", "p50_ms", "p99_ms"))
    assert found["batched_to_unbatched"] > 0
    assert found["overload"]["failed"] == 0


def test_batching_pays_as_it_was_measured() -> None:
    found = json.loads((ROOT / "results" / "serve.json").read_text())
    assert max(net["batched_to_unbatched"] for net in found.values()) >= 1.5
    for net in found.values():  # at four times the load: most are turned away, and the admitted ones need not wait
        assert net["overload"]["turned_away"] > 0.5
        assert net["overload"]["failed"] == 0


def test_damaged_requests_did_no_harm_when_it_was_measured() -> None:
    found = json.loads((ROOT / "results" / "serve_fuzz.json").read_text())
    assert found["requests"] >= 10_000
    assert not found["wrong"]
    assert max(found["resident_megabytes"]) <= found["resident_megabytes"][0] + 40


def told(page: str) -> str:
    """A page of the project as one line."""
    return " ".join((ROOT / page).read_text().split())


def test_the_speeds_of_layers_are_those_that_were_measured() -> None:
    ratios = json.loads((ROOT / "results" / "layers.json").read_text())["ratios"]
    assert layers.table(ratios) in (ROOT / "docs" / "fast.md").read_text()
    compiled = ratios["TaskNorm-I"]["compiled"]
    assert (
        f"TaskNorm-I takes {compiled['time']:.2f} of the time of `nn.BatchNorm2d` and {compiled['memory']:.2f} of"
        in told("README.md")
    )


def test_the_speed_of_maml_is_what_was_measured() -> None:
    found = json.loads((ROOT / "results" / "maml.json").read_text())
    first, task_norm, second = (found[name] for name in ("first_order", "first_order_task_norm", "second_order"))
    page = told("docs/fast.md")
    for name, row in (("first | TBN", first), ("first | TaskNorm-I", task_norm)):
        assert f"| {name} | {row['ratio_to_best_peer_eager']} | {row['ratio_to_best_peer']} |" in page
    assert f"| second | TBN | {second['ratio_to_best_peer_eager']} | — |" in page
    for name, speed in second["tasks_per_second"].items():
        assert f"| {name} | {speed} | {second['megabytes'][name]} |" in page
    assert f"MAML with TaskNorm-I runs at {task_norm['ratio_to_best_peer']} times the speed" in told("README.md")
    assert (
        f"batch norm at {first['ratio_to_best_peer']} times in first and {second['ratio_to_best_peer']} times in second"
        in told("README.md")
    )


def test_maml_is_as_fast_as_it_was_measured_to_be() -> None:
    found = json.loads((ROOT / "results" / "maml.json").read_text())
    first, task_norm, second = (found[name] for name in ("first_order", "first_order_task_norm", "second_order"))
    for row, eager, compiled in ((first, 2.6, 3), (task_norm, 2.6, 3)):
        assert row["ratio_to_best_peer_eager"] >= eager
        assert row["ratio_to_best_peer"] >= compiled
    assert second["ratio_to_best_peer"] >= 1.4
    assert second["memory_ratio_to_best_peer"] <= 2
    assert all(row["gradient_difference"] < 1e-10 for row in (first, task_norm, second))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_measures_both_steps_in_processes_of_their_own(tmp_path: Path) -> None:
    words = ("--sizes", "10", "--learners", "protonets", "--nets", "resnet-small", "--adapt", "20", "--chunk", "2")
    found = measured("memory", *words, "--kept", str(tmp_path / "kept.json"))
    assert set(found["protonets"]["resnet-small"]) == {"plain", "chunked"}
    plain = found["protonets"]["resnet-small"]["plain"]
    assert [size for size, megabytes in plain.items() if megabytes is not None] == ["10"]
    assert found["adapt"]["20"] > 0
    assert found == measured("memory", *words, "--kept", str(tmp_path / "kept.json"))  # nothing is measured again


def test_large_contexts_take_as_little_memory_as_they_should() -> None:
    found = json.loads((ROOT / "results" / "memory.json").read_text())
    small = found["cnaps"]["resnet-small"]
    assert small["chunked"]["500"] <= 1200
    assert (small["chunked"]["1000"] - small["chunked"]["500"]) / 500 <= 1.5
    assert small["time_ratio"] <= 2.3
    for learner in ("cnaps", "protonets"):
        for rows in found[learner].values():
            largest = max(rows["plain"], key=lambda size: (rows["plain"][size] or 0, int(size)))
            assert rows["chunked"][largest] < rows["plain"][largest]
    assert found["adapt"]["10000"] <= 1.5 * found["adapt"]["1000"]


def test_the_page_on_large_contexts_says_what_was_measured() -> None:
    found = json.loads((ROOT / "results" / "memory.json").read_text())
    text = (ROOT / "docs" / "large_contexts.md").read_text()
    assert memory.table(found) in text
    assert memory.adapt_words(found) in " ".join(text.split())
    small = found["cnaps"]["resnet-small"]
    chunked, plain = small["chunked"]["500"], small["plain"]["500"]
    assert f"takes {chunked:,} MB rather than {plain:,}, and {small['time_ratio']} times as long" in told(
        "docs/fast.md"
    )
    assert f"takes {chunked:,} MB in chunks, not {plain:,}" in told("README.md")
