"""Fits a line by gradient descent; needs nothing but Python."""

import os
import platform
import random
import sys

from wherry import Run

run = Run.get_context()
rate = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1
random.seed(7)
points = [(x / 50, 3 * x / 50 + 2 + random.gauss(0, 0.1)) for x in range(50)]
slope = offset = 0.0
for _ in range(200):
    errors = [(slope * x + offset - y, x) for x, y in points]
    slope -= rate * sum(error * x for error, x in errors) / len(points)
    offset -= rate * sum(error for error, _ in errors) / len(points)
    run.log("loss", sum(error**2 for error, _ in errors) / len(points))
os.makedirs("outputs", exist_ok=True)
with open("outputs/line.txt", "w") as file:
    file.write(f"{slope:.3f} {offset:.3f}\n")
print(f"y = {slope:.3f} x + {offset:.3f}, found on {platform.node()} by {sys.executable}")
