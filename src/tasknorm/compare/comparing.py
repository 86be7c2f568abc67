"""The comparison itself: rounds of one seed for all norms, until there are enough or the time is used up."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tasknorm.compare.presets import COMPARED, COMPARED_TUNED, SEEDS, is_tuned
from tasknorm.compare.rounds import Plan, planned
from tasknorm.compare.view import View
from tasknorm.data import tell_left_out
from tasknorm.errors import FailedRunsError, SettingsError
from tasknorm.files import alone, check_free
from tasknorm.grid import GridRun, PoolEngine, check_runs, do_runs, stoppable
from tasknorm.machine import cores
from tasknorm.report import Comparison
from tasknorm.runs import left_out, prepare, read_record
from tasknorm.settings import AS_IT_WAS, read_config
from tasknorm.training import RunFolder

SLACK = 1.1  # rounds may differ in length by so much

Show = Callable[[Sequence[Comparison]], object]


def compare(
    question: Mapping[str, Any],
    norms: Sequence[str] = COMPARED,
    folder: Path = Path("comparison"),
    *,
    seeds: int | None = None,
    minutes: float | None = None,
    processes: int | None = None,
    show: Show = lambda found: None,
) -> list[Comparison]:
    """Train one or more learners with each norm and several seeds, and test them as targets may arrive.

    All norms of a seed begin with the same weights and see the same training and test tasks; TBN, CBN and RN share one
    training. Called again with the same question, it goes on where it stopped.

    Args:
        question: settings that differ from the presets': learner (several separated by commas), source, way, shot, ...
        norms: labels of the norms to compare. With `net` and `pretrained` in the question, each is tuned on top of that
            network, and tested untuned too; the network as it was is compared with them.
        folder: the comparison's folder, which holds a folder for each seed, and in it one for each training.
        seeds: the number of seeds; 3 if neither this nor `minutes` is given.
        minutes: begin no further seed that would not end within this time; the first is always done.
        processes: trainings at a time; as many as cores, if left out.
        show: takes the comparisons, one of each learner, after each seed.

    Returns:
        A comparison of each learner.

    Raises:
        SettingsError: if a setting or norm is unknown, or the folder holds another comparison.
        DataError: if the source cannot give such tasks.
        FailedRunsError: if a training failed; the others are kept.
        StoppedError: after SIGINT or SIGTERM; what was done is kept.
    """
    began = time.monotonic()
    check_free(folder)
    _refuse_old(folder)
    plan = planned(question, norms, folder)
    wanted = plan.settings(plan.learners[0], plan.trained[0])
    if wanted.skip_bad:
        tell_left_out(left_out(wanted))
    _refuse_other_length(plan)
    most = _most(plan, seeds, minutes)
    check_runs([run for number in range(most if minutes is None else 1) for run in plan.runs(number)], folder)
    return _Job(plan, most, minutes, processes or torch.cuda.device_count() or cores(), show, began).done()


class _Job:
    """A comparison under way."""

    def __init__(self, plan: Plan, most: int, minutes: float | None, processes: int, show: Show, began: float) -> None:
        self.plan, self.most, self.minutes, self.processes, self.show = plan, most, minutes, processes, show
        self.began = began
        self.begun = 0  # rounds, those of earlier calls included
        self.complete = 0  # rounds, from the first on
        self.earlier = 0  # rounds that were complete before this call
        self.fresh = not plan.folder.exists()  # nothing was done by an earlier call
        self.running: dict[int, set[str]] = {}  # unfinished runs of each round
        self.found: list[Comparison] = []

    def done(self) -> list[Comparison]:
        """Do all rounds: the comparisons."""
        while self.begun < self.most and not self._unfinished(self.begun):
            self._begin([])
        self.earlier = self.begun
        self._note_complete()
        if self.begun >= self.most or not self._in_time():
            return self.found
        with alone(self.plan.folder), stoppable(self.plan.folder):
            for learner in self.plan.learners:
                prepare(self.plan.settings(learner, self.plan.trained[0]))
            engine = PoolEngine(self.plan.folder, min(self.processes, self.most * len(self.plan.runs(0))))
            try:
                with View(self.plan, self.most, self.minutes, self.complete) as self.view:
                    failed = do_runs([], engine, self._update, self._more)
            finally:
                engine.stop()
        if failed:
            raise FailedRunsError("; ".join(f"{name} failed: {why}" for name, why in failed.items()))
        return self.found

    def _has_untouched(self, learner: str) -> bool:
        """Whether the pretrained network was also tested as it was."""
        return AS_IT_WAS in self.plan.settings(learner, self.plan.trained[0]).tested_weights

    def _more(self) -> list[GridRun]:
        """The runs of the next round, if there is to be one."""
        if self.begun >= self.most or not self._in_time():
            return []
        runs = self._unfinished(self.begun)
        self._begin(runs)
        return runs

    def _in_time(self) -> bool:
        """Whether another round would end in time, if it takes as long as those of this call."""
        here = self.begun - self.earlier
        if self.minutes is None or (here == 0 and self.begun == 0):
            return True
        elapsed = time.monotonic() - self.began
        one = elapsed / here if here else self.found[0].round_seconds
        return elapsed + SLACK * one < 60 * self.minutes

    def _unfinished(self, number: int) -> list[GridRun]:
        runs = self.plan.runs(number)
        check_runs(runs, self.plan.folder)
        return [run for run in runs if not run.at(self.plan.folder).finished()]

    def _begin(self, runs: Sequence[GridRun]) -> None:
        self.running[self.begun] = {run.name for run in runs}
        self.begun += 1

    def _update(self, ended: Mapping[str, str | None]) -> None:
        for name, why in ended.items():
            for names in self.running.values():
                if why is None:
                    names.discard(name)
        self._note_complete()
        self.view.update(self.begun, self.complete, self.found)

    def _note_complete(self) -> None:
        """Read the rounds that have become complete, and show what they say."""
        before = self.complete
        while self.complete < self.begun and not self.running[self.complete]:
            self.complete += 1
        if self.complete > before:
            self.found = self._comparisons()
            self.show(self.found)

    def _comparisons(self) -> list[Comparison]:
        """What the complete rounds say of each learner."""
        found = [
            Comparison(
                [[read_record(place) for place in self.plan.trainings(learner, n)] for n in range(self.complete)],
                [AS_IT_WAS, *self.plan.norms] if self._has_untouched(learner) else self.plan.norms,
                _call(self.plan),
                self.processes,
            )
            for learner in self.plan.learners
        ]
        seconds = sum(sum(one.spent.values()) for one in found)
        elapsed = time.monotonic() - self.began
        whole = not self.earlier and self.complete == self.begun and self.fresh
        other = max(0.0, elapsed - seconds) / len(found) if whole else None
        per_round = max(seconds, elapsed if whole else 0.0) / self.complete
        return [replace(one, other=other, round_seconds=per_round) for one in found]


def _most(plan: Plan, seeds: int | None, minutes: float | None) -> int:
    """The largest number of rounds."""
    wanted = seeds or (SEEDS if minutes is None else 10**6)
    return min(wanted, plan.folds) if plan.folds else wanted


def _call(plan: Plan) -> str:
    """The command that asks this question, without its number of seeds."""
    flags = {"test_tasks": "tasks", "validate_every": None}
    usual = {"learner": "maml", "source": "glyphs", "way": 5, "shot": 1, "test_tasks": 200, "seed": 0}
    words = ["tasknorm", "compare"]
    for key, value in plan.question.items():
        flag = flags.get(key, key)
        if flag is None or value is None or value is False or value == usual.get(key):
            continue
        words += [f"--{flag.replace('_', '-')}", *([] if value is True else [str(value)])]
    if tuple(plan.norms) != (COMPARED_TUNED if is_tuned(plan.question) else COMPARED):
        words += ["--norms", ",".join(plan.norms)]
    return shlex.join([*words, "--out", str(plan.folder)])


def _refuse_other_length(plan: Plan) -> None:
    """Refuse the folder of a comparison whose trainings are longer or shorter."""
    for learner in plan.learners:
        for place, norm in zip(plan.trainings(learner, 0), plan.trained, strict=True):
            config, asked = RunFolder(place).config, plan.settings(learner, norm).iterations
            if config.exists() and (found := read_config(config).get("iterations")) != asked:
                raise SettingsError(
                    f"iterations={asked} contradicts the comparison in {plan.folder}, whose trainings have {found}; "
                    "choose another --out"
                )


def _refuse_old(folder: Path) -> None:
    """Refuse the folder of a comparison that was made with one seed, by version 0.1."""
    name = RunFolder(folder).config.name
    if old := sorted(path.parent.name for path in folder.glob(f"*-*/{name}")):
        raise SettingsError(
            f"{folder}: this folder holds a comparison of an earlier version, with one training for each norm "
            f"({old[0]}, ...); choose another --out, or remove it"
        )
