"""The HTTP interface. Its routes decide nothing."""
