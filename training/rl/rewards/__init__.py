"""What a rollout earns, and the methods that combine rewards and losses."""
