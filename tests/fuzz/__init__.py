"""Fuzzers: seeded cases that must either succeed or end in an error class of accelsim.

``python -m tests.fuzz models --seeds 0:1000`` draws; ``python -m tests.fuzz models --seeds 17`` repeats one case in this
process, with its traceback. ``make fuzz`` draws from all of them.
"""
