"""Files that pages are made of: styles, scripts, and the charting library with its licence."""
