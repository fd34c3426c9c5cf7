"""The HTTP server around the routes: start, middleware, draining, uploads in threads."""
