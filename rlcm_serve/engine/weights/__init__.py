"""Weights that are loaded beside a model's own: its probe and LoRA adapters."""
