"""Services of models that answer one item at a time: queues, stages on the host, batches on a chip."""
