"""Networks of others that a file may ask for: a stranger's file must not import modules or call functions at will.

They are functions of this package, and some families of transformers by nothing but their shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field
from torch import nn

KNOWN = ("tasknorm.nets:efficientnet_lite0",)
# What makes the shape of a family's network, by its `model_type`.
FAMILIES: dict[str, tuple[str, ...]] = {
    "resnet": (
        "num_channels",
        "embedding_size",
        "hidden_sizes",
        "depths",
        "layer_type",
        "hidden_act",
        "downsample_in_first_stage",
        "downsample_in_bottleneck",
    ),
    "regnet": ("num_channels", "embedding_size", "hidden_sizes", "depths", "groups_width", "layer_type", "hidden_act"),
    "mobilenet_v2": (
        "num_channels",
        "depth_multiplier",
        "depth_divisible_by",
        "min_depth",
        "expand_ratio",
        "output_stride",
        "first_layer_is_expansion",
        "finegrained_output",
        "hidden_act",
        "tf_padding",
        "layer_norm_eps",
    ),
    "convnext": (
        "num_channels",
        "patch_size",
        "num_stages",
        "hidden_sizes",
        "depths",
        "hidden_act",
        "layer_norm_eps",
        "layer_scale_init_value",
        "drop_path_rate",
    ),
}
MOST_LAYERS = 1000

Count = Annotated[int, Field(ge=0, le=1 << 16)]
Text = Annotated[str, Field(max_length=100)]
Config = dict[Text, bool | Count | float | Text | Annotated[list[Count], Field(max_length=64)]]


def family_of(net: nn.Module) -> str | None:
    """The `model_type` of a network of transformers; None for another network."""
    found = getattr(getattr(net, "config", None), "model_type", None)
    return found if isinstance(found, str) else None


def config_of(net: nn.Module) -> Config | None:
    """What makes the shape of a network of transformers; None if its family is not one of `FAMILIES`."""
    keys = FAMILIES.get(family_of(net) or "")
    return None if keys is None else {key: getattr(net.config, key) for key in keys}


def of_config(family: str, config: Mapping[str, Any]) -> nn.Module:
    """A network of transformers by its shape, with random weights.

    Raises:
        ValueError: if the family or a key of the config is unknown, or there is no such network.
        ImportError: if transformers is not installed.
    """
    if set(config) != set(FAMILIES.get(family, ())):
        raise ValueError(f"no network {family!r} of transformers is made by {', '.join(sorted(config))[:200]}")
    if sum(config.get("depths", ())) > MOST_LAYERS:
        raise ValueError(f"a network has at most {MOST_LAYERS} blocks, got {sum(config['depths'])}")
    from transformers import AutoConfig, AutoModel

    try:
        net: nn.Module = AutoModel.from_config(  # type: ignore[no-untyped-call]
            AutoConfig.for_model(family, **config), trust_remote_code=False
        )
    except Exception as error:  # a config of wrong values raises nearly anything
        raise ValueError(f"transformers makes no such network ({error})") from None
    return net
