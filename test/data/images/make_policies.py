#!/usr/bin/env python3
"""Writes policies.json: what torchvision's policies of random changes make of small Pillow images, and their tables.

    scripts/python_env.sh torch torchvision pillow -- test/data/images/make_policies.py

Pixels are hexadecimal, row by row. Magnitudes are float32 numbers.
"""

import pathlib

import PIL
import pillow_fixture
import torch
import torchvision
from pillow_fixture import HEIGHT, WIDTH, make_images, pixels
from torchvision.transforms import InterpolationMode, autoaugment
from torchvision.transforms import functional as F

HERE = pathlib.Path(__file__).resolve().parent
MAGNITUDES = {
    "ShearX": [0.0, 0.3, -0.99], "ShearY": [0.15, -0.3], "TranslateX": [3.7, -2.0], "TranslateY": [2.0, -5.5],
    "Rotate": [0.0, 30.0, -13.0, 135.0, 90.0], "Brightness": [0.5, -0.9], "Color": [0.99, -0.5],
    "Contrast": [0.9, -0.45], "Sharpness": [0.9, -0.6], "Posterize": [8, 5, 2], "Solarize": [255.0, 110.5, 0.0],
    "AutoContrast": [0.0], "Equalize": [0.0], "Invert": [0.0], "Identity": [0.0],
}


def tables(policy, *arguments):
    space = policy._augmentation_space(*arguments)
    return {name: [float(v) for v in values.reshape(-1)] if values.ndim else [] for name, (values, _) in space.items()}


def main():
    made = make_images()
    ops = []
    for name, magnitudes in MAGNITUDES.items():
        for magnitude in magnitudes:
            for key, image in made.items():
                out = autoaugment._apply_op(image, name, magnitude, InterpolationMode.NEAREST, None)
                ops.append({"op": name, "magnitude": magnitude, "image": key, "pixels": pixels(out)})
    blurs = [{"kernel_size": size, "sigma": sigma, "image": key, "pixels": pixels(F.gaussian_blur(image, size, sigma))}
             for size, sigma in ((3, 0.5), (5, 1.7), (9, 2.0)) for key, image in made.items()]
    crops = [{"top": top, "left": left, "fill": fill, "image": key,
              "pixels": pixels(F.crop(F.pad(image, 4, fill), top, left, HEIGHT, WIDTH))}
             for top, left, fill in ((0, 0, 0), (8, 3, 0), (4, 4, 7), (5, 8, 200)) for key, image in made.items()]
    size = (32, 48)  # height, width
    auto = {}
    for policy in autoaugment.AutoAugmentPolicy:
        auto[policy.value] = [[[name, probability, -1 if bin is None else bin] for name, probability, bin in pair]
                              for pair in autoaugment.AutoAugment(policy).policies]
    content = {
        "versions": f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}, torch {torch.__version__}",
        "height": HEIGHT, "width": WIDTH,
        "images": {key: pixels(image) for key, image in made.items()},
        "signed": [name for name, (_, signed) in autoaugment.RandAugment()._augmentation_space(31, size).items() if signed],
        "order": list(autoaugment.RandAugment()._augmentation_space(31, size)),
        "grayscale": {key: pixels(F.rgb_to_grayscale(image, 3 if image.mode == "RGB" else 1))
                      for key, image in made.items()},
        "magnitudes": [
            {"wide": False, "bins": 31, "values": tables(autoaugment.RandAugment(), 31, size)},
            {"wide": False, "bins": 10, "values": tables(autoaugment.AutoAugment(), 10, size)},
            {"wide": True, "bins": 31, "values": tables(autoaugment.TrivialAugmentWide(), 31)},
            {"wide": True, "bins": 24, "values": tables(autoaugment.TrivialAugmentWide(), 24)},
        ],
        "magnitude_height": size[0], "magnitude_width": size[1],
        "auto_augment": auto, "blurs": blurs, "crops": crops, "ops": ops,
    }
    pillow_fixture.write(HERE / "policies.json", content)


if __name__ == "__main__":
    main()
