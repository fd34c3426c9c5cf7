"""What can be said of a model and a vLLM before questions are answered: findings, a self-test."""
