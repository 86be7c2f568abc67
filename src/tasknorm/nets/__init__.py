"""The networks of the paper's experiments, by name; each takes a norm as a callable."""

from collections.abc import Callable
from typing import Any

from torch import nn

from tasknorm.nets.conv4 import Conv4, maml_imagenet, maml_omniglot, protonets_conv4
from tasknorm.nets.task_layers import TaskConv2d, TaskLinear

NETS: dict[str, Callable[..., nn.Module]] = {
    "maml-omniglot": maml_omniglot,
    "maml-imagenet": maml_imagenet,
    "protonets-conv4": protonets_conv4,
}

__all__ = ["NETS", "Conv4", "TaskConv2d", "TaskLinear", "maml_imagenet", "maml_omniglot", "protonets_conv4"]
