#!/bin/sh
# accelsim from a fresh clone: sets up .venv at the first call (see Makefile), then runs the command in the directory one is in.
here=$(cd "$(dirname "$(readlink -f "$0" 2>/dev/null || echo "$0")")" && pwd) || exit 1
make -C "$here" --no-print-directory --silent .venv/.installed >&2 || exit $?
exec "$here/.venv/bin/accelsim" "$@"
