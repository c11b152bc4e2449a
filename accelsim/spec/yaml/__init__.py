"""YAML with marks: files found, composed, overridden, checked, described."""
