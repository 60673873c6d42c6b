#!/usr/bin/env python3
"""Long draws of all generators in test/generated, and link faults, with one table.

    scripts/campaign/generated.py build/release/apps/trainer/trainer [--cases 500] [--seed N] [--only models kills ...]

--cases is the number of random models; the other generators draw in proportion: 500 models, 250 cases of 24 images, 200
schedules, 60 configs under kills, 150 models under `verify replicas`, 600 models in float32 and bfloat16, 3000 models of
a few updates, 400 configs over all keys, 300 counts of visits, 300 sets of decisions, 400 damaged files of results, 40
link faults. Without --seed, the seed is that of the day. Files of failed cases go to --keep. Installs the packages from
PyPI that scripts/python_env.sh lists. Link faults need root, and are left out without it. Ends with 1 when a case failed.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON = [ROOT / "scripts/python_env.sh"]
# Name: script, packages, cases of 500 models.
GENERATORS = {
    "models": ("test/generated/models.py", ["keras", "onnx", "onnxruntime"], 500),
    "images": ("test/generated/images.py", ["numpy", "pillow"], 250),
    "schedules": ("test/generated/schedules.py", ["keras"], 200),
    "kills": ("test/generated/kills.py", [], 60),
    "verify": ("test/generated/verify.py", [], 150),
    "precision": ("test/generated/precision.py", [], 600),
    "updates": ("test/generated/updates.py", [], 3000),
    "configs": ("test/generated/configs.py", [], 400),
    "visits": ("test/generated/visits.py", [], 300),
    "decisions": ("test/generated/decisions.py", [], 300),
    "damaged": ("test/generated/damaged.py", [], 400),
    "links": ("scripts/campaign/links.py", [], 40),
}
SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")))
    parser.add_argument("--only", nargs="*", choices=list(GENERATORS), default=list(GENERATORS))
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("generated_failures"))
    options = parser.parse_args()
    rows, has_failed = [], False
    for name in options.only:
        script, packages, share = GENERATORS[name]
        cases = max(options.cases * share // 500, 1)
        command = [ROOT / script, options.trainer.resolve(), "--cases", cases, "--seed", options.seed]
        command = [*PYTHON, *packages, "--", *command] if packages else [sys.executable, *command]
        if name == "links" and os.geteuid() != 0:
            rows.append((name, cases, "left out, needs root"))
            continue
        if name != "links":
            command += ["--keep", options.keep]
        print(f"== {name}: {cases} cases of seed {options.seed}", flush=True)
        begin = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
        code = process.wait()
        failed = [match.group(1) for match in (re.search(r", (\d+) failed$", line) for line in lines) if match]
        result = f"{failed[-1] if failed else '?'} failed, {time.monotonic() - begin:.0f} s"
        if code not in (0, 1):
            result = "skipped" if code == SKIPPED else f"ended with {code}"
        rows.append((name, cases, result))
        has_failed = has_failed or code not in (0, SKIPPED)
    print(f"\nseed {options.seed}\n{'generator':10}  {'cases':>6}")
    for name, cases, result in rows:
        print(f"{name:10}  {cases:6}  {result}")
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
