"""Plausible wrong answers to lesson 12."""

WRONG = {
    "anything goes": (
        '    return all(letter == "H" or layer[1] is not None for letter, layer in zip(partition, layers))',
        "    return True",
        r"legal",
    ),
    "the length is not looked at": ("len(partition) != len(layers) or not", "not", r"legal"),
    "any letter": (' or not set(partition) <= set("AH")', "", r"legal"),
    "the other way round": ('letter == "H" or layer[1] is not None', 'letter == "A" or layer[1] is not None', r"legal"),
    "transfers for free": ("            total += move\n", "            total += 0\n", r"latency"),
    "its own result moves": ("            total += move\n", "            total += own_move\n", r"latency"),
    "the result stays": ('return total + (move if place == "A" else 0.0)', "return total", r"latency"),
    "the result always moves": ('return total + (move if place == "A" else 0.0)', "return total + move", r"latency"),
    "the input is there": (
        'total, place, move = 0.0, "H", move_input',
        "total, place, move = 0.0, partition[0], move_input",
        r"latency",
    ),
    "a transfer for each layer": (
        "        if letter != place:\n            total += move\n",
        "        total += move\n",
        r"latency",
    ),
    "sides swapped": (
        'accelerator if letter == "A" else host',
        'host if letter == "A" else (accelerator or host)',
        r"latency",
    ),
    "all that can be": (
        "    return min((p for p in every",
        '    return "".join("H" if layer[1] is None else "A" for layer in layers)\n    return min((p for p in every',
        r"best, batch",
    ),
    "all on the host": (
        "    return min((p for p in every",
        '    return "H" * len(layers)\n    return min((p for p in every',
        r"best, batch",
    ),
    "the dearest": ("return min((p for p", "return max((p for p", r"best, batch"),
    "the largest batch": ("return max(rates)[1]", "return max(rate[1] for rate in rates) or 64", r"best_batch"),
    "the shortest": ("rates.append((batch / time, batch))", "rates.append((1 / time, batch))", r"best_batch"),
    "the limit is ignored": ("if time <= limit_s:", "if True:", r"best_batch"),
    "a share, no percent": ("ANSWER = ", "ANSWER = 0.01 * ", "ANSWER"),
}
