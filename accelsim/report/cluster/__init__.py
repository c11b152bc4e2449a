"""Views of a step of many devices: page, trace, pictures."""
