"""Answers, their labels, and the monitors that test them, for all processes of one database."""
