"""Checks of accelsim against hardware, other simulators and published figures.

A checkout has them, the installed package does not. ``accelsim validate`` runs them; ``claims`` says what each claims,
``oracles`` holds models that closed forms of the product must equal, ``data`` the figures that checks compare with.
"""
