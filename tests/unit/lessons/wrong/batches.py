"""Plausible wrong answers to lesson 8."""

RULE = "if waiting == 32 or slack_s <= latency[waiting] + 0.001:"
WRONG = {
    "energy of the batch": ("(energy / batch, batch)", "(energy, batch)", r"best_batch"),
    "the fastest": ("(energy / batch, batch)", "(latency, batch)", r"best_batch"),
    "the limit is ignored": (" if latency <= limit_s]", "]", r"best_batch"),
    "the limit is for each": ("if latency <= limit_s]", "if latency / batch <= limit_s]", r"best_batch"),
    "none for none": ("if fits else 0", "if fits else None", r"best_batch"),
    "the energy": ("return min(fits)[1]", "return min(fits)[0]", r"best_batch"),
    "too late": (RULE, "if waiting == 32 or slack_s <= 0:", r"decide.*batch"),
    "one's own time is forgotten": (RULE, "if waiting == 32 or slack_s <= 0.001:", r"decide.*batch"),
    "only full buses": (RULE, "if waiting == 32:", r"decide"),
    "at once": (RULE, "if True:", r"decide: energy"),
    "small buses": (RULE, "if waiting >= 3:", r"decide"),
    "more than there are": ("        return waiting\n", "        return waiting + 1\n", r"decide\(\d+"),
    "a part of a request": ("        return waiting\n", "        return waiting / 2\n", r"decide\(\d+"),
    "one at a time": ("        return waiting\n", "        return 1\n", r"decide"),
    "milliseconds": ("<= limit)", "<= limit * 1000)", "ANSWER"),
    "one batch": ("if 2 * latency <= limit", "if latency <= limit", "ANSWER"),
}
