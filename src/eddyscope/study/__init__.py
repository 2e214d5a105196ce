"""Labelled results: what analyze computes, as xarray."""
