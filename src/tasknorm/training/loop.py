"""The one meta-training loop, for every learner: section 2.1, with the settings of appendix B."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tasknorm.episode import Episode
from tasknorm.errors import DivergedError, LostProcessError, SettingsError, StoppedError, at
from tasknorm.learners import Learner
from tasknorm.machine import Processes, in_order
from tasknorm.settings import AS_IT_WAS, START, Settings
from tasknorm.training.best_weights import Accuracies, Candidate, is_better, is_better_on_average
from tasknorm.training.checkpoint import Checkpoint, newest_checkpoint, write_checkpoint
from tasknorm.training.meta_step import meta_step
from tasknorm.training.metrics import read_metrics
from tasknorm.training.run_folder import RunFolder
from tasknorm.training.watch import Watch
from tasknorm.training.weights_file import label, load_into, weights_of, write_weights

CANDIDATE = "candidate"  # in the label of the best weights: which of the candidates they are
Validate = Callable[[Learner], dict[str, Accuracies]]  # by norm


def train(
    learner: Learner,
    settings: Settings,
    episode: Callable[[int], Episode],
    validate: Validate,
    folder: Path,
    processes: Processes | None = None,
    as_it_was: Callable[[], Candidate] | None = None,
) -> list[int]:
    """Meta-train a learner, from the newest checkpoint in `folder` if there is one.

    Leaves the trained weights in `learner`, `best.safetensors` (and `best-NORM.safetensors` for norms that share this
    training), `metrics.jsonl` and `checkpoints/` in `folder`.

    Args:
        learner: with its initial weights, on its device.
        settings: the run's settings.
        episode: training task number i, ready for the learner but for its device.
        validate: accuracies of a learner on the validation tasks, by norm and source.
        folder: the run's folder.
        processes: the processes that train together; this one alone if left out.
        as_it_was: the pretrained network before anything was done to it. It and the learner as it starts then compete
            with the training's weights; asked for once, before the first iteration.

    Returns:
        The numbers of CPU threads that the training has computed with, in the order in which they changed.

    Raises:
        StoppedError: after SIGINT or SIGTERM, when the checkpoint is written.
        DivergedError: at a loss or gradient that is not finite; the last good checkpoint stays.
        LostProcessError: if another process of the training has ended.
    """
    processes = processes or Processes()
    files = RunFolder(folder)
    device = next(learner.parameters()).device
    parameters = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    if not settings.iterations:  # a learner without meta-training
        return [torch.get_num_threads()]
    optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate)
    about = label(settings.learner, settings.trained_norm)

    start, best, threads = _resume(learner, optimizer, files, about, processes)
    share = processes.share(settings.meta_batch)
    numbers = (i * settings.meta_batch + task for i in range(start, settings.iterations) for task in share)
    tasks = in_order(episode, numbers, settings.workers, ahead=2 * len(share))
    watch = Watch(
        folder,
        start,
        settings.iterations,
        settings.meta_batch,
        tensorboard=settings.tensorboard,
        quiet=not processes.first,
    )

    better = is_better if as_it_was is None else is_better_on_average

    def keep_if_best(norm: str, by_source: Accuracies, model: Learner | Candidate, candidate: str) -> None:
        if not better(by_source, best.get(norm, {})):
            return
        best[norm] = by_source
        if processes.first:
            weights, said = (weights_of(model), about) if isinstance(model, Learner) else (model.weights, model.about)
            said = said if as_it_was is None else said | {CANDIDATE: candidate}
            write_weights(files.best(norm, settings.norm), weights, said)

    def validated(iteration: int) -> None:
        accuracies = validate(learner)
        watch.validation(iteration, accuracies)
        for norm, by_source in accuracies.items():
            keep_if_best(norm, by_source, learner, f"iteration {iteration}" if iteration else START)

    def begin() -> None:
        """What comes before the first iteration."""
        learner.begin(lambda number: episode(number).to(device))
        if processes.count > 1:
            load_into(learner, processes.same(weights_of(learner)), folder)
        if as_it_was is not None:
            untouched = as_it_was()
            watch.as_it_was(untouched.accuracies)
            for norm in settings.tested_norms:
                keep_if_best(norm, untouched.accuracies, untouched, AS_IT_WAS)
            validated(0)

    with _signals() as received, watch, _telling_how_to_go_on(folder):
        if not start:
            begin()
        for iteration in range(start + 1, settings.iterations + 1):
            episodes = [next(tasks).to(device) for _ in share]
            first = (iteration - 1) * settings.meta_batch + share.start
            optimizer.param_groups[0]["lr"] = learning_rate(settings, iteration)

            learner.train()
            optimizer.zero_grad()
            try:
                step = meta_step(learner, episodes, settings, processes, first=first, stop=bool(received))
            except DivergedError as error:
                raise DivergedError(f"iteration {iteration}: {error}; lower the learning rate") from None
            if settings.clip is not None:
                nn.utils.clip_grad_value_(parameters, settings.clip)
            optimizer.step()
            context = sum(len(episode.context_y) for episode in episodes) / len(episodes)
            watch.step(iteration, step.loss, step.accuracy, optimizer.param_groups[0]["lr"], context)

            last = iteration == settings.iterations
            if settings.validate_every and (last or iteration % settings.validate_every == 0):
                validated(iteration)
            if (last or step.stop or iteration % settings.checkpoint_every == 0) and processes.first:
                watch.sync()
                state = _state(optimizer, best, threads)
                write_checkpoint(files.checkpoints, Checkpoint(iteration, weights_of(learner), state), about)
            if step.stop and not last:
                raise StoppedError(f"stopped after iteration {iteration}", received[0] if received else signal.SIGTERM)
            processes.check_parent()
        if settings.validate_every and not best:  # it was stopped before its first validation, and is long enough
            validated(settings.iterations)
    return threads


def check_resumable(settings: Settings, folder: Path) -> None:
    """Raise at once what `train` would raise on resuming, while nothing has been changed.

    Raises:
        WeightsError: if all checkpoints are damaged, or belong to another learner or norm.
        DataError: if a line of `metrics.jsonl` is damaged.
        SettingsError: if the folder holds weights that no training in it has made, such as imported ones.
    """
    files = RunFolder(folder)
    if settings.iterations and files.final.exists() and not (files.metrics.exists() or files.checkpoints.exists()):
        raise SettingsError(
            f"{at(files.final)}: there is no training to resume, only its weights, which a new one would replace; "
            "choose another folder with --out"
        )
    newest_checkpoint(files.checkpoints, label(settings.learner, settings.trained_norm), lambda text: None)
    read_metrics(files.metrics)


def learning_rate(settings: Settings, iteration: int) -> float:
    """The learning rate of an iteration, the first being 1."""
    halvings = (iteration - 1) // settings.halve_every if settings.halve_every else 0
    return settings.learning_rate * 0.5**halvings


def _state(optimizer: torch.optim.Optimizer, best: dict[str, Accuracies], threads: list[int]) -> dict[str, Any]:
    """All of training but the weights."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    random = {"torch": torch.get_rng_state(), "cuda": cuda}
    return {"optimizer": optimizer.state_dict(), "best": dict(best), "random": random, "threads": threads}


def _resume(
    learner: Learner, optimizer: torch.optim.Optimizer, files: RunFolder, about: dict[str, str], processes: Processes
) -> tuple[int, dict[str, Accuracies], list[int]]:
    """Load the newest checkpoint: iterations done, best validation accuracies by norm, numbers of threads so far."""
    say = partial(print, file=sys.stderr)
    found = newest_checkpoint(files.checkpoints, about, say) if processes.first else None
    checkpoint: Checkpoint | None = processes.same(found)
    now = torch.get_num_threads()
    if checkpoint is None:
        return 0, {}, [now]
    load_into(learner, checkpoint.weights, files.checkpoints)
    optimizer.load_state_dict(checkpoint.state["optimizer"])
    torch.set_rng_state(checkpoint.state["random"]["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(checkpoint.state["random"]["cuda"])
    threads: list[int] = checkpoint.state.get("threads", [now])
    if threads[-1] != now:
        threads = [*threads, now]
        if processes.first:
            say(_other_threads(checkpoint.iteration, threads[-2], now))
    return checkpoint.iteration, checkpoint.state["best"], threads


def _other_threads(iteration: int, before: int, now: int) -> str:
    return (
        f"iterations 1 to {iteration} were computed with {before} CPU threads, the rest will be with {now}: results "
        f"will equal those of an unbroken run up to rounding; for equal bits set OMP_NUM_THREADS={before}"
    )


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Numbers of the signals that asked to stop. A second one stops at once."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _telling_how_to_go_on(folder: Path) -> Iterator[None]:
    hint = f"continue with: tasknorm train --out {folder} --resume"
    try:
        yield
    except StoppedError as error:
        raise StoppedError(f"{error}; {hint}", error.received) from None
    except DivergedError as error:
        raise DivergedError(f"{error}; the last good checkpoint is in {RunFolder(folder).checkpoints}") from None
    except LostProcessError as error:
        raise LostProcessError(f"{error}; {hint}, under torchrun as before") from None
