"""Differences between norms that share their seeds."""

import pytest

from support.made_up_records import record, row, variable
from tasknorm.evaluation import Accuracy
from tasknorm.report.checks import best_rank
from tasknorm.report.places import all_seeds, entries
from tasknorm.report.seeds import mean_over_rows, paired, seeds_table
from tasknorm.report.write import all_tables

NAME = "cnaps_meta_dataset"
ACCURACIES = {  # by norm and seed: of MNIST, of CIFAR10
    "TaskNorm-I": {0: (0.80, 0.50), 1: (0.90, 0.60), 2: (0.70, 0.40)},
    "MetaBN": {0: (0.79, 0.52), 1: (0.88, 0.61), 2: (0.69, 0.43)},
}


def run(norm, seed, tasks=300, **others):
    accuracies = zip(("mnist", "cifar10"), ACCURACIES[norm][seed], strict=True)
    rows = [r | {"tasks": tasks} for source, a in accuracies for r in row(norm, source, None, None, a, 0.01)]
    settings = {"learner": "cnaps", "source": "quickdraw", "sampling": "variable", "norm": norm, "seed": seed}
    return record(rows, **settings | others)


LN = {"norm": "LN", "alpha": None}
RUNS = [run(norm, seed) for norm in ACCURACIES for seed in range(3)]


def test_differences_are_within_each_seed():
    found = paired(all_seeds(RUNS, NAME))
    assert found.keys() == {"MetaBN"}
    assert found["MetaBN"]["MNIST"] == pytest.approx({0: 0.01, 1: 0.02, 2: 0.01})
    assert found["MetaBN"]["CIFAR10"] == pytest.approx({0: -0.02, 1: -0.01, 2: -0.03})
    mean = mean_over_rows(found["MetaBN"])
    by_seed = (-0.005, 0.005, -0.010)
    deviation = (sum((d - sum(by_seed) / 3) ** 2 for d in by_seed) / 2) ** 0.5
    assert mean.mean == pytest.approx(sum(by_seed) / 3)
    assert mean.interval == pytest.approx(4.3027 * deviation / 3**0.5, rel=1e-4)  # Student's t of two degrees


def test_the_table_has_accuracies_and_differences_of_each_row_and_their_mean():
    table = seeds_table(RUNS, NAME)
    assert table.headings == ("", "", "TaskNorm-I", "MetaBN")
    lines = [tuple(cell.text for cell in item.cells) for item in table.lines]
    assert lines[1] == ("", "TaskNorm-I is ahead by", "—", "+1.3 ± 1.4")
    assert lines[2][:2] == ("CIFAR10", "accuracy")
    assert [text.split(" ±")[0] for text in lines[2][2:]] == ["50.0", "52.0"]
    assert lines[3][3] == "-2.0 ± 2.5"
    assert lines[4] == ("Mean", "TaskNorm-I is ahead by", "—", "-0.3 ± 1.9")
    assert not any(cell.bold for item in table.lines for cell in item.cells)
    assert "Test tasks of each row: 300 of seed 0, 300 of seed 1, 300 of seed 2." in table.notes
    names = [table.name for table in all_tables(RUNS)]
    assert names == [NAME, f"{NAME}_seeds", "transduction_issues", "parameterization_cnaps"]


def test_a_difference_that_no_seed_contradicts_is_bold():
    ahead = RUNS[:3]
    behind = [
        record([r | {"norm": "MetaBN", "accuracy": r["accuracy"] - 0.05} for r in one.result["accuracies"]], **settings)
        for one in ahead
        for settings in [one.settings.values() | {"norm": "MetaBN", "alpha": None}]
    ]
    cell = seeds_table([*ahead, *behind], NAME).lines[1].cells[3]
    assert (cell.text, cell.bold) == ("+5.0 ± 0.0", True)


def test_the_papers_table_counts_the_seeds_that_all_columns_have():
    """Otherwise a norm that scatters between trainings would tie with more others, and rank before them."""
    one_more = [*RUNS, record(row("LN", "mnist", None, None, 0.6, 0.01), **run("MetaBN", 1).settings.values() | LN)]
    cells = entries(one_more, NAME)
    assert {column: e.seeds for column, e in cells["MNIST"].items()} == {"TaskNorm-I": 1, "MetaBN": 1, "LN": 1}
    assert {column: e.seed for column, e in cells["MNIST"].items()} == {"TaskNorm-I": 1, "MetaBN": 1, "LN": 1}
    assert cells["MNIST"]["TaskNorm-I"].accuracy == Accuracy(0.90, 0.01)
    assert {column: e.seeds for column, e in cells["CIFAR10"].items()} == {"TaskNorm-I": 3, "MetaBN": 3}
    assert all_seeds(one_more, NAME)["MNIST"]["TaskNorm-I"].seeds == 3
    apart = [*RUNS[:2], *RUNS[5:]]  # seeds 0 and 1 of one norm, 2 of the other
    assert {column: e.seeds for column, e in entries(apart, NAME)["MNIST"].items()} == {"TaskNorm-I": 2, "MetaBN": 1}


def test_seeds_that_do_not_share_their_tests_are_left_out():
    elsewhere = [run("MetaBN", 0), run("MetaBN", 1, tasks=100), run("MetaBN", 2, test_seed=7)]
    assert not paired(all_seeds([*RUNS[:3], *elsewhere], NAME))
    assert seeds_table([*RUNS[:3], *elsewhere], NAME) is None
    two = paired(all_seeds([*RUNS[:3], run("MetaBN", 0), run("MetaBN", 2)], NAME))
    assert list(two["MetaBN"]["MNIST"]) == [0, 2]


def test_one_seed_has_no_such_table():
    assert seeds_table(variable(NAME), NAME) is None
    assert "same seeds" not in best_rank(variable(NAME), NAME, "TaskNorm-I").numbers


def test_the_claim_tells_the_differences():
    records = variable(NAME)
    more = [
        record(r.result["accuracies"], **r.settings.values() | {"seed": seed})
        for r in records
        for seed in (1, 2)
        if r.settings.norm in ("TaskNorm-I", "MetaBN", "CBN")
    ]
    numbers = best_rank([*records, *more], NAME, "TaskNorm-I").numbers
    words = numbers.split("points by which TaskNorm-I is ahead with the same seeds, mean over rows: ")[1]
    assert [word.split()[0] for word in words.split(", ")] == ["CBN", "RN", "MetaBN"]  # TBN is transductive
    assert "± 0.0" in words
