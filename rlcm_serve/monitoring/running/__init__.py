"""Runs live monitoring in one process: takes its answers, and shows them to the monitors."""
