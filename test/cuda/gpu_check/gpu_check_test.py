#!/usr/bin/env python3
"""scripts/gpu_check.sh --fake, its report, what it finds wrong, and where it refuses.

gpu_check_test.py BUILD
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts/gpu_check.sh"
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_check  # noqa: E402  pylint: disable=wrong-import-position


def run(*arguments, **environment):
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment},
                          check=False)


def check_fake(build, folder):
    out = folder / "whole"
    done = run("--fake", "--no-build", "--build", build, "--out", out)
    assert done.returncode == 0, (done.stdout, done.stderr)
    report = json.loads((out / "report.json").read_text())
    states = {step["step"]: step["state"] for step in report["steps"]}
    assert states == {"machine": "passed", "build": "passed", "devices": "passed", "properties": "skipped",
                      "conformance": "passed", "ranks": "passed", "training": "passed", "telemetry": "passed",
                      "transfer": "skipped", "bench": "passed"}, states
    assert report["gpus"] == ["Fake CUDA device 0", "Fake CUDA device 1"], report
    assert "nothing here was measured on a GPU" in report["on"], report
    text = (out / "report.txt").read_text()
    assert "gpu0: utilization 0.5, power_watts 200.0" in text and "fake GPUs" in text.splitlines()[0], text
    figures = next(step for step in report["steps"] if step["step"] == "bench")["figures"]
    assert figures[0]["case"] == "gpu1_cnn_bf16_synthetic" and figures[0]["images_per_second"] > 0, figures
    assert figures[0]["gap_seconds"] > 0 and figures[0]["joules_per_image"] > 0, figures


def check_failures(build, folder):
    """A step that fails is reported with the reason, and the others run."""
    out = folder / "failing"
    done = run("--fake", "--no-build", "--build", build, "--out", out, "--step", "ranks", "telemetry",
               TRAINER_FAKE_CUDA_FAIL="cudaGraphInstantiate:1:cudaErrorUnknown")
    assert done.returncode == 1, (done.stdout, done.stderr)
    steps = {step["step"]: step for step in json.loads((out / "report.json").read_text())["steps"]}
    assert steps["ranks"]["state"] == "FAILED" and "test_backend" in steps["ranks"]["text"], steps
    assert steps["telemetry"]["state"] == "skipped", steps
    assert "cudaErrorUnknown" in (out / "ranks.log").read_text(), steps
    nothing = run("--fake", "--no-build", "--build", folder / "nowhere", "--out", folder / "nothing")
    assert nothing.returncode == 1 and "--no-build, but there is no" in nothing.stdout, nothing


def check_refusals():
    assert run("--wrong").returncode == 2
    if shutil.which("nvidia-smi") is None:
        done = run()
        assert done.returncode == 4 and "no nvidia-smi" in done.stderr, done


def check_properties():
    known = {"deviceName": "NVIDIA H200", "multiProcessorCount": 132, "warpSize": 32, "totalGlobalMem": 7, "cudaDeviceId": 0}
    live = {**known, "cudaDeviceId": 3, "totalGlobalMem": 1}
    assert gpu_check.compare_properties(live, known) == []
    live["multiProcessorCount"] = 114
    del live["warpSize"]
    assert gpu_check.compare_properties(live, known) == [
        "multiProcessorCount: this GPU 114, expected 132", "warpSize: this GPU None, expected 32"]


def check_bench_refusal(build):
    environment = {**os.environ, "TRAINER_BENCH_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("TRAINER_CUDA_PLUGIN", None)
    done = subprocess.run([ROOT / "scripts/bench/gpu", "--trainer", pathlib.Path(build) / "apps/trainer/trainer"],
                          capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1 and "scripts/bench/gpu needs a GPU: " in done.stderr, done


def main(build):
    check_properties()
    check_refusals()
    check_bench_refusal(build)
    with tempfile.TemporaryDirectory() as name:
        check_fake(build, pathlib.Path(name))
        check_failures(build, pathlib.Path(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
