#!/usr/bin/env python3
"""scripts/gpu_check.sh with the fake library as the GPU: its report, what it finds wrong, and where it gives up.

gpu_check_test.py BUILD
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts/gpu_check.sh"
sys.path.insert(0, str(ROOT / "scripts/gpu_check"))
import check as checks  # noqa: E402  pylint: disable=wrong-import-position
import correctness  # noqa: E402  pylint: disable=wrong-import-position
import sizes  # noqa: E402  pylint: disable=wrong-import-position


def run(*arguments, **environment):
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment},
                          check=False)


def lines_in(out):
    return [json.loads(line) for line in (out / "report.jsonl").read_text().splitlines()]


def steps_in(out):
    """The report's steps by name, one of each; each was written to report.jsonl when it ended."""
    steps = json.loads((out / "report.json").read_text())["steps"]
    names = [step["step"] for step in steps]
    assert len(set(names)) == len(names), names
    assert {line["step"] for line in lines_in(out) if line["state"] != "running" and "item" not in line} == set(names)
    return {step["step"]: step for step in steps}


def select_libraries(build, gpus=4):
    """The environment of a machine whose GPU is the fake library, and which has what a machine with a GPU may lack."""
    build = pathlib.Path(build).resolve()
    return {"TRAINER_CUDA_PLUGIN": str(build / "test/cuda/plugin/libtrainer_cuda_fake.so"),
            "LD_LIBRARY_PATH": str(build / "test/cuda/fake_nvml/fake_nvml"), "TRAINER_FAKE_CUDA_DEVICES": str(gpus),
            "TRAINER_GPU_CHECK": "0",
            "PATH": f"{HERE / 'bin'}:{HERE / 'stand_ins'}:{os.environ['PATH']}",
            "TRAINER_BENCH_PYTHON": str(HERE / "stand_ins/python_with_torch")}


def check_whole(build, folder):
    """The three parts, one at a time, as on a machine with a GPU: the environment alone makes the fake library the GPU."""
    out = folder / "whole"
    for part in ("correctness", "speed", "peers"):
        done = run("--no-build", "--build", build, "--out", out, "--size", "tiny", "--part", part, **select_libraries(build))
        assert done.returncode == 0, (done.stdout, done.stderr)
    steps = steps_in(out)
    states = {name: step["state"] for name, step in steps.items()}
    expected = {"build", "machine", "devices", "properties", "training", "conformance", "engine", "sanitizer", "racecheck", "synccheck",
                "ranks_shared", "ranks", "verify_resume", "verify_replicas", "two_runs", "resume_elsewhere", "images", "telemetry",
                "transfer", "large_tensors", "ceilings", "measure_cnn_8", "profile_cnn_8", "peers_cnn_8"}
    assert states == {name: "skipped" if name == "transfer" else "passed" for name in expected}, states
    report = json.loads((out / "report.json").read_text())
    assert report["gpus"] == [f"Fake CUDA device {i}" for i in range(4)], report
    assert "nothing here was measured on a GPU" in report["on"], report
    assert len(report["skipped"]) == 1 and report["skipped"][0].startswith(
        "scripts/gpu_check.sh --part correctness --step transfer  # there is no "), report
    assert steps["two_runs"]["lines"] == ["free: the same bits", "pinned: the same bits"], steps["two_runs"]
    text = (out / "report.txt").read_text()
    assert "gpu0: utilization 0.5, power_watts 200.0" in text and "fake GPUs" in text.splitlines()[0], text
    assert "no known model" in "".join(steps["properties"]["lines"]), steps["properties"]
    figures = steps["measure_cnn_8"]["figures"]["cnn_8"]
    assert figures["benchmark"] > 0 and figures["gap_seconds"] > 0 and figures["joules_per_image"] > 0, figures
    log = (out / "conformance/test_backend_000.log").read_text()
    assert "1 passed | 0 failed" in log, log
    items = {(line["step"], line["item"]): line for line in lines_in(out) if "item" in line}
    trainings = {item for step, item in items if step == "training"}
    assert trainings == {"gpu_eager", "gpu", "gpu_again", "gpu_autotune", "gpu_tf32", "gpu_bf16", "gpu_fp16", "cpu"}, trainings
    assert items["training", "gpu"]["parameters_sha256"] == items["training", "gpu_again"]["parameters_sha256"], items
    assert items["training", "gpu"]["parameters_sha256"] == items["training", "gpu_eager"]["parameters_sha256"], items
    assert items["measure_cnn_8", "cnn_8"]["benchmark"] == figures["benchmark"], items
    assert any(step == "conformance" and "Dense:" in item for step, item in items), items
    assert "bfloat16: " in "".join(steps["conformance"]["lines"]) and "no distances of the fake" in steps["conformance"]["lines"][-1], steps
    assert any(item.startswith("distance of dense") for step, item in items if step == "conformance"), items
    assert "% of the limit" in steps["profile_cnn_8"]["text"] and steps["profile_cnn_8"]["lines"], steps["profile_cnn_8"]
    peers = steps["peers_cnn_8"]
    assert peers["torch"] == {"eager": 50.0, "graph": 50.0} and "PyTorch compile: " in peers["lines"][2], peers
    assert peers["lines"][-1] == f"ratio gpu1_cnn_8_bf16 {best(figures, steps) / 50:.2f}", peers
    assert "copy 1.00 TB/s" in steps["ceilings"]["text"], steps["ceilings"]


def check_two_gpus(build, folder):
    """What needs several GPUs runs on two, and the report has the commands for what needs more."""
    for gpus in (1, 2):
        out = folder / f"gpus_{gpus}"
        done = run("--fake", "--no-build", "--build", build, "--out", out, "--part", "correctness", "--step", "devices", "verify_replicas",
                   "two_runs", "ranks", TRAINER_FAKE_CUDA_DEVICES=str(gpus))
        assert done.returncode == 0, (done.stdout, done.stderr)
        states = {name: step["state"] for name, step in steps_in(out).items()}
        expected = "passed" if gpus == 2 else "skipped"
        assert states == {"build": "passed", "devices": "passed", "verify_replicas": expected, "two_runs": expected, "ranks": expected}, states
        printed = [line.removeprefix("skipped: ") for line in done.stdout.splitlines() if line.startswith("skipped: ")]
        assert printed == json.loads((out / "report.json").read_text())["skipped"], printed
        assert all(command in (out / "report.txt").read_text() for command in printed), printed
        if gpus == 1:
            assert printed == [f"scripts/gpu_check.sh --part correctness --step {step}  # needs 2 GPUs; this machine has 1"
                               for step in ("verify_replicas", "two_runs", "ranks")], printed
        else:
            assert len(printed) == 1 and printed[0].endswith("  # its cases of up to 3 GPUs"), printed
            command, _ = printed[0].split("  # ")
            more = subprocess.run(command, shell=True, capture_output=True, text=True, check=False,
                                  env={**os.environ, **select_libraries(build, 3)})
            assert more.returncode == 0 and "1 passed" in more.stdout and "[needs" not in more.stdout, (command, more)


def check_two_runs(folder):
    """Runs that differ are reported; where the order of sums is pinned, they are a failure."""
    def trains(hashes):
        def train(check, path, name, *settings, **variables):
            assert "parallel.gpus=3" in settings and variables == (correctness.PINNED if name.startswith("pinned") else {}), name
            return {"parameters_sha256": hashes.pop(0)}
        return train

    check = checks.Check(Options(folder), sizes.SIZES["tiny"])
    check.step("devices", lambda check: {"gpus": ["a", "b", "c"]}, 20)
    original = correctness.train
    try:
        for hashes, state, lines in ((["a", "b", "c", "c"], "passed", ["free: different bits", "pinned: the same bits"]),
                                     (["a", "a", "b", "c"], "FAILED", ["free: the same bits", "pinned: different bits"])):
            correctness.train = trains(hashes)
            check.step("two_runs", correctness.two_runs, 20)
            assert check.steps()[-1]["state"] == state and check.steps()[-1]["lines"] == lines, check.steps()[-1]
    finally:
        correctness.train = original


def best(figures, steps):
    return max(figures["benchmark"], steps["measure_cnn_8"]["figures"]["cnn_8_autotune"]["benchmark"])


def check_option(build, folder):
    """--fake selects the libraries by itself, and PyTorch, which has no GPU then, is left out with the reason."""
    out = folder / "option"
    done = run("--fake", "--no-build", "--build", build, "--out", out, "--step", "devices", "ceilings", "peers_cnn_8",
               TRAINER_BENCH_PYTHON=sys.executable)
    assert done.returncode == 0, (done.stdout, done.stderr)
    steps = steps_in(out)
    assert {name: step["state"] for name, step in steps.items()} == {
        "build": "passed", "devices": "passed", "ceilings": "skipped", "peers_cnn_8": "skipped"}, steps
    report = json.loads((out / "report.json").read_text())
    assert report["gpus"] == [f"Fake CUDA device {i}" for i in range(4)] and "fake GPUs" in report["on"], report
    assert "cannot use a GPU here" in steps["ceilings"]["text"], steps


def check_killed(build, folder):
    """A part that is killed in the middle of a step loses no result that it had, and ends the commands that it ran. Its report is
    there, also after SIGKILL, which lets nothing be written."""
    for kind in (signal.SIGHUP, signal.SIGKILL):
        out = folder / f"killed_{kind.name}"
        arguments = ["--no-build", "--build", build, "--out", out, "--size", "tiny", "--part", "correctness", "--step", "devices", "training"]
        environment = {**os.environ, **select_libraries(build)}
        with subprocess.Popen([SCRIPT, *map(str, arguments)], env=environment, stdout=subprocess.DEVNULL) as process:
            wait_for(lambda out=out: any(line.get("item") == "gpu" for line in lines_in(out)), out)
            process.send_signal(kind)
            code = process.wait(20)
        assert code == (checks.EXIT_STOPPED if kind == signal.SIGHUP else -signal.SIGKILL), code
        report = {step["step"]: step["state"] for step in json.loads((out / "report.json").read_text())["steps"]}
        assert report == {"build": "passed", "devices": "passed", "training": "STOPPED"}, report
        if kind == signal.SIGHUP:
            assert trainings_in(out) == [], "a training goes on after the check that began it was stopped"
        else:
            wait_for(lambda out=out: trainings_in(out) == [], out)
            with open(out / "report.jsonl", "a", encoding="utf-8") as file:
                file.write('{"step": "trai')  # as a machine that is switched off leaves it
            run(*arguments[:-1], **select_libraries(build))
        steps = {step["step"]: step for step in json.loads((out / "report.json").read_text())["steps"]}
        assert steps["devices"]["state"] == "passed" and steps["training"]["state"] == "STOPPED", steps
        items = {item["item"]: item for item in steps["training"]["items"]}
        assert set(items) >= {"gpu_eager", "gpu"} and items["gpu"]["images_per_second"] > 0, items
        assert "gpu: passed" in (out / "report.txt").read_text()


def wait_for(condition, out, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (out / "report.jsonl").is_file() and condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {lines_in(out)}")


def trainings_in(out):
    """The trainings with run folders in `out` that run."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(f"{out}/runs".encode()) for word in words):
            found.append(words)
    return found


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
        self.out, self.build, self.no_build = folder, folder, True


def check_limits(folder):
    """A command that hangs is stopped with its children, its output so far is kept, and what follows still runs."""
    check = checks.Check(Options(folder), sizes.SIZES["tiny"])

    def hangs(check):
        check.run(["bash", "-c", "echo began; sleep 300 & wait"], 0.5)

    check.step("hangs", hangs, 20)
    check.step("goes on", lambda check: {"text": check.run(["echo", "fine"], 5).strip()}, 20)
    first, second = check.steps()
    assert first["state"] == "FAILED" and "was stopped after" in first["text"] and "began" in first["text"], first
    assert first["seconds"] < 20 and second["state"] == "passed" and second["text"] == "fine", check.steps()
    check.start_part("short", 0)
    check.step("too late", hangs, 20)
    assert check.steps()[-1]["state"] == "NOT RUN" and "no time is left" in check.steps()[-1]["text"], check.steps
    assert check.failed() == ["hangs", "too late"], check.failed()
    check.start_part("broken", 60)
    check.step("broken", lambda check: [][0], 20)
    assert check.steps()[-1]["state"] == "FAILED" and "IndexError" in check.steps()[-1]["text"], check.steps
    # Another part in the same folder adds to the report.
    later = checks.Check(Options(folder), sizes.SIZES["tiny"])
    assert [step["step"] for step in later.steps()] == ["hangs", "goes on", "too late", "broken"] and later.failed() == []


def check_skipped_cases(folder):
    """Exit code 77, of a test program whose cases were all skipped, is not a failure."""
    program = folder / "test/sample/test_sample"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/bash\n[[ $1 == --list* ]] && { echo 'a, b'; echo other; exit; }\n"
                       "[[ $1 == '--test-case=a? b' ]] && exit 77\nexit 0\n")
    program.chmod(0o755)
    check = checks.Check(Options(folder), sizes.SIZES["tiny"])
    check.step("cases", lambda check: correctness.run_cases(check, "test_sample", ("*",)), 20)
    assert check.steps()[0]["text"] == "test_sample: 1 cases passed, 1 skipped, 0 failed", check.steps()


def check_refusals():
    assert run("--wrong").returncode == 2
    if shutil.which("nvidia-smi") is None:
        done = run()
        assert done.returncode == 4 and "no nvidia-smi" in done.stderr, done


def check_properties():
    known = {"deviceName": "NVIDIA H200", "multiProcessorCount": 132, "warpSize": 32, "totalGlobalMem": 7, "cudaDeviceId": 0}
    live = {**known, "cudaDeviceId": 3, "totalGlobalMem": 1}
    assert correctness.compare_properties(live, known) == ([], [])
    live.update(multiProcessorCount=114, maxCtasPerSM=32)
    del live["warpSize"]
    assert correctness.compare_properties(live, known) == (["multiProcessorCount: this GPU 114, expected 132"], ["maxCtasPerSM"])


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
        check_two_runs(pathlib.Path(name) / "two_runs")
        check_whole(build, pathlib.Path(name))
        check_option(build, pathlib.Path(name))
        check_two_gpus(build, pathlib.Path(name))
        check_killed(build, pathlib.Path(name))
        check_failures(build, pathlib.Path(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
