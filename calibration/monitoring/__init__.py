"""Sequential tests of a live service: is the risk above its level, have the readings moved?"""
