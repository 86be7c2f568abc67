"""Tensors written one by one are a file that safetensors reads."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from safetensors import safe_open

from tasknorm.learners.tensors_file import DTYPES, write_tensors


def test_safetensors_reads_what_was_written(tmp_path: Path) -> None:
    tensors = {str(dtype): torch.randint(0, 2, (3, 5)).to(dtype) for dtype in DTYPES}
    tensors |= {
        "nothing": torch.empty(0, 3),
        "one": torch.tensor(7),
        "turned": torch.rand(4, 6).T,
        "ä 🐦": torch.ones(1),
    }
    with (tmp_path / "file").open("wb") as file:
        write_tensors(file, tensors, {"about": '{"names": ["ä"]}'})
    with safe_open(tmp_path / "file", "pt") as opened:
        assert opened.metadata() == {"about": '{"names": ["ä"]}'}
        assert set(opened.keys()) == set(tensors)
        for name, tensor in tensors.items():
            assert torch.equal(opened.get_tensor(name), tensor)
            assert opened.get_tensor(name).dtype == tensor.dtype


def test_equal_tensors_make_equal_files() -> None:
    one, two = io.BytesIO(), io.BytesIO()
    write_tensors(one, {"a": torch.ones(3), "b": torch.zeros(2, dtype=torch.uint8)}, {})
    write_tensors(two, {"b": torch.zeros(2, dtype=torch.uint8), "a": torch.ones(3)}, {})
    assert one.getvalue() == two.getvalue()
