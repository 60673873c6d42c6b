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
sys.path.insert(0, str(ROOT / "scripts/gpu_check"))
import check as checks  # noqa: E402  pylint: disable=wrong-import-position
import correctness  # noqa: E402  pylint: disable=wrong-import-position


def run(*arguments, **environment):
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment},
                          check=False)


def steps_in(out):
    """The report's steps by name, one of each; each was written to report.jsonl when it ended."""
    steps = json.loads((out / "report.json").read_text())["steps"]
    names = [step["step"] for step in steps]
    assert len(set(names)) == len(names), names
    assert {json.loads(line)["step"] for line in (out / "report.jsonl").read_text().splitlines()} == set(names)
    return {step["step"]: step for step in steps}


def check_fake(build, folder):
    """The branch that runs on a GPU, with the fake library as the GPU."""
    out = folder / "whole"
    done = run("--fake", "--no-build", "--build", build, "--out", out)
    assert done.returncode == 0, (done.stdout, done.stderr)
    steps = steps_in(out)
    skipped = {"properties", "engine", "sanitizer", "transfer", "ceilings", "peers_cnn_8"}
    states = {name: step["state"] for name, step in steps.items()}
    expected = {"build", "machine", "devices", "training", "conformance", "ranks_shared", "ranks", "verify_resume",
                "verify_replicas", "resume_elsewhere", "telemetry", "measure_cnn_8", "profile_cnn_8", *skipped}
    assert states == {name: "skipped" if name in skipped else "passed" for name in expected}, states
    report = json.loads((out / "report.json").read_text())
    assert report["gpus"] == ["Fake CUDA device 0", "Fake CUDA device 1"], report
    assert "nothing here was measured on a GPU" in report["on"], report
    text = (out / "report.txt").read_text()
    assert "gpu0: utilization 0.5, power_watts 200.0" in text and "fake GPUs" in text.splitlines()[0], text
    figures = steps["measure_cnn_8"]["figures"]["cnn_8"]
    assert figures["benchmark"] > 0 and figures["gap_seconds"] > 0 and figures["joules_per_image"] > 0, figures
    log = (out / "conformance/test_backend_000.log").read_text()
    assert "1 passed | 0 failed" in log, log


def check_failures(build, folder):
    """A step that fails is reported with the reason, and the others run."""
    out = folder / "failing"
    done = run("--fake", "--no-build", "--build", build, "--out", out, "--part", "correctness", "--step", "devices", "ranks", "telemetry",
               TRAINER_FAKE_CUDA_FAIL="cudaGraphInstantiate:1:cudaErrorUnknown")
    assert done.returncode == 1, (done.stdout, done.stderr)
    steps = steps_in(out)
    assert steps["ranks"]["state"] == "FAILED" and "1 failed" in steps["ranks"]["text"], steps
    assert "cudaErrorUnknown" in "".join(steps["ranks"]["lines"]), steps
    assert steps["telemetry"]["state"] == "skipped", steps
    nothing = run("--fake", "--no-build", "--build", folder / "nowhere", "--out", folder / "nothing")
    assert nothing.returncode == 1 and "--no-build, but there is no" in nothing.stdout, nothing


class Options:
    """What Check reads of the command line."""

    def __init__(self, folder):
        self.fake, self.out, self.build, self.no_build = True, folder, folder, True


def check_limits(folder):
    """A command that hangs is stopped with its children, its output so far is kept, and what follows still runs."""
    check = checks.Check(Options(folder))

    def hangs(check):
        check.run(["bash", "-c", "echo began; sleep 300 & wait"], 0.5)

    check.step("hangs", hangs, 20)
    check.step("goes on", lambda check: {"text": check.run(["echo", "fine"], 5).strip()}, 20)
    first, second = check.steps
    assert first["state"] == "FAILED" and "was stopped after" in first["text"] and "began" in first["text"], first
    assert first["seconds"] < 20 and second["state"] == "passed" and second["text"] == "fine", check.steps
    check.start_part("short", 0)
    check.step("too late", hangs, 20)
    assert check.steps[-1]["state"] == "NOT RUN" and "no time is left" in check.steps[-1]["text"], check.steps
    assert check.failed() == ["hangs", "too late"], check.failed()
    check.start_part("broken", 60)
    check.step("broken", lambda check: [][0], 20)
    assert check.steps[-1]["state"] == "FAILED" and "IndexError" in check.steps[-1]["text"], check.steps
    # Another part in the same folder adds to the report.
    later = checks.Check(Options(folder))
    assert [step["step"] for step in later.steps] == ["hangs", "goes on", "too late", "broken"] and later.failed() == []


def check_skipped_cases(folder):
    """Exit code 77, of a test program whose cases were all skipped, is not a failure."""
    program = folder / "test/sample/test_sample"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/bash\n[[ $1 == --list* ]] && { echo 'a, b'; echo other; exit; }\n"
                       "[[ $1 == '--test-case=a? b' ]] && exit 77\nexit 0\n")
    program.chmod(0o755)
    check = checks.Check(Options(folder))
    check.step("cases", lambda check: correctness.run_cases(check, "test_sample", ("*",)), 20)
    assert check.steps[0]["text"] == "test_sample: 1 cases passed, 1 skipped, 0 failed", check.steps


def check_refusals():
    assert run("--wrong").returncode == 2
    if shutil.which("nvidia-smi") is None:
        done = run()
        assert done.returncode == 4 and "no nvidia-smi" in done.stderr, done


def check_properties():
    known = {"deviceName": "NVIDIA H200", "multiProcessorCount": 132, "warpSize": 32, "totalGlobalMem": 7, "cudaDeviceId": 0}
    live = {**known, "cudaDeviceId": 3, "totalGlobalMem": 1}
    assert correctness.compare_properties(live, known) == []
    live.update(multiProcessorCount=114, maxCtasPerSM=32)
    del live["warpSize"]
    assert correctness.compare_properties(live, known) == [
        "maxCtasPerSM: this GPU 32, expected None", "multiProcessorCount: this GPU 114, expected 132"]


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
        check_limits(pathlib.Path(name) / "limits")
        check_skipped_cases(pathlib.Path(name) / "skipped")
        check_fake(build, pathlib.Path(name))
        check_failures(build, pathlib.Path(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
