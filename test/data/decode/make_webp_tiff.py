#!/usr/bin/env python3
"""Writes small WebP and TIFF files into the fuzzers' seeds, and webp_tiff.json: what Pillow makes of them.

    scripts/python_env.sh numpy pillow -- test/data/decode/make_webp_tiff.py
"""

import io
import json
import pathlib
import struct

import numpy as np
import PIL
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = HERE.parent.parent / "fuzz" / "seeds" / "images"


def picture(mode, width=17, height=13):
    draw = np.random.RandomState(5)
    bands = {"L": 1, "1": 1, "P": 3}.get(mode, len(mode))
    y, x = np.mgrid[:height, :width]
    smooth = np.stack([(x * 9 + y * 5 + 60 * c) % 256 for c in range(bands)], axis=-1)
    smooth[height // 2:] = draw.randint(0, 256, smooth[height // 2:].shape)
    array = smooth.astype(np.uint8)
    if bands == 1:
        grey = Image.fromarray(array[..., 0], "L")
        return grey.convert("1") if mode == "1" else grey
    image = Image.fromarray(array, "RGB" if mode == "P" else mode)
    return image.quantize(16) if mode == "P" else image


def tiff_of_16_bits(order, width=9, height=8):
    """An RGB file with 16 bits a number, which Pillow reads but does not write; `order` is < or >."""
    pixels = np.random.RandomState(7).randint(0, 1 << 16, (height, width, 3)).astype(order + "u2")
    pixels[0, :4] = [[0, 1, 127], [128, 255, 256], [257, 383, 384], [65279, 65280, 65535]]
    data = pixels.tobytes()
    short, long = 3, 4
    bits_at, tags = 8 + len(data), [
        (256, short, 1, width), (257, short, 1, height), (258, short, 3, 8 + len(data)), (259, short, 1, 1),
        (262, short, 1, 2), (273, long, 1, 8), (277, short, 1, 3), (278, short, 1, height), (279, long, 1, len(data))]
    entries = b"".join(
        struct.pack(order + "HHI", tag, kind, count)
        + (struct.pack(order + "HH", value, 0) if kind == short and count == 1 else struct.pack(order + "I", value))
        for tag, kind, count, value in tags)
    header = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, bits_at + 6)
    bits = struct.pack(order + "HHH", 16, 16, 16)
    return header + data + bits + struct.pack(order + "H", len(tags)) + entries + struct.pack(order + "I", 0)


def main():
    files = {
        "lossy.webp": (picture("RGB"), {"quality": 60}),
        "lossless.webp": (picture("RGB"), {"lossless": True}),
        "alpha.webp": (picture("RGBA"), {"lossless": True, "exact": True}),
        "rgb.tif": (picture("RGB"), {}),
        "deflate.tif": (picture("RGB"), {"compression": "tiff_adobe_deflate"}),
        "lzw.tif": (picture("RGB"), {"compression": "tiff_lzw"}),
        "packbits.tif": (picture("RGB"), {"compression": "packbits"}),
        "jpeg.tif": (picture("RGB", 32, 16), {"compression": "jpeg", "quality": 80}),
        "grey.tif": (picture("L"), {}),
        "palette.tif": (picture("P"), {}),
        "one.tif": (picture("1"), {"compression": "group4"}),
        "alpha.tif": (picture("RGBA"), {}),
        "turned.tif": (picture("RGB"), {"tiffinfo": {274: 6}}),
    }
    expected = {"Pillow": PIL.__version__, "files": {}}
    written = {"rgb16.tif": tiff_of_16_bits("<"), "rgb16_big.tif": tiff_of_16_bits(">")}
    for name, (image, options) in files.items():
        out = io.BytesIO()
        image.save(out, "WEBP" if name.endswith("webp") else "TIFF", **options)
        written[name] = out.getvalue()
    for name, content in written.items():
        (SEEDS / name).write_bytes(content)
        with Image.open(io.BytesIO(content)) as read:
            turned = PIL.ImageOps.exif_transpose(read) if name == "turned.tif" else read
            grey = read.mode in ("L", "1")
            if read.mode == "RGBA":  # alpha is dropped, not blended
                turned = Image.merge("RGB", turned.split()[:3])
            pixels = np.asarray(turned.convert("L" if grey else "RGB"), np.uint8)
        expected["files"][name] = {"height": pixels.shape[0], "width": pixels.shape[1],
                                   "channels": 1 if grey else 3, "pixels": pixels.tobytes().hex()}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in expected["files"].items())
    (HERE / "webp_tiff.json").write_text(f'{{"Pillow": "{PIL.__version__}", "files": {{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    import PIL.ImageOps
    main()
