"""The rounds of a comparison: one seed each, or one fold of the classes where a source has few of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasknorm.compare.presets import is_tuned, kind_of, pretraining_of, settings_of
from tasknorm.data import Split, large_enough
from tasknorm.errors import DataError, SettingsError
from tasknorm.grid import GridRun
from tasknorm.norms import NORMS
from tasknorm.runs import opened_once, sampler_of
from tasknorm.settings import SHARED, Settings, meant
from tasknorm.training import RunFolder

PRETRAINING = "pretraining"
MOST_FOLDS = 10


@dataclass(frozen=True)
class Plan:
    """A question, and the rounds in which it is answered.

    Args:
        question: settings that differ from the presets'; `learner` may name several, separated by commas.
        norms: labels of the norms to compare.
        folder: the comparison's folder.
        folds: into how many folds the classes are divided; 0 if rounds differ in their seed alone.
    """

    question: Mapping[str, Any]
    norms: Sequence[str]
    folder: Path
    folds: int = 0

    @property
    def learners(self) -> list[str]:
        """The learners that are asked about, each with a comparison of its own."""
        return [name.strip() for name in str(self.question["learner"]).split(",")]

    @property
    def trained(self) -> list[str]:
        """The norms that are trained: CBN also serves TBN and RN."""
        return list(dict.fromkeys("CBN" if norm in SHARED else norm for norm in self.norms))

    def name(self, number: int) -> str:
        """The name of a round's folder, the first round being 0."""
        return f"fold{number + 1}" if self.folds else f"seed{self._seed(number)}"

    def runs(self, number: int) -> list[GridRun]:
        """The runs of a round, those that take longest first; pretrainings before those that need them."""
        return [run for learner in self.learners for run in self._runs(learner, number)]

    def trainings(self, learner: str, number: int) -> list[Path]:
        """The folders of a learner's trainings in a round."""
        return [self.folder / self.name(number) / f"{learner}-{norm}" for norm in self.trained]

    def settings(self, learner: str, norm: str, number: int = 0) -> Settings:
        """The settings of a training."""
        question = dict(self.question) | {"learner": learner}
        question |= {"seed": self._seed(number), "test_seed": self._seed(number)}
        kind = kind_of(learner)
        if kind is not None and not kind.meta_trained:
            question.pop("iterations", None)
        if self.folds:
            question |= {"fold": f"{number + 1}/{self.folds}", "validate_every": 0}
        if is_tuned(question):
            return settings_of(question, norm)
        if kind is not None and kind.wants_pretrained and question.get("pretrained") is None:
            place = self.folder / self.name(number) / f"{learner}-{PRETRAINING}"
            question["pretrained"] = str(RunFolder(place).extractor)
        elif norm == "Baseline" and question.get("pretrained") is None:
            raise SettingsError(
                f"Baseline needs a pretrained network, and {learner} trains from scratch; leave Baseline out of "
                "--norms, or compare it with --learner cnaps or ncm"
            )
        return settings_of(question, norm)

    def _runs(self, learner: str, number: int) -> Iterator[GridRun]:
        every = [self.settings(learner, norm, number) for norm in self.trained]
        needs: tuple[str, ...] = ()
        kind = kind_of(learner)
        made = kind is not None and kind.wants_pretrained and not is_tuned(self.question)
        if made and self.question.get("pretrained") is None:
            needs = (f"{self.name(number)}/{learner}-{PRETRAINING}",)
            yield GridRun(needs[0], pretraining_of(every[0]))
        for settings in every:
            yield GridRun(f"{self.name(number)}/{learner}-{settings.norm}", settings, needs)

    def _seed(self, number: int) -> int:
        return int(self.question.get("seed") or 0) + number


def planned(question: Mapping[str, Any], norms: Sequence[str], folder: Path) -> Plan:
    """The rounds of a comparison, after a look at the norms' names and at the source's classes.

    Where the source's own splits have too few classes for the tasks, all classes are divided into folds.

    Raises:
        SettingsError: if a norm, learner or setting is unknown.
        DataError: if the source cannot give such tasks, in folds or otherwise.
    """
    plan = Plan(question, list(_known(norms)), folder)
    if len(set(plan.learners)) != len(plan.learners):
        raise SettingsError(f"each learner must be named once, got {question['learner']}")
    settings = [plan.settings(learner, norm) for learner in plan.learners for norm in plan.trained]
    if folds := _folds(settings[0]):
        plan = Plan(question, plan.norms, folder, folds)
    elif not all(_classes(settings[0], "valid")):  # a splits file without them
        plan = Plan(dict(question) | {"validate_every": 0}, plan.norms, folder)
    for number in range(folds or 1):
        for one in (plan.settings(learner, plan.trained[0], number) for learner in plan.learners):
            for source in one.sources:
                spec = opened_once(source, one.skip_bad).spec
                for split in ("train", "valid", "test") if one.validate_every else ("train", "test"):
                    sampler_of(one, spec, split)
    return plan


def _folds(settings: Settings) -> int:
    """Into how many folds the classes must be divided; 0 if the source's own splits have enough for the tasks.

    Raises:
        DataError: if there are not even enough classes for two.
    """
    enough = all(
        train >= settings.train_way and test >= settings.way and (valid >= settings.way or not valid)
        for train, valid, test in zip(*(_classes(settings, split) for split in ("train", "valid", "test")), strict=True)
    )
    if enough:
        return 0
    found = []
    for source in settings.sources:
        spec = opened_once(source, settings.skip_bad).spec
        classes = sum(len(_large(settings, split).classes) for split in spec.splits.values())
        if classes < 2 * settings.way:
            raise DataError(
                f"{spec.name}: comparing on {settings.way}-way tasks needs at least {2 * settings.way} classes, half "
                f"of them to train and half to test, got {classes}; "
                + (f"lower --way to {classes // 2}, or add classes" if classes >= 4 else "add classes")
            )
        found.append(classes // settings.way)
    return min(MOST_FOLDS, *found)


def _classes(settings: Settings, split: str) -> list[int]:
    """How many classes of a split each source has for tasks."""
    specs = [opened_once(source, settings.skip_bad).spec for source in settings.sources]
    return [len(_large(settings, spec.splits[split]).classes) if split in spec.splits else 0 for spec in specs]


def _large(settings: Settings, split: Split) -> Split:
    """A split without the classes that are too small for a task, if these are to be left out."""
    return large_enough(split, settings.shot + settings.targets) if settings.skip_bad else split


def _known(norms: Sequence[str]) -> Sequence[str]:
    for norm in norms:
        if norm not in NORMS:
            raise SettingsError(f"unknown norm {norm!r}; {meant(norm, list(NORMS))}")
    if len(set(norms)) != len(norms) or not norms:
        raise SettingsError(f"each norm to compare must be named once, got {', '.join(norms) or 'none'}")
    return norms
