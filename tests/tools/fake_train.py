"""Stands in for the train command: writes what it writes, at once; files in FAKE_CONTROL change what it does.

`hang_ROW`: waits after the first checkpoint; `hang_early_ROW`: waits before it; `fail_SEED`: fails.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

control = Path(os.environ["FAKE_CONTROL"])
given = dict(argument.lstrip("-").partition("=")[::2] for argument in sys.argv[1:])
folder, seed = Path(given["output_dir"]), int(given["seed"])
resumed, row = "resume" in given, folder.name.split("-")[1]


def stop(number, frame):
    print("saved", flush=True)
    sys.exit(130)


def wait_while(name):
    while (control / name).exists():
        time.sleep(0.01)


signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
with open(control / "calls.txt", "a") as calls:
    calls.write(f"{folder.name} {'resumed' if resumed else 'new'} {os.getpid()}\n")
print(f"training {folder.name}", flush=True)
if not resumed:
    folder.mkdir(parents=True)
    shutil.copy(control / f"{folder.name}.json", folder / "config.json")
# Processor time is told in tenths of a second: on a fast machine, too, there is some.
while time.process_time() < 0.12:
    sum(range(1000))
wait_while(f"hang_early_{row}")
if (control / f"fail_{seed}").exists():
    print("the reason why", flush=True)
    sys.exit(3)
rows = ["epoch,step,images_per_second,recall@1", "0,0,,0.1"]
for epoch in (1, 2, 3):
    rows.append(f"{epoch},{10 * epoch},{100 * epoch},{0.1 * epoch + 0.01 * seed}")
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints" / "checkpoint").write_text("")
    wait_while(f"hang_{row}")
best = {"epoch": 2, "recall@1": 0.5 + 0.01 * seed, "recall@2": 0.75, "nmi": 0.25, "f1": 0.125}
metrics = {
    "best": best,
    "untrained": {"recall@1": 0.1},
    "steps": 20,
    "steps_per_projection": 9,
    "batch_size": 6,
}
(folder / "metrics.json").write_text(json.dumps(metrics))
