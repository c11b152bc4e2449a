"""The short form of a program that repeats itself: only the units that are written, in numbers of their own."""

from __future__ import annotations

from dataclasses import replace

from accelsim.program.commands import Command, Region, Use, Wait
from accelsim.program.program import Program
from accelsim.program.repeated import Commands, Repeat, Span


def without_copies(program: Program) -> Program:
    """Return the program without its copies, whose ``repeat`` says which these are: what is behind them follows the
    unit written last.

    Of copies that lie further back than units are written, the first of these takes the part.
    """
    assert program.repeat is not None
    if program.short is None:
        program.short = _without_copies(program, program.repeat)
    return program.short


def _without_copies(program: Program, repeat: Repeat) -> Program:
    commands, steps, regions, all_regions = program.commands, repeat.steps, repeat.regions, program.regions
    assert isinstance(commands, Commands)
    return replace(
        program,
        repeat=None,
        commands=[*commands.before, *(_short_command(repeat, each) for each in commands.behind)],
        steps=[*program.steps[: steps.end], *program.steps[steps.behind :]],
        regions=[*all_regions[: regions.end], *(_short_region(repeat, each) for each in all_regions[regions.behind :])],
        presets={
            regions.short(region): entry for region, entry in program.presets.items() if not regions.copy_of(region)[1]
        },
        results={name: [_short(repeat, regions, each) for each in ends] for name, ends in program.results.items()},
    )


def _short_command(repeat: Repeat, command: Command) -> Command:
    waits = dict.fromkeys(
        Wait(_short(repeat, repeat.commands, number), phase, why) for number, phase, why in command.waits
    )
    reads, writes = (
        tuple(
            [
                Use(
                    _short(repeat, repeat.regions, use.region),
                    use.version - repeat.times * repeat.fixed_regions.get(use.region, 0),
                    use.role,
                )
                for use in uses
            ]
        )
        for uses in (command.reads, command.writes)
    )
    ident, op = repeat.commands.short(command.id), _short(repeat, repeat.steps, command.op)
    return Command(
        ident, command.kind, command.engine, op, command.label, command.work, command.effect, tuple(waits), reads,
        writes, command.actions, command.core,
    )  # fmt: skip


def _short_region(repeat: Repeat, region: Region) -> Region:
    overlaps = dict.fromkeys(_short(repeat, repeat.regions, past) for past in region.overlaps)
    return region._replace(id=repeat.regions.short(region.id), overlaps=tuple(overlaps))


def _short(repeat: Repeat, span: Span, number: int) -> int:
    template, copy = span.copy_of(number)
    return template - min(repeat.times - copy, repeat.units - 1) * span.size if copy else span.short(number)
