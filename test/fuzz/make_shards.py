#!/usr/bin/env python3
"""Writes the seeds of the shard readers: tar files by Python's tarfile, a TFRecord file by TensorFlow.

    scripts/python_env.sh keras -- test/fuzz/make_shards.py
"""

import io
import os
import tarfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")


def picture(number):
    return b"P6 4 3 255\n" + bytes((number * 50 + i * 7) % 256 for i in range(36))


def tar(name, kind):
    members = [("a/0000.ppm", picture(0)), ("a/0000.cls", b"1\n"), ("a/0001.cls", b"0"), ("a/0001.ppm", picture(1)),
               ("a/0002.json", b'{"label": 2, "note": "x"}'), ("a/0002.ppm", picture(2)),
               ("a/" + "long" * 15 + "/" + "name" * 15 + ".ppm", picture(3)), ("a/" + "long" * 15 + "/" + "name" * 15 + ".cls", b"1"),
               ("a/readme.txt", b"left aside")]
    with tarfile.open(os.path.join(ROOT, "tar", name), "w", format=kind) as archive:
        for path, content in members:
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def tfrecord():
    def feature(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    rows = [{"image/encoded": picture(0), "image/class/label": 1, "image/height": 3},
            {"label": 0, "image": picture(1), "other": 7},
            {"image_raw": picture(2), "class": 2},
            {"image/class/text": b"1", "image/encoded": picture(3), "image/format": b"ppm"}]
    with tf.io.TFRecordWriter(os.path.join(ROOT, "tfrecord", "tensorflow.tfrecord")) as writer:
        for row in rows:
            example = tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in row.items()}))
            writer.write(example.SerializeToString(deterministic=True))


def words(target, *texts):
    with open(os.path.join(ROOT, target, "words.dict"), "w") as file:
        for text in texts:
            file.write('"' + "".join(f"\\x{b:02x}" if b < 32 or b > 126 or b in (34, 92) else chr(b) for b in text) + '"\n')


for folder in ("tar", "tfrecord", "cifar"):
    os.makedirs(os.path.join(ROOT, folder), exist_ok=True)
tar("ustar.tar", tarfile.USTAR_FORMAT)
tar("gnu.tar", tarfile.GNU_FORMAT)
tar("pax.tar", tarfile.PAX_FORMAT)
words("tar", b"ustar\x0000", b"ustar  \0", b".ppm", b".cls", b".json", b"00000000057", b"77777777777", b"\x80\0\0\0", b"path=", b"size=",
      b"././@LongLink")
tfrecord()
words("tfrecord", b"image/encoded", b"image/class/label", b"\x0a\x10", b"\x1a\x03\x0a\x01", b"\xff\xff\xff\xff\x0f", b"\0\0\0\0\0\0\0\0")
for name, label in (("ten.bin", b"\3"), ("hundred.bin", b"\7\x2a")):
    with open(os.path.join(ROOT, "cifar", name), "wb") as out:
        out.write((label + bytes(i * 7 % 256 for i in range(3072))) * 2)
words("cifar", b"\0", b"\x09", b"\x0a")
