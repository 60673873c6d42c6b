#!/usr/bin/env python3
"""Plants the mistakes of test/cuda/mutants in the CUDA backend, one at a time, and names the test that finds each.

    scripts/mutate_cuda.py [--lists kernels descriptors host] [--only TEXT ...] [--without races ...] [--list]

Works in a copy of the repository's HEAD (build/mutants), where the tests are built once; a mutant then costs one object, one
link and the tests of its line `tests`, in their order, until one fails. Programs that only open the plugin are those of
build/release. No GPU is needed: the tests run on the fakes of
test/cuda. Prints every mutant with the test that found it and what the test said, SURVIVED, or stillborn (it does not compile);
ends with 1 when one survived or was stillborn.

A list is a text file. `=` begins a mutant with its name, `tests` names sets of tests (TESTS below), `in` a file of
lib/backend/cuda, `-` the lines that are there once and `+` those that take their place.
"""
import argparse
import os
import re
import subprocess
import sys
import time

from mutate import ROOT, make_copy

MUTANTS = os.path.join(ROOT, "test", "cuda", "mutants")
PLUGIN = "test/cuda/plugin/libtrainer_cuda_fake.so"
FAKE = {"TRAINER_TEST_BACKEND": "cuda"}
GPUS = {**FAKE, "TRAINER_FAKE_CUDA_DEVICES": "4"}
SHARED = {**FAKE, "TRAINER_TEST_SHARED_GPU": "1"}
BACKEND, ENGINE = "test/backend/test_backend", "test/engine/test_engine"
RUN = "trainer trainer_cuda_fake"
RANKS = "ReductionOptions*"
# (build, targets, program, cases, cases left out, environment) of each set. With ctest the cases are the name of a test.
TESTS = {
    "kernels": [("release", "test_cuda_kernels", "test/cuda/kernels/test_cuda_kernels", "*", "", {})],
    "races": [("tsan", "test_cuda_kernels", "test/cuda/kernels/test_cuda_kernels", "*", "", {})],
    "bounds": [("asan", "test_cuda_kernels", "test/cuda/kernels/test_cuda_kernels", "*", "", {})],
    "descriptors": [("release", "test_cuda_fake_cudnn", "test/cuda/fake_cudnn/test_cuda_fake_cudnn", "*", "", {})],
    "collective": [("release", "test_cuda_collective", "test/cuda/collective/test_cuda_collective", "*", "", {})],
    "telemetry": [("release", "test_cuda_telemetry", "test/cuda/fake_nvml/test_cuda_telemetry", "*", "", {})],
    "base": [("release", "test_base", "test/base/test_base", "StallDetector*,ProgressWatch*", "", {})],
    "hooks": [("release", "test_hooks", "test/hooks/test_hooks", "progress: the closing lines count the cores*", "", {})],
    "left_out": [("release", RUN, "ctest", "cuda fake: GPUs that cannot be used are left out and explained", "", {})],
    "libraries": [("release", RUN, "ctest", "cuda fake: train names the libraries of its GPUs", "", {})],
    "first_run": [("release", RUN, "ctest", "cuda fake: train checks several GPUs before their first run", "", {})],
    "runs": [("release", RUN, "ctest", "cuda fake: runs resume on other devices", "", {})],
    "nvcc": [("release", RUN, "ctest", "cuda_nvcc: an nvcc that is too old leaves the CUDA backend out", "", {})],
    "plugin": [("release", "test_plugin", "test/backend/plugin/test_plugin", "*", "", {})],
    "shared": [("release", "trainer_cuda_fake", BACKEND, RANKS, "", SHARED)],
    "operations": [
        ("release", "trainer_cuda_fake", BACKEND, "Preprocess*,Dense*,Pool: windows*,GlobalPool*,"
         "BatchNorm: activations*,BatchNorm: other*,FoldBatchNorm*,Add and Concat*,ZeroPad*,Dropout: any*,recompute*,"
         "Attention*,PrependTokens*,"
         "training_graph: gradients*,Conv: activations match*,Conv: groups*,Conv: the gradient of a kernel*,layers: *,"
         "ZeroGradient*,residual block*", "", FAKE),
    ],
    "steps": [
        ("release", "trainer_cuda_fake", BACKEND, "Executable: many calls*,Variables: read*,PhaseTimes: a captured*,"
         "Executable: two runs*,Executable: gradients of several*,Executable: a loss*,Executable: an evaluation graph*,"
         "Executable: programs of two types*,float16*,Executable: any batch size*", "", FAKE),
    ],
    "updates": [("release", "trainer_cuda_fake", BACKEND, "Update: every rule*,float16*", "", FAKE)],
    "ranks": [("release", "trainer_cuda_fake", BACKEND, RANKS, "", GPUS)],
    "engine": [
        ("release", "trainer_cuda_fake", ENGINE, "Engine: ordered sums*,Engine: two workers*,Engine: after prepare*,"
         "Engine: inputs are copied*,Engine: the loss of one*", "", SHARED),
    ],
}
PASSED = (0, 77)  # 77: nothing failed, and a case was skipped
# Programs that hold no code of the CUDA backend, and their targets.
PROGRAMS = {BACKEND: "test_backend", ENGINE: "test_engine"}


def read_list(name):
    """The mutants of a list: name, sets of tests, file, the lines to find and those that replace them."""
    mutants = []
    with open(os.path.join(MUTANTS, name + ".txt"), encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            if line.startswith("= "):
                mutants.append({"name": line[2:], "list": name, "old": [], "new": []})
            elif line.startswith("tests "):
                mutants[-1]["tests"] = line.split()[1:]
            elif line.startswith("in "):
                folder = "lib/backend/cuda/kernels/" if name == "kernels" else "lib/backend/cuda/"
                mutants[-1]["file"] = folder + line[3:]
            elif line[:1] in ("-", "+"):
                mutants[-1]["old" if line[0] == "-" else "new"].append(line[1:])
            elif line and not line.startswith("#"):
                sys.exit(f"{name}.txt:{number}: expected =, tests, in, -, + or #")
    return mutants


def planted(text, mutant):
    """A file's text with the mutant in it."""
    old = "\n".join(mutant["old"])
    if text.count(old) != 1:
        sys.exit(f"{mutant['name']}: the lines are {text.count(old)} times in {mutant['file']}, not once")
    return text.replace(old, "\n".join(mutant["new"]))


def check_lists(mutants):
    for mutant in mutants:
        with open(os.path.join(ROOT, mutant["file"]), encoding="utf-8") as file:
            planted(file.read(), mutant)


def what_failed(output, code):
    """The first failure that a test program printed: its case and the message, or how it ended."""
    case = re.search(r"^TEST CASE:\s*(.*)$", output, re.MULTILINE)
    sanitizer = re.search(r"(WARNING: ThreadSanitizer: .*|ERROR: AddressSanitizer: \S+|runtime error: .*)", output)
    error = re.search(r"ERROR: (?!AddressSanitizer)(.*(?:\n(?!\n|=====|TEST CASE|\S+:\d+).*){0,3})", output)
    error = error or re.search(r"^(AssertionError.*)$", output, re.MULTILINE)
    message = sanitizer.group(1) if sanitizer else " ".join(error.group(1).split()) if error else ""
    if not message:
        lines = [line for line in output.strip().splitlines() if line.strip()]
        message = f"ended with {code}" + (": " + lines[-1] if lines else "")
    return (case.group(1).strip() if case else "?"), message[:240]


class Build:
    """The copy's builds and what runs in them."""

    def __init__(self, copy, environment):
        self.copy, self.environment = copy, environment

    def make(self, build, target, where=None):
        where = where or self.copy
        folder = os.path.join(where, "build", build)
        if not os.path.isfile(os.path.join(folder, "build.ninja")):
            # Each source is compiled on its own, so that a mutant costs one object.
            werror = "ON" if build == "release" else "OFF"
            subprocess.run(["cmake", "--preset", build, "-DTRAINER_TESTS=ON", f"-DTRAINER_WERROR={werror}",
                            "-DCMAKE_UNITY_BUILD=OFF", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"],
                           cwd=where, check=True, capture_output=True)
        environment = {**self.environment, "CCACHE_BASEDIR": where}
        return subprocess.run(["ninja", "-C", folder, *target.split()], capture_output=True, text=True, env=environment, check=False)

    def run(self, test):
        """(exit code, output) of one of TESTS; a program that does not end ends with -1."""
        build, _, program, cases, exclude, variables = test
        folder = os.path.join(self.copy, "build", build)
        environment = {**self.environment, **variables, "TRAINER_CUDA_PLUGIN": os.path.join(folder, PLUGIN),
                       "TRAINER_FAKE_CUDA_DEADLOCK_MS": "5000"}
        program = os.path.join(ROOT, "build", build, program) if program in PROGRAMS else os.path.join(folder, program)
        command = [program, f"--test-case={cases}", f"--test-case-exclude={exclude}", "--abort-after=1"]
        if test[2] == "ctest":
            command = ["ctest", "--test-dir", folder, "-R", f"^{cases}$", "--no-tests=error", "--output-on-failure"]
        try:
            done = subprocess.run(command, cwd=self.copy, capture_output=True, timeout=900, env=environment, check=False)
        except subprocess.TimeoutExpired as late:
            return -1, (late.stdout or b"").decode(errors="replace")
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def fate_of(mutant, build):
    """(killed, SURVIVED or stillborn, the test that found it, its message)."""
    for name in mutant["tests"]:
        for test in TESTS[name]:
            made = build.make(test[0], test[1])
            if made.returncode != 0:
                error = next((line for line in made.stdout.splitlines() if "error:" in line), made.stdout[-200:])
                return "stillborn", "", error
            code, output = build.run(test)
            if code not in PASSED:
                return "killed", f"{name}, {what_failed(output, code)[0]}", what_failed(output, code)[1]
    return "SURVIVED", "", ""


def prepare(mutants, build):
    """Builds what the mutants' tests need, and runs them without a mutant."""
    tests = []
    for mutant in mutants:
        for name in mutant["tests"]:
            tests += [test for test in TESTS[name] if test not in tests]
    for test in tests:
        made = [build.make(test[0], test[1])]
        if test[2] in PROGRAMS:
            made.append(build.make(test[0], PROGRAMS[test[2]], ROOT))
        for each in made:
            if each.returncode != 0:
                sys.exit(each.stdout[-2000:])
        code, output = build.run(test)
        if code not in PASSED:
            sys.exit(f"{test[2]} fails without a mutant: {what_failed(output, code)}")


def main():
    names = sorted(name[:-4] for name in os.listdir(MUTANTS) if name.endswith(".txt"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", nargs="+", default=names, choices=names)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="mutants whose name holds one of these")
    parser.add_argument("--without", nargs="+", default=[], choices=sorted(TESTS), help="sets of tests that are left out")
    parser.add_argument("--list", action="store_true", help="only check that each mutant's lines are there, and print the names")
    arguments = parser.parse_args()
    mutants = [mutant for name in arguments.lists for mutant in read_list(name)]
    if arguments.only:
        mutants = [mutant for mutant in mutants if any(text in mutant["name"] for text in arguments.only)]
    for mutant in mutants:
        mutant["tests"] = [name for name in mutant["tests"] if name not in arguments.without]
    check_lists(mutants)
    if arguments.list:
        print("\n".join(f"{mutant['list']}: {mutant['name']}" for mutant in mutants))
        return 0

    build = Build(*make_copy())
    prepare(mutants, build)
    score = {}
    for mutant in mutants:
        path, started = os.path.join(build.copy, mutant["file"]), time.monotonic()
        with open(path, encoding="utf-8") as file:
            whole = file.read()
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(planted(whole, mutant))
            fate, test, message = fate_of(mutant, build)
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(whole)
        score.setdefault(mutant["list"], []).append(fate)
        print(f"{fate:9} {mutant['list']}: {mutant['name']} ({time.monotonic() - started:.0f} s)", flush=True)
        if message:
            print(f"          {test}: {message}", flush=True)
    for name, fates in score.items():
        print(f"{name}: {fates.count('killed')} of {len(fates)} found")
    return 0 if all(fate == "killed" for fates in score.values() for fate in fates) else 1


if __name__ == "__main__":
    sys.exit(main())
