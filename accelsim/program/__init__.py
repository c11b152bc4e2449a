"""The program: what the hardware is told to do. It stands under the compiler and the machine."""
