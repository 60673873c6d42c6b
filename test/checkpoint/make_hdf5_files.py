#!/usr/bin/env python3
"""Writes test/checkpoint/hdf5/: small HDF5 files in the ways in which h5py stores weights, and some that no Keras writes.

    scripts/python_env.sh numpy h5py -- test/checkpoint/make_hdf5_files.py

Element i of dataset k is k + i / 8, or k + i for integers: every type holds it exactly.
"""

import pathlib

import h5py
import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent / "hdf5"
TYPES = ["<f2", "<f4", "<f8", ">f4", ">f8", "<i1", "<i2", "<u4", "<i8"]


def values(k, shape, dtype):
    step = 1 if np.dtype(dtype).kind in "iu" else 8
    return (k + np.arange(np.prod(shape)) / step).reshape(shape).astype(dtype)


def fill(file, attributes, types=TYPES, **storage):
    """A layer for each type, in the layout of the applications' files."""
    names = [f"layer{k}" for k in range(len(types))]
    file.attrs["layer_names"] = attributes(names)
    for k, (name, dtype) in enumerate(zip(names, types)):
        group = file.create_group(name)
        group.attrs["weight_names"] = attributes([f"{name}/kernel:0"])
        group.create_dataset(f"{name}/kernel:0", data=values(k, (5, 7, 3), dtype), **storage)


def fixed(names):
    return [name.encode() for name in names]


def variable(names):
    return np.array(names, dtype=h5py.string_dtype())


def vars_group(file):
    return file.create_group("layers/dense/vars")


def main():
    FOLDER.mkdir(exist_ok=True)
    open_file = lambda name, **options: h5py.File(FOLDER / name, "w", **options)  # noqa: E731
    with open_file("plain.h5") as file:
        fill(file, fixed)
    with open_file("variable.h5") as file:
        fill(file, variable)
    with open_file("packed.h5") as file:
        fill(file, fixed, chunks=(2, 3, 3), compression="gzip", compression_opts=9, shuffle=True)
    with open_file("chunked.h5") as file:
        fill(file, fixed, TYPES[:2], chunks=(4, 4, 2))
    with open_file("ranks.h5") as file:  # as many dimensions as HDF5 knows
        file.attrs["layer_names"] = fixed(["a"])
        file.create_group("a").attrs["weight_names"] = fixed(["kernel:0"])
        file.create_dataset("a/kernel:0", data=values(0, (1,) * 29 + (5, 7, 3), "<f4"))
    with open_file("ordered.h5", track_order=True) as file:  # object headers of version 2
        file.attrs["layer_names"] = fixed(["a", "b"])
        for k, name in enumerate("ab"):
            group = file.create_group(name, track_order=True)
            group.attrs["weight_names"] = fixed(["kernel:0"])
            group.create_dataset("kernel:0", data=values(k, (5, 7, 3), "<f4"))
    with open_file("latest.h5", libver="latest") as file:  # superblock 3
        vars_group(file).create_dataset("0", data=values(0, (5, 7, 3), "<f4"))
    with open_file("times.h5", libver="latest") as file:  # headers with times and with bounds on attributes
        write_with_times(vars_group(file))
    with open_file("many.h5") as file:  # a tree of names with several nodes
        group = vars_group(file)
        for k in range(60):
            group.create_dataset(f"{k:03}", data=values(k, (1,), "<f4"))
    write_strange(open_file)
    for path in sorted(FOLDER.iterdir()):
        print(path.name, path.stat().st_size)


def write_with_times(group):
    data = values(0, (5, 7, 3), "<f4")
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(True)
    properties.set_attr_phase_change(6, 4)
    space = h5py.h5s.create_simple(data.shape)
    dataset = h5py.h5d.create(group.id, b"0", h5py.h5t.IEEE_F32LE, space, properties)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)


def write_strange(open_file):
    with open_file("loop.h5") as file:
        vars_group(file)
        file["layers/dense/a"] = file["layers"]
    for name, packed in (("claims.h5", None), ("claims_packed.h5", "gzip")):
        with open_file(name) as file:
            vars_group(file).create_dataset("0", (1 << 32,), "<f4", chunks=(1000,), compression=packed)
    for name, groups in (("deep.h5", 32), ("deeper.h5", 33)):  # around vars
        with open_file(name, libver="latest") as file:
            inner = file.create_group("/".join(["g"] * (groups - 1) + ["dense", "vars"]))
            inner.create_dataset("0", data=values(0, (2,), "<f4"))
    with open_file("soft_link.h5") as file:
        vars_group(file)["0"] = h5py.SoftLink("/elsewhere")
    with open_file("external_link.h5") as file:
        vars_group(file)["0"] = h5py.ExternalLink("/etc/passwd", "/x")
    with open_file("external_data.h5") as file:
        vars_group(file).create_dataset("0", (4,), "<f4", external=[("/etc/passwd", 0, 16)])
    with open_file("fractal_heap.h5", libver="latest") as file:
        for k in range(20):
            vars_group(file) if k == 0 else None
            file["layers/dense/vars"].create_dataset(str(k), data=values(k, (1,), "<f4"))
    with open_file("hole.h5") as file:
        data = vars_group(file).create_dataset("0", (100,), "<f4", chunks=(50,))
        data[:50] = 1
    with open_file("text.h5") as file:
        vars_group(file).create_dataset("0", data=[b"no number"])


if __name__ == "__main__":
    main()
