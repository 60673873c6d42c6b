#!/usr/bin/env python3
"""Holds the registers and shared memory of the CUDA kernels against registers.txt.

Reads the GPU code in object files or libraries (not compressed: nvcc -Xfatbin=-compress=false) without CUDA's tools.
Fails on a kernel that uses local memory (spilled registers lie there), on one that needs more registers or shared memory than
the table's line for its name and GPU allows, and on kernels and lines that have no counterpart. A line is "KERNEL GPU REGISTERS
SHARED", the most of all instances of a template; SHARED is the bytes that a kernel declares, without those that its launch adds
and the 1024 that CUDA reserves from compute capability 9.0 on. GPUs give registers in eights; one eight more is allowed, since
versions of nvcc differ.

    registers.py TABLE FILE...           checks
    registers.py --write TABLE FILE...   writes the table
"""

import re
import struct
import sys

CUDA_MACHINE = 190
RESERVED_SHARED = 1024  # in the size of a section of shared memory
REGISTERS, FRAME_SIZE = 0x2F, 0x11  # attributes of .nv.info
WITH_PAYLOAD = 4


def images(data):
    """The ELF images of GPU code in a file."""
    at = data.find(b"\x7fELF", 1)
    while at >= 0:
        if at + 64 <= len(data) and struct.unpack_from("<H", data, at + 18)[0] == CUDA_MACHINE:
            yield data[at:]
        at = data.find(b"\x7fELF", at + 1)


def sections(image):
    """(name, contents, size) of each section."""
    start, = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, start + i * size) for i in range(count)]
    name_offset = headers[names][4]
    for name, kind, _, _, offset, length, *_ in headers:
        end = image.index(b"\0", name_offset + name)
        contents = b"" if kind == 8 else image[offset:offset + length]
        yield image[name_offset + name:end].decode(), contents, length


def architecture(image):
    """The number of sm_N: CUDA's ABI before version 8 has it in the lowest byte of the flags, since then in the next."""
    flags, = struct.unpack_from("<I", image, 48)
    return flags >> 8 & 0xFF if image[8] >= 8 else flags & 0xFF


def attributes(info):
    """(attribute, payload) of .nv.info."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == WITH_PAYLOAD:
            yield attribute, info[at:at + value]
            at += value


def plain_name(symbol):
    """The kernel's own name: the last identifier of a mangled one that ends in _kernel."""
    names = []
    at = 0
    while match := re.compile(r"\d+").search(symbol, at):
        at = match.end()
        for digits in range(len(match.group()), 0, -1):  # a number may follow another without a gap
            length = int(match.group()[-digits:])
            name = symbol[at:at + length]
            if re.fullmatch(r"[A-Za-z_]\w*_kernel", name):
                names.append(name)
    return names[-1] if names else symbol


def kernels(image):
    """(symbol, registers, bytes of local memory, bytes of shared memory) of each kernel."""
    parts, sizes = {}, {}
    for section, contents, size in sections(image):
        parts[section], sizes[section] = contents, size
    reserved = RESERVED_SHARED if architecture(image) >= 90 else 0
    symbols, strings = parts[".symtab"], parts[".strtab"]
    found = {}
    for attribute, payload in attributes(parts.get(".nv.info", b"")):
        if attribute not in (REGISTERS, FRAME_SIZE):
            continue
        index, value = struct.unpack_from("<II", payload)
        name, = struct.unpack_from("<I", symbols, index * 24)
        symbol = strings[name:strings.index(b"\0", name)].decode()
        found.setdefault(symbol, {})[attribute] = value
    for symbol, values in found.items():
        if REGISTERS in values:
            shared = sizes.get(f".nv.shared.{symbol}", reserved) - reserved
            yield symbol, values[REGISTERS], values.get(FRAME_SIZE, 0), shared


def read_files(paths):
    """The most registers and shared memory by (kernel, GPU), and messages about local memory."""
    most, errors = {}, []
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        for image in images(data):
            gpu = f"sm_{architecture(image)}"
            for symbol, registers, frame, shared in kernels(image):
                if frame > 0:
                    errors.append(f"{symbol} uses {frame} bytes of local memory on {gpu}")
                key = plain_name(symbol), gpu
                before = most.get(key, (0, 0))
                most[key] = max(before[0], registers), max(before[1], shared)
    if not most:
        errors.append("no GPU code was found; compile with -Xfatbin=-compress=false")
    return most, errors


def read_table(path):
    table = {}
    with open(path) as file:
        for line in file:
            kernel, gpu, registers, shared = line.split()
            table[kernel, gpu] = int(registers), int(shared)
    return table


def allowed(registers):
    return (registers + 7) // 8 * 8 + 8


def compare(table, most):
    """Kernels may be built for fewer GPUs than the table has, and for others."""
    known, built = {gpu for _, gpu in table}, {gpu for _, gpu in most}
    for key, (registers, shared) in sorted(most.items()):
        if key[1] not in known:
            continue
        if key not in table:
            yield f"{key[0]} on {key[1]} has no line; add it with --write"
        elif registers > allowed(table[key][0]):
            yield f"{key[0]} needs {registers} registers on {key[1]}, not {table[key][0]} as before; if that is right, use --write"
        elif shared > table[key][1]:
            yield f"{key[0]} declares {shared} bytes of shared memory on {key[1]}, not {table[key][1]}; if that is right, use --write"
    for key in sorted(set(table) - set(most)):
        if key[1] in built:
            yield f"{key[0]} on {key[1]} is gone; remove its line with --write"


def main(arguments):
    write = arguments[:1] == ["--write"]
    table, *paths = arguments[1:] if write else arguments
    most, errors = read_files(paths)
    if write and most:
        with open(table, "w") as file:
            file.writelines(f"{kernel} {gpu} {registers} {shared}\n" for (kernel, gpu), (registers, shared) in sorted(most.items()))
    elif most:
        errors += compare(read_table(table), most)
    for error in errors:
        print("registers.py:", error)
    return 1 if errors else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
