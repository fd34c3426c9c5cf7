"""The questions that were asked and not answered, shared by the processes of one database."""
