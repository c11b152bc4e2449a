"""Single kernels: tables of them with their measured times, predictions with intervals, calibration."""
