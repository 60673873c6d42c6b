#!/usr/bin/env python3
"""The program of `trainer export --example` gives the pixels and the probabilities of `trainer predict`: of images of all
sizes, orientations and kinds, and of photos where TRAINER_SHARED_DATA has them. It has at most 60 lines.

    export_example_test.py TRAINER
"""

import itertools
import os
import pathlib
import sys
import tempfile

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/export"))
from check import compare, load_example, run  # noqa: E402

CONFIG = """seed: 3
model:
  input: [{height}, {width}, {channels}]
  loss: {loss}
  layers: [flatten: {{name: pixels}}, dense: {{units: {units}, kernel_initializer: {{random_normal: {{stddev: 0.1}}}}}}]
data: {{format: image_folder, path: {path}, fit: {fit}, crop_fraction: {crop}, interpolation: {filter}, antialias: {antialias},
  scaled_decode: {scaled}, normalize: {{scale: {scale}}}}}
train: {{max_steps: 1, batch_size: 4}}
"""


def write_images(folder):
    """Writes smooth images with noise: JPEGs upright, turned and mirrored, and PNGs of several kinds, in two classes."""
    draw = np.random.default_rng(5)
    sizes = [(40, 60), (61, 43), (17, 300), (203, 19), (9, 7), (33, 33), (301, 257), (400, 411), (250, 611), (47, 95)]
    for i, ((height, width), turned) in enumerate(itertools.product(sizes, (1, 3, 6, 8))):
        shape = (height // 8 + 2, width // 8 + 2, 3)
        smooth = Image.fromarray(draw.integers(0, 256, shape, np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
        exif = Image.Exif()
        exif[274] = turned if i % 3 else turned % 8 + 1
        path = folder / "ab"[i % 2]
        path.mkdir(exist_ok=True)
        smooth.save(path / f"{i}.jpg", quality=90, subsampling=0, exif=exif)
    kinds = itertools.product(sizes[:4], ("L", "RGB", "RGBA", "P"))
    for i, ((height, width), kind) in enumerate(kinds):
        image = Image.fromarray(draw.integers(0, 256, (height, width, 3), np.uint8))
        image.convert(kind).save(folder / "ab"[i % 2] / f"{kind}{i}.png")


def check_case(trainer, folder, images, case):
    config = folder / "config.yaml"
    values = {"height": 24, "width": 32, "channels": 3, "loss": "softmax_cross_entropy", "units": 2, "path": images,
              "fit": "stretch", "crop": 1, "filter": "bilinear", "antialias": "true", "scaled": "true", "scale": 0.004}
    options = case.pop("options", ())
    config.write_text(CONFIG.format(**{**values, **case}))
    with tempfile.TemporaryDirectory() as exported:
        example = load_example(trainer, config, exported, *options)
        lines = len(pathlib.Path(exported, "model.py").read_text().splitlines())
        count, others, largest = compare(trainer, config, images, example)
        files = [path for path in sorted(images.rglob("*")) if path.suffix in (".jpg", ".png")][:60]
        run(trainer, "predict", config, *files, "--features", folder / "pixels.npy", "--layer", "pixels", "--overwrite")
        scale = np.float32({**values, **case}["scale"])
        ours = np.rint(np.load(folder / "pixels.npy") / scale)
        theirs = np.stack([example.read(file).astype(float).ravel() for file in files])
    levels = np.abs(ours - theirs).max()
    print(f"{case} {options}: {count} images, {lines} lines, largest difference of a pixel {levels:.0f}, of a probability "
          f"{largest:.1e}, {others} other classes")
    return lines <= 60 and count > 0 and others == 0 and levels == 0 and largest < 1e-5


CASES = [
    {},
    {"fit": "crop", "crop": 0.875, "filter": "bicubic", "options": ("--onnx-input", "uint8")},
    {"channels": 1, "fit": "crop"},
    {"fit": "pad", "options": ("--onnx-output", "probabilities")},
    {"fit": "crop", "antialias": "false", "loss": "binary_cross_entropy", "units": 1},
    {"filter": "bicubic", "scaled": "false", "loss": "binary_cross_entropy", "units": 1,
     "options": ("--onnx-output", "probabilities", "--onnx-input", "uint8")},
    {"height": 224, "width": 224, "fit": "pad", "filter": "bicubic", "scale": 0.0004},
]


def main(trainer):
    right = True
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "images").mkdir()
        write_images(folder / "images")
        sets = [folder / "images"]
        photos = pathlib.Path(os.environ.get("TRAINER_SHARED_DATA", "/nowhere"), "flowers")
        for name in ("daisy", "dandelion") if photos.is_dir() else ():
            (folder / "photos" / name).mkdir(parents=True)
            for file in sorted((photos / name).iterdir())[:40]:
                (folder / "photos" / name / file.name).symlink_to(file)
        if photos.is_dir():
            sets.append(folder / "photos")
        for images in sets:
            for case in CASES:
                right &= check_case(trainer, folder, images, dict(case))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
