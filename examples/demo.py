"""What ``make demo`` shows: one real training on this machine, from submission to result."""

import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("WHERRY_HOME", str(HERE.parent / ".demo"))

from wherry import Experiment, ScriptRunConfig, Workspace  # noqa: E402

ws = Workspace.create("demo", exist_ok=True)
config = ScriptRunConfig(
    source_directory=str(HERE / "01_local"), script="train.py", arguments=["--hidden", 48]
)
run = Experiment(ws, "digits").submit(config)
run.wait_for_completion(show_output=True)

print("\nMetrics")
for name, value in run.get_metrics().items():
    if isinstance(value, list):
        print(f"  {name:16} {len(value)} values, last {value[-1]:.4f}")
    else:
        print(f"  {name:16} {value}")
print("\nFiles")
for name in run.get_file_names():
    print(f"  {name}")
wherry = f"WHERRY_HOME={os.environ['WHERRY_HOME']} .venv/bin/wherry"
print(f"\nLook at it at {run.get_portal_url()}")
print(f"or, with the token filled in:  {wherry} open {run.id}")
print(f"Stop the server, which goes on:  {wherry} server stop")
