"""Uncertainty of every number: intervals, convergence, chance and null models, as functions of stored statistics."""
