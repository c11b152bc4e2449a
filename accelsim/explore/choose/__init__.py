"""The choice of hardware: which chip or cluster serves a model within limits, cheapest, fastest, thriftiest."""
