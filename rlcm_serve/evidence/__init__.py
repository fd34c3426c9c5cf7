"""The record of every answer: hashes in a chain of files to which is only appended."""
