"""A confidence probe for any model, without reinforcement learning (RLCM §3.2, App. B)."""
