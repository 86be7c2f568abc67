"""Speed and memory of every norm in a training step, as ratios to eager `nn.BatchNorm2d` in the same process.

A step is forward and backward of one layer, in training, over a joint pass of context and target (half the batch
each), on one thread. The phase is entered once around the steps, as a network enters it once for all its layers. Each
ratio compares the fastest of several runs with the fastest of BatchNorm's, timed in turn. The figure for a norm is the
geometric mean over the shapes. Memory is the peak of the bytes that a step allocates, by torch's profiler.

    python benchmarks/layers.py              all norms, eager and compiled: 5 to 15 minutes
    python benchmarks/layers.py --quick      three small shapes, only TaskNorm-I compiled: 30 seconds
    python benchmarks/layers.py --json       prints JSON
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

import tasknorm
from stopwatch import fastest, peak_bytes

SHAPES = (
    (5, 64, 14, 14),
    (25, 64, 14, 14),
    (100, 64, 7, 7),
    (100, 64, 28, 28),
    (100, 64, 42, 42),
    (50, 64, 84, 84),
    (200, 128, 16, 16),
)
QUICK_SHAPES = SHAPES[:3]

Step = Callable[[], None]


class Transcription(nn.Module):
    """TaskNorm-I with equations 2 to 4 and 8 to 11 in plain operations: what our layers should beat."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, num_features, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, num_features, 1, 1))
        self.scale = nn.Parameter(torch.zeros(()))
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, a: Tensor) -> Tensor:
        context = a[: len(a) // 2]
        mu_bn = context.mean((0, 2, 3), keepdim=True)
        var_bn = ((context - mu_bn) ** 2).mean((0, 2, 3), keepdim=True)
        mu_in = a.mean((2, 3), keepdim=True)
        var_in = ((a - mu_in) ** 2).mean((2, 3), keepdim=True)
        alpha = torch.sigmoid(self.scale * len(context) + self.offset)
        mu = alpha * mu_bn + (1 - alpha) * mu_in
        var = alpha * (var_bn + (mu_bn - mu) ** 2) + (1 - alpha) * (var_in + (mu_in - mu) ** 2)
        return self.weight * (a - mu) / torch.sqrt(var + 1e-5) + self.bias


def training_step(layer: Callable[[Tensor], Tensor], module: nn.Module, shape: tuple[int, ...]) -> Step:
    """Forward and backward of `layer`, whose parameters are `module`'s, on activations of this shape."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).requires_grad_()
    grad = torch.randn(shape, generator=generator)

    def step() -> None:
        layer(x).backward(grad)
        x.grad = None
        for parameter in module.parameters():
            parameter.grad = None

    return step


def compiled_layer(norm: tasknorm.Norm) -> Callable[[Tensor], Tensor]:
    torch._dynamo.reset()
    return torch.compile(norm, fullgraph=True, dynamic=False)


def has_compiler() -> bool:
    """Whether torch.compile can work here: it needs a C++ compiler."""
    try:
        torch.compile(lambda x: x + 1, fullgraph=True)(torch.ones(2))
    except RuntimeError:
        return False
    return True


def trained(label: str, shape: tuple[int, ...]) -> tasknorm.Norm:
    """The norm with this label, in training mode, as if it had running moments, which Baseline needs."""
    norm = tasknorm.NORMS[label](shape[1])
    norm.num_batches_tracked.fill_(1)
    return norm.train()


def measure(shape: tuple[int, ...], compiled: set[str], repeats: int) -> dict[str, dict[str, float]]:
    """For each way of running a norm on this shape, time and memory relative to eager BatchNorm2d."""
    batch_norm = nn.BatchNorm2d(shape[1])
    transcription = Transcription(shape[1])
    reference = training_step(batch_norm, batch_norm, shape)
    memory = peak_bytes(reference)

    def ratios(step: Step) -> dict[str, float]:
        seconds = fastest({"reference": reference, "ours": step}, repeats)
        return {"time": seconds["ours"] / seconds["reference"], "memory": peak_bytes(step) / memory}

    result = {}
    for label in tasknorm.NORMS:
        norm = trained(label, shape)
        with tasknorm.joint(norm, context_size=shape[0] // 2):
            result[f"{label}/eager"] = ratios(training_step(norm, norm, shape))
            if label in compiled:
                result[f"{label}/compiled"] = ratios(training_step(compiled_layer(norm), norm, shape))
    result["transcription/eager"] = ratios(training_step(transcription, transcription, shape))
    return result


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(measured: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """`{norm: {eager or compiled: {time, memory}}}`, geometric means over the shapes."""
    result: dict[str, dict[str, dict[str, float]]] = {}
    for name in next(iter(measured.values())):
        norm, mode = name.split("/")
        result.setdefault(norm, {})[mode] = {
            what: round(geometric_mean([ratios[name][what] for ratios in measured.values()]), 3)
            for what in ("time", "memory")
        }
    return result


def table(ratios: dict[str, dict[str, dict[str, float]]]) -> str:
    """The ratios as a Markdown table."""
    columns = [(what, mode) for what in ("time", "memory") for mode in ("eager", "compiled")]
    lines = [
        "| norm | " + " | ".join(f"{what}, {mode}" for what, mode in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for norm, modes in ratios.items():
        cells = [f"{modes[mode][what]:.2f}" if mode in modes else "" for what, mode in columns]
        lines.append(f"| {norm} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--quick", action="store_true", help="three small shapes, only TaskNorm-I compiled")
    parser.add_argument("--eager", action="store_true", help="skip the compiled norms")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    compiled = {"TaskNorm-I"} if arguments.quick else set(tasknorm.NORMS)
    if arguments.eager or not has_compiler():
        compiled = set()
    shapes = QUICK_SHAPES if arguments.quick else SHAPES
    measured = {str(list(shape)): measure(shape, compiled, 15) for shape in shapes}
    if arguments.json:
        print(json.dumps({"torch": torch.__version__, "ratios": summary(measured), "shapes": measured}, indent=1))
        return
    print(f"Forward + backward relative to eager nn.BatchNorm2d, torch {torch.__version__}, one thread:\n")
    print(table(summary(measured)))


if __name__ == "__main__":
    main()
