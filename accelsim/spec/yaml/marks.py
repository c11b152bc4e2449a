"""YAML -> plain tree with the place of every key and value; references to other files put in place.

Scalars stay texts (the field's declared type converts them: YAML alone would read ``no`` as False), only an
empty or ``null`` scalar is None. ``Tree.at`` finds the place of a path, in whichever file it was written.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path as File
from typing import Any

import yaml

from accelsim.errors import LONGEST_NAME, Problem, brief, nearest
from accelsim.spec.base import Model
from accelsim.spec.names import NONE, Families
from accelsim.spec.yaml import where
from accelsim.spec.yaml.kinds import KINDS, ONE, kind_of_model, kind_of_nodes
from accelsim.spec.yaml.shape import annotation_of, chosen, families_of, file_of, model_of
from accelsim.spec.yaml.tree import BROKEN, Mark, PathTo, Tree, about

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEEPEST = 30
"""Blocks that may lie inside each other in one file."""
OWN_LIMIT = "maximum nesting depth"
"""Error of PyYAML since 6.0.4 for far more blocks, raised before it yields the first one."""


@lru_cache(maxsize=256)  # one file is part of many chips, and is asked for its kind before it is read
def compose(text: str, loader: Any = LOADER) -> yaml.Node | None:
    """The nodes of a YAML document, None of an empty one. Raises yaml.YAMLError, also beyond ``DEEPEST``.

    Nobody may change the nodes.
    """
    depth = 0
    event: Any  # the stubs of PyYAML know two kinds of marks
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _too_deep(event.start_mark)
    except yaml.MarkedYAMLError as error:
        if OWN_LIMIT in str(error.problem):
            raise _too_deep(error.problem_mark) from None
        raise
    return yaml.compose(text, Loader=loader)


def _too_deep(where: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=f"more than {DEEPEST} blocks inside each other", problem_mark=where)


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


def read(file: File, model: object, open_files: tuple[File, ...] = ()) -> Tree:
    """The tree of ``file``, a spec of ``model`` (or a union of them), with all files that it names put in place.

    Problems (YAML syntax, duplicate keys, missing files, cycles) are in the tree, not raised.
    """
    try:
        return parse(_text(file), file, model, open_files)
    except (OSError, ValueError) as error:
        problem = Problem(f"cannot be read: {error}", str(file))
        return Tree(BROKEN, values={(): Mark(str(file), 1, 1)}, heads=[()], problems=[problem])


def parse(text: str, file: File, model: object, open_files: tuple[File, ...] = ()) -> Tree:
    """Parse the text of a spec file into a tree. Raises ValueError for text that is not YAML."""
    tree = Tree(values={(): Mark(str(file), 1, 1)}, heads=[()])
    try:
        node = compose(text)
    except yaml.YAMLError as error:
        tree.problems.append(_syntax(file, error))
        tree.value = BROKEN
        return tree
    tree.value = None if node is None else _Builder(file, tree, (*open_files, file.resolve())).build(node, (), model)
    return tree


def _text(file: File) -> str:
    """The text of a spec file. ValueError when it is no text or too long for one."""
    where.READ.add(file)
    size_B = file.stat().st_size
    if size_B > LARGEST_B:
        raise ValueError(f"{size_B:,} B are too many for a spec, which has {LARGEST_B:,} B at the most")
    return file.read_text(encoding="utf-8")


def replace(tree: Tree, path: PathTo, node: yaml.Node | None, annotation: object, place: str) -> object:
    """The value of ``node``, which comes from ``place``; its marks are noted in ``tree`` at ``path``."""
    tree.forget(path)
    mark = Mark(place, 0, 0)
    tree.keys[path] = tree.values[path] = mark
    return None if node is None else _Builder(File(), tree, (), mark).build(node, path, annotation)


def on_top(tree: Tree, path: PathTo, key: str, node: yaml.Node | None, annotation: object, place: str) -> object:
    """The table at ``path`` with a key of ``place`` on top, which may be a family; marks as in ``replace``."""
    table = reduce(lambda value, part: value[part], path, tree.value)
    pair = yaml.ScalarNode(TEXT, key), yaml.ScalarNode(NULL, "") if node is None else node
    around = tree.values[path]
    made = _Builder(File(), tree, (), Mark(place, 0, 0)).build(
        yaml.MappingNode("tag:yaml.org,2002:map", [pair]), path, annotation, table
    )
    tree.values[path] = around
    return made


def _syntax(file: File, error: yaml.YAMLError) -> Problem:
    """A YAML syntax error as a problem with its place."""
    mark = getattr(error, "problem_mark", None)
    place = Mark(str(file), mark.line + 1, mark.column + 1) if mark else Mark(str(file), 0, 0)
    return Problem(f"not valid YAML: {getattr(error, 'problem', None) or error}", str(place))


@dataclass
class _Builder:
    """Walks the nodes of one file."""

    file: File
    tree: Tree
    open_files: tuple[File, ...]
    place: Mark | None = None  # of every node, where it does not come from a file
    around: tuple[yaml.Node, ...] = ()  # blocks that are being built, the outermost first
    built: int = 0  # nodes, each as often as an alias repeats it

    def build(self, node: yaml.Node, path: PathTo, annotation: object, base: object = None) -> object:
        """The plain value of ``node``; where ``annotation`` is a model, a text names a file to put here.

        ``base`` is what stood here before, in the file that a block around this names by ``use``: keys of a
        mapping go on top of it, anything else replaces it. BROKEN with a problem noted where a block has no end.
        """
        self.built += 1
        what = self._endless(node)
        if what:
            self.tree.problems.append(Problem(about(path, what), str(self._mark(node))))
        if what or self.built > MOST_NODES:
            if base is not None:  # files inside of it are gone with it
                self.tree.forget(path)
            return BROKEN
        self.around = (*self.around, node)
        value = self._value(node, path, annotation, base)
        self.around = self.around[:-1]
        return value

    def _endless(self, node: yaml.Node) -> str:
        """Why the blocks around ``node`` and in it (all but) never end, '' when they do."""
        if self.built == MOST_NODES + 1:
            return f"more than {MOST_NODES:,} values, those counted again that aliases (*) repeat"
        if any(node is block for block in self.around):
            return "a block that contains itself, by an alias (*) inside of its own anchor (&)"
        return f"more than {DEEPEST} blocks inside each other" if len(self.around) > DEEPEST else ""

    def _value(self, node: yaml.Node, path: PathTo, annotation: object, base: object) -> object:
        """Record the end of a node."""
        model = model_of(annotation)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, annotation, base)
        if base is not None:
            self.tree.forget(path)
        self.tree.values[path] = self._mark(node)
        if isinstance(node, yaml.SequenceNode):
            inner = annotation_of(annotation, 0)
            return [self.build(item, (*path, i), inner) for i, item in enumerate(node.value)]
        if node.tag == NULL:
            return None
        return str(node.value) if model is None else self._compose(str(node.value), path, file_of(annotation))

    def _mark(self, node: yaml.Node) -> Mark:
        return self.place or Mark(str(self.file), node.start_mark.line + 1, node.start_mark.column + 1)

    def _mapping(self, node: yaml.MappingNode, path: PathTo, annotation: object, base: object) -> object:
        """Keys of ``node`` on top of those of the file that its key ``use`` names, else of ``base``."""
        pairs = self._pairs(node, path)
        model = model_of(annotation)
        self.tree.values[path] = place = self._mark(node)
        if model is not None and "use" in pairs:
            self.tree.forget(path)
            self.tree.values[path] = self._mark(pairs["use"][1])
            base = self._used(pairs.pop("use")[1], path, file_of(annotation))
            self.tree.values[path] = place
            if base == BROKEN:
                return BROKEN
        block = dict(base) if isinstance(base, dict) else {}
        annotation = chosen(annotation, block | _texts(pairs))
        families = families_of(annotation)
        if families is not None:
            pairs = self._spread(pairs, block, path, families)
        for key, (key_node, value_node) in pairs.items():
            inner = annotation_of(annotation, key)
            block[key] = self.build(value_node, (*path, key), inner, block.get(key))
            self.tree.keys[(*path, key)] = self._mark(key_node)
            if families is not None and key_node.value != key:
                self._brought(path, key, key_node, value_node)
        return self._followed(block, path, model_of(annotation))

    def _followed(self, block: dict[str, object], path: PathTo, model: type[Model] | None) -> dict[str, object]:
        """The block with what follows from it, which has no place of its own."""
        if model is None or not issubclass(model, Model):
            return block
        made = model.followed(block, lambda inner: (*path, *inner) in self.tree.keys)
        for gone in block.keys() - made.keys():
            self.tree.problems += self.tree.unsourced((*path, gone), block[gone])
            self.tree.forget((*path, gone))
        return made

    def _brought(self, path: PathTo, key: str, key_node: yaml.Node, value_node: yaml.Node) -> None:
        """Note of a key that a family brings which one, and where that stands."""
        family = str(key_node.value)
        self.tree.keys[(*path, key)] = self._mark(key_node)._replace(family=family)
        self.tree.keys[(*path, family)] = self._mark(key_node)
        self.tree.values[(*path, family)] = self._mark(value_node)

    def _spread(self, pairs: Pairs, block: dict[str, object], path: PathTo, families: Families) -> Pairs:
        """``pairs`` with members in the place of families; what they leave out goes from ``block``, beneath them."""
        result, left_out = spread(pairs, block, families)
        for key, members in left_out.items():
            for member in members:
                block.pop(member, None)
                self.tree.forget((*path, member))
            if not members:
                what, expected, near = families.in_vain(key)
                where = str(self._mark(pairs[key][0]))
                self.tree.problems.append(Problem(about((*path, key), what), where, expected, near))
        return result

    def _used(self, node: yaml.Node, path: PathTo, model: object) -> object:
        """The content of the file that ``use`` names; BROKEN with a problem noted where it names none."""
        if isinstance(node, yaml.ScalarNode):
            return self._compose(str(node.value), path, model)
        what = about((*path, "use"), "a list or a block")
        self.tree.problem(path, what, "the name of one file below hwspecs, or a path (./mine)")
        return BROKEN

    def _pairs(self, node: yaml.MappingNode, path: PathTo) -> Pairs:
        """Key -> its nodes. Problems: a key that is no name, one that comes twice, of which the first counts."""
        pairs: Pairs = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                what = about(path, "a key that is a list or a block")
                self.tree.problems.append(Problem(what, str(self._mark(key_node)), "a name"))
                continue
            key = str(key_node.value)
            if len(key) > LONGEST_NAME:
                what = about(path, f"the key {brief(key)}")
                expected = f"a name of {LONGEST_NAME} characters at the most"
                self.tree.problems.append(Problem(what, str(self._mark(key_node)), expected))
                continue
            if key in pairs:
                first = self._mark(pairs[key][0])
                what = about((*path, key), f"key given twice, first in line {first.line}")
                self.tree.problems.append(Problem(what, str(self._mark(key_node))))
            pairs.setdefault(key, (key_node, value_node))
        return pairs

    def _compose(self, reference: str, path: PathTo, model: object) -> object:
        """The content of the file that ``reference`` names; {} with a problem noted when it cannot be had."""
        file = where.find(reference, self.file.parent)
        if file is None:
            what = about(path, where.no_file(reference))
            self.tree.problem(path, what, "a file below hwspecs", _nearest_file(reference))
            return BROKEN
        if file.resolve() in self.open_files:
            self.tree.problem(path, about(path, f"{reference!r} includes itself"))
            return BROKEN
        wrong = of_another_kind(file, model)
        folder = kind_of_model(model)
        if wrong == "dram" and folder == "memories":
            return self._memory_of(file, reference, path)
        if wrong:
            what = about(path, f"{reference!r} is {ONE[wrong]}, not {ONE[folder]}")
            self.tree.problem(path, what, f"a file of hwspecs/{folder}")
            return BROKEN
        inner = read(file, model, self.open_files)
        self.tree.graft(path, inner)
        return inner.value

    def _memory_of(self, file: File, reference: str, path: PathTo) -> object:
        """A memory that is nothing but the DRAM of a file: all its figures follow from it."""
        inner = read(file, KINDS["dram"], self.open_files)
        self.tree.graft((*path, "dram"), inner)
        if inner.value == BROKEN:
            return BROKEN
        self.tree.values[path] = self.tree.at((*path, "dram"))
        return {"dram": inner.value, "source": f"every figure follows from {reference} and the DRAM model 'pattern'"}


def _texts(pairs: Pairs) -> dict[str, str]:
    """The keys whose values are texts, with these."""
    return {key: str(node.value) for key, (_, node) in pairs.items() if isinstance(node, yaml.ScalarNode)}


TEXT, NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"
LARGEST_B = 1 << 20
"""Bytes that a spec file may have."""
MOST_NODES = 10_000
"""Keys' values, items and blocks that a spec file may have after its aliases are replaced by what they stand for."""


def _nearest_file(reference: str) -> str:
    """The file below hwspecs that was meant; of the folder that is named, where there is such a one; or ''."""
    folder, _, rest = reference.partition("/")
    if folder in KINDS:
        near = nearest(rest, where.names(folder))
        return near and f"{folder}/{near}"
    return nearest(reference, [f"{kind}/{name}" for kind in KINDS for name in where.names(kind)])


def of_another_kind(file: File, model: object) -> str:
    """The kind of ``file`` where files of ``model`` are of another one; '' where it fits, or nobody can tell."""
    wanted = kind_of_model(model)
    if not wanted:
        return ""
    try:
        kind = kind_of_nodes(file, compose(_text(file)))
    except (yaml.YAMLError, OSError, ValueError):
        return ""  # reading it will say what is wrong
    return kind if kind != wanted else ""
