"""Rent or buy: a machine of your own against offers for rent, by load."""
