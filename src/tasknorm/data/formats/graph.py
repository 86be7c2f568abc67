"""Classes as the leaves of a graph: the subsets of ImageNet that Meta-Dataset draws its ways from.

Source: google-research/meta-dataset, `imagenet_specification.py`, `sampling.py` (Triantafillou et al., 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasknorm.data.spec import Split
from tasknorm.errors import DataError, short

FEWEST_LEAVES = 5
MOST_LEAVES = 392


def dag_split(nodes: Any, images: Mapping[str, Any], ids: Mapping[str, int]) -> Split:
    """The leaves of a graph as classes; as groups the eligible internal nodes, which span 5 to 392 leaves.

    Args:
        nodes: the graph, as JSON has it: a list in which each node has a `wn_id` and a list of `children_ids`.
        images: how many images each node spans, by `wn_id`.
        ids: class id of each leaf, by `wn_id`.

    Raises:
        DataError: if a node is malformed, a child is missing, the graph has a cycle, or a leaf is no class.
    """
    children = _children(nodes)
    leaves = [name for name, below in children.items() if not below]
    for name in leaves:
        if name not in ids or type(images.get(name)) is not int or images[name] < 0:
            raise DataError(
                f"the leaf {short(name)} must be in class_names and have a number of images; add it to both"
            )
    leaves.sort(key=ids.__getitem__)
    position = {name: i for i, name in enumerate(leaves)}
    spans = _spans(children, position)
    eligible = {name: span for name, span in spans.items() if children[name] and len(span) >= FEWEST_LEAVES}
    return Split(
        classes=tuple(ids[name] for name in leaves),
        images=tuple(images[name] for name in leaves),
        groups=tuple(tuple(sorted(span)) for span in eligible.values()),
        kind="dag",
        group_names=tuple(eligible),
    )


def _children(nodes: Any) -> dict[str, tuple[str, ...]]:
    """The names of the nodes right below each node."""
    children: dict[str, tuple[str, ...]] = {}
    for node in nodes if isinstance(nodes, list) else [nodes]:
        name, below = (node.get("wn_id"), node.get("children_ids")) if isinstance(node, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(below, list) or not all(isinstance(c, str) for c in below):
            raise DataError(f"a node must have a wn_id and a list of children_ids, got {short(node)}; correct it")
        if name in children:
            raise DataError(f"two nodes have the wn_id {short(name)}; rename or remove one")
        children[name] = tuple(below)
    return children


def _spans(children: Mapping[str, tuple[str, ...]], position: Mapping[str, int]) -> dict[str, frozenset[int]]:
    """The leaves below each node, in the order of `children`; none for a node above more than `MOST_LEAVES`.

    No recursion, since a graph may be deep; and what is too large to be eligible is not kept, since it may be wide.
    """
    spans: dict[str, frozenset[int] | None] = {name: frozenset((i,)) for name, i in position.items()}
    for root in children:
        path = {root: iter(children[root])}  # from the root down to the node in work, with what waits below each
        while path:
            name, waiting = next(reversed(path.items()))
            child = next((child for child in waiting if child not in spans), None)
            if child is None:
                path.popitem()
                spans.setdefault(name, _union([spans[below] for below in children[name]]))
            elif child not in children:
                raise DataError(f"the child {short(child)} is no node of the graph; add it or remove the link")
            elif child in path:
                raise DataError(f"the graph has a cycle: {short(child)} lies below itself; remove a link")
            else:
                path[child] = iter(children[child])
    return {name: spans[name] or frozenset() for name in children}


def _union(spans: list[frozenset[int] | None]) -> frozenset[int] | None:
    """All leaves of some nodes; None if they are more than `MOST_LEAVES`."""
    leaves: set[int] = set()
    for span in spans:
        if span is None or len(leaves) > MOST_LEAVES:
            return None
        leaves |= span
    return frozenset(leaves) if len(leaves) <= MOST_LEAVES else None
