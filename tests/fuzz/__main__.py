"""``python -m tests.fuzz NAME|all [--seeds FROM:TO]``: draw cases; exit code 1 when one fails."""

from __future__ import annotations

import argparse
import sys

from .harness import draw, serve
from .registry import FUZZERS

CHUNK = 500


def main() -> int:
    """Draw, and print what failed."""
    names = "; ".join(f"{name}: {row.about}" for name, row in FUZZERS.items())
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, epilog=names)
    parser.add_argument("name", choices=[*FUZZERS, "all"])
    parser.add_argument(
        "--seeds", help="17, or 0:1000 (without the last); default: as many as the fuzzer's row says"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        serve(args.name)
        return 0
    chosen = list(FUZZERS) if args.name == "all" else [args.name]
    if args.seeds and ":" not in args.seeds:
        for name in chosen:
            FUZZERS[name].case()(int(args.seeds))
        return 0
    failed = [_drawn(name, args.seeds) for name in chosen]  # all of them, whichever fails
    return int(any(failed))


def _drawn(name: str, seeds: str | None) -> bool:
    """Draw in chunks and print after each what failed; whether something did."""
    first, last = (int(part) for part in seeds.split(":")) if seeds else (0, FUZZERS[name].many)
    failed = False
    for begin in range(first, last, CHUNK):
        tally = draw(name, range(begin, min(begin + CHUNK, last)))
        print(f"from {begin}: {tally.report()}", flush=True)
        failed = failed or bool(tally.failed)
    return failed


sys.exit(main())
