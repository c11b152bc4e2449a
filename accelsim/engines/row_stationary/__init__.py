"""The row-stationary dataflow of Eyeriss: laws of a mapping, closed forms, the PE-level model they are proven on.

The machine is stated in :mod:`accelsim.engines.row_stationary.timing`. Sources: Chen, Emer, Sze, "Eyeriss: A Spatial
Architecture for Energy-Efficient Dataflow for Convolutional Neural Networks", ISCA 2016; Chen, Krishna, Emer, Sze,
"Eyeriss: An Energy-Efficient Reconfigurable Accelerator for Deep Convolutional Neural Networks", IEEE JSSC 52(1), 2017.
"""
