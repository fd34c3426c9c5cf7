"""Overhead, load, and realised risk of the running service."""
