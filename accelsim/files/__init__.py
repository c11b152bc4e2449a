"""The one writer of files: whole or not at all, links followed, nothing replaced but regular files.

Every file that the tool writes goes through :func:`write_file`, :func:`write_folder` or :func:`write_rows`.
"""

from accelsim.files.makers import Make, as_bytes, records, table, text
from accelsim.files.staging import forget, is_empty, written
from accelsim.files.targets import check_file, check_folder
from accelsim.files.writing import made_folder, scratch_folder, write_file, write_folder, write_rows

__all__ = [
    "Make", "as_bytes", "check_file", "check_folder", "forget", "is_empty", "made_folder", "records", "scratch_folder",
    "table", "text", "write_file", "write_folder", "write_rows", "written",
]  # fmt: skip
