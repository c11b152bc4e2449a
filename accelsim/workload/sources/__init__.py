"""Where workloads come from: names, files, tables of layers, data sets, seeded weights."""
