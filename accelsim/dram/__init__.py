"""DRAM alone: standards as tables, address mappings, command timing at four levels of detail, energy by command.

Nothing here knows about chips or programs; ``machine`` gives it the addresses of a tile and gets a time back.
"""
