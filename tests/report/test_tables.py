"""The paper's tables from records, and how they are printed."""

import pytest

from support.made_up_records import record, row, small, variable
from tasknorm.evaluation import Accuracy
from tasknorm.report.html_table import html
from tasknorm.report.places import KINDS, entries
from tasknorm.report.published import published
from tasknorm.report.render import Cell, Table, latex, line, markdown
from tasknorm.report.tables import paper_table


def texts(table, first, who):
    """The cells of the line of this name and kind."""
    name = ""
    for item in table.lines:
        name = item.cells[0].text or name
        if (name, item.cells[1].text) == (first, who):
            return dict(zip(table.headings[2:], item.cells[2:], strict=True))
    raise AssertionError(f"no line {first}, {who}")


@pytest.mark.parametrize("name", KINDS)
def test_runs_with_the_papers_accuracies_give_the_papers_table(name):
    table = paper_table(variable(name) if KINDS[name].variable else small(name), name)
    chosen = "ours, chosen step" if KINDS[name].learner == "maml" else "ours"
    for place in published()[name].rows:
        ours, paper = texts(table, place, chosen), texts(table, place, "paper")
        assert [cell.text for cell in ours.values()] == [cell.text for cell in paper.values()]
    if published()[name].average_rank:
        ranks = texts(table, "Average rank", chosen)
        assert [c.text for c in ranks.values()] == [c.text for c in texts(table, "Average rank", "paper").values()]


def test_maml_shows_the_best_step_beside_the_chosen_one():
    table = paper_table(small("maml_results"), "maml_results")
    assert texts(table, "Omniglot-5-1", "ours, best step")["RN"].text == "92.7 ± 0.9"
    assert texts(table, "Omniglot-5-1", "ours, chosen step")["RN"].text == "92.6 ± 0.9"
    assert table.headings[2:5] == ("TBN †", "TBN by example †", "TBN by class †")


# As the authors' README has them.
CORRECTED = """ILSVRC 50.8 ± 1.1, Omniglot 91.7 ± 0.5, Aircraft 83.7 ± 0.6, Birds 73.6 ± 0.9, Textures 59.5 ± 0.7,
Quick Draw 74.7 ± 0.8, Fungi 50.2 ± 1.1, VGG Flower 88.9 ± 0.5, Traffic Signs 56.5 ± 1.1, MSCOCO 39.4 ± 1.0,
MNIST 92.3 ± 0.4, CIFAR10 68.5 ± 0.9, CIFAR100 56.1 ± 1.1"""


def test_what_the_authors_corrected_has_lines_of_its_own_and_no_rank():
    name = "cnaps_meta_dataset"
    records = variable(name)
    table = paper_table(records, name)
    found = {row: texts(table, row, "authors, corrected") for row in published()[name].rows}
    assert [f"{row} {line['TaskNorm-I'].text}" for row, line in found.items()] == CORRECTED.replace("\n", " ").split(
        ", "
    )
    assert {cell.text for line in found.values() for norm, cell in line.items() if norm != "TaskNorm-I"} == {"—"}
    assert not any(cell.bold for line in found.values() for cell in line.values())
    ranks = [item.cells[1].text for item in table.lines if item.kind == "rank"]
    assert "authors, corrected" not in ranks
    assert "nor of any average rank" in " ".join(table.notes)
    for other in set(KINDS) - {name}:
        assert not published()[other].corrected


def test_every_cell_says_on_how_many_tasks_and_seeds_it_rests():
    def run(norm, shot, tasks):
        rows = [r | {"tasks": tasks} for r in row(norm, "omniglot", 5, shot, 0.6, 0.01, maml=True)]
        return record(rows, learner="maml", source="omniglot", norm=norm, shot=shot)

    runs = [run(norm, shot, 600 if shot == 1 else 100) for norm in ("IN", "LN", "BRN") for shot in (1, 5)]
    notes = paper_table(runs, "maml_results").notes
    assert "Each of our accuracies rests on 600 test tasks and 1 seed; the paper's on 600 tasks." in notes
    assert "Exception: 100 test tasks and 1 seed for all columns in Omniglot-5-5." in notes
    runs[0] = run("IN", 1, 50)
    notes = paper_table(runs, "maml_results").notes
    assert "Each of our accuracies rests on 100 test tasks and 1 seed; the paper's on 600 tasks." in notes
    assert "Exception: 50 test tasks and 1 seed for IN in Omniglot-5-1." in notes
    assert "Exception: 600 test tasks and 1 seed for BRN, LN in Omniglot-5-1." in notes


def test_what_is_missing_is_said():
    table = paper_table(variable("cnaps_meta_dataset", missing=("Aircraft", "MNIST")), "cnaps_meta_dataset")
    assert {cell.text for cell in texts(table, "Aircraft", "ours").values()} == {"—"}
    notes = " ".join(table.notes)
    assert "Aircraft: not run, since the data could not be obtained" in notes
    assert "Not run: MNIST." in notes
    assert "ILSVRC: replaced by Tiny-ImageNet" in notes
    assert "Textures" in notes.split("held out here")[0].split(".")[-1]
    assert "16,000 tasks here; in the paper 60,000 to 200,000" in notes
    assert "network resnet-small (resnet18); images of 32 px (84)" in notes
    assert texts(table, "Average rank", "paper, same 11 rows")["TBN †"].text != "—"
    assert "no runs for this table" in " ".join(paper_table([], "maml_results").notes)


def test_the_longest_training_fills_a_place_and_shorter_ones_are_named():
    def run(norm, iterations, accuracy):
        rows = row(norm, "omniglot", 5, 1, accuracy, 0.01, maml=True)
        return record(rows, learner="maml", source="omniglot", norm=norm, iterations=iterations)

    records = [run("IN", 300, 0.5), run("LN", 1000, 0.6), run("IN", 400, 0.7), run("BRN", 1000, 0.2)]
    found = entries(records, "maml_results")["Omniglot-5-1"]
    assert found["IN"].accuracy == Accuracy(0.7, 0.01)
    assert "Exception: 400 iterations for IN in Omniglot-5-1." in paper_table(records, "maml_results").notes


def test_what_differs_from_the_paper_is_said_of_each_row():
    def run(shot, **others):
        rows = row("IN", "omniglot", 5, shot, 0.6, 0.01, maml=True)
        return record(rows, learner="maml", source="omniglot", norm="IN", shot=shot, **others)

    runs = [run(1, meta_batch=8, learning_rate=0.01), run(5, meta_batch=2, learning_rate=0.01, iterations=10)]
    notes = paper_table(runs, "maml_results").notes
    assert "Exception: 10 iterations for all columns in Omniglot-5-5." in notes
    assert notes[-1].endswith(
        "tasks per iteration 8 (32) in Omniglot-5-1; tasks per iteration 2 (32) in Omniglot-5-5; "
        "learning rate 0.01 (0.001)."
    )


def test_seeds_of_one_setting_make_one_cell():
    def run(seed, accuracy, **others):
        rows = [r | {"tasks": 200} for r in row("IN", "omniglot", 5, 1, accuracy, 0.01, maml=True)]
        return record(rows, learner="maml", source="omniglot", norm="IN", seed=seed, **others)

    shorter, elsewhere = run(7, 0.1, iterations=10), run(8, 0.1, learning_rate=0.5)
    runs = [shorter, *(run(seed, 0.90 + seed / 100, test_seed=seed) for seed in range(3)), elsewhere]
    found = entries(runs, "maml_results")["Omniglot-5-1"]["IN"]
    assert (found.seeds, found.tasks) == (3, 600)
    assert found.accuracy.mean == pytest.approx(0.91)
    assert found.accuracy.interval == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)  # Student's t of two degrees
    assert found.maximum.mean == pytest.approx(0.911)
    notes = paper_table(runs, "maml_results").notes
    assert "Each of our accuracies rests on 600 test tasks and 3 seeds; the paper's on 600 tasks." in notes
    assert any("over trainings, by Student's t" in note for note in notes)
    assert not any("over trainings" in note for note in paper_table(runs[1:2], "maml_results").notes)
    same_tasks = entries([run(seed, 0.9) for seed in range(2)], "maml_results")["Omniglot-5-1"]["IN"]
    assert same_tasks.accuracy.interval == pytest.approx(0.01)  # seeds agree: the chance of tasks is left
    twice = entries([runs[1], runs[1], runs[2]], "maml_results")["Omniglot-5-1"]["IN"]
    assert twice.seeds == 2


def test_augmentation_and_another_resizing_are_said():
    rows = row("LN", "mini_imagenet", 5, 1, 0.5, 0.01, maml=True)
    plain = {"learner": "maml", "source": "mini_imagenet", "norm": "LN"}
    changed = plain | {"augment": "flip,crop", "resize": "crop"}
    notes = " ".join(paper_table([record(rows, **changed)], "maml_results").notes)
    assert "images resized by crop (the data set's rule); training images augmented by crop,flip (nothing)" in notes
    assert "augmented" not in " ".join(paper_table([record(rows, **plain)], "maml_results").notes)


def test_final_weights_serve_where_there_are_no_best_ones():
    rows = row("LN", "omniglot_vinyals", 5, 1, 0.9, 0.01, weights=("final",))
    records = [record(rows, learner="protonets", source="omniglot_vinyals", norm="LN")]
    assert entries(records, "protonets_results")["Omniglot-5-1"]["LN"].result.weights == "final"


def test_an_ablated_alpha_stays_out_of_the_main_table():
    rows = row("TaskNorm-I", "omniglot", 5, 1, 0.9, 0.01, maml=True)
    records = [record(rows, learner="maml", source="omniglot", alpha="independent-channel")]
    assert not entries(records, "maml_results")["Omniglot-5-1"]
    assert list(entries(records, "parameterization_maml")["Omniglot-5-1"]) == ["Independent/ChannelSpecific"]


SMALL = Table(
    "small",
    "A & B",
    ("", "x_1"),
    (line(["TBN", Cell("9 ± 1", bold=True)]), line(["", ""], "paper", rule=True)),
    ("50 %",),
)


def test_markdown():
    assert markdown(SMALL) == "### A & B\n\n|  | x_1 |\n| --- | ---: |\n| TBN | **9 ± 1** |\n|  | — |\n\n- 50 %"


def test_latex_is_escaped_and_its_lines_are_complete():
    text = latex(SMALL)
    assert r"\textbf{9$\pm$1} \\" in text
    assert r"\caption{A \& B. 50 \%}" in text
    assert r"x\_1 \\" in text
    for table in (SMALL, paper_table(small("maml_results"), "maml_results")):
        text = latex(table)
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
        assert text.isascii()
        body = [x for x in text.splitlines() if x.endswith(r"\\")]
        assert {x.replace(r"\&", "").count("&") for x in body} == {len(table.headings) - 1}


def test_html_has_headers_and_a_box_of_its_own():
    text = html(SMALL)
    assert '<th scope="row" class="words" rowspan="2">TBN</th>' in text
    assert "A &amp; B" in text
    assert 'class="scroll" tabindex="0"' in text
    assert '<tr class="paper rule" data-row="1">' in text


def test_html_breaks_no_line_between_a_number_and_its_interval():
    table = Table(
        "t", "t", ("claim", "the numbers", "accuracy"), (line(["A", "ahead by 1.2 ± 0.4", "94.4 ± 0.8"]),), words=2
    )
    text = html(table)
    assert "ahead by 1.2\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.4" in text
    assert '94.4<span class="interval">±0.8</span>' in text
