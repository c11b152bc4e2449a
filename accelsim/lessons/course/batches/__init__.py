"""Bus or sports car: batches, latency, energy."""
