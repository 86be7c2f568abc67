"""A pretraining in its folder."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tasknorm.data import opened
from tasknorm.errors import SettingsError
from tasknorm.files import alone, check_free
from tasknorm.runs.run import Run
from tasknorm.runs.speed import Speed
from tasknorm.settings import PretrainSettings, read_config
from tasknorm.training import last_iteration, pretrain

ALIKE = {"seed", "fold", "epochs", "learning_rate", "device"}  # hardly matter for the speed
TIMED = 2  # epochs of one that is only timed


class PretrainingRun(Run[PretrainSettings]):
    """Supervised training of a feature extractor (see `Run`)."""

    verb = "pretrain"
    name = "pretraining"

    def finished(self) -> bool:
        """Whether the weights are there, and the record has all epochs; a damaged record is made again."""
        if not (self.files.pretraining.exists() and self.files.extractor.exists()):
            return False
        try:
            return len(read_config(self.files.pretraining)["epochs"]) >= self.settings.epochs
        except (SettingsError, KeyError, TypeError):
            return False

    def done(self) -> int:
        """Epochs that it has behind it."""
        return self.settings.epochs if self.finished() else last_iteration(self.files.checkpoints)

    def do(self) -> dict[str, Any]:
        """Pretrain, from the last epoch: the contents of `pretraining.json`."""
        check_free(self.files.path)
        self.check()
        opened(self.settings.source)  # nothing is written for a source that is not there
        with alone(self.files.path):
            self.write_config()
            return pretrain(self.settings, self.files.path)

    def part(self, share: float) -> PretrainSettings:
        """A pretraining stays whole: the runs that need it need all of it."""
        return self.settings

    def speed(self) -> Speed | None:
        """From the times of its last two checkpoints."""
        try:
            times = [path.stat().st_mtime for path in sorted(self.files.checkpoints.glob("[0-9]*"))]
        except FileNotFoundError:  # the oldest was just removed
            return None
        return Speed(times[-1] - times[-2]) if len(times) > 1 else None

    def seconds(self, speed: Speed) -> float:
        """Estimated seconds of all epochs."""
        return self.settings.epochs * speed.iteration

    def kind(self) -> str:
        """What an epoch's speed depends on."""
        values = {key: value for key, value in self.settings.values().items() if key not in ALIKE}
        return f"pretrain-{hashlib.sha256(json.dumps(values).encode()).hexdigest()[:8]}"

    def shortened(self) -> PretrainSettings | None:
        """Two epochs."""
        return None if self.settings.epochs <= TIMED else self.settings.with_length(TIMED)
