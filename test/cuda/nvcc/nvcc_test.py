#!/usr/bin/env python3
"""check_nvcc() of lib/backend/cuda/nvcc.cmake, and a configuration of the whole project with an nvcc of CUDA 12.4.

nvcc_test.py CMAKE FOLDER      FOLDER has the headers of a CUDA toolkit
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
# The last lines of what nvcc --version prints.
VERSION = "Cuda compilation tools, release {0}, V{0}.99\nBuild cuda_{0}.r{0}/compiler.34097967_0\n"


def make_toolkit(folder, include, text):
    """A CUDA toolkit whose nvcc prints `text` and compiles nothing."""
    (folder / "bin").mkdir(parents=True)
    nvcc = folder / "bin/nvcc"
    nvcc.write_text(f"#!/bin/sh\ncase $* in *--version) ;; *) exit 1 ;; esac\ncat <<'END'\n{text}END\n")
    nvcc.chmod(0o755)
    for name in ("include", "lib64"):
        (folder / name).symlink_to(include.parent / name)
    return nvcc


def reason_for(cmake, folder, **variables):
    """What check_nvcc() says where these variables of the environment or, in lower case, of CMake are set."""
    options = [f"-D{name.upper()}={value}" for name, value in variables.items() if name.islower()]
    environment = {name: str(value) for name, value in variables.items() if name.isupper()}
    script = folder / "script.cmake"
    script.write_text(f"include({ROOT}/lib/backend/cuda/nvcc.cmake)\ncheck_nvcc(reason)\nmessage(\"<${{reason}}>\")\n")
    done = subprocess.run([cmake, *options, "-P", script], env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stderr.strip().removeprefix("<").removesuffix(">")


def check_reasons(cmake, include, folder):
    for version, works in (("9.2", False), ("11.8", False), ("12.4", False), ("12.8", True), ("12.10", True), ("13.0", True)):
        nvcc = make_toolkit(folder / version, include, VERSION.format(version))
        expected = "" if works else f"{nvcc} is of CUDA {version} and the kernels need 12.8 or newer"
        for variables in ({"cmake_cuda_compiler": nvcc}, {"CUDACXX": nvcc}, {"CUDA_PATH": nvcc.parents[1]}):
            assert reason_for(cmake, folder, **variables) == expected, (version, variables)
    assert reason_for(cmake, folder, CUDACXX=f"{folder}/12.4/bin/nvcc -O1").startswith(f"{folder}/12.4/bin/nvcc -O1 is of CUDA 12.4")
    other = make_toolkit(folder / "other", include, "a compiler\n")
    assert reason_for(cmake, folder, CUDACXX=other) == f"{other} --version does not print a release of CUDA"
    assert "does not print" in reason_for(cmake, folder, CUDACXX=folder / "missing")


def check_configuration(cmake, include, folder):
    """The program is configured without the CUDA backend, and ctest names the reason of the tests that are left out."""
    nvcc = make_toolkit(folder / "toolkit", include, VERSION.format("12.4"))
    environment = {**os.environ, "PATH": f"{nvcc.parent}:{os.environ['PATH']}", "CUDA_PATH": str(nvcc.parents[1])}
    environment.pop("CUDACXX", None)
    build = folder / "build"
    done = subprocess.run([cmake, "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"], env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    reason = f"{nvcc} is of CUDA 12.4 and the kernels need 12.8 or newer"
    assert f"CUDA backend: left out, since {reason}\n" in done.stdout, done.stdout
    assert f"skipped: {reason}" in (build / "test/cuda/CTestTestfile.cmake").read_text()
    targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
    assert "\ntrainer: phony" in targets and "trainer_cuda" not in targets, targets[-2000:]


def main(cmake, include):
    for check in (check_reasons, check_configuration):
        with tempfile.TemporaryDirectory() as name:
            check(cmake, pathlib.Path(include), pathlib.Path(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
