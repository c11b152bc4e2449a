"""Files beside an ONNX model that hold its tensors."""

from __future__ import annotations

from pathlib import Path

from accelsim.files.reading import is_file


def external_files(path: Path) -> list[Path]:
    """Files that are there and that tensors of a model lie in, each once. Empty for what is no model: reading it will
    tell."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, OSError, ValueError):
        return []
    named = [
        entry.value
        for tensor in _get_all_tensors(model)
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    return [file for name in dict.fromkeys(named) if is_file(file := path.parent / name)]
