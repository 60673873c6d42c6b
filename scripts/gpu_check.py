"""The steps of gpu_check.sh.

  machine       what this machine is: driver, GPUs, toolkit, compiler, commit
  build         dependencies, the program with its CUDA backend, the tests
  devices       `trainer devices` finds GPUs
  properties    cuDNN's description of each GPU against the one that plans are tested with (lib/backend/gpu_model.cpp)
  conformance   every op, gradient, update and precision against the double-precision reference: on the GPU, on the fake, on
                the CPU
  ranks         sums over GPUs: a GPU each where there are several, and all on one
  training      MNIST (or, without it, the drawn digits) on all GPUs, on one and on the CPU; replicas and a resumed run verified
  telemetry     the run's rows have utilisation, power and energy of each GPU, and the gap between steps
  transfer      MobileNetV2 on cats and dogs, where its data and weights are
  bench         scripts/bench/gpu

A step that fails does not keep the others from running; one whose premise is missing is skipped with the reason. Exit code: 0
when nothing failed, 1 otherwise, 2 for a wrong option, 4 when this machine cannot run the check at all.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXIT_FAILED, EXIT_CANNOT_RUN = 1, 4
NVCC = ("/usr/local/cuda/bin/nvcc",)
TESTS = ("test_backend", "test_engine")
# In the fake's short form: every op once, without the long tables.
FAKE_CASES = "convolution*same*,dense*,*softmax*"


class Skip(Exception):
    """Why a step cannot run here."""


class Failure(Exception):
    """What a step found wrong."""


class Check:
    """The machine's paths and options, and what the steps have found so far."""

    def __init__(self, options):
        self.options = options
        self.out = options.out.resolve()
        self.build = options.build.resolve()
        self.trainer = self.build / "apps/trainer/trainer"
        self.steps = []
        self.gpus = []
        self.log = None

    def environment(self, backend=None, **more):
        """Of a command: on the GPU, or, with --fake, on the fake; on `backend` when one is given."""
        variables = {**os.environ, **more}
        if (backend or ("fake" if self.options.fake else "cuda")) == "fake":
            variables["TRAINER_CUDA_PLUGIN"] = str(self.build / "test/cuda/plugin/libtrainer_cuda_fake.so")
            nvml = str(self.build / "test/cuda/fake_nvml/fake_nvml")
            variables["LD_LIBRARY_PATH"] = ":".join(filter(None, [nvml, os.environ.get("LD_LIBRARY_PATH")]))
        return variables

    def run(self, command, env=None, log=True):
        """A command's output; raises Failure with its last lines when it fails."""
        command = [str(word) for word in command]
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if log:
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(f"$ {' '.join(command)}\n{done.stdout}\n")
        if done.returncode != 0:
            tail = " | ".join(line for line in done.stdout.strip().splitlines()[-4:])
            raise Failure(f"{' '.join(command)} ended with code {done.returncode}: {tail}")
        return done.stdout

    def step(self, name, work):
        """Runs a step and writes down what became of it."""
        started = time.monotonic()
        self.log = self.out / f"{name}.log"
        self.log.write_text("")
        print(f"==== {name}", flush=True)
        state, text, found = "passed", "", {}
        try:
            found = work(self) or {}
            text = found.pop("text", "")
        except Skip as reason:
            state, text = "skipped", str(reason)
        except (Failure, OSError, KeyError, ValueError) as reason:
            state, text = "FAILED", f"{type(reason).__name__}: {reason}" if not isinstance(reason, Failure) else str(reason)
        seconds = time.monotonic() - started
        print(f"     {state}{': ' if text else ''}{text} ({seconds:.1f} s)", flush=True)
        self.steps.append({"step": name, "state": state, "text": text, "seconds": round(seconds, 1), **found})
        self.write_report()

    def write_report(self):
        kind = "fake GPUs; nothing here was measured on a GPU" if self.options.fake else "GPUs"
        report = {"written": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "on": kind,
                  "gpus": self.gpus, "steps": self.steps}
        (self.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        lines = [f"Check of the CUDA backend on {kind}, {report['written']}"]
        lines += [f"GPU {i}: {gpu}" for i, gpu in enumerate(self.gpus)]
        for step in self.steps:
            lines.append(f"{step['step']:12} {step['state']:8} {step['seconds']:8.1f} s  {step['text']}")
            lines += [f"{'':14}{line}" for line in step.get("lines", [])]
        (self.out / "report.txt").write_text("\n".join(lines) + "\n")


def line_of(command, which=0):
    """One line of what a command prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"not found ({error.strerror})"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[which] if lines and done.returncode == 0 else f"failed with code {done.returncode}"


def machine(check):
    smi = ["nvidia-smi", "--query-gpu=name,uuid,driver_version,memory.total,power.limit,clocks.max.sm", "--format=csv,noheader"]
    found = {"commit": line_of(["git", "-C", ROOT, "rev-parse", "HEAD"]), "kernel": line_of(["uname", "-srm"]),
             "nvcc": line_of([find_nvcc() or "nvcc", "--version"], -1), "cmake": line_of(["cmake", "--version"])}
    found["lines"] = [f"{name}: {value}" for name, value in found.items()]
    if not check.options.fake:
        found["lines"] += check.run(smi).strip().splitlines()
    return found


def build(check):
    if check.options.no_build:
        missing = [str(path) for path in [check.trainer, check.build / "CMakeCache.txt"] if not path.is_file()]
        if missing:
            raise Failure(f"--no-build, but there is no {missing[0]}")
        return {"text": f"taken from {check.build}"}
    if not check.options.fake:
        check.run([ROOT / "scripts/install_deps.sh", "--test"])
    check.run(["cmake", "--preset", "release", "-B", check.build, "-DTRAINER_TESTS=ON"])
    targets = ["trainer", *TESTS, "trainer_cuda_fake", "fake_nvml"]
    if not check.options.fake:
        targets += ["trainer_cuda", "cuda_device_properties"]
    check.run(["cmake", "--build", check.build, "--target", *targets])
    return {}


def devices(check):
    found = json.loads(check.run([check.trainer, "devices", "--json"], check.environment()))
    if not found["gpus"]:
        raise Failure(found["no_gpu"])
    check.gpus = [gpu["name"] for gpu in found["gpus"]]
    return {"text": f"{len(check.gpus)} found"}


def compare_properties(live, known):
    """Fields that differ, as text. What depends on the machine and not on the model is left out."""
    own = {"pciDeviceId", "cudaDeviceId", "driverVer", "isTccDriver", "deviceName", "totalGlobalMem"}
    lines = []
    for key in sorted(set(live) | set(known)):
        if key not in own and live.get(key) != known.get(key):
            lines.append(f"{key}: this GPU {live.get(key)}, expected {known.get(key)}")
    return lines


def properties(check):
    if check.options.fake:
        raise Skip("a fake GPU has no properties but those that the fake was given")
    program = check.build / "test/cuda/plans/cuda_device_properties"
    models = {model["deviceName"]: model for model in map(json.loads, check.run([program, "models"]).splitlines())}
    lines, wrong = [], []
    for index, name in enumerate(check.gpus):
        live = json.loads(check.run([program, index]))
        (check.out / f"gpu{index}_properties.json").write_text(json.dumps(live, indent=1) + "\n")
        if name not in models:
            lines.append(f"{name}: no known model; gpu{index}_properties.json has what one would need")
            continue
        different = compare_properties(live, models[name])
        lines.append(f"{name}: {'as expected' if not different else 'differs from what was expected'}")
        wrong += different
    if wrong:
        raise Failure("; ".join(wrong))
    return {"lines": lines}


def summary_of(output):
    """doctest's count of cases."""
    line = next((line for line in reversed(output.splitlines()) if "test cases:" in line), "no summary")
    return " ".join(line.replace("[doctest]", "").split())


def test_program(check, name):
    for folder in ("backend", "engine"):
        path = check.build / "test" / folder / name
        if path.is_file():
            return path
    raise Failure(f"{name} is not built")


def conformance(check):
    lines = []
    cases = [f"--test-case={FAKE_CASES}"] if check.options.fake else []
    cpu = "AMX*,Winograd*,reference backend*,arena*,placement*"
    runs = [("fake", {"TRAINER_TEST_BACKEND": "cuda"}), ("cpu", {})]
    if not check.options.fake:
        runs.insert(0, ("cuda", {"TRAINER_TEST_BACKEND": "cuda"}))
    for backend, variables in runs:
        left_out = [] if backend == "cpu" else [f"--test-case-exclude={cpu}"]
        output = check.run([test_program(check, "test_backend"), *cases, *left_out], check.environment(backend, **variables))
        if "test cases:   0 |" in output or "test cases: 0 |" in output:
            raise Failure(f"no test case ran on {backend}")
        lines.append(f"{backend}: {summary_of(output)}")
    return {"lines": lines}


def ranks(check):
    """The tables of test/cuda/plugin on real GPUs: a GPU each where there are enough, and all on one."""
    lines = []
    cases = "one rank*" if check.options.fake else "ranks*,*over ranks*,*over the ranks*,one rank*,splits of*"
    ways = [("all on one GPU", {"TRAINER_TEST_SHARED_GPU": "1"})]
    if len(check.gpus) >= 4 or check.options.fake:
        ways.append(("a GPU each", {"TRAINER_FAKE_CUDA_DEVICES": "4"}))
    for name, variables in ways:
        output = check.run([test_program(check, "test_backend"), f"--test-case={cases}"],
                           check.environment(TRAINER_TEST_BACKEND="cuda", **variables))
        lines.append(f"{name}: {summary_of(output)}")
    if len(ways) == 1:
        lines.append(f"a GPU each: left out, which needs 4 GPUs; this machine has {len(check.gpus)}")
    return {"lines": lines}


def train(check, config, name, *settings, **more):
    """The finished event of a run in its own folder."""
    output = check.run([check.trainer, "train", config, "--json", "--overwrite", "--run-dir", check.out / "runs" / name,
                        *[word for setting in settings for word in ("--set", setting)]], check.environment(**more))
    return next(json.loads(line) for line in reversed(output.splitlines()) if line.startswith('{"event":"finished"'))


def accuracy_of(finished):
    return max((split.get("accuracy", 0.0) for split in finished["metrics"].values()), default=0.0)


def training(check):
    folder = os.environ.get("MNIST_DIR", ROOT / "datasets/mnist")
    if check.options.fake:
        config, settings = ROOT / "scripts/bench/cnn.yaml", ["train.max_steps=12", "train.batch_size=8", "run.summary_every=4 steps"]
    elif pathlib.Path(folder).is_dir():
        config, settings = ROOT / "configs/mnist.yaml", ["run.summary_every=50 steps"]
    else:
        config, settings = ROOT / "configs/digits.yaml", ["run.summary_every=50 steps"]
    wanted = 0.0 if check.options.fake else 0.98
    lines = []
    runs = {"one_gpu": ["parallel.device=cuda", "parallel.gpus=1"], "all_gpus": ["parallel.device=cuda", "parallel.gpus=all"],
            "cpu": ["parallel.device=cpu", "parallel.gpus=0"]}
    for name, where in runs.items():
        finished = train(check, config, name, *settings, *where, "parallel.lr_scaling=none")
        lines.append(f"{name}: accuracy {accuracy_of(finished):.4f}, {finished['images_per_second']:.0f} images/s")
        if accuracy_of(finished) < wanted:
            raise Failure(f"{name} of {config.name}: accuracy {accuracy_of(finished)}, expected {wanted} or more")
    lines += verify(check, config, settings)
    return {"lines": lines, "text": config.name}


def verify(check, config, settings):
    """Replicas give what one does, and a resumed run what a whole one does."""
    lines = []
    steps = ["--steps", "4" if check.options.fake else "40"]
    counts = [count for count in (1, 2, 4) if count <= len(check.gpus)]
    ways = {"resume": ["--set", "parallel.gpus=1"]}
    if len(counts) > 1:
        ways["replicas"] = ["--replicas", ",".join(map(str, counts[:2] if check.options.fake else counts))]
    else:
        lines.append("verify replicas: left out, which needs 2 GPUs")
    for what, more in ways.items():
        check.run([check.trainer, "verify", what, config, *steps, *more, "--set", "parallel.device=cuda",
                   *[word for setting in settings for word in ("--set", setting)]], check.environment())
        lines.append(f"verify {what}: holds")
    return lines


def telemetry(check):
    path = check.out / "runs/all_gpus/metrics.csv"
    if not path.is_file():
        raise Skip("the training before did not end")
    with open(path, encoding="utf-8") as file:
        row = [row for row in csv.DictReader(file) if row["split"] == "train"][-1]
    lines = []
    for index in range(len(check.gpus)):
        values = {key: row.get(f"gpu{index}_{key}", "") for key in ("utilization", "power_watts", "temperature_celsius", "energy_joules")}
        lines.append(f"gpu{index}: " + ", ".join(f"{key} {value or 'not said'}" for key, value in values.items()))
        if not values["utilization"] and not values["power_watts"]:
            raise Failure(f"metrics.csv has neither utilization nor power of gpu{index}")
    if not row.get("gap_seconds"):
        raise Failure("metrics.csv has no gap_seconds")
    return {"lines": lines, "text": f"gap between steps {1e3 * float(row['gap_seconds']):.3f} ms"}


def transfer(check):
    if check.options.fake:
        raise Skip("hours on fake GPUs")
    data = pathlib.Path(os.environ.get("CATS_DOGS_DIR", ROOT / "datasets/cats_vs_dogs"))
    weights = pathlib.Path(os.environ.get("WEIGHTS_DIR", ROOT / "weights"))
    for path, script in [(data, "datasets/cats_vs_dogs.sh"), (weights, "datasets/weights.sh")]:
        if not path.is_dir():
            raise Skip(f"there is no {path}; {script} downloads it")
    finished = train(check, ROOT / "configs/cats_dogs_mobilenet_v2.yaml", "transfer", "train.precision=bfloat16")
    if accuracy_of(finished) < 0.95:
        raise Failure(f"accuracy {accuracy_of(finished)}, expected 0.95 or more")
    return {"text": f"accuracy {accuracy_of(finished):.4f}, {finished['images_per_second']:.0f} images/s"}


def bench(check):
    if check.options.no_bench:
        raise Skip("--no-bench")
    command = [ROOT / "scripts/bench/gpu", "--json", check.out / "bench.json", "--trainer", check.trainer]
    more = {}
    if check.options.fake:
        more["TRAINER_BENCH_PYTHON"] = sys.executable
        command += ["--device", "fake", "--gpus", "1", "--case", "cnn", "--batch", "8", "--rounds", "1", "--seconds", "0.2", "--steps", "3"]
    elif os.environ.get("JPEGS_DIR"):
        command += ["--jpegs", os.environ["JPEGS_DIR"]]
    output = check.run(command, check.environment(**more))
    figures = json.loads((check.out / "bench.json").read_text())["figures"]
    ratios = [line for line in output.splitlines() if line.startswith("ratio ")]
    return {"figures": figures, "text": f"{len(figures)} cases", "lines": ratios}


STEPS = [machine, build, devices, properties, conformance, ranks, training, telemetry, transfer, bench]


def find_nvcc():
    return shutil.which("nvcc") or next((path for path in NVCC if os.access(path, os.X_OK)), None)


def cannot_run(options):
    """Why the check cannot start here, or nothing."""
    if options.fake:
        return None
    if not shutil.which("nvidia-smi"):
        return ("this machine has no nvidia-smi, so no NVIDIA driver: run this where a GPU is, or with --fake to see that the "
                "steps work")
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    if done.returncode != 0 or "GPU 0" not in done.stdout:
        return f"nvidia-smi lists no GPU: {(done.stdout + done.stderr).strip()}"
    if not find_nvcc():
        return f"there is no nvcc, on PATH or at {NVCC[0]}: install the CUDA Toolkit, cuDNN 9 and NCCL with their headers"
    return None


def parse_arguments():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fake", action="store_true", help="on the tests' fake GPUs, in a short form")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "gpu_check", help="folder of the report, the logs and the runs")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build folder")
    parser.add_argument("--no-build", action="store_true", help="take what the build folder holds")
    parser.add_argument("--no-bench", action="store_true", help="leave the benchmarks out")
    parser.add_argument("--step", nargs="+", choices=[step.__name__ for step in STEPS], help="these alone, after `devices`")
    return parser.parse_args()


def main():
    options = parse_arguments()
    reason = cannot_run(options)
    if reason:
        print(f"gpu_check.sh: {reason}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    check = Check(options)
    check.out.mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        if options.step and step.__name__ not in [*options.step, "devices"]:
            continue
        check.step(step.__name__, step)
        if check.steps[-1]["state"] == "FAILED" and step in (build, devices):
            print("gpu_check.sh: the other steps need what this one failed to give", file=sys.stderr)
            break
    failed = [step["step"] for step in check.steps if step["state"] == "FAILED"]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'nothing failed'}; the report is {check.out / 'report.txt'}")
    return EXIT_FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
