"""The networks of the paper's experiments, by name; each takes a norm as a callable."""

from collections.abc import Callable

from torch import nn

from tasknorm.kernels import TaskConv2d, TaskLinear
from tasknorm.nets.classifier_generator import ClassifierGenerator
from tasknorm.nets.conv4 import Conv4, NormMaker, maml_imagenet, maml_omniglot, protonets_conv4
from tasknorm.nets.film import FiLM, FilmGenerator
from tasknorm.nets.resnet import ResNet, resnet18, resnet_small
from tasknorm.nets.set_encoder import SetEncoder

NETS: dict[str, Callable[..., nn.Module]] = {
    "maml-omniglot": maml_omniglot,
    "maml-imagenet": maml_imagenet,
    "protonets-conv4": protonets_conv4,
    "resnet18": resnet18,
    "resnet-small": resnet_small,
}

__all__ = [
    "NETS",
    "ClassifierGenerator",
    "Conv4",
    "FiLM",
    "FilmGenerator",
    "NormMaker",
    "ResNet",
    "SetEncoder",
    "TaskConv2d",
    "TaskLinear",
    "maml_imagenet",
    "maml_omniglot",
    "protonets_conv4",
    "resnet18",
    "resnet_small",
]
