"""Links and switches between devices: topologies, messages, the event machine that plays them."""
