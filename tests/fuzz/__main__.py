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
    parser.add_argument("--seeds", help="17, or 0:1000 (without the last); default: as many as the fuzzer's row says")
    parser.add_argument("--part", type=int, default=0, help="draw only this part of the seeds, of --parts many")
    parser.add_argument("--parts", type=int, default=1)
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
    asked = {name: _seeds(name, args) for name in chosen}
    failed = [name for name, seeds in asked.items() if _drawn(name, seeds)]  # all of them, whichever fails
    drawn = sum(len(seeds) for seeds in asked.values())
    print(f"{drawn} seeds drawn, failures in: {', '.join(failed) or 'none'}")
    return int(bool(failed))


def _seeds(name: str, args: argparse.Namespace) -> range:
    """The seeds that were asked for: those named, or a part of as many as the fuzzer's row says."""
    if args.seeds:
        return range(*map(int, args.seeds.split(":")))
    size = FUZZERS[name].many // args.parts
    first = size * (args.part % args.parts)
    return range(first, first + size)


def _drawn(name: str, seeds: range) -> bool:
    """Draw in chunks and print after each what failed; whether something did."""
    first, last, failed = seeds.start, seeds.stop, False
    for begin in range(first, last, CHUNK):
        tally = draw(name, range(begin, min(begin + CHUNK, last)))
        print(f"from {begin}: {tally.report()}", flush=True)
        failed = failed or bool(tally.failed)
    return failed


sys.exit(main())
