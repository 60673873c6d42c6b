#!/usr/bin/env python3
"""Writes timm_rand_augment.json: what the operations of timm's RandAugment make of two small Pillow images, and the
arguments that they take at each magnitude.

    scripts/python_env.sh timm pillow -- test/data/images/make_timm_rand_augment.py

Pixels are hexadecimal, row by row.
"""

import importlib.util
import pathlib
from unittest import mock

import PIL
import pillow_fixture
from PIL import Image
from pillow_fixture import HEIGHT, WIDTH, make_images, pixels

FILL = (124, 116, 104)
HERE = pathlib.Path(__file__).resolve().parent
MAGNITUDES = [0, 0.4, 2.5, 5, 7.3, 9, 9.61, 10, 14.5, 30]
# The operations of a set, without the part of the name that tells the variant.
FAMILIES = {"PosterizeIncreasing": "Posterize", "SolarizeIncreasing": "Solarize", "ColorIncreasing": "Color",
            "ContrastIncreasing": "Contrast", "BrightnessIncreasing": "Brightness",
            "SharpnessIncreasing": "Sharpness", "TranslateXRel": "TranslateX", "TranslateYRel": "TranslateY"}
ARGUMENTS = {
    "AutoContrast": [0], "Equalize": [0], "Invert": [0], "Rotate": [0, 27, -13.5, 90, 45.2],
    "Posterize": [1, 3, 4, 12],  # Pillow 13 refuses 0 and fewer bits
    "Solarize": [0, 26, 128, 256], "SolarizeAdd": [0, 55, 99, 128], "Color": [0.1, 0.55, 1, 1.72],
    "Contrast": [0.19, 1.9], "Brightness": [0.1, 1.45], "Sharpness": [0.19, 1.81], "ShearX": [0.27, -0.1],
    "ShearY": [0.3, -0.27], "TranslateX": [0.405, -0.05], "TranslateY": [0.2, -0.405],
}
MOVES = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")


def load_timm():
    """Loads the module alone: the package needs PyTorch."""
    folder = pathlib.Path(importlib.util.find_spec("timm").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("auto_augment", folder / "data" / "auto_augment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, (folder / "version.py").read_text().split("'")[1]


def arguments(timm, name, is_negative):
    function = timm.LEVEL_TO_ARG[name]
    if function is None:
        return [0] * len(MAGNITUDES)
    with mock.patch.object(timm.random, "random", lambda: 0.9 if is_negative else 0.1):
        return [function(magnitude, timm._HPARAMS_DEFAULT)[0] for magnitude in MAGNITUDES]


def main():
    timm, version = load_timm()
    sets = {"false": timm._RAND_TRANSFORMS, "true": timm._RAND_INCREASING_TRANSFORMS}
    tables = [{"increasing": key == "true", "negative": is_negative,
               "ops": {FAMILIES.get(name, name): arguments(timm, name, is_negative) for name in names}}
              for key, names in sets.items() for is_negative in (False, True)]
    functions = {FAMILIES.get(name, name): timm.NAME_TO_OP[name] for name in timm._RAND_INCREASING_TRANSFORMS}
    made = {name: image for name, image in make_images().items() if name != "grey"}
    ops = []
    for name, values in ARGUMENTS.items():
        for interpolation in (Image.BILINEAR, Image.BICUBIC) if name in MOVES else (Image.BILINEAR,):
            for value in values:
                given = () if name in ("AutoContrast", "Equalize", "Invert") else (value,)
                for key, image in made.items():
                    out = functions[name](image, *given, fillcolor=FILL, resample=interpolation)
                    ops.append({"op": name, "argument": value, "bicubic": interpolation == Image.BICUBIC,
                                "image": key, "pixels": pixels(out)})
    content = {
        "versions": f"timm {version}, Pillow {PIL.__version__}",
        "height": HEIGHT, "width": WIDTH, "fill": FILL,
        "images": {key: pixels(image) for key, image in made.items()},
        "order": [FAMILIES.get(name, name) for name in timm._RAND_TRANSFORMS],
        "magnitudes": MAGNITUDES, "arguments": tables, "ops": ops,
    }
    pillow_fixture.write(HERE / "timm_rand_augment.json", content)


if __name__ == "__main__":
    main()
