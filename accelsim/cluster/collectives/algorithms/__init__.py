"""One algorithm per file: a module with a ``COLLECTIVE`` is found by its being here."""
