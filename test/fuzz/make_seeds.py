#!/usr/bin/env python3
"""Writes the seeds of the fuzzers, small and always the same: test/fuzz/make_seeds.py (with numpy and Pillow). HDF5 files
come from `trainer export` and are only copied: test/fuzz/make_seeds.py FILE.h5 ..."""
import io
import json
import os
import shutil
import struct
import sys
import zipfile
import gzip
import hashlib

import numpy
from PIL import Image

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")


def save(target, name, content):
    folder = os.path.join(ROOT, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def words(target, *texts):
    def quoted(text):
        data = text.encode("latin-1") if isinstance(text, str) else text
        return '"' + "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\x{b:02x}" for b in data) + '"'
    save(target, "words.dict", "".join(quoted(text) + "\n" for text in texts))


def image(mode, size=(17, 13)):
    draw = numpy.random.RandomState(3)
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], len(mode))
    smooth = draw.randint(0, 256, shape).astype(numpy.uint8)
    smooth[: size[1] // 2] = 90
    return Image.fromarray(smooth, mode)


def encoded(picture, kind, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def images():
    rgb, grey = image("RGB"), image("L")
    for name, picture in (("rgb", rgb), ("grey", grey)):
        save("images", f"{name}.png", encoded(picture, "PNG"))
        save("images", f"{name}.bmp", encoded(picture, "BMP"))
        save("images", f"{name}.ppm", encoded(picture, "PPM"))
        save("images", f"{name}.gif", encoded(picture.convert("P"), "GIF"))
        save("images", f"{name}-progressive.jpg", encoded(picture, "JPEG", progressive=True, quality=60))
    save("images", "alpha.png", encoded(image("RGBA"), "PNG"))
    save("images", "palette.png", encoded(rgb.convert("P"), "PNG", bits=4))
    save("images", "one.png", encoded(grey.convert("1"), "PNG"))
    save("images", "cmyk.jpg", encoded(image("CMYK"), "JPEG", quality=50))
    save("images", "text.ppm", "P3\n# a comment\n3 2\n255\n" + "1 2 3 " * 6 + "\n")
    save("images", "wide.ppm", "P6\n" + "2" * 13 + "\0")  # ten times the width was more than an int
    words("images", "IHDR", "IDAT", "PLTE", "tRNS", "eXIf", "IEND", "GIF89a", b"\x21\xf9\x04", b"\x2c\0\0\0\0",
          "BM", b"\xff\xd8\xff", "P1\n", "P6\n")
    for quality in (30, 95):
        for sampling in (0, 1, 2):
            save("jpeg", f"{quality}-{sampling}.jpg", encoded(rgb, "JPEG", quality=quality, subsampling=sampling))
        save("jpeg", f"grey-{quality}.jpg", encoded(grey, "JPEG", quality=quality))
    save("jpeg", "optimised.jpg", encoded(rgb, "JPEG", optimize=True))
    save("jpeg", "restart.jpg", encoded(image("RGB", (64, 33)), "JPEG", restart_marker_blocks=2))
    words("jpeg", *(bytes([0xff, marker]) for marker in (0xd8, 0xd9, 0xda, 0xdb, 0xc0, 0xc2, 0xc4, 0xdd, 0xd0, 0xd1, 0xe0,
                                                          0xe1, 0xee, 0xfe, 0x00, 0xff)), "Exif\0\0", "Adobe", "JFIF\0")


def arrays():
    def idx(kind, *dims, body=b""):
        return struct.pack(">HBB", 0, kind, len(dims)) + b"".join(struct.pack(">I", d) for d in dims) + body
    bytes_ = idx(8, 3, 4, 5, body=bytes(range(60)))
    save("idx", "bytes", bytes_)
    save("idx", "labels", idx(8, 7, body=bytes(7)))
    save("idx", "shorts", idx(0x0b, 4, body=struct.pack(">4h", 1, -1, 9, 300)))
    save("idx", "floats", idx(0x0d, 2, 2, body=struct.pack(">4f", 1, -1, 9, 3e30)))
    save("idx", "bytes.gz", gzip.compress(bytes_, mtime=0))
    save("idx", "found-empty-dimension", idx(8, 0xffffffff, 0, 1))
    words("idx", b"\x1f\x8b\x08\0", b"\0\0\x08\x03", b"\0\0\x0d\x01", b"\xff\xff\xff\xff")
    for name, array in (("f4", numpy.ones((2, 3), "<f4")), ("f8", numpy.ones(3, ">f8")), ("u1", numpy.ones((2, 2, 2), "u1")),
                        ("fortran", numpy.asfortranarray(numpy.ones((2, 3)))), ("i8", numpy.arange(4))):
        out = io.BytesIO()
        numpy.save(out, array)
        save("npy", name, out.getvalue())
    save("npy", "found-huge", b"\x93NUMPY\1\0" + struct.pack("<H", 118) +
         (b"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296, 1), }").ljust(117) + b"\n")
    words("npy", b"\x93NUMPY\1\0", "'descr': ", "'<f4'", "'fortran_order': ", "'shape': (", "True", "False", "9999999999", ", }")
    for name, write in (("stored", numpy.savez), ("deflated", numpy.savez_compressed)):
        out = io.BytesIO()
        write(out, images=numpy.zeros((2, 3, 3), "u1"), labels=numpy.arange(2))
        save("npz", name, out.getvalue())
        save("weights", name + ".npz", out.getvalue())
    words("npz", "PK\1\2", "PK\3\4", "PK\5\6", "PK\6\6", "PK\6\7", b"\x93NUMPY", "images.npy", b"\xff\xff\xff\xff", b"\1\0\x20\0")
    save("csv", "plain", "path,label\na.png,cat\nb.png,dog\n")
    save("csv", "quoted", '"path","label"\r\n"a ""b"".png",3\r\n')
    save("csv", "numbers", "path,label\n" + "".join(f"{i}.jpg,{i % 3}\n" for i in range(9)))
    save("csv", "found-label", "path,label\na.png,608060806\n")
    words("csv", "path,label\n", '""', '"', ",", "\r\n", "\n", "-1", "608060806", b"\xef\xbb\xbf", b"\xff\xfe")


def folders():
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            for entry in ("cat/1.png", "cat/deep/2.png", "dog/3.png", "notes.txt"):
                info = zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0))
                info.compress_type = method
                archive.writestr(info, encoded(image("L", (3, 2)), "PNG"))
        save("zip", name, out.getvalue())
    words("zip", "PK\1\2", "PK\3\4", "PK\5\6", "PK\6\6", "PK\6\7", "cat/", "../", "\\", b"\xff\xff\xff\xff", b"\1\0\x20\0")
    save("relabel", "plain", "path,label\nphotos/cat/1.png,dog\ndog/2.png,\n")
    save("relabel", "suspects", "path,label,suggested_label,reasons,score\n"
         "photos/cat/1.png,dog,dog,wrong-label,0.9\nphotos\\dog\\2.png,1,,copy,1\n")
    words("relabel", "path,label\n", "photos/", "cat", "dog", "\\", "./", "../", "1.0", "\n", '"')


def safetensors(tensors, metadata):
    header, body = {"__metadata__": metadata} if metadata else {}, b""
    for name, values in tensors.items():
        data = numpy.asarray(values, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(numpy.shape(values)), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def weights(paths):
    plain = safetensors({"a": [[1, 2], [3, 4]], "b": [5]}, {})
    config = "model: {layers: [flatten, dense: 10]}\ndata: {format: digits, path: x}\n"
    run = safetensors({"dense/bias": [0] * 10}, {"step": "7", "config": config, "trainer": "1"})
    for target in ("safetensors", "weights", "checkpoint"):
        save(target, "plain.safetensors", plain)
    save("checkpoint", "run.safetensors", run)
    save("safetensors", "run.safetensors", run)
    for target in ("safetensors", "checkpoint"):
        words(target, '"dtype":"F32"', '"BF16"', '"F64"', '"shape":[', '"data_offsets":[', '"__metadata__":{', '"sha256"',
              '"header_sha256"', '"trainer"', "18446744073709551615", "-1", "config", "[]", "{}")
    for path in paths:
        content = open(path, "rb").read()
        save("weights", os.path.basename(path), content)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(zipfile.ZipInfo("model.weights.h5"), content)
        save("weights", os.path.basename(path) + ".keras", out.getvalue())
    words("weights", b"\x89HDF\r\n\x1a\n", "TREE", "HEAP", "SNOD", "GCOL", "OHDR", "OCHK", "FRHP", "BTHD", "layer_names", "weight_names",
          "model_weights", b"\xff" * 8, "PK\1\2", "PK\3\4", "PK\5\6", "model.weights.h5")


def texts():
    folder = os.path.join(ROOT, "..", "..", "..", "configs")
    for name in sorted(os.listdir(folder)):
        content = open(os.path.join(folder, name), "rb").read()
        if name.endswith(".yaml") and len(content) < 3000:
            save("yaml", name, content)
    save("yaml", "small", "model: {layers: [conv: {filters: 2, kernel_size: 3}, flatten, dense: 10]}\n"
         "data: {format: digits, path: digits}\noptimizer: {adam: {learning_rate: 1.0e-3}}\ntrain: {epochs: ${N:-2}}\n")
    save("yaml", "found-comma", ",")
    save("yaml", "found-start", b"\0\0\0\x2c")
    words("yaml", "model:", "layers:", "- conv: ", "data:", "format: ", "${NAME}", "${N:-3}", "&a ", "*a", "<<: *a", "!!binary ",
          "? ", "---\n", "...\n", "%YAML 1.2\n", "|\n ", ">-\n ", "[", "]", "{", "}", ", ", ": ", "1e999", "0x7f", ".nan", "null",
          b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", "9223372036854775807", "10 steps", "unfreeze: ", "schedule: ", "augment: ")
    save("set", "rates", "optimizer.sgd.learning_rate=0.5\ntrain.epochs=3\n")
    save("set", "lists", "model.layers[2].dense=7\nmodel.layers[0]={flatten: }\n")
    save("set", "found-comma", "data.classes=,cats\n")
    words("set", "model.layers[0].conv.filters=", "data.classes=", "train.batch_size=", "[", "]", ".", "=", "9e18", "-1", "{", "}", "null",
          "parallel.threads=", "run.checkpoint_every=3 steps", "999999999999")
    cluster = {"cluster": {"chief": ["a:1"], "worker": ["b:2", "[::1]:3"], "ps": ["c:4"]}, "task": {"type": "worker", "index": 1}}
    save("environment", "tf", "TF_CONFIG=" + json.dumps(cluster))
    save("environment", "torchrun", "RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nMASTER_PORT=29500\nLOCAL_RANK=1\n")
    save("environment", "slurm", "SLURM_PROCID=3\nSLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NODELIST=n[1-3,07],login\nSLURM_NODEID=1\n"
         "SLURM_STEP_TASKS_PER_NODE=2(x2)\nSLURM_JOB_ID=77\nSLURM_STEP_ID=0\nSLURM_LOCALID=1\n")
    save("environment", "mpi", "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=0\n--master=h:1\n")
    save("environment", "pmi", "PMI_RANK=0\nPMI_SIZE=2\n--master=[::1]:70\n")
    save("environment", "found-number", 'TF_CONFIG={"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1e999}}')
    words("environment", "TF_CONFIG=", '"cluster"', '"task"', '"index"', '"type"', '"evaluator"', '"ps"', "SLURM_STEP_NUM_TASKS=", "[1-", "999999999",
          "SLURM_STEP_NODELIST=", "n[0001-99999999]", "TRAINER_SECRET=", "1e999", "-1")
    record = {"name": "a", "classes": ["x", "y"], "replicas": 2, "sessions": [{"seconds": 2.5, "peak_memory_bytes": 9}],
              "finished": {"steps": 7, "reason": "done", "metrics": {"test": {"loss": 0.5, "accuracy": 0.75, "count": 4,
                           "correct": 3, "confusion": [[1, 0], [1, 2]]}}, "parameters_sha256": "00"}}
    save("metrics", "record", b"\0" + json.dumps(record).encode())
    save("metrics", "rows", "\1step,epoch,split,loss,accuracy,learning_rate,images_per_second,wait_share,seconds\n"
         "1,0.5,train,2.3,,0.1,1000,0.1,0.5\n2,1,test,2.0,0.4,,,,0.1\n")
    save("metrics", "ledger", "\2step,samples,loss,learning_rate,sample_ids,seconds,wait_seconds\n1,32,2.3,0.1,ab12,0.01,0.001\n")
    words("metrics", "nan", "inf", "-1", "1e999", ",", "\n", '"finished"', '"sessions"', '"confusion"', "null", "[[", "train", "test")


def network():
    def frame(kind, *fields):
        body = bytes([kind])
        for field in fields:
            body += struct.pack("<Q", field) if isinstance(field, int) else struct.pack("<Q", len(field)) + field.encode()
        return struct.pack("<I", len(body)) + body
    protocol = 0x54524e5200000002
    hello = frame(1, protocol, "job", 1, 2, "rank 1", "1", "cluster", "host", 7, "c" * 32, "0" * 64)
    for target in ("rendezvous", "messages"):
        save(target, "hello", hello)
        save(target, "others", frame(2, "key", "value") + frame(3, 1, "key") + frame(4, 1, "key", "a") + frame(6, 9) + frame(8))
        save(target, "http", "GET / HTTP/1.1\r\n\r\n")
        save(target, "long", struct.pack("<I", 1 << 30) + b"\1" * 64)
        words(target, struct.pack("<Q", protocol), b"\xff" * 8, b"\xff\xff\xff\x3f", "job", "cluster", struct.pack("<Q", 64))
    for i, (written, read) in enumerate(((64, 0), (1 << 18, 1 << 18), (0, 1 << 63), (~0 & (1 << 64) - 1, 64))):
        save("ring", f"counts-{i}", struct.pack("<QQQ", written, read, 1) * 3)
    words("ring", struct.pack("<Q", 1 << 18), b"\xff" * 8, struct.pack("<Q", (1 << 18) + 64))
    save("servers", "layout", b"\0" + bytes.fromhex("0a0e0800102818023a0ccdcccc3d000000000000") + bytes.fromhex("1040180220012803"))
    save("servers", "part", b"\1" + bytes.fromhex("08011002"))
    save("servers", "outcome", b"\2" + bytes.fromhex("08021203616263"))
    save("servers", "gradient", b"\3" + bytes.fromhex("080110021a0800000000000080bf"))
    words("servers", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0a\x0e", b"\x18\x04", b"\x1a\x08")


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    images()
    arrays()
    folders()
    weights(sys.argv[1:])
    texts()
    network()
    files = [os.path.join(folder, name) for folder, _, names in os.walk(ROOT) for name in names]
    print(len(files), "files,", sum(map(os.path.getsize, files)), "bytes,",
          hashlib.sha256(b"".join(open(f, "rb").read() for f in sorted(files))).hexdigest()[:16])


if __name__ == "__main__":
    main()
