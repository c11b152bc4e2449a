"""The lessons, a folder each: ``lesson.py`` (numbers, check, picture), ``text.md``, ``start.py``, ``solution.py``,
``hints.md``."""
