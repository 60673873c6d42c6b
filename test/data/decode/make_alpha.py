#!/usr/bin/env python3
"""Writes alpha.json: small PNG and WebP files with alpha, and the grey or RGB values and the alpha that Pillow reads.

    scripts/python_env.sh numpy pillow -- test/data/decode/make_alpha.py
"""

import io
import json
import pathlib
import struct
import zlib

import numpy as np
import PIL
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
HEIGHT, WIDTH = 5, 7


def make_pixels(channels, top=256):
    return np.random.RandomState(channels).randint(0, top, (HEIGHT, WIDTH, channels))


def encode(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def encode_16_bits(pixels):
    """Returns a PNG of grey or RGB with alpha and 16 bits a value, which Pillow reads but does not write."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    colour_type = {2: 4, 4: 6}[pixels.shape[2]]
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, colour_type, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_files():
    """Returns the content of files by name."""
    grey = Image.fromarray(make_pixels(2).astype(np.uint8), "LA")
    rgb = Image.fromarray(make_pixels(4).astype(np.uint8), "RGBA")
    opaque = rgb.convert("RGB")
    palette = opaque.quantize(8)
    shades = grey.convert("L")
    return {
        "grey.png": encode(grey, "PNG"),
        "rgb.png": encode(rgb, "PNG"),
        "grey_16.png": encode_16_bits(make_pixels(2, 65536)),
        "rgb_16.png": encode_16_bits(make_pixels(4, 65536)),
        "palette.png": encode(palette, "PNG", transparency=bytes([0, 50, 100, 150, 200, 250])),
        "transparent_colour.png": encode(opaque, "PNG", transparency=opaque.getpixel((2, 1))),
        "transparent_grey.png": encode(shades, "PNG", transparency=shades.getpixel((3, 2))),
        "lossless.webp": encode(rgb, "WEBP", lossless=True, exact=True),
        "lossy.webp": encode(rgb, "WEBP", quality=70),
    }


def main():
    cases = []
    for name, content in make_files().items():
        with Image.open(io.BytesIO(content)) as image:
            pixels = np.asarray(image.convert("LA" if "grey" in name else "RGBA"), np.uint8)
        cases.append({"name": name, "channels": pixels.shape[2], "file": content.hex(),
                      "pixels": pixels.tobytes().hex()})
    rows = ",\n".join(map(json.dumps, cases))
    (HERE / "alpha.json").write_text(
        f'{{"Pillow": "{PIL.__version__}", "height": {HEIGHT}, "width": {WIDTH}, "cases": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
