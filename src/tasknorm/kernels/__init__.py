"""The passes over an activation that every norm shares; the products behind layers that serve many tasks at once."""

from tasknorm.kernels.fused import instance_moments, scale_shift
from tasknorm.kernels.layout import channels_last, images_channels_last, is_channels_last, weight_channels_last
from tasknorm.kernels.passes import at_least_float
from tasknorm.kernels.standardised import can_standardise, standardised
from tasknorm.kernels.task_layers import TaskConv2d, TaskLayer, TaskLinear, as_adapted
from tasknorm.kernels.tracing import is_in_backward, is_traced, is_transformed, snapshot

__all__ = [
    "TaskConv2d",
    "TaskLayer",
    "TaskLinear",
    "as_adapted",
    "at_least_float",
    "can_standardise",
    "channels_last",
    "images_channels_last",
    "instance_moments",
    "is_channels_last",
    "is_in_backward",
    "is_traced",
    "is_transformed",
    "scale_shift",
    "snapshot",
    "standardised",
    "weight_channels_last",
]
