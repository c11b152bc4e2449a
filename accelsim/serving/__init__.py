"""Serving under load: requests that arrive, schedulers that form batches, replicas that compute them step by step."""
