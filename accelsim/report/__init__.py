"""Tables, plots, a trace and one HTML page of a run."""
