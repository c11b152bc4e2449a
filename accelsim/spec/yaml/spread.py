"""Families of keys in a table of a spec file: members in the place of their family, without those left out."""

from __future__ import annotations

from collections.abc import Container

import yaml

from accelsim.spec.families import NONE, Families

Pairs = dict[str, tuple[yaml.Node, yaml.Node]]
"""Key -> the nodes of key and value, as they are written."""


def spread(pairs: Pairs, beneath: Container[str], families: Families) -> tuple[Pairs, dict[str, list[str]]]:
    """``pairs`` with the members of each family in its place, and key -> what it leaves out (``Relu: none``).

    That can be what a family brings or what the table ``beneath`` has, on top of which the pairs go. A member that is
    named itself wins over its family.
    """
    kept = {key: nodes for key, nodes in pairs.items() if not _is_none(nodes[1])}
    brought = {member: kept[key] for key in kept for member in families.members.get(key, ())}
    left_out = {
        key: [each for each in families.members.get(key, (key,)) if each in brought or each in beneath]
        for key in pairs
        if key not in kept
    }
    gone = {member for members in left_out.values() for member in members}
    spread = {member: nodes for member, nodes in brought.items() if member not in gone}
    return spread | {key: nodes for key, nodes in kept.items() if key not in families.members}, left_out


def _is_none(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == NONE
