"""Starts the process that a student's file runs in: isolated by bubblewrap, or plainly, with limits either way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from accelsim.lessons.sandbox import child

FILE_B = 16 << 20
"""Size of a file that it may write."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache")
"""Paths of the system that a Python may need; each is visible and cannot be changed."""
HOW = "bubblewrap 0.8 or newer ('apt install bubblewrap', 'dnf install bubblewrap') on a Linux that lets you make \
namespaces; or --trust-students, which runs their files without isolation"
"""Requirement for grading."""

_ROOM = "/lesson/room"
"""The one folder to write to, where it is isolated: no path that Python or NumPy may have."""
_SCRIPT = Path(child.__file__).resolve()
_PYTHON = (os.path.realpath(sys.executable), "-s", "-S", "-P", "-B")
_PACKAGE = _SCRIPT.parents[2]
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def start(seconds: float, isolated: bool, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that waits for a student's file; ``folder``: where it is and may write, if not isolated."""
    memory_B = child.MEMORY_B + (256 << 20)  # of Python and NumPy
    limits = {"CPU": int(seconds) + 1, "AS": memory_B, "FSIZE": FILE_B, "CORE": 0, "NOFILE": 64}
    limits |= {"NPROC": 4} if isolated else {}  # its own included
    script = "/lesson/child.py" if isolated else str(_SCRIPT)
    python = [*_PYTHON, script, json.dumps({"site": [_site()], "limits": limits})]
    command = [*_isolation(), *python] if isolated else python
    variables = {} if isolated else _environment(str(folder))
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=variables, cwd=folder, start_new_session=True
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group; everything that is isolated with it ends too."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _isolation() -> list[str]:
    """Return the command before that of Python: namespaces, what is visible, one folder in memory to write to.

    The process cannot make namespaces of its own, in which it could mount more memory. Root becomes another user first:
    to the kernel root is root in any namespace, and may have as many processes as it likes.
    """
    root = os.geteuid() == 0
    spaces = [f"--unshare-{space}" for space in ("pid", "user", "net", "ipc", "uts", "cgroup-try")]
    scratch = f"--perms 1777 --size {64 << 20} --tmpfs {_ROOM} --remount-ro /dev --remount-ro / --chdir {_ROOM}"
    variables = (word for name, value in _environment(_ROOM).items() for word in ("--setenv", name, value))
    return [
        *(_becoming(64_000 + os.getpid() % 1000) if root else ()), _tool("bwrap"), "--die-with-parent", *spaces,
        "--disable-userns", "--new-session", "--clearenv", *variables,
        *(("--ro-bind", "/", "/") if root else _visible()), "--dev", "/dev", "--proc", "/proc", *scratch.split(),
    ]  # fmt: skip


def _tool(name: str) -> str:
    return shutil.which(name) or name


def _becoming(user: int) -> list[str]:
    """Return the command before one of a user that nothing belongs to, who sees no more than what is shown."""
    rights = "--die-with-parent --cap-drop ALL --cap-add CAP_SETUID --cap-add CAP_SETGID"
    places = "--dev /dev --bind /proc /proc --dir /tmp"
    drop = f"{_tool('setpriv')} --reuid={user} --regid={user} --clear-groups"
    return [_tool("bwrap"), *rights.split(), *_visible(), *places.split(), *drop.split()]


def _visible() -> Iterator[str]:
    """Yield the options that show the system and Python, and hide accelsim, whose lessons hold the solutions."""
    shown = [Path(place) for place in SYSTEM if os.path.lexists(place)]
    for place in (Path(sys.base_prefix).resolve(), Path(_site())):
        if not any(place.is_relative_to(other) for other in shown):
            shown.append(place)
    for place in shown:
        if place.is_symlink():
            yield from ("--symlink", str(place.readlink()), str(place))
            continue
        for above in reversed(place.parents[:-1]):
            yield from ("--perms", "0755", "--dir", str(above))
        yield from ("--ro-bind", str(place), str(place))
    if any(_PACKAGE.is_relative_to(place) for place in shown):
        yield from ("--tmpfs", str(_PACKAGE), "--remount-ro", str(_PACKAGE))
    yield from f"--perms 0755 --dir /lesson --dir {_ROOM} --ro-bind".split()
    yield from (str(_SCRIPT), "/lesson/child.py")


def _site() -> str:
    """Return the folder with NumPy and whatever is installed beside it."""
    import numpy as np

    return str(Path(np.__file__).resolve().parents[1])


def _environment(home: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    return {**kept, **_ONE_THREAD, "HOME": home, "TMPDIR": home, "PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
