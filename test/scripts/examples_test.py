#!/usr/bin/env python3
"""Runs every example of every --help and every command of README.md and of the guides in configs/.

They run in a folder with small data and with finished runs under the names that they use.
"""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import support

sys.path.append(str(support.ROOT / "scripts" / "articles"))
import pictures  # noqa: E402

# Lines for shells or programs that are not here, with what stands in for them.
REPLACED = {
    "trainer completion fish | source": "trainer completion fish",
    "trainer man | man -l -": "trainer man",
    # Tests use no network.
    "trainer weights resnet50 vgg16": "trainer weights",
    "WEIGHTS_DIR=/data/weights trainer weights resnet50 vgg16": "trainer weights",
    "trainer weights timm/resnet50.a1_in1k": "trainer weights --search resnet50",
    "trainer train photos.yaml --set model.backbone.weights=timm/resnet50.a1_in1k": "trainer models resnet50",
    # A run in place of a folder of crossval; the guide runs crossval.
    "trainer data xrays.yaml --suspects runs/xrays_crossval --sheet suspects.png":
        "trainer data cats_dogs.yaml --suspects runs/cats_dogs --sheet suspects.png",
}
RESULTS = {"trainer diff": (0, 5)}  # 5: the runs differ
DOCUMENTS = [support.ROOT / "README.md", *sorted((support.ROOT / "configs").glob("*.md"))]
# Lines of documents that the test runs: the program or the sweep script, with or without variables before it.
COMMAND = re.compile(r"(\w+=(\"[^\"]*\"|\S+) )*(trainer|scripts/sweep\.sh) ")
KERAS_FILE = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"


def write_idx(path, dims, content):
    path.write_bytes(struct.pack(f">I{len(dims)}I", 0x0800 | len(dims), *dims) + bytes(content))


def write_mnist(folder):
    """Ten kinds of images that a model can tell apart."""
    folder.mkdir(parents=True)
    for name, count in (("train", 96), ("t10k", 40)):
        labels = [number % 10 for number in range(count)]
        content = bytearray()
        for label in labels:
            content += bytes(255 if (x * 10) // 28 == label else 0 for _ in range(28) for x in range(28))
        write_idx(folder / f"{name}-images-idx3-ubyte", (count, 28, 28), content)
        write_idx(folder / f"{name}-labels-idx1-ubyte", (count,), labels)


def write_npy(path, count):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 28, 28, 1), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(count * 784))


def small(text):
    """A config whose run takes a moment."""
    text = re.sub(r"max_steps: \d+", "max_steps: 20", text)
    text = re.sub(r"throttle_secs: \d+", "throttle_secs: 1", text)
    text = text.replace("validation_split: 0\n", "validation_split: 0.25\n")
    text = text.replace("format: digits\n", "format: digits\n  limit: 512\n")
    return re.sub(r"epochs: \d+, batch", "epochs: 2, batch", text)


def shorten(line):
    """A command that does the same in less time: it measures for a moment, and takes few steps and small batches."""
    line = REPLACED.get(line, line)
    line = re.sub(r" --seconds \d+| --most \d+", "", line)
    line = line.replace("trainer find batch-size", "trainer find batch-size --most 16 --seconds 0.1")
    line = re.sub(r"trainer (benchmark|plan(?=.* --link))", r"\g<0> --seconds 0.2", line)
    if "--steps" not in line:
        line = line.replace("trainer verify replicas", "trainer verify replicas --steps 20")
    return line.replace("--throttle 60", "--throttle 1 --start-delay 0")


def copy_or_link(source, target):
    """Copies a file of a run. The program replaces checkpoints and never changes them, so a link is enough."""
    return os.link(source, target) if source.endswith(".safetensors") else shutil.copy2(source, target)


def code_blocks(path):
    """The indented code blocks of a document, each a list of lines without indentation."""
    blocks, fenced = [[]], False
    for line in path.read_text().splitlines():
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("    "):
            blocks[-1].append(line[4:])
        elif line.strip() and blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def commands_of(path):
    """The commands of a document that the test runs, without comments."""
    joined = "\n".join("\n".join(block) for block in code_blocks(path)).replace("\\\n", " ")
    lines = (re.sub(r"\s+#.*", "", line) for line in joined.splitlines())
    return [re.sub(r"\s+", " ", line) for line in lines if COMMAND.match(line)]


LISTS = """name: lists
model: {input: [8, 8, 3], layers: [flatten, dense: 2], loss: binary_cross_entropy}
data: {format: csv, path: lists, resize: [8, 8], validation_split: 0.2}
train: {epochs: 1, batch_size: 4}
"""


FLOWERS = """model: {backbone: {name: regnet_y_400mf, variant: timm}, head: [global_average_pool, dense: 3]}
data:
  format: synthetic
  synthetic: {shape: [32, 32, 3], classes: 3, train_samples: 80, test_samples: 2}
  validation_split: 0.25
train: {epochs: 1, batch_size: 20}
run: {dir: runs/flowers}
"""


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.temporary.name)
        cls.state = cls.work / "state"
        state = cls.state
        write_mnist(state / "datasets/mnist")
        (state / "configs/public_scripts").mkdir(parents=True)
        for config in sorted((support.ROOT / "configs").rglob("*.yaml")):
            (state / config.relative_to(support.ROOT)).write_text(small(config.read_text()))
        for name, classes, split in (("cats_vs_dogs", ["cats", "dogs"], "validation"),
                                     ("oct2017", ["CNV", "DME", "DRUSEN", "NORMAL"], "test")):
            pictures.draw(state / "datasets" / name / "train", classes, 3, 40, 1)
            pictures.draw(state / "datasets" / name / split, classes, 2, 40, 2)
        # Two patients of the names that --group-by of the example reads.
        shutil.copy(state / "datasets/oct2017/train/DME/0.ppm", state / "datasets/oct2017/train/DME/DME-15307-1.ppm")
        pictures.draw(state / "photos", ["left", "right"], 6, 32, 3)
        files = sorted((state / "photos").glob("*/*.ppm"))
        (state / "list.csv").write_text("".join(f"{file.relative_to(state)},{file.parent.name}\n" for file in files))
        pictures.draw(state / "new_photos", ["left"], 2, 32, 4)
        shutil.copytree(state / "new_photos/left", state / "new")
        shutil.copytree(state / "new", state / "other_photos")
        for name in ("photos", "pets"):
            shutil.make_archive(state / name, "zip", state, "photos")
        shutil.make_archive(state / "new_photos", "zip", state, "new_photos")
        (state / "fixes.csv").write_text(f"path,label\n{files[0].relative_to(state)},right\n")
        (state / "costs.csv").write_text("true,left,right\nleft,0,1\nright,5,0\n")
        # A list of two labels per image.
        rows = [f"{file},{i % 2},{i // 2 % 2}\n" for i, file in enumerate(files)]
        (state / "lists").mkdir()
        (state / "lists/train.csv").write_text("image,edema,mass\n" + "".join(rows))
        (state / "lists.yaml").write_text(LISTS)
        (state / "flowers.yaml").write_text(FLOWERS)
        # Three images per person.
        pictures.draw(state / "xrays", ["ill", "well"], 15, 32, 5)
        for file in sorted((state / "xrays").glob("*/*.ppm")):
            file.rename(file.with_name(f"person{file.parent.name[0] == 'w':d}{int(file.stem) // 3}_{file.name}"))
        shutil.copy(state / "configs/mnist.yaml", state / "my.yaml")
        (state / "secret").write_text("a secret of one job\n")
        write_npy(state / "digits.npy", 3)
        bin_folder = cls.work / "bin"
        bin_folder.mkdir()
        (bin_folder / "trainer").symlink_to(support.TRAINER)
        (bin_folder / "sbatch").write_text("#!/bin/sh\ngrep -q '^#SBATCH --array'\n")
        (bin_folder / "sbatch").chmod(0o755)
        cls.environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "DIGITS_DIR": str(cls.work / "digits"),
                           "TRAINER": str(support.TRAINER), "TRAINER_CUDA_PLUGIN": "/nonexistent"}
        for variable in ("MNIST_DIR", "CATS_DOGS_DIR", "OCT_DIR", "WEIGHTS_DIR", "BATCH_SIZE", "NUM_GPUS"):
            cls.environment.pop(variable, None)
        cls.environment["WEIGHTS_DIR"] = str(cls.work / "weights")
        (cls.work / "weights").mkdir()
        # Initial values stand for those of Keras.
        cls.run_line("trainer export configs/cats_dogs_mobilenet_v2.yaml --set 'model.backbone.weights=\"\"' "
                     f"--format keras_h5 --output $WEIGHTS_DIR/{KERAS_FILE}", state, (0,))
        best = "--set run.best=validation/accuracy --set run.evaluate_every='1 epoch'"
        for command in (f"trainer train configs/mnist.yaml {best}", "trainer train configs/mnist_dense.yaml",
                        "trainer train configs/digits.yaml --set data.limit=64 --epochs 1",
                        "trainer new photos --output cats_dogs.yaml && trainer train cats_dogs.yaml --epochs 3 "
                        "--run-dir runs/cats_dogs --set run.keep=3",
                        "trainer train lists.yaml", "trainer train flowers.yaml",
                        "trainer sweep configs/mnist.yaml --over seed=1,2"):
            cls.run_line(command, state, (0,))
        for name in ("a", "b", "c", "before", "after"):
            shutil.copytree(state / "runs/mnist", state / "runs" / name, copy_function=copy_or_link)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def run_line(cls, line, folder, codes):
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], cwd=folder, env=cls.environment,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode not in codes:
            raise AssertionError(f"{line}\nended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")

    @staticmethod
    def examples(*command):
        text = support.trainer(*command, "--help").stdout
        _, found, examples = text.partition("Examples:\n")
        return [line.strip() for line in examples.splitlines() if line.startswith("  ")] if found else []

    def check(self, line):
        folder = self.work / "here"
        shutil.rmtree(folder, ignore_errors=True)  # what an example that failed has left
        shutil.copytree(self.state, folder, copy_function=copy_or_link)
        starts = re.search(r"trainer (launch .*-- )?(train|sweep)", line)
        if starts and "--resume" not in line:
            shutil.rmtree(folder / "runs")
        codes = next((codes for start, codes in RESULTS.items() if line.startswith(start)), (0,))
        self.run_line(shorten(line), folder, codes)

    def test_examples_run(self):
        commands = re.findall(r"^  ([a-z]+)  ", support.trainer("--help").stdout, re.MULTILINE)
        self.assertGreaterEqual(len(commands), 19)
        lines = self.examples()
        for command in commands:
            examples = self.examples(command)
            self.assertTrue(examples, f"{command} --help has no example")
            lines += examples
        self.assertGreaterEqual(len(lines), 45)
        for line in dict.fromkeys(lines):
            with self.subTest(line):
                self.check(line)

    def check_document(self, path):
        """Runs the commands of a document in order in one folder, since later ones use what earlier ones leave."""
        commands = commands_of(path)
        name = str(path.relative_to(support.ROOT))
        folder = self.work / name.replace("/", "_")
        shutil.copytree(self.state, folder, copy_function=copy_or_link)
        for line in commands:
            with self.subTest(f"{name}: {line}"):
                codes = next((codes for start, codes in RESULTS.items() if line.startswith(start)), (0,))
                line = shorten(line).replace("scripts/sweep.sh", str(support.ROOT / "scripts/sweep.sh"))
                # Runs of the same name are there already.
                line = re.sub(r"trainer (launch .*-- )?train (?!.*--resume).*", r"\g<0> --overwrite", line)
                self.run_line(line, folder, codes)
        return len(commands)

    def test_commands_of_the_documents_are_accepted(self):
        counts = {str(path.relative_to(support.ROOT)): self.check_document(path) for path in DOCUMENTS}
        self.assertGreaterEqual(counts["README.md"], 3)
        guides = [name for name, count in counts.items() if name.startswith("configs/guide_") and count > 0]
        self.assertGreaterEqual(len(guides), 9, counts)
        self.assertGreaterEqual(sum(counts.values()), 45, counts)

    def test_the_config_in_the_readme_is_valid(self):
        """The README's config is complete and valid."""
        configs = [block for block in code_blocks(support.ROOT / "README.md") if block[0].startswith("name: ")]
        self.assertEqual(len(configs), 1)
        (self.state / "readme.yaml").write_text("\n".join(configs[0]) + "\n")
        self.run_line("trainer validate readme.yaml", self.state, (0,))


if __name__ == "__main__":
    support.main()
