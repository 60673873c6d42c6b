#!/usr/bin/env python3
"""Reads the test images of Pillow's source archive with trainer and with Pillow, and compares the pixels.

    scripts/python_env.sh numpy pillow -- scripts/campaign/pillow_images.py TRAINER [FOLDER]

FOLDER holds the images; without it, the source archive of the installed Pillow is downloaded from PyPI (47 MB). Prints a
line for each image that differs or that only one of the two reads, and the number of each outcome. Pillow's pixels
are taken without alpha, turned upright, and of 16 bits the upper byte. Ends with an error if a signal ended trainer, or
after a minute.
"""

import collections
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/generated"))

import images as generated  # noqa: E402
import numpy as np  # noqa: E402
import PIL  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402

# The generator imports them itself only when it runs alone.
generated.np, generated.Image, generated.ImageOps = np, Image, ImageOps

ENDINGS = {".bmp", ".gif", ".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".pbm", ".pnm", ".pfm", ".tif", ".tiff", ".webp"}
MOST_PIXELS = 4_000_000
CONFIG = """model: {{input: [{height}, {width}, 3], loss: softmax_cross_entropy, layers: [flatten: {{name: pixels}}, dense: 2]}}
data: {{format: image_folder, path: classes, normalize: {{scale: 1}}}}
optimizer: {{sgd: {{learning_rate: 0.1}}}}
train: {{max_steps: 1, batch_size: 1}}
"""


def download(folder):
    """Unpacks the source archive of the installed version of Pillow."""
    # The index as JSON (PEP 691), which mirrors of PyPI have too.
    index = urllib.request.Request("https://pypi.org/simple/pillow/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(index) as answer:
        files = json.load(answer)["files"]
    url = next(file["url"] for file in files if file["filename"].lower() == f"pillow-{PIL.__version__}.tar.gz")
    with urllib.request.urlopen(url) as answer, tarfile.open(fileobj=io.BytesIO(answer.read())) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        archive.extractall(folder)
    return folder


def read_with_pillow(path):
    """The pixels, or the reason why there are none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return generated.pillow_pixels(path, 3)
    except Exception as error:  # pylint: disable=broad-exception-caught
        return f"{type(error).__name__}: {error}"


class Trainer:
    def __init__(self, program, folder):
        self.program, self.folder = pathlib.Path(program).resolve(), folder
        for name in ("a", "b"):
            (folder / "classes" / name).mkdir(parents=True)
            (folder / "classes" / name / "0.pgm").write_bytes(b"P5 1 1 255\n0")

    def read(self, path, height, width):
        """The pixels, or the reason why there are none."""
        (self.folder / "config.yaml").write_text(CONFIG.format(height=height, width=width))
        command = [self.program, "predict", "config.yaml", path.resolve(), "--features", "pixels.npy", "--layer", "pixels",
                   "--overwrite", "--on-error", "fail"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=60)
        if done.returncode < 0:
            raise RuntimeError(f"{path}: ended by signal {-done.returncode}")
        if done.returncode == 0:
            return np.load(self.folder / "pixels.npy").reshape(height, width, 3)
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        return lines[-1].removeprefix("error: ").removeprefix(f"{path.resolve()}: ") if lines else done.stderr


def compare(trainer, path):
    """The outcome for an image, and a line on it or None."""
    theirs = read_with_pillow(path)
    if isinstance(theirs, str):
        ours = trainer.read(path, 8, 8)
        if isinstance(ours, str):
            return "neither reads it", None
        return "only trainer reads it", f"Pillow: {theirs}"
    height, width = theirs.shape[:2]
    if height * width > MOST_PIXELS:
        return "left out, larger than 4 million pixels", None
    ours = trainer.read(path, height, width)
    if isinstance(ours, str):
        return "only Pillow reads it", ours
    differences = np.abs(ours - theirs.astype(np.float64))
    most = differences.max()
    if most < 0.5:
        return "equal", None
    share = (differences.max(axis=-1) >= 0.5).mean()
    outcome = "differs by one level" if most < 1.5 else "differs"
    return outcome, f"by up to {most:.0f} in {100 * share:.1f} % of the pixels, by {differences.mean():.2f} in the mean"


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__)
        return 2
    outcomes = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        images = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else download(folder / "pillow")
        trainer = Trainer(sys.argv[1], folder)
        for path in sorted(images.rglob("*")):
            if path.suffix.lower() not in ENDINGS or not path.is_file():
                continue
            outcome, line = compare(trainer, path)
            outcomes[outcome] += 1
            if line:
                print(f"{path.relative_to(images)}: {outcome}: {line}", flush=True)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:5} {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
