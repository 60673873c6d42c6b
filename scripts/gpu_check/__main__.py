"""The steps of gpu_check.sh, in three parts that can run one at a time, each within --limit seconds (540).

  correctness   devices; cuDNN's description of each GPU against the known one; trainings in each precision; every op, gradient and
                update against the double-precision reference; the engine; sums over ranks, from 2 GPUs on; compute-sanitizer; verify;
                two equal trainings on all GPUs; resume between CPU and GPU; telemetry; MobileNetV2 on cats and dogs, where its data
                and weights are
  speed         the machine's ceilings; trainer on the CNN, VGG16, MobileNetV2 and ResNet50; where the time of a step goes
  peers         PyTorch eager, as a CUDA graph and compiled, in the same shapes

Each command has a time limit and a log. Each step, and each test case, training and measurement in it, is a line of report.jsonl as
soon as it ends, so that a part that is stopped loses no result. A step that fails does not keep the others from running; one whose
premise is missing is skipped with the reason. The last lines are the commands that run what was skipped. Nothing is installed:
scripts/install_deps.sh --test does that before. Exit code: 0 when nothing failed, 1 otherwise, 2 for a wrong option, 4 when this
machine cannot run the check at all.
"""

import argparse
import pathlib
import shutil
import signal
import sys

import correctness
import libraries
import speed
from check import ROOT, Check, Failure
from sizes import SIZES

EXIT_FAILED, EXIT_CANNOT_RUN = 1, 4
TARGETS = ("trainer", "test_backend", "test_engine", "cuda_device_properties")
NEEDED = ("cmake", "ninja", "g++")


def build(check):
    """The program with its CUDA backend, and the tests."""
    if check.options.no_build:
        missing = [str(path) for path in (check.trainer, check.plugin) if not path.is_file()]
        if missing:
            raise Failure(f"--no-build, but there is no {missing[0]}")
        return {"text": f"taken from {check.build}"}
    missing = [tool for tool in NEEDED if not shutil.which(tool)]
    if missing:
        raise Failure(f"there is no {missing[0]}: run scripts/install_deps.sh --test")
    targets = list(TARGETS)
    if check.plugin.is_relative_to(check.build / "apps"):
        targets.append("trainer_cuda")
        if not shutil.which("nvcc") and not pathlib.Path("/usr/local/cuda/bin/nvcc").is_file():
            raise Failure("there is no nvcc, on PATH or in /usr/local/cuda/bin: install the CUDA Toolkit, cuDNN 9 and NCCL with their "
                          "headers")
    check.run(["cmake", "--preset", "release", "-B", check.build, "-DTRAINER_TESTS=ON"], 600)
    check.run(["cmake", "--build", check.build, "--target", *targets], 7200)
    return {}


PARTS = ("correctness", "speed", "peers")


def parts(size):
    """The steps of each part: name, function and limit in seconds."""
    return dict(zip(PARTS, (
        [(step.__name__, step, limit) for step, limit in correctness.STEPS],
        [("devices", correctness.devices, 60), ("ceilings", speed.ceilings, 60), *speed.steps_of(speed.measure, size.speed, 120),
         *speed.steps_of(speed.profile, size.profiled, 90)],
        speed.steps_of(speed.peers, size.speed, 240))))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fake", action="store_true", help="the tests' fake GPUs as the GPU; --size is tiny")
    parser.add_argument("--size", choices=SIZES, help="how much each step does (full)")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the report, the logs and the runs (gpu_check, or gpu_check_fake)")
    parser.add_argument("--build", type=pathlib.Path, help="build folder, or an unpacked bundle (build/release; in a bundle, its own programs)")
    parser.add_argument("--no-build", action="store_true", help="use the programs that the build folder holds")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="the parts to run")
    parser.add_argument("--limit", type=int, default=540, help="seconds for each part")
    parser.add_argument("--step", nargs="+", help="these steps alone")
    parser.add_argument("--modes", nargs="+", choices=speed.MODES, default=list(speed.MODES), help="of PyTorch")
    options = parser.parse_args()
    options.size = options.size or ("tiny" if options.fake else "full")
    bundled = (ROOT / "apps/trainer/trainer").is_file()
    options.no_build = options.no_build or bundled
    options.build = options.build or (ROOT if bundled else ROOT / "build/release")
    options.out = options.out or ROOT / ("gpu_check_fake" if options.fake else "gpu_check")
    steps = parts(SIZES[options.size])
    names = [name for part in options.part for name, _, _ in steps[part]]
    unknown = [name for name in options.step or [] if name not in names]
    if unknown:
        parser.error(f"--step: {', '.join(unknown)}: unknown; the steps are {', '.join(names)}")
    return options


def run_parts(check, options):
    """Runs the steps that the options select."""
    check.step("build", build, 9000)
    if check.last_state() == "FAILED":
        print("gpu_check.sh: the other steps need what this one failed to build", file=sys.stderr)
        return
    for part in options.part:
        check.start_part(part, options.limit)
        for name, work, limit in parts(check.size)[part]:
            if options.step and name not in options.step:
                continue
            check.step(name, work, limit)
            if name == "devices" and check.last_state() == "FAILED":
                break


def main():
    options = parse_arguments()
    if options.fake:
        libraries.select_fake_gpus(ROOT, options.build.resolve())
    reason = correctness.missing_gpu()
    if reason:
        print(f"gpu_check.sh: {reason}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    check = Check(options, SIZES[options.size])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: check.stop())
    try:
        run_parts(check, options)
    finally:
        check.write_report()
    for command in check.skipped():
        print(f"skipped: {command}")
    failed = check.failed()
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'nothing failed'}; the report is {check.out / 'report.txt'}")
    return EXIT_FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
