"""What a student's process may do: compute, read, and write into its own folder. No other writes, no processes, no
network.

Two fences. Python's audit hooks refuse on every system, and cannot be taken back; they hold what Python does. On Linux
from 5.13 on the kernel refuses as well (Landlock, Salaün 2017-), whatever the code does. Limits of processor time,
memory and file sizes come from the operating system where it has them (not on Windows, where the time alone is
limited, by the process that asks).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY_B = 1 << 30
"""Memory that a student's file may take beside what Python and NumPy have."""
FILE_B = 16 << 20
"""Size of a file that it may write."""
REFUSED = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.kill",
    "os.startfile", "pty.spawn", "socket.", "ctypes.", "signal.pthread_kill", "winreg.", "msvcrt.", "_winapi.",
    "syslog.", "os.killpg",
)  # fmt: skip
"""Audit events (or their beginnings) that nobody needs in a lesson."""
_CHANGING = {
    "os": {
        "remove": 1, "rmdir": 1, "mkdir": 1, "rename": 2, "link": 2, "symlink": 2, "truncate": 1, "chmod": 1,
        "chown": 1, "utime": 1, "chflags": 1, "setxattr": 1, "removexattr": 1, "chroot": 1,
    },
    "shutil": {"rmtree": 1, "move": 2, "copyfile": 2, "chown": 1},
}  # fmt: skip
PATHS = {f"{module}.{name}": count for module, names in _CHANGING.items() for name, count in names.items()}
"""Audit event -> how many of its first arguments are paths that it changes."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Refused(PermissionError):
    """What a lesson's code may not do."""


def guard(folder: Path, seconds: float) -> None:
    """From now on this process may write into ``folder`` alone, and compute so long."""
    _limit(seconds)
    _landlock(folder)
    sys.addaudithook(_hook(folder.resolve()))


def _limit(seconds: float) -> None:
    try:
        import resource
    except ImportError:
        return
    whole = int(seconds) + 1
    limits = {
        "RLIMIT_CPU": whole,
        "RLIMIT_AS": _taken_B() + MEMORY_B,
        "RLIMIT_FSIZE": FILE_B,
        "RLIMIT_CORE": 0,
    }
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def _taken_B() -> int:
    """Address space that the process has already."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return 4 << 30
    return pages * os.sysconf("SC_PAGE_SIZE")


def _hook(folder: Path) -> Callable[[str, tuple[Any, ...]], None]:
    def inside(path: Any) -> bool:
        if isinstance(path, int):
            return False
        return Path(os.fsdecode(path)).resolve().is_relative_to(folder)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = bool(flags & WRITING) if mode is None else bool(set(mode) & set("wax+"))
            if writes and path is not None and not isinstance(path, int) and not inside(path):
                raise Refused(f"writing to {os.fsdecode(path)} is not allowed here")
        elif event in PATHS:
            for path in args[: PATHS[event]]:
                if not inside(path):
                    raise Refused(f"{event} on {path!r} is not allowed here")
        elif event.startswith(REFUSED):
            raise Refused(f"{event} is not allowed here")

    return hook


CREATE, ADD_RULE, RESTRICT = 444, 445, 446
"""Numbers of Landlock's system calls, the same on every architecture."""
NO_NEW_PRIVILEGES = 38
EXECUTE, WRITES = 1 << 0, (1 << 1) | sum(1 << bit for bit in range(4, 13))
"""Rights of Landlock's first version: to execute; to write files, make and remove entries of folders."""


def _landlock(folder: Path) -> bool:
    """Kernel rules, where there are any: whether they hold."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = struct.pack("<Q", EXECUTE | WRITES)
    rules = libc.syscall(CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    beneath = struct.pack("<Qi", WRITES, place)
    done = not (
        libc.syscall(ADD_RULE, rules, 1, beneath, 0)
        or libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        or libc.syscall(RESTRICT, rules, 0)
    )
    os.close(place)
    os.close(rules)
    return done
