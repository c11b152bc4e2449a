"""The explorable page of a run: its data (``data``), which a run folder keeps, and the HTML made of them."""

PAGE = "page.json.gz"
"""The file of a run folder that holds the data."""
