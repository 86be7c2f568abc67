"""The networks of the paper's experiments, by name; each takes a norm as a callable."""

from tasknorm.kernels import TaskConv2d, TaskLinear
from tasknorm.nets.backbone import Backbone, backbone, is_backbone, load_backbone
from tasknorm.nets.classifier_generator import ClassifierGenerator
from tasknorm.nets.conv4 import Conv4, NormMaker, maml_imagenet, maml_omniglot, protonets_conv4
from tasknorm.nets.efficientnet_lite import EfficientNetLite, efficientnet_lite0
from tasknorm.nets.film import FiLM, FilmGenerator, with_film
from tasknorm.nets.make import NETS, NetMake, NormMake, net_make, norm_make
from tasknorm.nets.resnet import ResNet, resnet18, resnet_small
from tasknorm.nets.set_encoder import SetEncoder

__all__ = [
    "NETS",
    "Backbone",
    "ClassifierGenerator",
    "Conv4",
    "EfficientNetLite",
    "FiLM",
    "FilmGenerator",
    "NetMake",
    "NormMake",
    "NormMaker",
    "ResNet",
    "SetEncoder",
    "TaskConv2d",
    "TaskLinear",
    "backbone",
    "efficientnet_lite0",
    "is_backbone",
    "load_backbone",
    "maml_imagenet",
    "maml_omniglot",
    "net_make",
    "norm_make",
    "protonets_conv4",
    "resnet18",
    "resnet_small",
    "with_film",
]
