"""The roofline: what a chip can reach, from two numbers of the chip and two of the layer."""
