"""Upkeep of the stored data: deletion, checks, backups."""
