"""Sources of workloads: names, files, tables of layers, data sets, seeded weights."""
