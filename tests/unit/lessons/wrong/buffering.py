"""Plausible wrong answers to lesson 6."""

WRONG = {
    "the tile is not awaited": (
        '        commands.append(("wait", "load", 0))\n        commands.append(("compute", tile, 0))',
        '        commands.append(("compute", tile, 0))',
        r"one_slot.*compute",
    ),
    "the result is not awaited": (
        '        commands.append(("wait", "compute", 0))\n        commands.append(("store", tile, 0))',
        '        commands.append(("store", tile, 0))',
        r"one_slot.*store",
    ),
    "replaced too early": (
        '        commands.append(("store", tile, 0))\n        commands.append(("wait", "store", 0))',
        '        commands.append(("store", tile, 0))',
        r"one_slot.*compute",
    ),
    "both slots at once": (
        'commands.append(("load", tile, 0))',
        'commands.append(("load", tile, tile % 2))',
        r"one_slot",
    ),
    "a tile is forgotten": (
        '    for tile in range(n):\n        commands.append(("load", tile, 0))',
        '    for tile in range(n - 1):\n        commands.append(("load", tile, 0))',
        r"one_slot.*result of tile",
    ),
    "waiting for all": ("1 if tile + 1 < n else 0", "0", r"two_slots"),
    "waiting for none": ("1 if tile + 1 < n else 0", "1", r"two_slots.*compute"),
    "waiting for two": ("1 if tile + 1 < n else 0", "2", r"two_slots.*compute"),
    "a race for the result": ('        commands.append(("wait", "store", 1))\n', "", r"two_slots.*compute"),
    "one slot": ("(tile + 1) % 2", "0", r"two_slots"),
    "work is not awaited": (
        '        commands.append(("wait", "compute", 0))\n        commands.append(("store", tile, tile % 2))',
        '        commands.append(("store", tile, tile % 2))',
        r"two_slots.*store",
    ),
    "everything is awaited": (
        'commands.append(("store", tile, tile % 2))\n',
        'commands.append(("store", tile, tile % 2))\n        commands.append(("wait", "store", 0))\n        commands.append(("wait", "load", 0))\n',
        r"two_slots",
    ),
    "a wait for ever": ('("wait", "store", 1)', '("wait", "store", -1)', r"command"),
    "an unknown engine": ('("wait", "store", 1)', '("wait", "dma", 1)', r"command 3"),
    "the sum": ("ANSWER = sum(times) / max(times)", "ANSWER = sum(times) / min(times)", "ANSWER"),
    "no more than three": ("ANSWER = sum(times) / max(times)", "ANSWER = 3", "ANSWER"),
}
