"""Engines that move data between memories."""
