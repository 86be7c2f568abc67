"""The greedy rule against every rank and every bold number that the paper prints."""

import pytest

from tasknorm.evaluation import Accuracy
from tasknorm.report.average_rank import average_ranks, bold, groups, ranks
from tasknorm.report.published import published


def ranked(name):
    table = published()[name]
    return [{c: row[c] for c in table.average_rank} for row in table.rows.values()]


def test_all_45_printed_average_ranks_follow_from_the_printed_scores():
    printed = {(name, c): rank for name, table in published().items() for c, rank in table.average_rank.items()}
    computed = {
        (name, c): rank
        for name, table in published().items()
        if table.average_rank
        for c, rank in average_ranks(ranked(name)).items()
    }
    assert len(printed) == 45
    assert {key: round(rank, 2) for key, rank in computed.items()} == printed


def test_bold_is_the_first_group_apart_from_three_slips_of_the_paper():
    slips = set()
    for name, table in published().items():
        if not any(table.bold.values()):
            continue
        for row, scores in table.rows.items():
            slips |= {(name, row, column) for column in bold(scores) ^ table.bold[row]}
    assert slips == {
        ("maml_results", "Omniglot-20-1", "TaskNorm-I"),
        ("cnaps_meta_dataset", "MNIST", "TaskNorm-I"),
        ("protonets_meta_dataset", "MSCOCO", "TBN"),
    }


def test_members_are_compared_with_the_best_of_the_group_only():
    row = {"a": Accuracy(0.9, 0.01), "b": Accuracy(0.89, 0.01), "c": Accuracy(0.88, 0.01)}  # a = b, b = c, a != c
    assert groups(row) == [["a", "b"], ["c"]]
    assert ranks(row) == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_ties_of_equal_scores_without_interval():
    assert ranks({"CBN": Accuracy(0.2, 0), "BRN": Accuracy(0.2, 0)}) == {"CBN": 1.5, "BRN": 1.5}


def test_a_row_that_lacks_a_method_is_refused():
    with pytest.raises(ValueError, match="same methods in every row, but some rows lack a, b;"):
        average_ranks([{"a": Accuracy(0.01, 0.01)}, {"b": Accuracy(0.01, 0.01)}])
    assert average_ranks([]) == {}
    assert bold({}) == set()


def test_the_copy_of_the_paper_is_complete():
    scores = [score for table in published().values() for row in table.rows.values() for score in row.values()]
    assert len(scores) == 535
    assert sum(len(row) for table in published().values() for row in table.bold.values()) == 141
