"""The paper's tables and figures, each from its file in `experiments/`: which runs it needs, at each scale.

Runs have their names from their settings, so experiments share them: a figure's runs are mostly those of a table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from tasknorm.errors import SettingsError
from tasknorm.grid.grid_run import GridRun
from tasknorm.learners import LEARNERS
from tasknorm.runs import AnySettings
from tasknorm.settings import PretrainSettings, Settings, meant

SCALES = ("paper", "cpu", "smoke")
DIAGRAMS = ("fig:model_graph", "fig:normalization_methods")  # of the paper, with nothing to run


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Args:
        name: the name of its file.
        title: what it shows.
        label: the paper's.
        expect: what should come out, in words.
        scales: by name, what its runs are and cost.
    """

    name: str
    title: str
    label: str
    expect: str
    scales: dict[str, dict[str, Any]]

    def cost(self, scale: str) -> str:
        """What its runs cost, in words."""
        return str(self.scales[scale]["cost"])

    def runs(self, scale: str, folder: Path) -> list[GridRun]:
        """Its runs, and those that they need.

        Args:
            scale: one of `SCALES`.
            folder: the grid's folder, where pretrained weights will be.
        """
        if scale not in SCALES:
            raise SettingsError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
        table = self.scales[scale]
        found: list[GridRun] = []
        for block in table.get("runs", []):
            for settings in combinations(table.get("settings", {}) | block):
                found += runs_of(settings, folder)
        for block in table.get("use", []):
            found += self._used(block, scale, folder)
        return together(found)

    def _used(self, block: dict[str, Any], scale: str, folder: Path) -> list[GridRun]:
        """Runs of another experiment, those with the settings named, changed in what stands under `each`."""
        other = {"experiment", "each"}
        wanted = {"learner": list(LEARNERS)} | {key: value for key, value in block.items() if key not in other}
        theirs = experiment(block["experiment"]).runs(scale, folder)
        used = [run for run in theirs if matches(run.settings, wanted)]
        if not used:
            raise SettingsError(f"{self.name}: no run of {block['experiment']} has {wanted}; correct [[{scale}.use]]")
        needed = {name for run in used for name in run.needs}
        changed = []
        for run in used:
            for changes in combinations({"each": block.get("each", {})}):
                settings = Settings.of(run.settings.values() | changes)
                changed.append(GridRun(run_name(settings), settings, run.needs))
        return [run for run in theirs if run.name in needed] + changed


def combinations(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings of a block, with every combination of those under `each`.

    >>> [one["norm"] for one in combinations({"learner": "maml", "each": {"norm": ["CBN", "IN"]}})]
    ['CBN', 'IN']
    """
    each = block.get("each", {})
    fixed = {key: value for key, value in block.items() if key != "each"}
    for values in product(*each.values()):
        yield fixed | dict(zip(each, values, strict=True))


def runs_of(given: dict[str, Any], folder: Path) -> list[GridRun]:
    """A run from its settings, after the pretraining that it wants, if any."""
    given = dict(given)
    wanted = given.pop("pretrain", None)
    if wanted is None:
        settings = Settings.of(given)
        return [GridRun(run_name(settings), settings)]
    first = GridRun(f"pretrain-{wanted['source']}-{wanted['net']}", PretrainSettings.of(wanted))
    settings = Settings.of(given | {"pretrained": str(first.at(folder).files.extractor)})
    return [first, GridRun(run_name(settings), settings, (first.name,))]


def run_name(settings: Settings) -> str:
    """The name of a run, from its settings: learner, source, way and shot if they are fixed, norm, unusual alpha.

    >>> run_name(Settings.of({"learner": "maml", "source": "omniglot", "norm": "IN"}))
    'maml-omniglot-5-1-IN'
    """
    usual = Settings.of({key: value for key, value in settings.values().items() if key != "alpha"})
    parts = [settings.learner, Path(settings.source).stem if len(settings.sources) == 1 else "meta_dataset"]
    if settings.sampling == "fixed":
        parts += ["+".join(str(way) for way in settings.tested_ways), str(settings.shot)]
    parts += [settings.norm]
    parts += [settings.alpha] if settings.alpha and settings.alpha != usual.alpha else []
    parts += [f"seed{settings.seed}"] if settings.seed else []
    return "-".join(parts)


def matches(settings: AnySettings, wanted: dict[str, Any]) -> bool:
    """Whether settings have the wanted values; of a list, any."""
    values = settings.values()
    return all(
        key in values and values[key] in (value if isinstance(value, list) else [value])
        for key, value in wanted.items()
    )


def together(runs: Iterable[GridRun]) -> list[GridRun]:
    """Each run once.

    Raises:
        SettingsError: if runs of one name differ.
    """
    found: dict[str, GridRun] = {}
    for run in runs:
        if found.setdefault(run.name, run) != run:
            raise SettingsError(f"two experiments want different settings for {run.name}; make them agree")
    return list(found.values())


def experiment(name: str) -> Experiment:
    """An experiment by its name, or by the paper's label.

    Raises:
        SettingsError: if there is none; lists the choices.
    """
    name = name.removeprefix("tab:").removeprefix("fig:")
    path = files("tasknorm") / "experiments" / f"{name}.toml"
    if not path.is_file():
        raise SettingsError(f"unknown experiment {name!r}; {meant(name, names())}")
    values = tomllib.loads(path.read_text())
    scales = {scale: values.pop(scale) for scale in SCALES}
    values["expect"] = " ".join(values["expect"].split())
    return Experiment(name=name, scales=scales, **values)


def names() -> list[str]:
    """The names of all experiments, tables first."""
    found = [path.name.removesuffix(".toml") for path in (files("tasknorm") / "experiments").iterdir()]
    return sorted(found, key=lambda name: (not _is_table(name), name))


def _is_table(name: str) -> bool:
    return (files("tasknorm") / "experiments" / f"{name}.toml").read_text().find('label = "tab:') >= 0


def all_runs(experiments: Sequence[Experiment], scale: str, folder: Path) -> list[GridRun]:
    """The grid of some experiments."""
    return together(run for one in experiments for run in one.runs(scale, folder))
