#!/usr/bin/env python3
"""Repacks CIFAR-10's binary archive as an .npz file: repack_cifar10.py ARCHIVE.tar.gz OUTPUT.npz

A record of the archive is a label and 3 planes of 32 x 32 bytes; x_train and x_test are [n, 32, 32, 3] bytes, y_train
and y_test [n] bytes. The output appears only when it is whole. Python's standard library is enough."""

import os
import struct
import sys
import tarfile
import zipfile

PIXELS = 32 * 32
RECORD = 1 + 3 * PIXELS
FILES = {
    "train": [f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)],
    "test": ["cifar-10-batches-bin/test_batch.bin"],
}


def npy(shape, values):
    """The bytes of an .npy file, format 1.0, of unsigned bytes."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(values)


def interleaved(records):
    """Planes to pixels: the images of all records, one after the other."""
    count = len(records) // RECORD
    images = bytearray(count * 3 * PIXELS)
    for index in range(count):
        start = index * RECORD + 1
        out = index * 3 * PIXELS
        for plane in range(3):
            begin = start + plane * PIXELS
            images[out + plane : out + 3 * PIXELS : 3] = records[begin : begin + PIXELS]
    return images


def main(archive, output):
    with tarfile.open(archive, "r:gz") as tar:
        splits = {split: b"".join(tar.extractfile(name).read() for name in names) for split, names in FILES.items()}
    for split, records in splits.items():
        if not records or len(records) % RECORD:
            sys.exit(f"repack_cifar10.py: {archive}: the {split} files hold {len(records)} bytes, no whole records")
    part = f"{output}.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as npz:
        for split, records in splits.items():
            count = len(records) // RECORD
            npz.writestr(f"x_{split}.npy", npy((count, 32, 32, 3), interleaved(records)))
            npz.writestr(f"y_{split}.npy", npy((count,), records[::RECORD]))
    os.replace(part, output)
    print(f"{output}: repacked")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: repack_cifar10.py ARCHIVE.tar.gz OUTPUT.npz")
    main(sys.argv[1], sys.argv[2])
