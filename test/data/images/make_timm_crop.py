#!/usr/bin/env python3
"""Writes timm_crop.txt: what the evaluation transform of timm makes of images, bicubic with the crop share 0.95.

usage: scripts/python_env.sh torch torchvision timm -- test/data/images/make_timm_crop.py FOLDER_OF_FLOWERS [STRIDE [FILE]]

Each entry: `PATH height width side stride`, and of every stride-th row and column the pixels. The path - is the image of
make_pillow_table.py. STRIDE 1 and another FILE give all pixels of the photos.
"""

import pathlib
import sys

import numpy as np
from PIL import Image
from timm.data import create_transform

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from make_pillow_table import test_image  # noqa: E402


def entry(name, image, side, stride):
    transform = create_transform((3, side, side), crop_pct=0.95, interpolation="bicubic", mean=(0, 0, 0), std=(1, 1, 1))
    pixels = np.rint(transform(image).numpy() * 255).astype(int).transpose(1, 2, 0)[::stride, ::stride]
    return f"{name} {image.height} {image.width} {side} {stride}\n{' '.join(map(str, pixels.ravel()))}\n"


def main():
    root = pathlib.Path(sys.argv[1])
    stride = int(sys.argv[2]) if len(sys.argv) > 2 else 14
    sides = 224, 96  # photos of 128 pixels become larger and smaller
    text = entry("-", Image.fromarray(test_image(61, 83, 3)), 24, 1)
    for folder in sorted(root.iterdir()):
        for index, path in enumerate(sorted(folder.iterdir())[:2]):
            text += entry(path.relative_to(root), Image.open(path).convert("RGB"), sides[index], stride)
    pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else HERE / "timm_crop.txt").write_text(text)


if __name__ == "__main__":
    main()
