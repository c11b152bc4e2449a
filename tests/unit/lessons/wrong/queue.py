"""Plausible wrong answers to lesson 16."""

WAIT = "return busy * seconds / (2 * (1 - busy))"
BEGIN = "begin = max(arrival, free[chip])"
BETWEEN = "return ordered[low] + (place - low) * (ordered[high] - ordered[low])"
WRONG = {
    "the wait of M/M/1": (WAIT, "return busy * seconds / (1 - busy)", r"mean_wait"),
    "with the service": (WAIT, WAIT + " + seconds", r"mean_wait"),
    "requests, not seconds": (WAIT, "return busy / (2 * (1 - busy))", r"mean_wait"),
    "as if it were idle": (WAIT, "return busy * seconds / 2", r"mean_wait"),
    "never idle": (BEGIN, "begin = free[chip]", r"waits of 60 requests for 1 chip, 30%"),
    "never busy": (BEGIN, "begin = arrival", r"waits of 60 requests for 1 chip"),
    "time until the end": ("found.append(begin - arrival)", "found.append(begin + seconds - arrival)", r"for 1 chip"),
    "free too early": (
        "free[chip] = begin + seconds",
        "free[chip] = arrival + seconds",
        r"waits of 60 requests for 1 chip",
    ),
    "the busiest chip": ("free.index(min(free))", "free.index(max(free))", r"waits of 60 requests for 2 chips"),
    "always the first chip": ("free.index(min(free))", "0", r"waits of 60 requests for 2 chips"),
    "one chip too many": ("[0.0] * chips", "[0.0] * (chips + 1)", r"waits of 60 requests for 1 chip"),
    "no line between": (BETWEEN, "return ordered[low]", r"p99 of 10 values"),
    "nearest rank": (BETWEEN, "return ordered[-(-99 * len(ordered) // 100) - 1]", r"p99 of 10 values"),
    "not sorted": ("sorted(values), 0.99", "list(values), 0.99", r"p99 of 250 values"),
    "places from one": ("0.99 * (len(values) - 1)", "0.99 * len(values) - 0.5", r"p99"),
    "the mean": ("ANSWER = full / calm", "ANSWER = mean_wait(0.95, 1) / mean_wait(0.5, 1)", "ANSWER"),
    "the wrong way round": ("ANSWER = full / calm", "ANSWER = calm / full", "ANSWER"),
}
