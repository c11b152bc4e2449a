"""Answers of saved studies: a table, sentences and a picture each, from results and prices."""
