"""Writes pillow_decode.tsv, pillow_resize.txt and pillow_pad.txt: what Pillow makes of awkward JPEGs and of small synthetic images.

usage: make_pillow_table.py FOLDER_OF_AWKWARD_JPEGS   (needs Pillow and numpy)

pillow_decode.tsv: path, width, height after exif_transpose, then the means of a 4 x 4 grid of the RGB image, cell by cell; or path, `error`.
pillow_resize.txt: `interpolation channels in_height in_width out_height out_width` and the pixels that Pillow makes of the image of test_image().
pillow_pad.txt: the same for ImageOps.pad.
"""
import pathlib
import sys

import numpy as np
from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).resolve().parent
GRID = 4


def cells(length):
    """Bounds of the grid's cells; an image smaller than the grid repeats pixels."""
    return [(i * length // GRID, max((i + 1) * length // GRID, i * length // GRID + 1)) for i in range(GRID)]


def decode_line(path):
    with Image.open(path) as image:
        image.load()
        pixels = np.asarray(ImageOps.exif_transpose(image).convert("RGB"), dtype=np.float64)
    means = [pixels[top:bottom, left:right].mean(axis=(0, 1)) for top, bottom in cells(pixels.shape[0]) for left, right in cells(pixels.shape[1])]
    return f"{pixels.shape[1]}\t{pixels.shape[0]}\t" + " ".join(f"{value:.1f}" for value in np.concatenate(means))


def test_image(height, width, channels):
    """A texture with edges; the C++ test computes the same. Within [64, 191], because Pillow cuts what overshoots off between its two passes."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    return ((x * 7 + y * 13 + c * 50 + (x * y) % 29 * 5 + ((x // 5 + y // 3) % 2) * 90) % 128 + 64).astype(np.uint8)


RESIZES = [(31, 45, 8, 10), (31, 45, 31, 20), (12, 9, 20, 17), (64, 64, 7, 50), (5, 3, 1, 1), (40, 40, 16, 16)]
# Wide, high and square images; a side that is rounded (half to even), borders of odd size, a side of one pixel.
PADS = [(31, 45, 16, 16), (45, 31, 16, 16), (30, 40, 15, 20), (7, 20, 10, 5), (20, 8, 9, 20), (12, 9, 20, 17), (9, 64, 5, 8), (33, 33, 8, 21)]


def main():
    root = pathlib.Path(sys.argv[1])
    lines = []
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.name != "CATALOG.tsv"):
        try:
            result = decode_line(path)
        except Exception:  # whatever Pillow refuses a file with
            result = "error"
        lines.append(f"{path.relative_to(root).as_posix()}\t{result}\n")
    (HERE / "decode" / "pillow_decode.tsv").write_text("".join(lines))

    lines = []
    for name, kernel in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
        for channels in (1, 3):
            for height, width, out_height, out_width in RESIZES:
                pixels = test_image(height, width, channels)
                image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
                resized = np.asarray(image.resize((out_width, out_height), kernel))
                lines.append(f"{name} {channels} {height} {width} {out_height} {out_width}\n" + " ".join(map(str, resized.reshape(-1))) + "\n")
    (HERE / "images" / "pillow_resize.txt").write_text("".join(lines))
    write_pads()


def write_pads():
    lines = []
    for name, kernel in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
        for channels in (1, 3):
            for height, width, out_height, out_width in PADS:
                pixels = test_image(height, width, channels)
                image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
                padded = np.asarray(ImageOps.pad(image, (out_width, out_height), kernel))
                lines.append(f"{name} {channels} {height} {width} {out_height} {out_width}\n" + " ".join(map(str, padded.reshape(-1))) + "\n")
    (HERE / "images" / "pillow_pad.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
