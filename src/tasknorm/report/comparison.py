"""What a comparison of norms found over several seeds: accuracies, paired differences, a verdict and a table."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Group

from tasknorm.episode import TARGETS, Targets
from tasknorm.evaluation import Accuracy, differ, joint_interval, over_seeds
from tasknorm.report.comparison_table import table, text
from tasknorm.report.render import Table
from tasknorm.report.verdict import sentences
from tasknorm.runs import Record, Result
from tasknorm.settings import AS_IT_WAS, START, Settings

PATH = "folder:"  # before the path of a source


class Cost(NamedTuple):
    """What a norm costs, on one thread: seconds of a training, milliseconds to adapt to a task and predict it."""

    training: float
    task: float


@dataclass(frozen=True)
class Comparison:
    """One learner on one source, trained with several norms and seeds.

    All norms of a round have the same seed and the same tasks: differences are paired within a round, and rounds are
    independent. Intervals over rounds are Student's t; with one round they are of its test tasks alone.

    Args:
        rounds: the records of one seed, or of one fold of the classes, each.
        norms: labels of the norms that were asked for; "as it was" for a pretrained network that nothing was done to.
        call: the command that asks this question, without its number of seeds.
        processes: trainings at a time.
        other: seconds of the wall time that were spent on nothing of `spent`; None if several calls shared the work.
        round_seconds: seconds that the command takes for another round, of all its learners.
    """

    rounds: Sequence[Sequence[Record]]
    norms: Sequence[str]
    call: str = "tasknorm compare"
    processes: int = 1
    other: float | None = None
    round_seconds: float = 0.0

    # What was asked

    @property
    def settings(self) -> Settings:
        """The settings of the first training."""
        return self.rounds[0][0].settings

    @property
    def records(self) -> list[Record]:
        """The records of all trainings."""
        return [record for records in self.rounds for record in records]

    @property
    def learner(self) -> str:
        """The learner's name, as papers print it."""
        return self.settings.kind.title(self.settings.own)

    @property
    def title(self) -> str:
        """The learner, source and shape of tasks that were compared."""
        source = ", ".join(PATH + Path(name).name if name.startswith(PATH) else name for name in self.settings.sources)
        variable = self.settings.sampling == "variable"
        shape = "variable tasks" if variable else f"{self.settings.way}-way {self.settings.shot}-shot"
        return f"{self.learner} on {source}, {shape}"

    @property
    def seeds(self) -> list[int]:
        """The seed of each round."""
        return [records[0].settings.seed for records in self.rounds]

    @property
    def folds(self) -> bool:
        """Whether rounds differ in their test classes, by cross-validation."""
        return self.settings.fold is not None

    @property
    def round_name(self) -> str:
        """What a round is called: a seed or a fold."""
        return "fold" if self.folds else "seed"

    @property
    def command(self) -> str:
        """The command that gives this very comparison."""
        return self.command_for(len(self.rounds))

    def command_for(self, seeds: int) -> str:
        """The command that asks the same with another number of seeds."""
        return f"{self.call} --seeds {seeds}"

    @property
    def versions(self) -> dict[str, str]:
        """The versions that computed this."""
        result = self.records[0].result
        return {"tasknorm": result["tasknorm"], "torch": result["torch"], "python": platform.python_version()}

    # What came out

    @cached_property
    def results(self) -> list[dict[str, dict[str, Result]]]:
        """For each round, test results by norm, then by how targets arrive.

        A norm that the audit proves non-transductive was tested with all targets at once; the other results equal it.
        """
        found: list[dict[str, dict[str, Result]]] = []
        for records in self.rounds:
            rows = [row for record in records for row in record.chosen() if row.norm in self.norms]
            if AS_IT_WAS in self.norms:
                rows += [replace(row, norm=AS_IT_WAS) for row in records[0].results if row.weights == AS_IT_WAS]
            by_norm = {norm: {row.targets: row for row in rows if row.norm == norm} for norm in self.norms}
            found.append({norm: {come: by.get(come, by["all"]) for come in TARGETS} for norm, by in by_norm.items()})
        return found

    def untuned(self, norm: str) -> Accuracy | None:
        """The accuracy of a pretrained network with a norm before its tuning; None if that was not tested."""
        rows = [row for each in self.records for row in each.results if (row.weights, row.norm) == (START, norm)]
        rows = [row for row in rows if row.targets == "all"]
        if not rows:
            return None
        return rows[0].accuracy if len(rows) == 1 else over_seeds([row.accuracy.mean for row in rows])

    def by_seed(self, norm: str, come: Targets) -> list[float]:
        """The mean accuracy in each round."""
        return [results[norm][come].accuracy.mean for results in self.results]

    def accuracy(self, norm: str, come: Targets = "all") -> Accuracy:
        """The mean accuracy over rounds with its 95 % interval; with one round, the interval over its tasks."""
        if len(self.rounds) == 1:
            return self.results[0][norm][come].accuracy
        return over_seeds(self.by_seed(norm, come))

    def paired(self, norm: str, other: str, come: Targets = "all", other_come: Targets = "all") -> Accuracy:
        """How much better a norm is than another: the difference within rounds, and its 95 % interval.

        With one round the interval is of its tasks alone, and wider than a paired one would be.
        """
        pairs = zip(self.by_seed(norm, come), self.by_seed(other, other_come), strict=True)
        differences = [one - another for one, another in pairs]
        if len(differences) == 1:
            tasks = joint_interval(self.accuracy(norm, come), self.accuracy(other, other_come))
            return Accuracy(differences[0], tasks)
        return over_seeds(differences)

    def differences(self, norm: str) -> list[float]:
        """The difference from the best norm in each round."""
        return [a - b for a, b in zip(self.by_seed(norm, "all"), self.by_seed(self.reference, "all"), strict=True)]

    def difference(self, norm: str) -> Accuracy:
        """The difference from the best norm (see `paired`)."""
        return self.paired(norm, self.reference)

    def separated(self, norm: str) -> bool | None:
        """Whether the difference from the best norm is significant at 95 %; None with one round, which cannot tell."""
        if len(self.rounds) == 1:
            return None
        found = self.difference(norm)
        return abs(found.mean) > found.interval + 1e-11

    @cached_property
    def transductive(self) -> list[str]:
        """Norms whose predictions depend on the other targets."""
        first = self.results[0]
        return [norm for norm in self.norms if first[norm]["all"].label.startswith("transductive")]

    @cached_property
    def fair(self) -> list[str]:
        """Norms that are not transductive, the best first."""
        fair = [norm for norm in self.norms if norm not in self.transductive]
        return sorted(fair, key=lambda norm: -self.accuracy(norm).mean)

    @cached_property
    def reference(self) -> str:
        """The best norm: the first of those that are not transductive, if there is one."""
        return self.fair[0] if self.fair else max(self.norms, key=lambda norm: self.accuracy(norm).mean)

    @cached_property
    def best(self) -> list[str]:
        """The norms that cannot be told from the best one that is not transductive, the best first."""
        return [norm for norm in self.fair if not self.separated(norm)]

    def flattered(self, norm: str) -> float:
        """By how many points a norm looks better with all targets at once than otherwise; 0 if that may be chance."""
        return self.fall(norm)[0]

    def fall(self, norm: str) -> tuple[float, Targets]:
        """The larger fall of accuracy, in points, and the way in which targets then arrive."""
        falls: list[tuple[float, Targets]] = [(0.0, "all")]
        for come in (come for come in TARGETS if come != "all"):
            found = self.paired(norm, norm, "all", come)
            one = differ(self.accuracy(norm), self.accuracy(norm, come))
            if one if len(self.rounds) == 1 else found.mean > found.interval + 1e-11:
                falls.append((found.percent, come))
        return max(falls)

    def curves(self, norm: str) -> list[dict[str, Any]]:
        """For each round, the training's `training` curve and the norm's `validation` curve, if it was validated."""
        found = []
        for records in self.rounds:
            result = self._serving(records, norm).result
            accuracy = result["validation"]["accuracy"].get(norm)
            validation = {key: result["validation"][key] for key in ("iteration", "seconds")} | {"accuracy": accuracy}
            found.append({"training": result["curve"], "validation": validation if accuracy else None})
        return found

    def cost(self, norm: str) -> Cost:
        """What a norm costs, as a mean over rounds."""
        serving = [self._serving(records, norm).result for records in self.rounds]
        training = fmean(result.get("spent", {}).get("training", result["seconds"]) for result in serving)
        training = 0.0 if norm == AS_IT_WAS else training
        tested = "Baseline" if norm == AS_IT_WAS else norm
        return Cost(training, 1000 * fmean(result["seconds_per_test_task"][tested] for result in serving))

    def _serving(self, records: Sequence[Record], norm: str) -> Record:
        if norm == AS_IT_WAS:
            return records[0]
        return next(record for record in records if norm in record.settings.tested_norms)

    # How long it took

    @property
    def spent(self) -> dict[str, float]:
        """How the wall time was spent, in seconds; `other` only if one call did all the work."""
        found = dict.fromkeys(("training", "validation", "test", "audit"), 0.0)
        for record in self.records:
            for what, seconds in record.result.get("spent", {}).items():
                found[what] = found.get(what, 0.0) + seconds / self.processes
        return found if self.other is None else found | {"other": self.other}

    # In words

    def verdict(self) -> list[str]:
        """The answer in sentences: which norm to use, what it costs, who peeks, and what would decide."""
        return sentences(self)

    def table(self) -> Table:
        """Norms by the accuracy that they keep however targets arrive, the best first; the best set is bold."""
        return table(self)

    def text(self) -> Group:
        """The table for a terminal."""
        return text(self)
