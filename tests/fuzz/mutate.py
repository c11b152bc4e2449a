"""Mutations of ONNX models: of any field of the protobuf, of the wiring, of the bytes of the file."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import onnx

INTEGERS = (0, 1, 2, 3, 5, 7, 16, 33, 64, 65, 1000, 2**15, 2**31 - 1, 2**31, 10**9, 2**40, 2**62, 2**63 - 1, -1, -2, -7,
            -(2**31), -(2**63))  # fmt: skip
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, -1e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "y", " ", "../x", "NOTSET", "SAME_LOWER", "é" * 40, "a/b\x1b[31m", "ai.onnx.ml", "linear", "name")


def mutate(model: onnx.ModelProto, rng: random.Random) -> onnx.ModelProto:
    """A copy of the model with one to four mutations."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        name = rng.choices(list(MUTATORS), [weight for weight, _ in MUTATORS.values()])[0]
        MUTATORS[name][1](made, rng)
    return made


def lose_data(model: onnx.ModelProto, rng: random.Random) -> None:
    """Take the values of most initialisers away, as files without weights have it: empty, or in a file that is gone."""
    for tensor in model.graph.initializer:
        if rng.random() < 0.8:
            bare = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            if rng.random() < 0.5:
                bare.data_location = onnx.TensorProto.EXTERNAL
                bare.external_data.add(
                    key="location", value=rng.choice(("gone.bin", "gone.bin", "data.bin", "../gone"))
                )
            tensor.CopyFrom(bare)


def flipped(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a few changed, cut or repeated."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed)) if changed else 0
        match rng.randrange(4):
            case 0 if changed:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at : at + rng.randint(1, 8)]
            case 2:
                changed[at:at] = changed[at : at + rng.randint(1, 8)]
            case _ if changed:
                changed[at] = rng.randrange(256)
    return bytes(changed)


def _messages(message: Any) -> list[Any]:
    """The message and all below it."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for each in value if _repeated(field) else [value]:
            found += _messages(each)
    return found


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _any_field(model: onnx.ModelProto, rng: random.Random) -> None:
    """Change one field of one message; such as are set, mostly."""
    message = rng.choice(_messages(model))
    fields = [field for field, _ in message.ListFields()]
    if not fields or rng.random() < 0.15:
        fields = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = rng.choice(fields)
    if _repeated(field):
        _change_repeated(message, field, model, rng)
    elif field.message_type is not None:
        _change_message(message, field, model, rng)
    else:
        _set(message, field, _scalar(field, getattr(message, field.name), model, rng))


def _set(message: Any, field: Any, value: Any) -> None:
    try:
        setattr(message, field.name, value)
    except (ValueError, TypeError, OverflowError):  # an enum or a 32-bit field that cannot hold it
        message.ClearField(field.name)


def _change_repeated(message: Any, field: Any, model: onnx.ModelProto, rng: random.Random) -> None:
    values = getattr(message, field.name)
    kind = rng.randrange(5)
    if not values or kind == 0:
        _append(values, field, model, rng)
    elif kind == 1:
        del values[rng.randrange(len(values))]
    elif kind == 2 and field.message_type is None:
        at = rng.randrange(len(values))
        try:
            values[at] = _scalar(field, values[at], model, rng)
        except (ValueError, TypeError, OverflowError):
            del values[at]
    elif kind == 3:
        kept = list(values)
        rng.shuffle(kept)
        del values[:]
        values.extend(kept)
    else:
        values.append(values[rng.randrange(len(values))])


def _append(values: Any, field: Any, model: onnx.ModelProto, rng: random.Random) -> None:
    if field.message_type is not None:
        same = [each for each in _messages(model) if each.DESCRIPTOR is field.message_type]
        if same:
            values.append(rng.choice(same))
        return
    try:
        values.append(_scalar(field, values[0] if values else None, model, rng))
    except (ValueError, TypeError, OverflowError):
        return


def _change_message(message: Any, field: Any, model: onnx.ModelProto, rng: random.Random) -> None:
    same = [each for each in _messages(model) if each.DESCRIPTOR is field.message_type]
    if not same or rng.random() < 0.4:
        message.ClearField(field.name)
        return
    copy = type(same[0])()
    copy.CopyFrom(rng.choice(same))
    getattr(message, field.name).CopyFrom(copy)


def _scalar(field: Any, old: Any, model: onnx.ModelProto, rng: random.Random) -> Any:
    """Another value for a field: hostile ones, near ones, and (for texts) names that the model has."""
    kind = field.cpp_type
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice((*REALS, (old or 0.0) * 2, (old or 0.0) + 1))
    if kind == field.CPPTYPE_STRING:
        if field.type == field.TYPE_BYTES:
            return flipped(old or b"ab", rng)
        return rng.choice((*TEXTS, *_names(model)))
    old = int(old or 0)
    return rng.choice((*INTEGERS, old + 1, old - 1, -old, old * 2, rng.randrange(30)))


def _names(model: onnx.ModelProto) -> list[str]:
    every = [name for node in model.graph.node for name in (*node.input, *node.output)]
    return [*every, *(item.name for item in (*model.graph.input, *model.graph.initializer))]


@cache
def _ops() -> tuple[str, ...]:
    from onnx import defs

    return tuple(sorted({schema.name for schema in defs.get_all_schemas() if not schema.domain}))


def _node(model: onnx.ModelProto, rng: random.Random) -> Any:
    nodes = [each for each in _messages(model.graph) if each.DESCRIPTOR.name == "NodeProto"]
    return rng.choice(nodes) if nodes else None


def _another_op(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    if node is not None:
        node.op_type = rng.choice(_ops())


def _another_opset(model: onnx.ModelProto, rng: random.Random) -> None:
    for entry in model.opset_import:
        if not entry.domain:
            entry.version = rng.randint(1, 26)


def _rewire(model: onnx.ModelProto, rng: random.Random) -> None:
    """An input or output of a node becomes another tensor, or nothing."""
    node, names = _node(model, rng), ["", *_names(model)]
    if node is None:
        return
    ends = node.input if node.input and rng.random() < 0.7 else node.output
    if ends:
        ends[rng.randrange(len(ends))] = rng.choice(names)


def _input_from_constant(model: onnx.ModelProto, rng: random.Random) -> None:
    """A constant input becomes one that only the run knows, or the other way round."""
    tensors, inputs = model.graph.initializer, model.graph.input
    if tensors and rng.random() < 0.6:
        at = rng.randrange(len(tensors))
        taken = tensors[at]
        inputs.append(onnx.helper.make_tensor_value_info(taken.name, taken.data_type, list(taken.dims)))
        del tensors[at]
    elif inputs:
        at = rng.randrange(len(inputs))
        kind = inputs[at].type.tensor_type
        dims = [max(1, min(each.dim_value, 8)) for each in kind.shape.dim]
        data = onnx.TensorProto(name=inputs[at].name, data_type=kind.elem_type, dims=dims)
        data.raw_data = bytes(rng.randrange(256) for _ in range(rng.choice((0, 4, 64, 4 * _product(dims)))))
        tensors.append(data)


def _product(dims: list[int]) -> int:
    total = 1
    for each in dims:
        total = min(total * each, 4096)
    return total


def _external(model: onnx.ModelProto, rng: random.Random) -> None:
    """A tensor whose data is said to lie in a file."""
    tensors = [each for each in _messages(model) if each.DESCRIPTOR.name == "TensorProto"]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    tensor.data_location = 1
    for key in ("location", "offset", "length", "checksum", "other"):
        if rng.random() < 0.6:
            value = rng.choice(("data.bin", "data.bin", "../data.bin", "/etc/passwd", "", ".", "link.bin", "0", "4",
                                "-1", "1e3", "99999999999999999999", "x", "16"))  # fmt: skip
            tensor.external_data.add(key=key, value="data.bin" if key == "location" and rng.random() < 0.5 else value)


def _dimension(model: onnx.ModelProto, rng: random.Random) -> None:
    """A dimension of an input or a constant."""
    tensors = [each for each in model.graph.initializer if each.dims]
    shapes = [each.type.tensor_type.shape for each in model.graph.input if each.type.tensor_type.shape.dim]
    if tensors and (not shapes or rng.random() < 0.5):
        dims = rng.choice(tensors).dims
        dims[rng.randrange(len(dims))] = rng.choice(INTEGERS)
    elif shapes:
        rng.choice(list(rng.choice(shapes).dim)).dim_value = rng.choice(INTEGERS)


def _attribute_number(model: onnx.ModelProto, rng: random.Random) -> None:
    """A number within an attribute or a small integer constant: axes, sizes, pads, indices."""
    from onnx import numpy_helper

    attrs = [each for each in _messages(model) if each.DESCRIPTOR.name == "AttributeProto" and (each.ints or each.i)]
    small = [
        each for each in model.graph.initializer if each.data_type == 7 and each.raw_data and not each.data_location
    ]
    if small and rng.random() < 0.5:
        tensor = rng.choice(small)
        try:
            values = numpy_helper.to_array(tensor).copy()
        except ValueError:  # another mutation was here
            return
        if values.size:
            values.reshape(-1)[rng.randrange(values.size)] = rng.choice(INTEGERS)
            tensor.raw_data = values.tobytes()
    elif attrs:
        attr = rng.choice(attrs)
        if attr.ints:
            attr.ints[rng.randrange(len(attr.ints))] = rng.choice(INTEGERS)
        else:
            attr.i = rng.choice(INTEGERS)


def _open_dimension(model: onnx.ModelProto, rng: random.Random) -> None:
    """A dimension of an input loses its size: a name, or nothing."""
    dims = [dim for each in model.graph.input for dim in each.type.tensor_type.shape.dim]
    if dims:
        dim = rng.choice(dims)
        dim.Clear()
        if rng.random() < 0.8:
            dim.dim_param = rng.choice(("N", "batch", "seq", "", "é" * 40, "2", "N*2"))


def _another_type(model: onnx.ModelProto, rng: random.Random) -> None:
    """Inputs, or all tensors alike, get another element type; constants keep their bytes in half of the cases."""
    from onnx import numpy_helper

    kind = rng.choice((0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 14, 16, 17, 19, 21, 22, 23, 99))
    for each in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if rng.random() < 0.8:
            each.type.tensor_type.elem_type = kind
    for tensor in model.graph.initializer:
        if rng.random() < 0.5:
            tensor.data_type = kind
        elif kind in (1, 10, 11) and tensor.data_type in (1, 10, 11):
            wanted = onnx.helper.tensor_dtype_to_np_dtype(kind)
            try:
                values = numpy_helper.to_array(tensor)
            except (ValueError, TypeError, OSError, UserWarning):  # another mutation was here
                return
            tensor.CopyFrom(numpy_helper.from_array(values.astype(wanted), tensor.name))


def _false_claim(model: onnx.ModelProto, rng: random.Random) -> None:
    """A claim about a tensor inside that may contradict what its node gives."""
    names = [name for node in model.graph.node for name in node.output if name]
    if names:
        dims = [rng.choice((1, 2, 3, 8, 0, -1, 2**40, "N")) for _ in range(rng.randrange(5))]
        kind = rng.choice((1, 1, 1, 7, 9, 10))
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(rng.choice(names), kind, dims))


def _chain(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node many times in a row, each fed by the one before it."""
    nodes = [node for node in model.graph.node if node.input and node.output]
    if not nodes:
        return
    node = rng.choice(nodes)
    last = node.output[0]
    for number in range(rng.choice((1, 2, 5, 50, 400))):
        copy = model.graph.node.add()
        copy.CopyFrom(node)
        copy.name = f"{node.name}.{number}"
        copy.input[0] = last
        last = f"{node.output[0]}.{number}"
        for at, name in enumerate(node.output):
            copy.output[at] = f"{name}.{number}" if name else ""
    if model.graph.output and rng.random() < 0.8:
        model.graph.output[0].name = last


def _branch(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node moves into both branches of an If."""
    at = _position(model, rng)
    if at is None:
        return
    node = onnx.NodeProto()
    node.CopyFrom(model.graph.node[at])
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
    body = onnx.helper.make_graph([node], "branch", [], outputs)
    condition = rng.choice(("told", "given", *_names(model)))
    taken = onnx.helper.make_node("If", [condition], list(node.output), then_branch=body, else_branch=body)
    model.graph.node[at].CopyFrom(taken)
    if condition == "told":
        data = onnx.helper.make_tensor(condition, 9, [], [rng.random() < 0.5])
        model.graph.initializer.append(data)
    elif condition == "given":
        model.graph.input.append(onnx.helper.make_tensor_value_info(condition, 9, []))


def _function(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node moves into a function of the model, which may call itself or miss an operator set."""
    at = _position(model, rng)
    if at is None:
        return
    node = onnx.NodeProto()
    node.CopyFrom(model.graph.node[at])
    domain = rng.choice(("own", "own", "", "ai.onnx.ml"))
    inner = [node] if rng.random() < 0.9 else [node, onnx.helper.make_node("F", node.input[:1], ["z"], domain=domain)]
    sets = list(model.opset_import) if rng.random() < 0.9 else []
    made = onnx.helper.make_function(domain, "F", list(node.input), list(node.output), inner, sets)
    model.functions.append(made)
    call = onnx.helper.make_node("F", list(node.input), list(node.output), domain=domain)
    model.graph.node[at].CopyFrom(call)
    if rng.random() < 0.9 and domain not in [entry.domain for entry in model.opset_import]:
        model.opset_import.append(onnx.helper.make_opsetid(domain, 1))


def _quantised(model: onnx.ModelProto, rng: random.Random) -> None:
    """A tensor is quantised and dequantised on its way to a node, with odd scales and zero points now and then."""
    at = _position(model, rng)
    if at is None or not model.graph.node[at].input or not model.graph.node[at].input[0]:
        return
    name, kind = model.graph.node[at].input[0], rng.choice((2, 3, 3, 6, 21, 22))
    scale = rng.choice((0.1, 0.05, 1.0, 1e-45, 0.0, -1.0, float("nan"), float("inf")))
    length = rng.choice((None, None, None, 1, 3, 0))
    dims, count = ([], 1) if length is None else ([length], length)
    model.graph.initializer.append(onnx.helper.make_tensor(f"{name}.s", 1, dims, [scale] * count))
    model.graph.initializer.append(onnx.helper.make_tensor(f"{name}.z", kind, dims, [rng.choice((0, 0, 3))] * count))
    ends = [f"{name}.s", f"{name}.z"][: rng.choice((1, 2, 2))]
    model.graph.node[at].input[0] = f"{name}.d"
    pair = [
        onnx.helper.make_node("QuantizeLinear", [name, *ends], [f"{name}.q"], axis=rng.choice((1, 1, 0, -1, 7))),
        onnx.helper.make_node("DequantizeLinear", [f"{name}.q", *ends], [f"{name}.d"]),
    ]
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*rest[:at], *pair, *rest[at:]])


def _position(model: onnx.ModelProto, rng: random.Random) -> int | None:
    return rng.randrange(len(model.graph.node)) if model.graph.node else None


MUTATORS: dict[str, tuple[int, Callable[[onnx.ModelProto, random.Random], None]]] = {
    "any field": (8, _any_field),
    "another op": (2, _another_op),
    "another operator set": (1, _another_opset),
    "another wire": (3, _rewire),
    "constant or input": (1, _input_from_constant),
    "external data": (1, _external),
    "dimension": (2, _dimension),
    "number of an attribute": (4, _attribute_number),
    "dimension without a size": (1, _open_dimension),
    "another element type": (1, _another_type),
    "claim about a tensor": (1, _false_claim),
    "chain of a node": (1, _chain),
    "node in a branch": (1, _branch),
    "node in a function": (1, _function),
    "quantised input": (1, _quantised),
}
"""Name -> how often, in parts, and the mutation in place."""
