"""veRL's trainer for many nodes: what a run of RLCM adds to it, over the functions of `rl`."""
