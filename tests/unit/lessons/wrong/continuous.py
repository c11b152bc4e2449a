"""Plausible wrong answers to lesson 17."""

STATIC = "sum(max(outputs[at : at + places]) for at in range(0, len(outputs), places))"
WRONG = {
    "the mean of a batch": (STATIC, "sum(outputs) / places", r"static"),
    "whole batches only": ("range(0, len(outputs), places))", "range(0, len(outputs) - places + 1, places))", r"static"),
    "sorted": ("ends = [0] * places", "outputs, ends = sorted(outputs), [0] * places", r"continuous"),
    "in turn": ("ends[ends.index(min(ends))] += output", "ends[len(str(ends)) % places] += output", r"continuous"),
    "no budget": ("tokens = min(total[one] - done[one], budget - sum(step.values()))", "tokens = total[one] - done[one]",
                  r"schedule"),
    "prompts whole": ("min(total[running[-1]], budget - sum(step.values()))", "total[running[-1]]", r"schedule.*step 1"),
    "waiting goes first": ("waiting.pop(0))", "waiting.pop())", r"schedule"),
    "a token too many": ("== prompts[one] + outputs[one]:", "== prompts[one] + outputs[one] + 1:", r"schedule"),
    "one at a time": ("while waiting and budget", "while waiting and not running and budget", r"schedule"),
    "the first gives way": ("queue.pop() if queue", "queue.pop(0) if queue", r"schedule"),
    "waits last": ("waiting.insert(0, last)", "waiting.append(last)", r"schedule"),
    "keeps what it has computed": ("done[last] = held[last] = 0", "held[last] = 0",
                                   r"schedule"),
    "blocks stay": ("done[last] = held[last] = 0", "done[last] = 0", r"schedule"),
    "room for a piece": ("not lacks(waiting[0], total[waiting[0]])", "not lacks(waiting[0], 1)", r"schedule"),
    "blocks are for ever": ("                held[one] = 0\n", "", r"schedule"),
    "rounding down": ("return -(-tokens // block) - held", "return tokens // block - held", r"schedule"),
    "after by before": ("ANSWER = ", "ANSWER = 1 / ", "ANSWER"),
}  # fmt: skip
