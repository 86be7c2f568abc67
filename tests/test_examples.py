"""Every numbered example runs, and says what it is meant to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("0*.py"))


def output(*command: str, **environment: str) -> str:
    """What a command prints; a failure shows its errors."""
    result = subprocess.run(
        [sys.executable, "-W", "error", *command],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"} | environment, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.usefixtures("glyph_cache")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path) -> None:
    printed = output(str(example), MPLBACKEND="template")  # which draws nothing
    expected = {
        "01": "1.1: BatchNorm2d(32) -> TaskNormI(32)",
        "02": "of 50 single images are classified correctly",
        "03": "--- RN:\nnon-transductive",
        "04": "targets: example, non-transductive",
        "05": "TBN: ",
        "06": "episode 2: 15 ways, 127 context and 150 targets",
        "07": "5 classes now; a photo of class23 is taken for class",
        "08": "as the paper counts: ",
        "09": "as it ships: 9 of 9 drawings are recognised",
    }
    assert expected[example.stem[:2]] in printed


def test_importing_the_package_loads_torch_and_nothing_heavier() -> None:
    heavy = "{'matplotlib', 'PIL', 'pandas', 'scipy', 'torchvision', 'typer', 'rich', 'pydantic', 'tensorboard', 'ray'}"
    assert output("-c", f"import tasknorm, sys; print(sorted({heavy} & sys.modules.keys()))").strip() == "[]"


def test_the_layers_need_no_compiler() -> None:
    """With no compiler to be found the layers run all the same, silently."""
    code = (
        "import torch, tasknorm\n"
        "for norm in tasknorm.NORMS.values():\n"
        "    layer = norm(4); layer.num_batches_tracked.fill_(1)\n"
        "    x = torch.randn(6, 4, 3, requires_grad=True)\n"
        "    with tasknorm.joint(layer, context_size=2): layer(x).sum().backward()\n"
        "    assert torch.isfinite(x.grad).all()\n"
    )
    assert output("-c", code, PATH="", CXX="no-such-compiler") == ""
