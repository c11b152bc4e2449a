"""Models of single machines, element by element and event by event, that the closed forms of the product must equal."""
