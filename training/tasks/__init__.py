"""The embedded reasoner's task families: problems, and reasoning text to train on."""
