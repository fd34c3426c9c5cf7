"""How the database is reached: its connections, its threads and its faults."""
