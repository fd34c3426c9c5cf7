"""What a process that runs a calibration job stores: its lease, and finished recordings."""
