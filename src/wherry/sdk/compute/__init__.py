"""Compute targets: a class for each kind, one file for each noun."""
