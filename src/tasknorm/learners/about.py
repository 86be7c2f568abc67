"""What a predictor's file says about itself: enough to make its net and to use it, and a checksum of it all."""

from __future__ import annotations

import hashlib
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from tasknorm.data import Preparation
from tasknorm.learners.calibration import Calibration
from tasknorm.nets import NetMake, NormMake

FORMAT: Literal["tasknorm predictor 2"] = "tasknorm predictor 2"
MOST_CLASSES = 1 << 16

Tensors = dict[str, Tensor]


class LearnerMake(BaseModel):
    """How the learner is made that learns the task again with more examples.

    Args:
        norm: of its networks beside the net; None if there are none.
        own: its own settings that matter.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    norm: NormMake | None
    own: dict[str, bool | int] = Field(max_length=16)


class About(BaseModel):
    """What a file says about itself; see `Predictor` and `Adapted`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    format: Literal["tasknorm predictor 2"]
    tasknorm: str
    torch: str
    learner: str | None
    net: NetMake | None
    norm: NormMake | None
    norms: str
    classifier: tuple[int, int] | None
    names: list[str] = Field(max_length=MOST_CLASSES)
    label: Literal["transductive", "non-transductive"]
    preparation: Preparation | None
    calibration: Calibration
    calibration_together: Calibration
    kept: LearnerMake | None
    sha256: str

    def signed(self, tensors: Tensors) -> About:
        """The same with the checksum of these tensors and of itself."""
        text = self.model_copy(update={"sha256": ""}).model_dump_json()
        sums = hashlib.sha256(text.encode(errors="surrogatepass"))
        for name, tensor in sorted(tensors.items()):
            sums.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(errors="surrogatepass"))
            sums.update(tensor.cpu().reshape(-1).view(torch.uint8).numpy().data)
        return self.model_copy(update={"sha256": sums.hexdigest()})
