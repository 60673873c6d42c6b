#!/usr/bin/env python3
"""Trainings on fake GPUs with a fake NVML: what the run says of its GPUs, and that it ends whatever NVML does.

train_test.py TRAINER PLUGIN NVML_FOLDER
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CONFIG = """
seed: 1
data:
  format: synthetic
  synthetic: {shape: [8, 8, 1], classes: 4, train_samples: 64, test_samples: 16}
model:
  layers: [flatten, dense: 4]
  loss: softmax_cross_entropy
train: {epochs: 2, batch_size: 8}
parallel: {lr_scaling: none}
run: {summary_every: 2 steps, tensorboard: false}
"""


def train(program, plugin, folder, name, gpus, nvml, **environment):
    """Events of a run, its rows and what it says to the user."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    run = folder / name
    variables = {**os.environ, "TRAINER_CUDA_PLUGIN": plugin, "LD_LIBRARY_PATH": nvml, **environment}
    done = subprocess.run([program, "train", str(config), "--gpus", gpus, "--json", "--set", "parallel.device=cuda", "--set", f"run.dir={run}"],
                          capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    with open(run / "metrics.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "train"]
    return events[-1], rows, done.stderr, json.loads((run / "run.json").read_text())


def check_whole(program, plugin, folder, nvml):
    finished, rows, said, record = train(program, plugin, folder, "whole", "2", nvml,
                                         TRAINER_FAKE_NVML_UTILIZATION="90,40", TRAINER_FAKE_NVML_WATTS="300,150")
    assert "GPUs" not in said, said
    assert len(rows) == 4, rows
    for row in rows:
        assert row["gpu0_utilization"] == "0.9" and row["gpu1_utilization"] == "0.4", row
        assert row["gpu0_power_watts"] == "300.0" and row["gpu1_temperature_celsius"] == "61.0", row
    devices = {one["device"]: one for one in finished["devices"]}
    assert sorted(devices) == ["gpu0", "gpu1"], finished
    # A GPU's second passes with a reading, and both are read equally often.
    assert devices["gpu0"]["energy_joules"] == 2 * devices["gpu1"]["energy_joules"] > 0, finished
    energy = devices["gpu0"]["energy_joules"] + devices["gpu1"]["energy_joules"]
    assert finished["energy_joules"] == energy, finished
    # On the fake runtime's devices a gap is what uploading a batch takes: copies of 2 us and their bytes at 25 GB/s.
    assert 4e-6 < finished["gap_seconds"] < 1e-4, finished
    assert all(float(row["gap_seconds"]) > 4e-6 for row in rows[1:]), rows
    assert abs(finished["joules_per_image"] - energy / 128) < 1e-9 * energy, finished
    assert record["sessions"][0]["energy_joules"] == energy, record


def check_shared(program, plugin, folder, nvml):
    finished, rows, _, _ = train(program, plugin, folder, "shared", "[0, 0]", nvml)
    assert [one["device"] for one in finished["devices"]] == ["gpu0"], finished
    assert "gpu1_utilization" not in rows[0], rows[0]


def check_lost(program, plugin, folder, nvml):
    finished, rows, said, _ = train(program, plugin, folder, "lost", "2", nvml, TRAINER_FAKE_NVML_LOST="0:12")
    assert "the metrics of gpu0 end here, and training goes on: GPU 0: " in said, said
    assert finished["reason"] == "done" and len(finished["devices"]) == 2, finished
    assert all(row["gpu1_utilization"] == "0.5" for row in rows), rows


def check_unsupported(program, plugin, folder, nvml):
    finished, rows, said, _ = train(program, plugin, folder, "unsupported", "1", nvml,
                                    TRAINER_FAKE_NVML_UNSUPPORTED="nvmlDeviceGetUtilizationRates")
    assert "GPUs" not in said, said
    assert all(row["gpu0_utilization"] == "" and row["gpu0_power_watts"] == "200.0" for row in rows), rows
    assert "utilization" not in finished["devices"][0], finished


def check_missing(program, plugin, folder):
    damaged = folder / "damaged"
    damaged.mkdir()
    (damaged / "libnvidia-ml.so.1").write_text("not a library, but a text that is long enough to be read as a head\n")
    finished, rows, said, _ = train(program, plugin, folder, "missing", "1", str(damaged))
    assert "the run has no metrics of its GPUs: NVML cannot be opened: " in said, said
    assert "devices" not in finished and "gpu0_utilization" not in rows[0], finished


def check_faults(program, plugin, folder, nvml):
    """A GPU of two that fails ends the run with exit code 4, its number and its faults, and `devices` has them too."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    variables = {**os.environ, "TRAINER_CUDA_PLUGIN": plugin, "LD_LIBRARY_PATH": nvml, "TRAINER_FAKE_NVML_ECC": "0,3",
                 "TRAINER_FAKE_NVML_REMAPPED": "0,2"}
    faults = "NVML: 3 uncorrected ECC errors since the driver was loaded, 2 remapped rows, a remapping waits for a reset of the GPU"
    listed = subprocess.run([program, "devices"], capture_output=True, text=True, env=variables, check=True).stdout.splitlines()
    assert [line.endswith(f" GiB; {faults}") for line in listed if line.startswith("GPU ")] == [False, True], listed
    listed = json.loads(subprocess.run([program, "devices", "--json"], capture_output=True, text=True, env=variables, check=True).stdout)
    assert [gpu["faults"] for gpu in listed["gpus"]] == ["", faults], listed
    for gpu, error, said in ((0, "cudaErrorIllegalAddress", "an illegal memory access was encountered; with TRAINER_CUDA_SYNC=1 the error names the layer"),
                             (1, "cudaErrorECCUncorrectable", f"uncorrectable ECC error encountered; {faults}")):
        done = subprocess.run([program, "train", str(config), "--gpus", "2", "--set", "parallel.device=cuda", "--set", f"run.dir={folder / error}"],
                              capture_output=True, text=True, check=False, timeout=120,
                              env={**variables, "TRAINER_FAKE_CUDA_FAIL": f"cudaEventSynchronize@{gpu}:3:{error}"})
        assert done.returncode == 4, (done.returncode, done.stdout, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1 and f"GPU {gpu}: cudaEventSynchronize: {error}: {said}" in lines[0], done.stderr


def main(program, plugin, nvml):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_whole(program, plugin, folder, nvml)
        check_shared(program, plugin, folder, nvml)
        check_lost(program, plugin, folder, nvml)
        check_unsupported(program, plugin, folder, nvml)
        check_missing(program, plugin, folder)
        check_faults(program, plugin, folder, nvml)


if __name__ == "__main__":
    main(*sys.argv[1:])
