"""The text of an answer: characters, words, dates, numerals and tokens."""
