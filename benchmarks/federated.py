"""Federated learning with clients that draw differently: average everything, or leave the moments at home?

    python benchmarks/federated.py --json > results/federated.json

Four clients have drawings of the same 20 letters, each in a typeface and a style of its own, and too few of them: five
of each letter. They train a Conv-4 together, without showing each other a drawing. A fifth client comes later, with
drawings that have no labels.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm import NORMS, split_state
from tasknorm.data.sources.glyphs import shape
from tasknorm.data.sources.jitter import drawn
from tasknorm.evaluation import over_seeds
from tasknorm.files import write_atomically
from tasknorm.nets import protonets_conv4
from tasknorm.norms import averaged_running

LETTERS = "ABCDEFGHJKLMNPRSTUVX"
SIZE, TRAINED, TESTED, BATCH, RATE = 28, 5, 10, 20, 0.1
METHODS = ("local", "FedAvg", "SiloBN", "FedBN")
ANEW = ", moments anew"  # each client averages its moments once more, with the final weights
State = dict[str, Any]


def inverted(x: Tensor) -> Tensor:
    """Black on white."""
    return 1 - x


def blurred(x: Tensor) -> Tensor:
    """Out of focus."""
    return F.avg_pool2d(x, 5, stride=1, padding=2)


def faint(x: Tensor) -> Tensor:
    """Light grey on grey."""
    return 0.5 + 0.2 * x


def dim(x: Tensor) -> Tensor:
    """Dark grey on grey."""
    return 0.6 - 0.3 * x


@dataclass(frozen=True)
class Style:
    """How a client draws."""

    font: str
    change: Callable[[Tensor], Tensor]


STYLES = {
    "plain": Style("DejaVuSans", lambda x: x),
    "inverted": Style("DejaVuSerif", inverted),
    "blurred": Style("DejaVuSansMono", blurred),
    "faint": Style("STIXGeneral", faint),
}
NEW = Style("DejaVuSerif", dim)


def drawings(style: Style, count: int, seed: Sequence[int]) -> tuple[Tensor, Tensor]:
    """So many drawings of every letter, `(drawings, 1, size, size)` from 0 to 1, and their labels."""
    shapes = np.stack([shape(letter, style.font) for letter in LETTERS for _ in range(count)])
    pixels = drawn(torch.from_numpy(shapes), SIZE, np.random.default_rng(list(seed)))
    return style.change(torch.from_numpy(pixels)[:, None].float() / 255), torch.arange(len(LETTERS)).repeat_interleave(
        count
    )


class Client:
    """Drawings of one style, and the model's state there.

    Args:
        style: how it draws.
        seed: of its drawings.
    """

    def __init__(self, style: Style, seed: Sequence[int]) -> None:
        self.x, self.y = drawings(style, TRAINED, [*seed, 0])
        self.test_x, self.test_y = drawings(style, TESTED, [*seed, 1])
        self.state: State = {}

    def train(self, model: nn.Module, generator: torch.Generator) -> None:
        """One epoch, from the client's state, which it then replaces."""
        model.load_state_dict(self.state)
        optimizer = torch.optim.SGD(model.train().parameters(), lr=RATE)
        for rows in torch.randperm(len(self.y), generator=generator).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(self.x[rows]), self.y[rows]).backward()
            optimizer.step()
        self.state = copy.deepcopy(model.state_dict())

    @torch.no_grad()
    def accuracy(self, model: nn.Module, state: Mapping[str, Any]) -> float:
        """Of a state, on drawings that no training saw."""
        model.load_state_dict(state)
        return float((model.eval()(self.test_x).argmax(1) == self.test_y).double().mean())

    @torch.no_grad()
    def with_own_moments(self, model: nn.Module, state: Mapping[str, Any]) -> State:
        """The state with running moments of this client's drawings, for which it needs no labels."""
        model.load_state_dict(state)
        with averaged_running(model):
            for part in self.x[torch.randperm(len(self.x), generator=torch.Generator().manual_seed(0))].split(BATCH):
                model(part)
        return copy.deepcopy(model.state_dict())


def averaged(states: Sequence[Mapping[str, Any]]) -> State:
    """The mean of every tensor; whole numbers are rounded."""
    means = {name: torch.stack([state[name].double() for state in states]).mean(0) for name in states[0]}
    return {name: mean.to(states[0][name].dtype) for name, mean in means.items()}


def network(filters: int) -> nn.Module:
    """Conv-4 with batch norm, and a linear classifier."""
    body = protonets_conv4(NORMS["CBN"], filters=filters, image_shape=(1, SIZE, SIZE))
    with torch.no_grad():
        features = body.eval()(torch.zeros(1, 1, SIZE, SIZE)).shape[1]
    return nn.Sequential(body, nn.Linear(features, len(LETTERS)))


def trained(method: str, model: nn.Module, clients: Sequence[Client], rounds: int, seed: int) -> None:
    """Train the clients from the model's state, together unless the method is "local"."""
    generator = torch.Generator().manual_seed(seed)
    for client in clients:
        client.state = copy.deepcopy(model.state_dict())
    for _ in range(rounds):
        for client in clients:
            client.train(model, generator)
        if method == "local":
            continue
        parts = [_parts(method, model, client.state) for client in clients]
        shared = averaged([part[0] for part in parts])
        for client, (_, local) in zip(clients, parts, strict=True):
            client.state = shared | local


def _parts(method: str, model: nn.Module, state: State) -> tuple[State, State]:
    """What of a client's state is averaged, and what stays."""
    if method == "FedAvg":
        return state, {}
    model.load_state_dict(state)
    return split_state(model, "SiloBN" if method == "SiloBN" else "FedBN")


def once(seed: int, filters: int, rounds: int) -> dict[str, dict[str, float]]:
    """Accuracies by method: of every client, of the new one, and the mean over all but the new one."""
    clients = {name: Client(style, [seed, number]) for number, (name, style) in enumerate(STYLES.items())}
    new = Client(NEW, [seed, len(STYLES)])
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        torch.manual_seed(seed)
        model = network(filters)
        trained(method, model, list(clients.values()), rounds, seed)
        found[method] = {name: client.accuracy(model, client.state) for name, client in clients.items()}
        if method != "local":
            found[method]["new"] = new.accuracy(model, averaged([client.state for client in clients.values()]))
        if method in ("SiloBN", "FedBN"):
            for client in clients.values():
                client.state = client.with_own_moments(model, client.state)
            anew = {name: client.accuracy(model, client.state) for name, client in clients.items()}
            together = averaged([client.state for client in clients.values()])
            found[method + ANEW] = anew | {"new": new.accuracy(model, new.with_own_moments(model, together))}
    for row in found.values():
        row["mean"] = sum(row[name] for name in clients) / len(clients)
    return found


def percent(values: Sequence[float]) -> dict[str, float]:
    """Mean over seeds, and half the width of its 95 % interval, in percent."""
    found = over_seeds(values)
    return {"mean": round(100 * found.mean, 1), "interval": round(100 * found.interval, 1)}


def summarised(runs: Sequence[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Over seeds; and the paired differences of the mean over clients from FedAvg's."""
    rows: dict[str, Any] = {}
    for method in runs[0]:
        rows[method] = {name: percent([run[method][name] for run in runs]) for name in runs[0][method]}
        if method != "FedAvg":
            rows[method]["vs FedAvg"] = percent([run[method]["mean"] - run["FedAvg"]["mean"] for run in runs])
    return rows


def table(rows: dict[str, Any]) -> str:
    """The page's table."""
    names = [*STYLES, "mean", "vs FedAvg", "new"]
    lines = ["| method | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for method, row in rows.items():
        signs = {name: "+" if name == "vs FedAvg" else "" for name in names}
        cells = [f"{row[n]['mean']:{signs[n]}.1f} ± {row[n]['interval']:.1f}" if n in row else "" for n in names]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, at least 2")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of training and averaging")
    parser.add_argument("--filters", type=int, default=16, help="filters of each layer of Conv-4")
    parser.add_argument("--keep", type=Path, help="folder of what is finished, for a run in several goes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for seed in range(asked.seeds):
        file = asked.keep / f"{seed}-{asked.filters}-{asked.rounds}.json" if asked.keep else None
        runs.append(json.loads(file.read_text()) if file and file.exists() else once(seed, asked.filters, asked.rounds))
        if file:
            write_atomically(file, json.dumps(runs[-1]).encode())
        print({method: round(row["mean"], 3) for method, row in runs[-1].items()}, file=sys.stderr)
    rows = summarised(runs)
    settings = {"seeds": asked.seeds, "rounds": asked.rounds, "filters": asked.filters}
    print(json.dumps(settings | {"accuracies": rows}, indent=2) if asked.json else table(rows))


if __name__ == "__main__":
    main()
