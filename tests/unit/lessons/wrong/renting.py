"""Plausible wrong answers to lesson 14."""

WRONG = {
    "nothing is left": (
        'price - machine["left"] * price / (1 + i) ** years',
        "price",
        r"yearly\(your machine\): capital",
    ),
    "the rest is worth as much today": (" / (1 + i) ** years\n", "\n", r"yearly.*capital"),
    "payments without interest": ("i / (1 - (1 + i) ** -years) if i else 1 / years", "1 / years", r"yearly.*capital"),
    "interest on the price alone": ("i / (1 - (1 + i) ** -years) if i", "i + 1 / years if i", r"yearly.*capital"),
    "no case without interest": (" if i else 1 / years", "", r"renting\.py"),
    "no cooling": ('machine["kW"] * machine["pue"]', 'machine["kW"]', r"yearly.*power"),
    "a month of power": ("* 8760 * machine", "* 730 * machine", r"yearly.*power"),
    "a month of the place": ("12 * machine", "machine", r"yearly.*place"),
    "staff without the price": ('machine["staff"] * price', 'machine["staff"]', r"yearly.*staff"),
    "hours without load": ("8760 * accelerators * load", "8760 * accelerators", r"used_hour"),
    "one accelerator": ("8760 * accelerators * load", "8760 * load", r"used_hour"),
    "idle hours cost nothing": ("year_USD / (8760", "year_USD * load / (8760", r"used_hour"),
    "all hours are used": ('(load if pays == "hours used" else 1)', "1", r"cheapest"),
    "all offers are switched off": ('(load if pays == "hours used" else 1)', "load", r"cheapest"),
    "never own": ('{"own": own_USD}', "{}", r"cheapest"),
    "the dearest": ("min(costs", "max(costs", r"cheapest"),
    "a thousand": ("* 1e6", "* 1e3", r"per_million"),
    "an hour has 60 seconds": ("3600 * per_s", "60 * per_s", r"per_million"),
    "one of eight": ("/ (8 * 8760", "/ (8760", "ANSWER"),
    "no percent": ("ANSWER = 100 * sum", "ANSWER = sum", "ANSWER"),
}
