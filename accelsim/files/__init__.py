"""The one writer of files: whole or not at all, links followed, nothing replaced but regular files.

Every file that the tool writes goes through :func:`write_file`, :func:`write_folder`, :func:`write_rows` or
:func:`create`.
"""

from accelsim.files.targets import check_file, check_folder
from accelsim.files.writing import (
    Make,
    as_bytes,
    create,
    forget,
    is_empty,
    make_folder,
    records,
    table,
    text,
    write_file,
    write_folder,
    write_rows,
    written,
)

__all__ = [
    "Make", "as_bytes", "check_file", "check_folder", "create", "forget", "is_empty", "make_folder", "records", "table",
    "text", "write_file", "write_folder", "write_rows", "written",
]  # fmt: skip
