"""What is committed under `results/` can be read, is what its README says, and shows what we claim."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tasknorm.norms import NORMS
from tasknorm.report.average_rank import average_ranks
from tasknorm.report.claims import claims_table, findings
from tasknorm.report.places import KINDS, all_seeds, entries, ranked_rows
from tasknorm.report.published import published
from tasknorm.report.render import markdown
from tasknorm.report.seeds import mean_over_rows, paired
from tasknorm.report.write import all_tables
from tasknorm.runs import Record, read_record, records
from tasknorm.runs.meta_test import alphas_of, loaded
from tasknorm.settings.tuning import TUNING

RESULTS = Path(__file__).parent.parent / "results"
GUIDE = Path(__file__).parent.parent / "docs" / "guide.md"


def row(record: Record, norm: str, targets: str = "all") -> float:
    """The accuracy of the weights that did best on validation tasks, with the run's own way."""
    found = [
        each.accuracy.mean
        for each in record.results
        if (each.weights, each.norm, each.targets, each.way) == ("best", norm, targets, record.settings.way)
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("record", records(RESULTS), ids=lambda record: record.folder.name)
def test_every_record_has_its_test_tasks_and_labels(record: Record) -> None:
    assert {each.tasks for each in record.results} == {record.settings.test_tasks}
    for each in record.results:
        label, _, unaudited = each.label.partition(" (not audited: ")
        assert label == ("transductive" if each.norm == "TBN" else "non-transductive")
        by_running_moments = record.settings.learner == "maml" and each.norm in ("CBN", "BRN")
        assert not unaudited or by_running_moments  # of weights that no task uses: scores overflow


KEPT = sorted((RESULTS / "paper").glob("*/model.safetensors"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.parent.name)
def test_kept_weights_are_those_of_their_record(file: Path) -> None:
    record = read_record(file.parent)
    learner = loaded(record.settings, file, record.settings.norm, channels=3)  # raises unless all fit
    assert alphas_of(learner) == record.result["alphas"]


def test_kept_weights_are_few_and_small() -> None:
    assert KEPT
    assert sum(file.stat().st_size for file in KEPT) < 20e6


def test_the_readme_has_the_accuracies_of_the_records() -> None:
    text = (RESULTS / "README.md").read_text()
    for record in records(RESULTS / "accuracy"):
        for each in record.results:
            if each.weights == "best":
                assert str(each) in text


def test_the_readme_has_the_differences_of_trainings_with_the_same_seeds() -> None:
    text = " ".join((RESULTS / "README.md").read_text().split())
    found = paired(all_seeds(records(RESULTS / "paper"), "cnaps_meta_dataset"))
    assert found.keys() == {"TBN", "CBN", "RN", "MetaBN"}
    words = {column: mean_over_rows(rows).points.removeprefix("+") for column, rows in found.items()}
    assert f"ahead of RN by {words['RN']} points, of MetaBN by {words['MetaBN']}, of CBN by {words['CBN']}" in text
    assert f"and of TBN by {words['TBN']}" in text


def test_maml_on_omniglot() -> None:
    record = read_record(RESULTS / "accuracy" / "maml-omniglot-5-1-TaskNorm-I")
    assert (record.settings.norm, record.settings.own.first_order, record.settings.test_tasks) == (
        "TaskNorm-I",
        True,
        600,
    )
    assert record.result["seconds"] < 30 * 60
    assert row(record, "TaskNorm-I") >= 0.92


def test_with_tasknorm_not_a_single_prediction_of_maml_changes_when_targets_come_alone() -> None:
    record = read_record(RESULTS / "accuracy" / "maml-omniglot-5-1-TaskNorm-I")
    assert row(record, "TaskNorm-I", "example") == row(record, "TaskNorm-I", "class") == row(record, "TaskNorm-I")


def test_protonets_on_omniglot() -> None:
    record = read_record(RESULTS / "accuracy" / "protonets-omniglot-5-1-TaskNorm-L")
    validation = record.result["validation"]
    accuracies = validation["accuracy"]["TaskNorm-L"]
    assert validation["seconds"][accuracies.index(max(accuracies))] < 30 * 60  # when the best weights were there
    assert row(record, "TaskNorm-L") >= 0.975


def test_mamls_transductive_batch_norm_falls_to_near_chance_when_targets_come_alone() -> None:
    record = read_record(RESULTS / "paper" / "maml-omniglot-5-1-CBN")
    assert row(record, "TBN") > 0.9
    assert row(record, "TBN", "example") < 0.3
    assert row(record, "TBN", "class") < 0.3


def test_the_report_says_what_the_records_say() -> None:
    found = records(RESULTS / "paper")
    texts = {RESULTS / "report" / "claims.md": markdown(claims_table(findings(found)))}
    for table in all_tables(found):
        texts[RESULTS / "report" / "tables" / f"{table.name}.md"] = markdown(table)
    assert len(texts) == len(list((RESULTS / "report" / "tables").glob("*.md"))) + 1
    for path, text in texts.items():
        assert _lines(path.read_text(encoding="utf-8")) == _lines(text), path


def _lines(text: str) -> list[str]:
    """All but that of RN, which is computed anew and may round otherwise on another machine."""
    return [line for line in text.strip().splitlines() if "| RN is TaskNorm-I" not in line]


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_norm_of_a_table_was_trained_alike(name: str) -> None:
    lines = [line for line in entries(records(RESULTS / "paper"), name).values() if line]
    assert lines
    for line in lines:
        assert len({(e.record.settings.iterations, e.record.settings.meta_batch) for e in line.values()}) == 1


def ranks_of_the_guide() -> str:
    """The average rank of each norm in the paper's tables, ours and, in brackets, the paper's."""
    names = [name for name, kind in KINDS.items() if kind.alpha and name != "transduction_issues"]
    ours, theirs = {}, {}
    for name in names:
        scores = entries(records(RESULTS / "paper"), name).items()
        rows = {row: {norm: found.accuracy for norm, found in line.items()} for row, line in scores}
        theirs[name] = published()[name].average_rank
        ours[name] = average_ranks(ranked_rows(rows, theirs[name]).values())
    lines = ["| norm | " + " | ".join(KINDS[name].title for name in names) + " |", "|---" * (1 + len(names)) + "|"]
    for norm in (norm for norm in NORMS if norm in theirs["cnaps_meta_dataset"]):
        cells = (f"{ours[n][norm]:.1f} ({theirs[n][norm]:.1f})" if norm in ours[n] else "" for n in names)
        lines.append(f"| {norm}{', transductive' * NORMS[norm].transductive} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_guide_has_the_ranks_of_the_records() -> None:
    assert ranks_of_the_guide() in GUIDE.read_text(encoding="utf-8")


def test_the_page_on_transduction_counts_the_settings_in_which_tbn_fell() -> None:
    (found,) = re.findall(
        r"TBN collapses if targets come one example at a time .* true in (\d+ of \d+) cases",
        (RESULTS / "report" / "claims.md").read_text(encoding="utf-8"),
    )
    page = GUIDE.parent / "concepts" / "transduction.md"
    assert f"TBN fell in {found} settings" in " ".join(page.read_text(encoding="utf-8").split())


def test_the_page_recognises_drawings_as_the_learner_does_their_images() -> None:
    rows = json.loads((RESULTS / "drawings.json").read_text())["accuracies"]
    assert sum(row["targets"] for row in rows if row["norm"] == "TaskNorm-I") >= 300
    assert {row["shot"] for row in rows} == {1, 5}
    for row in rows:
        if row["norm"] == "TaskNorm-I":
            assert abs(row["page"] - row["images"]) <= 3, row
        line = f"| {row['norm']} | {row['shot']} | {row['targets']} | {row['page']} | {row['images']} |"
        assert line in (RESULTS.parent / "docs" / "play.md").read_text()


PRETRAINED = Path(__file__).parent.parent / "docs" / "pretrained.md"


def test_the_page_on_pretrained_networks_has_the_tables_of_its_study() -> None:
    from pretrained import table

    summary = json.loads((RESULTS / "pretrained.json").read_text())
    assert set(summary["norms"]) == set(NORMS)
    assert summary["tasks"] >= 200
    for weights in ("start", "tuned"):
        between = PRETRAINED.read_text().split(f"<!-- {weights} -->\n")[1].split(f"<!-- end of {weights} -->")[0]
        assert between.splitlines() == list(table(summary, weights))


def test_tuning_as_recommended_loses_nothing() -> None:
    """On classes that neither tuning nor selection saw, and on two sources of which they saw nothing."""
    summary = json.loads((RESULTS / "pretrained.json").read_text())
    recommended = summary["norms"][TUNING["norm"]]["chosen"]
    assert set(recommended) == {"cu_birds", "vgg_flower", "traffic_sign", "dtd"}
    for each in recommended.values():
        assert each["difference"]["mean"] + each["difference"]["interval"] >= 0
