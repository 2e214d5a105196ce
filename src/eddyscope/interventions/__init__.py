"""Changing a model's attention and measuring what that costs: heads that share patterns, shorter windows, lost bands.

The parts that every intervention uses are :mod:`eddyscope.interventions.editing` (edit the attention weights of chosen
layers, reversibly) and :mod:`eddyscope.interventions.losses` (what the model loses by it).
"""
