"""One question: its samples, its vote, and the guarantee it is answered under."""
