"""The third line of `train` and run.json name the versions of the libraries of the GPUs, and report a set that was not
checked. One GPU needs no NCCL, and a run on the CPU names no libraries.

    libraries_test.py TRAINER PLUGIN
"""

import json
import os
import subprocess
import sys
import tempfile

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
CONFIG = """
model: {{layers: [flatten, dense: 3]}}
data: {{format: synthetic, synthetic: {{shape: [4, 4, 1], classes: 3, train_samples: 16, test_samples: 8}}}}
train: {{max_steps: 1, batch_size: 8}}
parallel: {{{parallel}, lr_scaling: none}}
run: {{dir: {run}}}
"""
CHECKED = "CUDA runtime 13.0.0, cuDNN 9.19.0, cuBLASLt 13.1.0"
CASES = [
    ("device: cpu", {}, None),
    ("gpus: 1", {}, f"{CHECKED}, driver of CUDA 13.0"),
    ("gpus: 2", {}, f"{CHECKED}, NCCL 2.28.9, driver of CUDA 13.0"),
    ("gpus: [0, 0]", {}, f"{CHECKED}, driver of CUDA 13.0"),
    ("gpus: 1", {"TRAINER_FAKE_CUDNN_VERSION": "91907"}, f"{CHECKED.replace('9.19.0', '9.19.7')}, driver of CUDA 13.0"),
    ("gpus: 2", {"TRAINER_FAKE_CUDNN_VERSION": "92800", "TRAINER_FAKE_NCCL_VERSION": "23201", "TRAINER_FAKE_CUDA_DRIVER": "13020"},
     "CUDA runtime 13.0.0, cuDNN 9.28.0, cuBLASLt 13.1.0, NCCL 2.32.1, driver of CUDA 13.2; this is not the set that was "
     "checked, which has cuDNN 9.19, NCCL 2.28"),
]


def run_case(folder, number, parallel, variables, expected):
    run, config = os.path.join(folder, str(number)), os.path.join(folder, f"{number}.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(parallel=parallel, run=run))
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2", TRAINER_GPU_CHECK="0", **variables)
    done = subprocess.run([TRAINER, "train", config], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    third = done.stdout.splitlines()[2]
    assert (third == expected) if expected else ("CUDA" not in third), f"{parallel} {variables}: {third}"
    with open(os.path.join(run, "run.json"), encoding="utf-8") as file:
        assert json.load(file).get("libraries") == expected


def main():
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            run_case(folder, number, *case)


main()
