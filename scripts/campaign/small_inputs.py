#!/usr/bin/env python3
"""Small files that are made to waste memory or time: writes each, gives it to the program, prints a table.

  scripts/campaign/small_inputs.py [--trainer PROGRAM] [--only WORD] [--keep FOLDER]

No input is larger than 1 MB. The exit code is 1 if one takes more than --seconds, or more than --megabytes
beside the pixels that data.max_pixels allows (the column `image`).
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "model: {layers: [flatten, {dense: {units: 2}}]}\ntrain: {epochs: 1, batch_size: 2}\n"
ADAM = "optimizer: {adam: {}}\n"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, colour=2, bits=8, interlaced=0):
    """Black."""
    row = 1 + (width * {0: 1, 2: 3, 6: 4}[colour] * bits + 7) // 8
    packer = zlib.compressobj(9)
    pieces, rows = [], bytes(row * max(1, (1 << 20) // row))
    left = row * height + (row if interlaced else 0) + 7 * height * interlaced
    while left > 0:
        pieces.append(packer.compress(rows[:left]))
        left -= len(rows)
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
    data = b"".join(pieces) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def progressive_jpeg(width, height, scans, samplings):
    """Grey or colour, every scan an end-of-band run, which costs a few bytes for each 32,767 blocks."""
    out = b"\xff\xd8\xff\xdb" + struct.pack(">HB", 67, 0) + bytes([1] * 64)
    out += b"\xff\xc2" + struct.pack(">HBHHB", 8 + 3 * len(samplings), 8, height, width, len(samplings))
    for i, sampling in enumerate(samplings):
        out += bytes([i + 1, sampling, 0])
    # DC: one code of one bit for category 0. AC: 0xE0, a run of up to 2^15 blocks, of one bit.
    for kind, symbol in ((0, 0x00), (0x10, 0xE0)):
        out += b"\xff\xc4" + struct.pack(">HB", 20, kind) + bytes([1] + [0] * 15) + bytes([symbol])
    out += b"\xff\xda" + struct.pack(">HB", 6 + 2 * len(samplings), len(samplings))
    for i in range(len(samplings)):
        out += bytes([i + 1, 0])
    blocks = sum((s >> 4) * (s & 15) for s in samplings)
    top = max(s >> 4 for s in samplings), max(s & 15 for s in samplings)
    mcus = -(-width // (8 * top[0])) * -(-height // (8 * top[1]))
    out += bytes([0, 0, 0]) + bytes(mcus * blocks // 8 + 1)
    for scan in range(scans):
        component = scan % len(samplings)
        s = samplings[component]
        w = -(-width * (s >> 4) // (8 * top[0]))
        h = -(-height * (s & 15) // (8 * top[1]))
        band = 1 + scan // len(samplings)
        out += b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, component + 1, 0, band, band, 0)
        bits = ""
        left = w * h
        while left > 0:
            run = min(left, 32767)
            if run < 16384:
                run = left  # the rest, one run of the file's only length is not left
            bits += "0" + format(max(run - 16384, 0), "014b")
            left -= max(run, 16384)
        bits += "1" * (-len(bits) % 8)
        out += bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\x00")
    return out + b"\xff\xd9"


def png_with_texts(kind, content, size=900_000):
    """As many chunks with this content as the size allows, before the pixels."""
    text = chunk(kind, content)
    return SMALL[:33] + text * (size // len(text)) + SMALL[33:]


def tiff_one_strip(width, height):
    packed = zlib.compress(bytes(width * height * 3), 9)
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 2),
            (273, 4, 1, 8), (277, 3, 1, 3), (278, 4, 1, height), (279, 4, 1, len(packed))]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    packed += bytes(len(packed) % 2)
    return (b"II*\0" + struct.pack("<I", 8 + len(packed)) + packed + struct.pack("<H", len(tags)) + entries +
            bytes(4))


def tar(members):
    out = b""
    for name, data in members:
        header = name.encode().ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2
        header += b"%011o\0" % len(data) + b"00000000000\0" + b" " * 8 + b"0" + bytes(100)
        header += b"ustar\00000" + bytes(512 - len(header) - 8)
        total = sum(header)
        header = header[:148] + b"%06o\0 " % total + header[156:]
        out += header + data + bytes(-len(data) % 512)
    return out + bytes(1024)


def safetensors(keys):
    header = ("{" + ",".join(keys) + "}").encode()
    return struct.pack("<Q", len(header)) + header


SMALL = png(4, 4)
PROFILE = b"Raw profile type exif\0\0"  # of a zTXt chunk, before the compressed text
XMP = b"XML:com.adobe.xmp\0\1\0\0\0"  # of an iTXt chunk


def image_case(data, name="x.png", command=("data",), extra=""):
    def make(folder):
        for label, file, content in (("a", name, data), ("b", "small.png", SMALL)):
            path = folder / "images" / label
            path.mkdir(parents=True)
            (path / file).write_bytes(content)
        config(folder, f"data: {{format: image_folder, path: {folder}/images, resize: [32, 32]{extra}}}\n")
        return len(data), command
    return make


def widths(folder):
    """Ten images of other widths, one of each in two classes."""
    for label in "ab":
        (folder / "images" / label).mkdir(parents=True)
    size = 0
    for i in range(10):
        data = png(999_000 + i, 1)
        size += len(data)
        (folder / "images" / "ab"[i % 2] / f"{i}.png").write_bytes(data)
    config(folder, f"data: {{format: image_folder, path: {folder}/images, resize: [32, 32]}}\n")
    return size, ("data", "--sheet", "SHEET")


def list_of(rows, command=("data",)):
    def make(folder):
        (folder / "i.png").write_bytes(SMALL)
        (folder / "list.csv").write_text(rows)
        config(folder, f"data: {{format: csv, train: {{path: {folder}/list.csv}}, resize: [32, 32]}}\n")
        return len(rows), command
    return make


def zip_of(names):
    def make(folder):
        with zipfile.ZipFile(folder / "images.zip", "w") as archive:
            for name in ["a/1.png", "b/2.png", *names]:
                archive.writestr(name, SMALL)
        config(folder, f"data: {{format: image_folder, path: {folder}/images.zip, resize: [32, 32]}}\n")
        return (folder / "images.zip").stat().st_size, ("data",)
    return make


def labels_of(rows, data, classes, command=("data",)):
    """A list with several labels per image, which may all be of one photo."""
    def make(folder):
        (folder / "i.png").write_bytes(SMALL)
        (folder / "list.csv").write_text(rows)
        config(folder, f"data: {{format: csv, train: {{path: {folder}/list.csv}}, resize: [4, 4]{data}}}\n",
               f"model: {{layers: [flatten, {{dense: {{units: {classes}}}}}], loss: binary_cross_entropy}}\n"
               "train: {epochs: 1, batch_size: 2}\n")
        return len(rows), command
    return make


def relabel_of(rows, list_rows, classes=""):
    def make(folder):
        (folder / "i.png").write_bytes(SMALL)
        (folder / "list.csv").write_text(list_rows)
        (folder / "fixes.csv").write_text("path,label\n" + rows)
        config(folder, f"data: {{format: csv, train: {{path: {folder}/list.csv}}, relabel: {folder}/fixes.csv, "
                       f"resize: [32, 32]{classes}}}\n")
        return max(len(rows), len(list_rows), len(classes)), ("data",)
    return make


def tar_of(label, command):
    def make(folder):
        members = [("1.png", SMALL), ("1.cls", label), ("2.png", SMALL), ("2.cls", b"other")]
        data = tar(members)
        (folder / "a.tar").write_bytes(data)
        config(folder, f"data: {{format: webdataset, path: {folder}/a.tar, resize: [32, 32]}}\n")
        return len(data), command
    return make


def config(folder, data, model=MODEL, rest=ADAM):
    (folder / "config.yaml").write_text(data + model + rest)


def text_of(text, command=("validate",)):
    def make(folder):
        (folder / "config.yaml").write_text(text)
        return len(text), command
    return make


def weights_of(data):
    def make(folder):
        (folder / "w.safetensors").write_bytes(data)
        config(folder, f"data: {{format: digits, path: {folder}/digits}}\n",
               MODEL.replace("model: {", f"model: {{weights: {folder}/w.safetensors, ").replace("units: 2", "units: 10"))
        return len(data), ("train",)
    return make


def layers(count, kind="relu", form="{{{kind}: {{name: a{i}}}}}"):
    items = ", ".join(form.format(kind=kind, i=i) for i in range(count))
    return (f"data: {{format: digits, path: digits}}\nmodel: {{layers: [{items}, flatten, {{dense: {{units: 10}}}}]}}\n"
            "train: {epochs: 1, batch_size: 2}\n" + ADAM)


def anchors(depth, width):
    inner = "[" + ",".join(["1"] * width) + "]"
    for i in range(depth):
        inner = f"&a{i} [{inner}]"
    return f"x-a: {inner}\n" + layers(1)


def npz_or_gzip(folder):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    header = struct.pack(">IIII", 0x803, 1_200_000, 28, 28)
    data = packer.compress(header)
    zeros = bytes(1 << 20)
    left = 1_200_000 * 784
    while left > 0:
        data += packer.compress(zeros[:left])
        left -= len(zeros)
    data += packer.flush()
    (folder / "i.gz").write_bytes(data)
    (folder / "l.gz").write_bytes(gzip_of(struct.pack(">II", 0x801, 1_200_000) + bytes(1_200_000)))
    config(folder, f"data: {{format: idx, train: {{images: {folder}/i.gz, labels: {folder}/l.gz}}}}\n",
           MODEL.replace("units: 2", "units: 1"))
    return len(data), ("train", "--set", "train.epochs=1", "--set", "data.limit=2")


def gzip_of(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


CASES = {  # name: (make, megabytes of the decoded image that data.max_pixels allows)
    "PNG 100,000,000 x 1": (lambda: image_case(png(100_000_000, 1, 0)), 300),
    "PNG 100,000,000 x 1, drawn": (
        lambda: image_case(png(100_000_000, 1, 0), command=("data", "--sheet", "SHEET")), 300),
    "PNG 1 x 100,000,000": (lambda: image_case(png(1, 100_000_000, 0)), 300),
    "PNG 1,000,000 x 100": (lambda: image_case(png(1_000_000, 100), command=("data", "--sheet", "SHEET")), 300),
    "PNG of ten widths": (lambda: widths, 300),
    "PNG 10,000 x 10,000": (lambda: image_case(png(10_000, 10_000)), 300),
    "PNG 10,000 x 10,000, 16 bits, alpha": (lambda: image_case(png(10_000, 10_000, 6, 16)), 300),
    "PNG 10,000 x 10,000, interlaced": (lambda: image_case(png(10_000, 10_000, 0, 8, 1)), 300),
    "JPEG 10,000 x 10,000, 99 scans": (
        lambda: image_case(progressive_jpeg(9984, 9984, 99, [0x11]), "x.jpg"), 300),
    "JPEG 10,000 x 10,000, 3 x 4:4:4": (
        lambda: image_case(progressive_jpeg(9984, 9984, 90, [0x11] * 3), "x.jpg"), 300),
    "TIFF 10,000 x 10,000, one strip": (lambda: image_case(tiff_one_strip(10_000, 10_000), "x.tif"), 300),
    "PNG with 800 texts of 1 MiB": (
        lambda: image_case(png_with_texts(b"zTXt", PROFILE + zlib.compress(bytes(1 << 20), 9))), 0),
    "PNG with 800 texts of digits": (
        lambda: image_case(png_with_texts(b"zTXt", PROFILE + zlib.compress(b"\n\n\n" + b"0" * ((1 << 20) - 3), 9))), 0),
    "PNG with 20,000 texts": (
        lambda: image_case(png_with_texts(b"zTXt", PROFILE + zlib.compress(b""))), 0),
    "PNG with 800 XMP packets of 1 MiB": (
        lambda: image_case(png_with_texts(b"iTXt", XMP + zlib.compress(bytes(1 << 20), 9))), 0),
    "zip: 32,000 folders": (lambda: zip_of(["a/" + "x/" * 32_000 + "3.png"]), 0),
    "zip: seven times 32,000 folders": (lambda: zip_of([c + "/" + "x/" * 32_000 + "3.png" for c in "abcdefg"]), 0),
    "zip: names with 32,000 points": (lambda: zip_of(["a/" + "./" * 32_000 + f"{i}.png" for i in range(7)]), 0),
    "zip: 1,300 times 128 folders": (
        lambda: zip_of([f"a/{i}/" + "x/" * 126 + "3.png" for i in range(1_300)]), 0),
    "zip: 110 names of 4,096 bytes": (
        lambda: zip_of([f"a/{i:03}/" + ("x" * 31 + "/") * 126 + "3.png" for i in range(110)]), 0),
    "list: 20,000 labels of 20,000 rows": (
        lambda: labels_of("path,label\n" + "".join(f"i.png,c{i}\n" for i in range(20_000)),
                          ", csv: {label_separator: '|'}", 20_000), 0),
    "list: 70,000 labels of 70,000 rows": (
        lambda: labels_of("path,label\n" + "".join(f"i.png,c{i}\n" for i in range(70_000)),
                          ", csv: {label_separator: '|'}", 70_000), 0),
    "list: 70,000 labels, validation_split": (
        lambda: labels_of("path,label\n" + "".join(f"i.png,c{i}\n" for i in range(70_000)),
                          ", csv: {label_separator: '|'}, validation_split: 0.2", 70_000), 0),
    "list: 6,000 rows of 60 labels of 1,000 bytes": (
        lambda: labels_of(
            "image," + ",".join(f"{i:x>1000}" for i in range(60)) + "\n" + "".join(
                "i.png," + ",".join(f"{i:013b}".ljust(60, "1").replace("0", " ")) + "\n" for i in range(6_000)),
            "", 60), 0),
    "list: 90,000 columns of labels": (
        lambda: labels_of("image," + ",".join(f"c{i}" for i in range(90_000)) + "\ni.png" + ",1" * 90_000 +
                          "\ni.png" + ",0" * 90_000 + "\n", "", 90_000), 0),
    "list: 60,000 columns of labels in data.classes": (
        lambda: labels_of("image," + ",".join(f"c{i}" for i in range(60_000)) + "\ni.png" + ",1" * 60_000 +
                          "\ni.png" + ",0" * 60_000 + "\n",
                          ", classes: [" + ",".join(f"c{i}" for i in range(60_000)) + "]", 60_000), 0),
    "list: a path of 450,000 numbers": (lambda: list_of("1_" * 450_000 + ".png,a\ni.png,b\n"), 0),
    "list: five paths of 90,000 words": (
        lambda: list_of("".join("a_" * 90_000 + f"p{i // 2}_{i}.png,a\n" for i in range(5)) + "i.png,b\n"), 0),
    "list: labels are positions of 70,000 classes": (
        lambda: relabel_of("i.png,0\n", "i.png,0\n" * 90_000,
                           ", classes: [" + ",".join(f"c{i}" for i in range(70_000)) + "]"), 0),
    "relabel: 100,000 equal rows": (lambda: relabel_of("i.png,a\n" * 100_000, "i.png,a\n" * 100_000), 0),
    "relabel: 60,000 unknown paths": (
        lambda: relabel_of("".join(f"{i}.png,a\n" for i in range(60_000)), "i.png,a\ni.png,b\n"), 0),
    "list: label of 60 KB": (
        lambda: list_of("i.png," + "x" * 60_000 + "\ni.png,b\n", ("data", "--sheet", "SHEET")), 0),
    "list: 900 KB label": (lambda: list_of("i.png," + "x" * 900_000 + "\ni.png,b\n"), 0),
    "list: 70,000 classes": (lambda: list_of("".join(f"i.png,c{i}\n" for i in range(70_000))), 0),
    "list: 70,000 classes, --json": (
        lambda: list_of("".join(f"i.png,c{i}\n" for i in range(70_000)), ("data", "--json")), 0),
    "tar: label of 100 KB": (lambda: tar_of(b"x" * 100_000, ("data", "--sheet", "SHEET")), 0),
    "tar: label of 900 KB, train": (lambda: tar_of(b"x" * 900_000, ("train", "--set", "run.dir=RUN")), 0),
    "safetensors: 130,000 keys": (
        lambda: weights_of(safetensors([f'"{i:x}":0' for i in range(90_000)])), 0),
    "safetensors: 16,000 tensors": (
        lambda: weights_of(safetensors(
            [f'"{i:x}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(16_000)])), 0),
    "YAML: 100,000 unknown keys": (
        lambda: text_of("".join(f"k{i}: 1\n" for i in range(90_000)) + layers(1)), 0),
    "YAML: 100,000 unknown keys of a section": (
        lambda: text_of("train: {" + ", ".join(f"k{i}: 1" for i in range(70_000)) + "}\n"), 0),
    "YAML: 100,000 wrong layers": (
        lambda: text_of("model: {layers: [" + "1," * 190_000 + "1]}\n"), 0),
    "YAML: a list of 400,000 numbers": (lambda: text_of("x-a: [" + "1," * 400_000 + "1]\n" + layers(1)), 0),
    "YAML: nested anchors": (lambda: text_of(anchors(400, 90_000)), 0),
    "YAML: aliases of a long text": (
        lambda: text_of("x-a: &a " + "x" * 500_000 + "\nx-b: [" + "*a ," * 90_000 + "1]\n" + layers(1)), 0),
    "YAML: merge keys": (
        lambda: text_of("x-a: &a {" + ", ".join(f"k{i}: 1" for i in range(30_000)) + "}\nx-b: {<<: [" +
                        "*a ," * 100 + "*a]}\n" + layers(1)), 0),
    "YAML: 200,000 closed brackets": (lambda: text_of("x-a: " + "[" * 300_000 + "]" * 300_000), 0),
    "20,000 layers": (lambda: text_of(layers(20_000), ("plan",)), 0),
    "10,000 layers": (lambda: text_of(layers(9_990), ("plan",)), 0),
    "20,000 layers without names": (lambda: text_of(layers(20_000, form="{kind}"), ("plan",)), 0),
    "layers repeated 1,000^3 times": (
        lambda: text_of("data: {format: digits, path: digits}\nmodel: {layers: [{repeat: {times: 1000, layers: [{repeat: {times: "
                        "1000, layers: [{repeat: {times: 1000, layers: [{relu: {name: a}}]}}]}}]}}, flatten, "
                        "{dense: {units: 10}}]}\n" + ADAM, ("plan",)), 0),
    "an add with 100,000 wrong inputs": (
        lambda: text_of(layers(1).replace("flatten,", "{add: {inputs: [" + ",".join(
            f"b{i}" for i in range(100_000)) + "]}}, flatten,")), 0),
    "4,000 layers with wrong inputs": (
        lambda: text_of(layers(4_000, form="{{{kind}: {{name: a{i}, inputs: [b{i}]}}}}")), 0),
    "gzip: 1,200,000 black images": (lambda: npz_or_gzip, 0),
}


def make_in_child(make, folder):
    """In a process of its own: the largest memory of the program counts that of this process when it starts."""
    child = os.fork()
    if child == 0:
        try:
            (folder / "case.json").write_text(json.dumps(make()(folder)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return json.loads((folder / "case.json").read_text())


def run(trainer, make, folder, seconds):
    size, command = make_in_child(make, folder)
    words = [str(folder / "sheet.png") if w == "SHEET" else w.replace("RUN", str(folder / "run")) for w in command]
    full = [trainer, words[0], str(folder / "config.yaml"), *words[1:]]
    with open(folder / "out.txt", "wb") as out:
        process = subprocess.Popen(full, stdout=out, stderr=out, cwd=folder)
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    text = (folder / "out.txt").read_text(errors="replace")
    return {"bytes": size, "seconds": usage.ru_utime + usage.ru_stime, "megabytes": usage.ru_maxrss / 1024,
            "code": process.returncode, "text": text}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=str(ROOT / "build/release/apps/trainer/trainer"))
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--keep", help="a folder in which the files and outputs stay")
    parser.add_argument("--seconds", type=float, default=5, help="of processor time")
    parser.add_argument("--megabytes", type=float, default=512)
    parser.add_argument("--stop", type=float, default=120, help="seconds after which a run is stopped")
    parser.add_argument("--json", help="a file for the numbers")
    options = parser.parse_args()
    options.trainer = str(pathlib.Path(options.trainer).resolve())  # it runs in other folders
    failed, results = 0, {}
    print(f"{'input':42} {'bytes':>8} {'seconds':>8} {'peak MB':>8} {'image':>6} {'code':>5}")
    for number, (name, (make, image)) in enumerate(CASES.items()):
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(options.keep or temporary) / f"case-{number:02}"
            folder.mkdir(parents=True)
            result = run(options.trainer, make, folder, options.stop)
        wrong = result["seconds"] > options.seconds or result["megabytes"] > options.megabytes + image
        wrong = wrong or result["code"] < 0
        failed += wrong
        results[name] = result
        print(f"{name:42} {result['bytes']:8} {result['seconds']:8.2f} {result['megabytes']:8.0f} {image:6} "
              f"{result['code']:5}{'  FAILED' if wrong else ''}", flush=True)
    print(f"{len(results)} inputs, {failed} failed")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
