"""What a policy would have done on recorded reasoning: exits, answers, tokens, and losses."""
