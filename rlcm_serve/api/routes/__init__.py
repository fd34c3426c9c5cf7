"""The routes, one module for each area; they decide nothing."""
