"""Writing a program: commands and what they wait for, regions, slots, where each tensor lies."""
