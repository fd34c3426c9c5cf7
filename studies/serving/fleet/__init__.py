"""A simulation of many replicas: what each is given to do, how they do it, what the store takes."""
