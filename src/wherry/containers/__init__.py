"""Runs a command in a container, and makes the images for it. The standard library alone."""
