"""The service as an application of Ray Serve: replicas with an engine each, behind Ray's proxies.

Nothing else in the package imports Ray.
"""
