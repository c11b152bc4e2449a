"""The explorable page of a run: its data (``data``), which a run folder keeps, and the HTML made of them."""
