"""What goes over the wire, one module for each area of the interface."""
