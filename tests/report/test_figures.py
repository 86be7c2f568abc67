"""Figures: what they draw, their labels, and their files."""

from dataclasses import replace

import pytest

from support.made_up_records import everything, record, row, small, variable
from tasknorm.evaluation import Accuracy
from tasknorm.norms import NORMS
from tasknorm.report.drawing import Picture, inline_svg, saved
from tasknorm.report.figures import (
    accuracy_against_shot,
    accuracy_by_targets,
    alpha_curves,
    scale_offset_lines,
    training_curves,
)
from tasknorm.report.gallery import FIGURES, gallery
from tasknorm.report.looks import INK, LOOKS
from tasknorm.settings import Settings

SHOTS = {n: {k: Accuracy(0.3 + k / 100, 0.01) for k in (1, 5, 10)} for n in ("TBN", "IN", "TaskNorm-I")}
TARGETS = {
    "TBN": {"all": Accuracy(0.98, 0.01), "example": Accuracy(0.21, 0.01)},
    "RN": {"all": Accuracy(0.92, 0.01), "class": Accuracy(0.92, 0.01)},
}
TASK_NORM = record([], learner="cnaps", source="glyphs", layers=4)
DEEP = record([], learner="cnaps", source="glyphs", layers=20)
UNVALIDATED = replace(
    TASK_NORM, result=TASK_NORM.result | {"validation": {"iteration": [], "seconds": [], "accuracy": {}}}
)


@pytest.mark.parametrize(
    ("figure", "panels"),
    [
        (training_curves(small("maml_results")[:7]), 4),
        (training_curves([UNVALIDATED]), 2),
        (accuracy_against_shot(SHOTS), 1),
        (accuracy_by_targets(TARGETS), 1),
        (alpha_curves(TASK_NORM), 1),
        (alpha_curves(DEEP), 2),
        (scale_offset_lines(TASK_NORM), 1),
    ],
)
def test_every_panel_has_labels(figure, panels):
    assert len(figure.axes) == panels  # a scale of colours is one, too
    for axis in figure.axes:
        assert axis.get_ylabel()
        assert axis.get_xlabel() or axis.get_label() == "<colorbar>"
        assert axis.lines or axis.containers or axis.get_label() == "<colorbar>"


def test_units_and_intervals_are_named():
    curves = training_curves([TASK_NORM])
    assert [a.get_xlabel() for a in curves.axes] == ["iteration (of 16 tasks)"] * 2 + ["training time (s)"] * 2
    assert [a.get_ylabel() for a in curves.axes] == ["training loss", "validation accuracy (%)"] * 2
    assert "95 % interval" in accuracy_against_shot(SHOTS).axes[0].get_ylabel()
    assert [len(c.get_children()) > 1 for c in accuracy_against_shot(SHOTS).axes[0].containers] == [True] * 3


def test_one_look_for_each_norm():
    assert set(NORMS) <= set(LOOKS)
    looks = [LOOKS[norm] for norm in NORMS]
    assert len({colour for colour, *_ in looks}) == len(NORMS)
    assert len({marker for *_, marker in looks}) == len(NORMS)


def test_alpha_follows_the_formula():
    (first, *_) = alpha_curves(TASK_NORM).axes[0].lines
    assert first.get_ydata()[0] == pytest.approx(0.505, abs=1e-3)  # sigmoid(0.02 * 1 + 0)
    independent = record([], learner="protonets", source="omniglot", layers=1)
    (flat, *_) = alpha_curves(independent).axes[0].lines
    assert set(flat.get_ydata()) == {0.5}


def test_channel_specific_alphas_are_averaged():
    alphas = [{"layer": "blocks.0.norm", "scale": [0.0, 1.0], "offset": [0.0, 0.0]}]
    channels = replace(TASK_NORM, result=TASK_NORM.result | {"alphas": alphas})
    assert scale_offset_lines(channels).axes[0].lines[0].get_ydata()[-1] == 250


def test_the_gallery_has_every_figure_that_has_runs():
    shots = [
        record(
            row(n, "mini_imagenet", 5, k, 0.3 + k / 50, 0.01, maml=True),
            learner="maml",
            source="mini_imagenet",
            norm=n,
            shot=k,
        )
        for n in ("IN", "TaskNorm-I")
        for k in (1, 5, 10)
    ]
    pictures = gallery(everything() + shots)
    assert [p.name for p in pictures if not p.name.startswith("targets_")] == list(FIGURES)
    assert {p.name for p in pictures} - set(FIGURES) == {"targets_maml", "targets_cnaps"}
    assert all(p.words.endswith(".") for p in pictures)
    assert gallery([record([], learner="maml", source="glyphs")]) == []
    anil = [replace(r, settings=Settings.of(r.settings.values() | {"anil": True})) for r in shots]
    assert gallery(anil) == []  # a variant of MAML stands in for it in no figure


@pytest.mark.parametrize("lengths", [(1000, 300), (300, 1000)])
def test_how_targets_come_is_compared_within_the_longest_run(lengths):
    def run(accuracy, iterations, *targets, **settings):
        rows = [r for t in targets for r in row("TaskNorm-I", "omniglot", 5, 1, accuracy, 0.01, t, maml=True)]
        return record(rows, learner="maml", source="omniglot", iterations=iterations, **settings)

    runs = [run(0.5 + n / 10_000, n, "all", "example") for n in lengths]
    runs += [run(0.9, 2000, "all", alpha="independent-channel")]
    (picture,) = (p for p in gallery(runs) if p.name == "targets_maml")
    assert "TaskNorm-I: all 60.0 ± 1.0, example 60.0 ± 1.0." in picture.words


def test_runs_without_validation_are_drawn():
    runs = [
        replace(r, result=r.result | {"validation": UNVALIDATED.result["validation"]})
        for r in variable("protonets_meta_dataset")
    ]
    (picture, *_) = gallery(runs)
    assert "no validation" in picture.words
    assert len(picture.figure.axes) == 2


def test_files_and_the_figure_within_a_page(tmp_path):
    picture = Picture("shots", "Shots", 'A "test" of <words>.', accuracy_against_shot(SHOTS))
    svg, png = saved(picture, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in svg.read_bytes()
    inline = inline_svg(picture)
    assert inline.startswith('<svg role="img" aria-label="A &quot;test&quot; of &lt;words&gt;."')
    assert "shot (context images per class)" in inline  # text, not outlines
    assert INK not in inline
    assert "currentColor" in inline
    assert ' id="shots-' in inline
    assert ' id="axes' not in inline
    first = svg.read_bytes()
    saved(picture, tmp_path)
    assert svg.read_bytes() == first
