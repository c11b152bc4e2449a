"""The engine type of a GPU: kernels of equal thread blocks on streaming multiprocessors.

:mod:`accelsim.engines.simt.waves` states the machine and its closed form, :mod:`tests.validation.oracles.simt` runs it
block by block, :mod:`accelsim.engines.simt.kernels` makes kernels of nodes.
"""
