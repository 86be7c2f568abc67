"""The verdict of a comparison says which norm to use, and how much better a transductive norm looks than it is."""

from __future__ import annotations

from support.made_up_records import record, row
from tasknorm.report.comparison import Comparison


def compared(**accuracies: tuple[float, float, float]) -> list[str]:
    """The verdict on these norms, whose accuracies are for targets all at once, by example and by class."""
    runs = []
    for norm, values in accuracies.items():
        each = zip(("all", "example", "class"), values, strict=True)
        rows = [r for targets, value in each for r in row(norm, "glyphs", 5, 1, value, 0.01, targets)]
        runs.append(record(rows, learner="protonets", norm="CBN" if norm == "TBN" else norm))
    return Comparison(runs, list(accuracies)).verdict()


def test_one_best_norm_is_recommended() -> None:
    assert compared(LN=(0.9, 0.9, 0.9), IN=(0.8, 0.8, 0.8)) == [
        "Use LN: with 90.0 ± 1.0 % it is the best norm that does not peek at other targets."
    ]


def test_norms_that_do_not_differ_are_recommended_together() -> None:
    (said,) = compared(LN=(0.9, 0.9, 0.9), IN=(0.895, 0.895, 0.895), BRN=(0.5, 0.5, 0.5), GN=(0.9, 0.9, 0.9))
    assert said.startswith("Use LN, GN or IN: their differences are within the noise of 600 test tasks and 1 seed.")


def test_the_larger_fall_of_a_transductive_norm_is_named() -> None:
    (said,) = compared(TBN=(0.9, 0.7, 0.65))
    assert said.startswith("TBN is transductive: 90.0 ± 1.0 % with all targets at once, 70.0 ± 1.0 % one by one, ")
    assert said.endswith("It looks 25.0 points better than it is if targets arrive class by class.")
    (said,) = compared(TBN=(0.9, 0.65, 0.895))
    assert said.endswith("It looks 25.0 points better than it is if targets arrive one by one.")


def test_a_transductive_norm_that_does_not_fall_has_no_warning() -> None:
    for accuracies in ((0.9, 0.895, 0.9), (0.9, 0.95, 0.9)):
        (said,) = compared(TBN=accuracies)
        assert said.endswith("% class by class.")
