"""What a training shows and records of each iteration: a progress bar, `metrics.jsonl`, TensorBoard."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import mean
from typing import Any, Self

from tasknorm.files import naming, write_atomically
from tasknorm.progress import Progress
from tasknorm.settings import AS_IT_WAS
from tasknorm.training.metrics import as_text, missing_iterations, read_metrics
from tasknorm.training.run_folder import RunFolder


class Watch:
    """Records each iteration, and shows how far the training is.

    Args:
        folder: the folder of `metrics.jsonl`. Lines after `start` are dropped, since training goes on from there.
        start: the number of iterations that are done already.
        iterations: the number of iterations of the whole run.
        meta_batch: the number of tasks of each iteration.
        tensorboard: also write TensorBoard's events, to `folder/tensorboard`.
        quiet: do nothing at all.

    Raises:
        DataError: if a line of `metrics.jsonl` is damaged.
    """

    def __init__(
        self, folder: Path, start: int, iterations: int, meta_batch: int, *, tensorboard: bool, quiet: bool
    ) -> None:
        self.quiet, self.meta_batch = quiet, meta_batch
        self._bar = Progress("training", iterations, "iterations", done=start, quiet=quiet)
        self._began = self._last = time.monotonic()
        self._start = start
        if quiet:
            return
        files = RunFolder(folder)
        self._board = _board(files.tensorboard, start) if tensorboard else None
        self._path = files.metrics
        self._keep_until(start)
        self._file = self._path.open("a", buffering=1)

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)
        if not self.quiet:
            self._file.close()
            if self._board is not None:
                self._board.close()

    def step(self, iteration: int, loss: float, accuracy: float, learning_rate: float, context: float) -> None:
        """Record one iteration; `context` is the mean size of its contexts."""
        seconds = self._seconds()
        rate = (iteration - self._start) * self.meta_batch / (self._last - self._began)
        values = {"loss": loss, "accuracy": accuracy, "learning_rate": learning_rate, "context": context}
        self._write(iteration, **values, seconds=seconds)
        words = f"loss {loss:.3f}  accuracy {accuracy:.1%}  {rate:.0f} tasks/s"
        self._bar.update(iteration, words)

    def validation(self, iteration: int, accuracies: dict[str, dict[str, float]]) -> None:
        """Record a validation: accuracy by norm and source."""
        values = {}
        for norm, by_source in accuracies.items():
            values[f"validation/{norm}"] = mean(by_source.values())
            if len(by_source) > 1:
                values |= {f"validation/{norm}/{source}": value for source, value in by_source.items()}
        self._write(iteration, **values, seconds=self._seconds())

    def as_it_was(self, accuracies: dict[str, float]) -> None:
        """Record the validation of the pretrained network as it was: accuracy by source."""
        by_source = {f"{AS_IT_WAS}/{source}": value for source, value in accuracies.items()}
        self._write(0, **{AS_IT_WAS: mean(accuracies.values())} | by_source, seconds=self._seconds())

    def say(self, text: str) -> None:
        """Tell the person something."""
        self._bar.say(text)

    def sync(self) -> None:
        """Wait until all lines are on the disk, so that no checkpoint is ahead of them."""
        if not self.quiet:
            with naming(self._path):
                os.fsync(self._file.fileno())

    def _keep_until(self, iteration: int) -> None:
        """Drop the lines of later iterations, and say what is dropped or missing."""
        lines = read_metrics(self._path)
        kept = [line for line in lines if line["iteration"] <= iteration] if iteration else []
        if dropped := len(lines) - len(kept):
            self.say(f"{self._path}: dropping {dropped} lines of iterations after {iteration}, which are done again")
        if missing := missing_iterations(kept, iteration):
            self.say(
                f"{self._path}: {len(missing)} of the iterations from 1 to {iteration} are missing, the first being "
                f"{missing[0]}; the run's curves and times will lack them"
            )
        if self._path.exists():
            write_atomically(self._path, as_text(kept).encode())

    def _seconds(self) -> float:
        """Seconds since this was last asked; those of all lines add up to the time of training."""
        before, self._last = self._last, time.monotonic()
        return self._last - before

    def _write(self, iteration: int, **values: float) -> None:
        if self.quiet:
            return
        with naming(self._path):
            self._file.write(as_text([{"iteration": iteration} | values]))
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, iteration)


def _board(folder: Path, start: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ModuleNotFoundError(
            "tensorboard=True needs TensorBoard, which is not installed; pip install 'tasknorm[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder), purge_step=start + 1)
