"""The paper's claims: all hold for the paper's own numbers, and fail where the numbers say so."""

from dataclasses import replace

import pytest

from support.made_up_records import everything, record, row, small, variable
from tasknorm.report import checks
from tasknorm.report.claims import CLAIMS, claims_table, findings
from tasknorm.report.speed import mean_training_accuracies


def test_all_hold_for_the_papers_own_numbers():
    found = findings(everything())
    assert [finding.verdict for _, finding in found] == ["holds"] * len(CLAIMS)
    assert all(any(c.isdigit() for c in finding.numbers) for _, finding in found)


def test_without_runs_only_the_special_case_is_tested():
    found = {claim.said: finding.verdict for claim, finding in findings([])}
    assert {said for said, verdict in found.items() if verdict != "not tested"} == {
        "RN is TaskNorm-I with alpha = n / (n + 1)"
    }


def maml(norm, accuracy, **options):
    rows = row(norm, "omniglot", 5, 1, accuracy, 0.01, maml=True)
    for targets, value in options.items():
        rows += row(norm, "omniglot", 5, 1, value, 0.01, targets, maml=True)
    return record(rows, learner="maml", source="omniglot", norm=norm)


def check(said, records):
    """What the claim with these words finds, with its own thresholds."""
    (claim,) = [claim for claim in CLAIMS if said in claim.said]
    return claim.check(records)


def test_tbn_that_keeps_its_accuracy_does_not_collapse():
    assert (
        check("TBN collapses if targets come one example", [maml("TBN", 0.9, example=0.88)]).verdict == "does not hold"
    )
    fallen = check("TBN collapses if targets come one example", [maml("TBN", 0.9, example=0.3)])
    assert fallen == ("holds", "MAML Omniglot-5-1 from 90.0 to 30.0")


def test_running_averages_that_learn_do_not_fail():
    runs = [maml("CBN", 0.8), maml("BRN", 0.2), maml("TaskNorm-I", 0.9)]
    assert check("CBN and BRN fail", runs) == (
        "does not hold",
        "Omniglot-5-1 CBN 80.0, BRN 20.0, best other 90.0, chance 20",
    )
    assert check("CBN and BRN fail", runs[1:]).verdict == "not tested"


def test_best_rank_leaves_out_transductive_norms():
    others = [maml(norm, 0.7) for norm in ("CBN", "BRN", "LN", "IN", "RN", "MetaBN", "TaskNorm-L")]
    runs = [maml("TBN", 0.99), maml("TaskNorm-I", 0.9), *others]
    assert checks.best_rank(runs, "maml_results", "TaskNorm-I").verdict == "holds"
    assert checks.best_rank(runs, "maml_results", "LN").verdict == "does not hold"
    alike = [*runs[:1], maml("TaskNorm-I", 0.7), *others]
    assert checks.best_rank(alike, "maml_results", "TaskNorm-I").numbers.startswith("tied with ")
    # The best of a few norms says nothing of the best of all.
    assert checks.best_rank(runs[:-1], "maml_results", "TaskNorm-I").verdict == "not tested"


def test_speed_is_compared_over_shared_iterations():
    curves = [([0, 100], [2.0, 0.0]), ([0, 50, 100, 200], [2.0, 2.0, 2.0, 100.0])]
    runs = [
        replace(run, result=run.result | {"curve": {"iteration": x, "loss": y, "accuracy": y, "seconds": x}})
        for run, (x, y) in zip([maml("IN", 0.5), maml("LN", 0.5)], curves, strict=True)
    ]
    assert mean_training_accuracies(runs) == pytest.approx({"IN": 100.0, "LN": 200.0})
    assert mean_training_accuracies([]) == {}


def test_alphas():
    (run,) = [r for r in variable("cnaps_meta_dataset") if r.settings.norm == "TaskNorm-I"]

    def with_layers(*layers):
        alphas = [{"layer": "x", "scale": scale, "offset": offset} for scale, offset in layers]
        return [replace(run, result=run.result | {"alphas": alphas})]

    rising, falling, constant = with_layers((0.1, 0.1)), with_layers((-5.0, 0.1)), with_layers((1e-6, 2.0))
    assert check("alpha tends to 1", rising).verdict == "holds"
    assert check("alpha tends to 1", falling).verdict == "does not hold"
    assert check("SCALE is not zero", rising).verdict == "holds"
    assert check("SCALE is not zero", constant).verdict == "does not hold"
    assert check("SCALE is not zero", with_layers((1e-3, 1e-3))).verdict == "does not hold"
    short = [replace(r, settings=r.settings.model_copy(update={"iterations": 250})) for r in rising]
    assert check("SCALE is not zero", short).verdict == "not tested"  # OFFSET could not have left zero


def test_some_norms_say_nothing_of_all():
    def without(name, norm, runs):
        return [r for r in runs(name) if r.settings.norm != norm]

    both = small("maml_results") + small("protonets_results")
    assert checks.protonets_less_sensitive(both).verdict == "holds"
    fewer = without("maml_results", "LN", small) + small("protonets_results")
    assert checks.protonets_less_sensitive(fewer).verdict == "not tested"
    assert checks.instance_based_slowest(variable("cnaps_meta_dataset")).verdict == "holds"
    assert checks.instance_based_slowest(without("cnaps_meta_dataset", "Baseline", variable)).verdict == "not tested"


def test_cost_is_a_median_of_ratios():
    runs = [r for r in small("protonets_results") if r.settings.norm in ("CBN", "TaskNorm-I")]
    slow = [
        replace(r, result=r.result | {"seconds_per_iteration": 0.3}) if r.settings.norm == "TaskNorm-I" else r
        for r in runs
    ]
    assert check("costs about as much", runs).verdict == "holds"
    assert check("costs about as much", slow).numbers.startswith("median 3.00")
    assert check("costs about as much", slow).verdict == "does not hold"


def test_the_table_of_claims():
    table = claims_table(findings([]))
    assert len(table.lines) == len(CLAIMS)
    assert {line.cells[1].text for line in table.lines} == {"✓ holds", "○ not tested"}
