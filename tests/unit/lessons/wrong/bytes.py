"""Plausible wrong answers to lesson 1: what is replaced in the solution, by what, and where the check stops."""

WRONG = {
    "bits for bytes": ("DRAM_BYTE = 8 * ", "DRAM_BYTE = ", "DRAM_BYTE"),
    "the fp32 row": ("MAC = 0.3", "MAC = 4.6", "MAC"),
    "what goes into the SRAM": ("SRAM_BYTE = 1.634", "SRAM_BYTE = 1.01", "SRAM_BYTE"),
    "a multiplication and an addition": ("return M * N * K,", "return 2 * M * N * K,", r"counts.*multiplications"),
    "whole blocks only": ("-(-N // 4)", "N // 4", r"counts.*vector.*out of the SRAM"),
    "the result is never read": ("M * K * blocks + M * N", "M * K * blocks", r"counts.*out of the SRAM"),
    "A is read once": ("M * K * blocks", "M * K", r"counts.*out of the SRAM"),
    "the result stays on the chip": ("M * K + K * N + M * N", "M * K + K * N", r"counts.*DRAM"),
    "joules": ("* DRAM_BYTE\n", "* DRAM_BYTE * 1e-12\n", "picojoules"),
    "SRAM left out": ("sram_B * SRAM_BYTE + ", "", "picojoules"),
    "the other way round": ("ANSWER = 3 * DRAM_BYTE / MAC", "ANSWER = 3 * MAC / DRAM_BYTE", "ANSWER"),
    "one operand": ("ANSWER = 3 * DRAM_BYTE / MAC", "ANSWER = DRAM_BYTE / MAC", "ANSWER"),
}
