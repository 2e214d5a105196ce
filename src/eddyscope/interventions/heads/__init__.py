"""Which heads of a model are needed: redundancy, plans that let heads share patterns, and what they cost.

Public as ``eddyscope.heads``.
"""
