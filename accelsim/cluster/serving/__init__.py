"""Language models that serve requests on a cluster: prefill and decoding under a plan."""
