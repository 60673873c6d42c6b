#!/usr/bin/env python3
"""libtrainer.so as it is installed: what it needs, and the examples in C: library_test.py PROGRAM BUILD_FOLDER"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
EXAMPLES = support.ROOT / "apps" / "library" / "examples"
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(example LANGUAGES C CXX)
find_package(trainer 0.1 REQUIRED)
add_executable(classify classify.c)
target_link_libraries(classify trainer::trainer)
add_executable(judge judge.cpp)
target_link_libraries(judge trainer::trainer)
"""


def call(*words, **options):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def write_images(folder):
    """Ten pictures of each of three classes, whose colours differ, drawn by a small generator of numbers."""
    state = 1
    for shift, name in enumerate(["left", "middle", "right"]):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            content = bytearray()
            for byte in range(40 * 36 * 3):
                state = (state * 1664525 + 1013904223) % 2**32
                content.append((state >> 25) + (90 if byte % 3 == shift else 0))
            (folder / name / f"{number}.ppm").write_bytes(b"P6 36 40 255\n" + content)


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="a library ")))
        cls.prefix = cls.folder / "prefix"  # without the CUDA plugin, which this build may lack
        call("cmake", "--install", BUILD, "--component", "Unspecified", "--prefix", cls.prefix)
        (cls.library,) = cls.prefix.rglob("libtrainer.so")
        write_images(cls.folder / "images")
        cls.trained = cls.folder / "run"
        support.train_on_small_images(cls.folder / "images", cls.trained)

    def predicted(self, files, *more):
        lines = call(support.TRAINER, "predict", self.trained, *files, "--format", "jsonl", *more).splitlines()
        return [line for line in map(json.loads, lines) if "class" in line]

    def files(self):
        return sorted((self.folder / "images").rglob("*.ppm"))

    def check_example(self, program):
        """The classes and, to the bit, the probabilities of `trainer predict`."""
        found = call(program, self.trained, *self.files(), env={"LD_LIBRARY_PATH": str(self.library.parent)})
        expected = [f"{line['file']} {line['class']} {line['probability']:.17g}" for line in self.predicted(self.files())]
        self.assertEqual(found.splitlines(), expected)

    def check_judge(self, program):
        """The distances of `trainer predict`, and an image that shows none of the classes."""
        environment = {"LD_LIBRARY_PATH": str(self.library.parent)}
        done = subprocess.run([program, self.trained, *self.files()], capture_output=True, text=True, env=environment)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--novelty", done.stderr)
        judged = self.folder / "judged"
        shutil.copytree(self.trained, judged)
        support.run_json("evaluate", judged, "--novelty", "--novelty-false-alarms", 0.2, "--split", "validation")
        text = self.folder / "no image"
        text.write_text("text")
        found = call(program, judged, text, *self.files(), env=environment).splitlines()
        self.assertIn("no image skipped: image 0: ", found[0])
        lines = [line for line in support.run_json("predict", judged, *self.files()) if "class" in line]
        self.assertEqual({line["novel"] for line in lines}, {True, False})
        for line, words in zip(lines, found[1:], strict=True):
            name = "none of the classes" if line["novel"] else line["class"]
            self.assertEqual(words, f"{line['file']} {line['distance']:.6g} {name}")

    def test_library_needs_neither_network_nor_signals(self):
        needed = call("readelf", "--dynamic", self.library)
        self.assertIn("[libdnnl.so", needed)
        self.assertIsNone(re.search("grpc|gloo|curl|protobuf|absl|libcudart", needed), needed)
        exported = call("nm", "--dynamic", "--defined-only", self.library)
        names = {line.split()[2] for line in exported.splitlines()} - {"TRAINER_0"}
        declared = set(re.findall(r"^TRAINER_API [^(]*?(\w+)\(", (EXAMPLES.parent / "trainer.h").read_text(), re.MULTILINE))
        self.assertEqual(names, {f"{name}@@TRAINER_0" for name in declared})
        imported = call("nm", "--dynamic", "--undefined-only", self.library)
        for name in ("sigaction", "signal", "fork", "_exit", "exit", "setenv", "_ZSt4cout", "_ZSt4cerr"):
            self.assertIsNone(re.search(rf"\bU {name}(@|$)", imported, re.MULTILINE), name)

    def test_examples_build_with_cmake_and_predict_as_the_command(self):
        source = self.folder / "source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CMAKE)
        for example in EXAMPLES.glob("*.c*"):
            (source / example.name).write_bytes(example.read_bytes())
        call("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        call("cmake", "--build", source / "build")
        self.check_example(source / "build" / "classify")
        self.check_judge(source / "build" / "judge")

    def test_example_builds_with_pkg_config_and_predicts_as_the_command(self):
        environment = {"PKG_CONFIG_PATH": str(self.library.parent / "pkgconfig"), "PATH": "/usr/bin:/bin"}
        flags = call("sh", "-c", "eval set -- $(pkg-config --cflags --libs trainer); printf '%s\\n' \"$@\"", env=environment)
        program = self.folder / "classify"
        call("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", EXAMPLES / "classify.c", "-o", program,
             *flags.splitlines())
        self.check_example(program)

    def test_example_reports_errors(self):
        program = self.folder / "errors"
        call("cc", f"-I{EXAMPLES.parent}", EXAMPLES / "classify.c", self.library, f"-Wl,-rpath,{self.library.parent}",
             "-o", program)
        done = subprocess.run([program, "/nowhere", "a.png"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("error: /nowhere", done.stderr)
        done = subprocess.run([program, self.trained, "/a.png", self.files()[0]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("skipped: /a.png", done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)


if __name__ == "__main__":
    support.main()
