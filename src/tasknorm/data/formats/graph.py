"""Classes as the leaves of a graph: the subsets of ImageNet that Meta-Dataset draws its ways from.

Source: google-research/meta-dataset, `imagenet_specification.py`, `sampling.py` (Triantafillou et al., 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasknorm.data.spec import Split
from tasknorm.errors import DataError

FEWEST_LEAVES = 5
MOST_LEAVES = 392


def dag_split(nodes: Sequence[Mapping[str, Any]], images: Mapping[str, int], ids: Mapping[str, int]) -> Split:
    """The leaves of a graph as classes; as groups the eligible internal nodes, which span 5 to 392 leaves.

    Args:
        nodes: the graph; each has a `wn_id` and its `children_ids`.
        images: how many images each node spans, by `wn_id`.
        ids: class id of each leaf, by `wn_id`.

    Raises:
        DataError: if a child is missing, the graph has a cycle, or a leaf is no class.
    """
    children = {str(node["wn_id"]): tuple(map(str, node["children_ids"])) for node in nodes}
    if len(children) != len(nodes):
        raise DataError(f"a graph names each node once, got {len(nodes)} nodes with {len(children)} names; remove one")
    leaves = [name for name, below in children.items() if not below]
    for name in leaves:
        if name not in ids or type(images.get(name)) is not int:
            raise DataError(f"a leaf is a class with a number of images, {name} is not; add it to both lists")
    leaves.sort(key=ids.__getitem__)
    position = {name: i for i, name in enumerate(leaves)}
    spans = _spans(children, position)
    eligible = {name: span for name, span in spans.items() if children[name] and _eligible(span)}
    return Split(
        classes=tuple(ids[name] for name in leaves),
        images=tuple(images[name] for name in leaves),
        groups=tuple(tuple(sorted(span)) for span in eligible.values()),
        kind="dag",
        group_names=tuple(eligible),
    )


def _eligible(span: frozenset[int]) -> bool:
    return FEWEST_LEAVES <= len(span) <= MOST_LEAVES


def _spans(children: Mapping[str, tuple[str, ...]], position: Mapping[str, int]) -> dict[str, frozenset[int]]:
    """The leaves below each node, in the order of `children`. No recursion, since a graph may be deep."""
    spans = {name: frozenset((i,)) for name, i in position.items()}
    for root in children:
        path = [root]  # from the root down to the node in work
        while path:
            waiting = [child for child in children[path[-1]] if child not in spans]
            if not waiting:
                name = path.pop()
                spans.setdefault(name, frozenset().union(*(spans[child] for child in children[name])))
            elif waiting[0] not in children:
                raise DataError(f"a child is a node of the graph, {waiting[0]} is not; add it or remove the link")
            elif waiting[0] in path:
                raise DataError(f"a graph has no cycle, {waiting[0]} lies below itself; remove a link")
            else:
                path.append(waiting[0])
    return {name: spans[name] for name in children}
