"""The verdict of a comparison: which norm to use, how sure that is, and how much a transductive norm flatters."""

from __future__ import annotations

import pytest

from support.made_up_records import record, row
from tasknorm.evaluation import Accuracy
from tasknorm.report.comparison import Comparison

CALL = "tasknorm compare --out here"


def compared(*rounds: dict[str, float | tuple[float, float, float]], fold: int = 0) -> Comparison:
    """A comparison whose accuracies are for targets all at once, or also by example and by class."""
    made = []
    for seed, accuracies in enumerate(rounds):
        records = []
        for norm, given in accuracies.items():
            values = given if isinstance(given, tuple) else (given,)
            each = zip(("all", "example", "class"), values, strict=False)
            rows = [r for come, v in each for r in row(norm, "glyphs", 5, 1, v, 0.01, come, weights=("final",))]
            settings = {"seed": seed, "fold": f"{seed + 1}/{fold}" if fold else None}
            records.append(record(rows, learner="protonets", norm="CBN" if norm == "TBN" else norm, **settings))
        made.append(records)
    return Comparison(made, list(rounds[0]), CALL, 2, other=4.0, round_seconds=60.0)


def said(found: Comparison) -> str:
    return "\n".join(found.verdict())


def test_one_best_norm_is_recommended() -> None:
    found = compared(
        {"LN": 0.90, "IN": 0.80, "GN": 0.7}, {"LN": 0.91, "IN": 0.82, "GN": 0.72}, {"LN": 0.92, "IN": 0.815, "GN": 0.7}
    )
    assert found.best == ["LN"]
    assert found.verdict()[0] == (
        "Use LN: with 91.0 ± 2.5 % it is the best norm that does not peek at other targets, 9.8 ± 1.9 points better "
        "than IN."
    )
    assert found.verdict()[1] == "IN and GN are worse than LN, by 9.8 to 20.3 points."
    assert "More seeds" not in said(found)


def test_norms_that_cannot_be_told_apart_are_recommended_together_with_the_command_that_would_decide() -> None:
    rounds = [
        {"LN": 0.90, "IN": 0.87, "BRN": 0.5},
        {"LN": 0.91, "IN": 0.90, "BRN": 0.55},
        {"LN": 0.92, "IN": 0.90, "BRN": 0.5},
    ]
    found = compared(*rounds)
    assert found.best == ["LN", "IN"]
    assert found.verdict()[0].startswith(
        "Use LN or IN: 3 seeds cannot tell them apart (they differ by up to 2.0 points)."
    )
    assert "BRN is worse than LN, by 39.3 points." in found.verdict()
    assert found.verdict()[-1] == (
        f"More seeds would tell: `{CALL} --seeds 4` goes on from here and takes about 1 min."
    )


def test_equal_norms_are_called_equal() -> None:
    found = compared({"LN": 0.90, "IN": 0.92}, {"LN": 0.92, "IN": 0.901})
    assert "would hardly tell" in found.verdict()[-1]


def test_one_seed_separates_nothing_and_its_interval_is_of_tasks() -> None:
    found = compared({"LN": 0.9, "IN": 0.2})
    assert found.accuracy("LN") == Accuracy(0.9, 0.01)
    assert found.separated("IN") is None
    assert found.best == ["LN", "IN"]
    assert "one seed cannot tell norms apart" in said(found)
    assert f"`{CALL} --seeds 3`" in said(found)
    assert any("intervals are of tasks alone" in note for note in found.table().notes)
    assert not any(cell.bold for line in found.table().lines for cell in line.cells)


def test_differences_are_paired_within_seeds() -> None:
    """Seeds differ by ten points, norms by two in each: intervals of each alone would overlap."""
    found = compared({"LN": 0.80, "IN": 0.78}, {"LN": 0.90, "IN": 0.88}, {"LN": 0.85, "IN": 0.832})
    assert found.separated("IN")
    assert found.difference("IN").percent == pytest.approx(-1.9333, abs=1e-3)
    assert found.accuracy("LN").mean - found.accuracy("LN").interval < found.accuracy("IN").mean


def test_the_larger_fall_of_a_transductive_norm_is_named() -> None:
    found = compared({"TBN": (0.9, 0.7, 0.65)}, {"TBN": (0.91, 0.7, 0.65)})
    assert found.transductive == ["TBN"]
    assert found.best == []
    assert found.flattered("TBN") == pytest.approx(25.5)
    assert said(found).startswith("TBN peeks at the other targets: 90.5 ± 6.4 % all at once, 70.0 ± 0.0 % one by one, ")
    assert said(found).endswith("It looks 25.5 points better than it is if targets arrive class by class.")


def test_a_transductive_norm_that_does_not_fall_for_certain_has_no_warning() -> None:
    for second in ((0.9, 0.95, 0.9), (0.9, 0.80, 0.9)):
        found = compared({"TBN": (0.9, 0.89, 0.9)}, {"TBN": second})
        assert found.flattered("TBN") == 0
        assert said(found).endswith("% class by class.")


def test_what_the_audit_proves_needs_no_test_of_its_own() -> None:
    found = compared({"LN": 0.9, "TBN": (0.95, 0.2, 0.3)}, {"LN": 0.92, "TBN": (0.95, 0.2, 0.3)})
    assert found.by_seed("LN", "example") == found.by_seed("LN", "class") == [0.9, 0.92]
    assert found.best == ["LN"]  # TBN is better, and peeks
    assert [line.cells[0].text for line in found.table().lines] == ["LN", "TBN"]  # by what holds however targets arrive


def test_folds_are_too_few_to_conclude_and_more_classes_are_the_advice() -> None:
    found = compared({"LN": 0.9, "IN": 0.8}, {"LN": 0.8, "IN": 0.8}, fold=2)
    assert found.folds
    assert found.verdict()[0].startswith("Use LN or IN: 2 folds cannot tell them apart")
    assert "classes for 2 folds of 5-way tasks, too few to conclude more. Add classes to decide." in said(found)
    assert "--seeds" not in said(found)


def test_the_command_the_seeds_and_the_time_are_told() -> None:
    found = compared({"LN": 0.9}, {"LN": 0.8})
    assert found.command == f"{CALL} --seeds 2"
    assert found.seeds == [0, 1]
    assert found.spent["other"] == 4.0
    assert found.versions["torch"] == "2.13.0"
    assert [curve["validation"]["iteration"][0] for curve in found.curves("LN")] == [100, 100]
    assert found.cost("LN").task == pytest.approx(4.0)
