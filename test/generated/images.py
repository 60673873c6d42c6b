#!/usr/bin/env python3
"""Reads random image files with trainer and with Pillow, and compares the pixels that a model gets.

    scripts/python_env.sh numpy pillow -- test/generated/images.py build/release/apps/trainer/trainer
    ... images.py TRAINER --cases 200 --seed 7         another draw
    ... images.py TRAINER --seed 7 --case 12           case 12 of this draw alone

A case is a target size, a way of resizing and some files of random formats, modes, sizes, orientations and options of
their encoders. Decoded pixels are those of Pillow. Resizing adds at most one level to the exact weighted sum, and
likewise to Pillow's own bilinear result. (With a cubic, Pillow cuts the overshoot off between its passes.) For a smooth
JPEG decoded at a fraction of its size, the mean error is limited. Exits with 1 where a case failed, with 77 without the
packages.
"""

import io
import sys

from cases import Failed, Generator, SKIPPED

FILES = 24  # per case
EXIF_ORIENTATION = 274
RESIZE_LIMIT = 1.01
# The largest mean error of a JPEG that is decoded at a fraction of its size. libjpeg decodes the colours of a 4:2:2 file
# at half the width of its brightness.
SCALED_LIMITS = {"4:2:2": 12, "other JPEGs": 4}


def content(draw, height, width, channels, is_smooth=False):
    """Gradients, boxes and, half of the time, noise: smooth parts, edges and details; only the first if `is_smooth`."""
    numbers = np.random.default_rng(draw.randrange(1 << 32))
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    steepest = 0.05 if is_smooth else 0.3
    for _ in range(channels):
        plane = 127 + 100 * np.sin(y * draw.uniform(0, steepest) + x * draw.uniform(0, steepest) + draw.uniform(0, 6))
        for _ in range(0 if is_smooth else draw.randint(0, 3)):
            top, left = draw.randrange(height), draw.randrange(width)
            plane[top:top + draw.randint(1, height), left:left + draw.randint(1, width)] = draw.randint(0, 255)
        planes.append(plane)
    image = np.stack(planes, axis=-1)
    if not is_smooth and draw.random() < 0.5:
        image += numbers.normal(0, draw.choice([3, 30, 90]), image.shape)
    return np.clip(np.round(image), 0, 255).astype(np.uint8)


def drawn_image(draw, mode, height, width, is_smooth):
    """A Pillow image of the mode."""
    if mode == "I;16":
        return Image.fromarray((content(draw, height, width, 1)[..., 0].astype(np.uint16) << 8) + draw.randint(0, 255))
    bands = {"1": 1, "L": 1, "P": 3}.get(mode, len(mode))
    pixels = content(draw, height, width, bands, is_smooth)
    if mode == "1":
        return Image.fromarray(pixels[..., 0]).convert("1")
    if mode == "P":
        return Image.fromarray(pixels).quantize(draw.choice([2, 4, 16, 200]))
    return Image.fromarray(pixels[..., 0] if bands == 1 else pixels, mode)


def jpeg_options(draw, mode):
    options = {"quality": draw.choice([40, 75, 90, 100]), "progressive": draw.random() < 0.25,
               "optimize": draw.random() < 0.5}
    if mode == "RGB":
        options["subsampling"] = draw.choice(["4:4:4", "4:2:2", "4:2:0"])
    if draw.random() < 0.2:
        options["restart_marker_blocks"] = draw.randint(1, 9)
    return options


def tiff_options(draw, mode):
    kinds = ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"]
    if mode == "1":
        kinds += ["group3", "group4"]
    return {"compression": draw.choice(kinds)}


# Format: the ending, the modes that it stores, and the options of Pillow's encoder.
FORMATS = {
    "PNG": ("png", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"],
            lambda draw, mode: {"compress_level": draw.choice([0, 1, 6, 9])}),
    "JPEG": ("jpg", ["L", "RGB", "RGB", "RGB", "CMYK"], jpeg_options),
    "BMP": ("bmp", ["1", "L", "P", "RGB"], lambda draw, mode: {}),
    "GIF": ("gif", ["L", "P"], lambda draw, mode: {"interlace": draw.choice([0, 1])}),
    "PPM": ("ppm", ["1", "L", "RGB", "I;16"], lambda draw, mode: {}),
    "WEBP": ("webp", ["RGB", "RGBA"],
             lambda draw, mode: {"lossless": draw.random() < 0.5, "quality": draw.choice([30, 80, 100])}),
    "TIFF": ("tif", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"], tiff_options),
}


def write_image(draw, folder, number, is_large):
    """Writes a random image file. Returns its path and the row of the table."""
    format = draw.choice(list(FORMATS) + ["JPEG"] * 4 if not is_large else ["JPEG"])
    ending, modes, options = FORMATS[format]
    mode = draw.choice(modes)
    unit = draw.choice([1, 8])
    if is_large:
        height, width = (unit * draw.randint(60 // unit, 400 // unit) for _ in range(2))
    else:
        height, width = (draw.choice([draw.randint(1, 12), draw.randint(1, 90)]) for _ in range(2))
    image = drawn_image(draw, mode, height, width, is_smooth=is_large)
    path = folder / f"{number:03}.{ending}"
    options = options(draw, mode)
    if format in ("JPEG", "PNG", "WEBP", "TIFF") and draw.random() < 0.4:
        exif = Image.Exif()
        exif[EXIF_ORIENTATION] = draw.randint(1, 8)
        options["exif"] = exif
    image.save(path, format=format, **options)
    return path, f"{format.lower()} {mode}"


def pillow_pixels(path, channels):
    """Pillow's pixels as [height, width, channels], without alpha, turned upright, 16 bits cut to 8."""
    # From memory: Pillow 13 maps uncompressed TIFF files with an orientation and then has the wrong size.
    with Image.open(io.BytesIO(path.read_bytes())) as file:
        if channels == 1 and file.format == "JPEG" and file.mode == "RGB":
            file.draft("L", file.size)  # the brightness that the file stores
        image = ImageOps.exif_transpose(file)
    if image.mode.startswith("I"):
        array = np.asarray(image).astype(np.int64)
        # Numbers up to a PNM's own maximum are scaled; of others the upper byte counts.
        array = (array * 255 + 32767) // 65535 if path.suffix in (".ppm", ".pgm") else array >> 8
        image = Image.fromarray(array.astype(np.uint8))
    if image.mode in ("1", "LA"):
        image = image.convert("L")
    elif image.mode != "L":
        image = image.convert("RGB")
    if channels == 1:
        image = image.convert("L")
    array = np.asarray(image)
    return array[..., None] if array.ndim == 2 else array


def sampling(path):
    """The horizontal and vertical factors of a JPEG's brightness."""
    with Image.open(path) as file:
        return file.layer[0][1:3]


def keys_cubic(x):
    x = np.abs(x)
    return np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0.0))


def triangle(x):
    return np.maximum(1 - np.abs(x), 0)


def weight_matrix(size, resized, skip, output, interpolation, antialias):
    """[output, size]: row i holds the weights of the input pixels in output pixel skip + i."""
    scale = size / resized
    width = max(scale, 1.0) if antialias else 1.0
    centre = (np.arange(skip, skip + output) + 0.5) * scale
    distance = (np.arange(size)[None, :] + 0.5 - centre[:, None]) / width
    weights = keys_cubic(distance) if interpolation == "bicubic" else triangle(distance)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total


def fitted(height, width, out_height, out_width, fit, fraction):
    """(resized size, first pixel of the cut) of both axes; crop is torchvision's Resize and CenterCrop."""
    if fit == "stretch":
        return (out_height, 0), (out_width, 0)
    least = [max(round(out / fraction), out) for out in (out_height, out_width)]
    new = list(least)
    if least[0] * width >= least[1] * height:
        new[1] = max(least[0] * width // height, least[1])
    else:
        new[0] = max(least[1] * height // width, least[0])
    return tuple((size, round((size - out) / 2)) for size, out in zip(new, (out_height, out_width)))


def exact_resize(pixels, data):
    out_height, out_width = data["resize"]
    height, width = pixels.shape[:2]
    axes = fitted(height, width, out_height, out_width, data["fit"], data.get("crop_fraction", 1))
    down, across = (weight_matrix(size, resized, skip, output, data["interpolation"], data["antialias"])
                    for size, (resized, skip), output in zip((height, width), axes, (out_height, out_width)))
    return np.clip(np.einsum("yh,hwc,xw->yxc", down, pixels.astype(np.float64), across, optimize=True), 0, 255)


def draw_data(case, is_large):
    """The section `data`. `scaled` is whether JPEGs may be decoded at a fraction of their size."""
    draw = case.draw
    data = {"format": "image_folder", "train": {"path": "images"}, "normalize": {"scale": 1},
            "channels": draw.choice([3, 3, 1]), "resize": [draw.randint(1, 48), draw.randint(1, 48)],
            "interpolation": draw.choice(["bilinear", "bicubic"]), "fit": draw.choice(["stretch", "stretch", "crop"])}
    if data["fit"] == "crop" and draw.random() < 0.5:
        data["crop_fraction"] = draw.choice([0.5, 0.875, 0.9])
    if not is_large:
        data["antialias"] = draw.random() < 0.6
    return data


def read_pixels(case, data, paths):
    config = case.write_config({
        "model": {"input": [*data["resize"], data["channels"]],
                  "layers": [{"activation": {"function": "linear", "name": "pixels"}}, "flatten", {"dense": 2}]},
        "data": data, "train": {"epochs": 1, "batch_size": 8}})
    case.run("predict", config, *paths, "--features", "pixels.npy", "--layer", "pixels", "--quiet")
    return np.load(case.folder / "pixels.npy")


def check_file(case, data, path, row, ours):
    pixels = pillow_pixels(path, data["channels"])
    scaled = {**data, "antialias": data.get("antialias", True)}
    expected = exact_resize(pixels, scaled)
    if expected.shape[2] != ours.shape[2]:
        expected = np.repeat(expected, 3, axis=2)
    name = f"{path.name} ({row}, {pixels.shape[1]}x{pixels.shape[0]} to {data['resize'][1]}x{data['resize'][0]}): "
    if "antialias" not in data:
        kind = "4:2:2" if sampling(path) == (2, 1) else "other JPEGs"
        case.check(f"scaled decoding, {kind}", float(np.abs(ours - expected).mean()), SCALED_LIMITS[kind], name)
        return
    error = float(np.abs(ours - expected).max())
    case.check(row, error, RESIZE_LIMIT, name)
    if data["antialias"] and data["fit"] == "stretch" and data["interpolation"] == "bilinear":
        size = tuple(reversed(data["resize"]))
        planes = [Image.fromarray(np.ascontiguousarray(pixels[..., c])) for c in range(pixels.shape[2])]
        planes = [np.asarray(plane.resize(size, Image.Resampling.BILINEAR)) for plane in planes]
        theirs = np.stack(planes, axis=-1).astype(np.float64)
        case.check("Pillow's resize", float(np.abs(ours - theirs).max()), RESIZE_LIMIT, name)


def run_case(case):
    is_large = case.draw.random() < 0.15
    data = draw_data(case, is_large)
    paths, rows = [], []
    for number in range(FILES):
        folder = case.folder / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        path, row = write_image(case.draw, folder, number, is_large)
        paths.append(path)
        rows.append(row)
    pixels = read_pixels(case, data, paths)
    if len(pixels) != len(paths):
        raise Failed("trainer runs", f"{len(pixels)} images of {len(paths)} files")
    for path, row, ours in zip(paths, rows, pixels):
        check_file(case, data, path, row, ours.astype(np.float64))


def main():
    generator = Generator("images", __doc__, cases=15)
    global np, Image, ImageOps
    try:
        import numpy as np
        from PIL import Image, ImageFile, ImageOps
    except ImportError as error:
        print(f"[skipped] {error}; run it as scripts/python_env.sh numpy pillow -- {' '.join(sys.argv)}")
        return SKIPPED
    ImageFile.MAXBLOCK = 1 << 22  # the encoder of optimized JPEGs needs a buffer for the whole file
    return generator.run(run_case)


if __name__ == "__main__":
    sys.exit(main())
