"""What runs on the node of a compute instance: JupyterLab, its home, its kernels and its scripts.

``python -m wherry.session`` is the command of an ordinary run, whose tags tell where it is.
"""
