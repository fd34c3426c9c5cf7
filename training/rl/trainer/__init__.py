"""TRL's trainer, extended: rollouts, forced answers, the joint probe."""
