"""The functions of libtrainer.so, which trainer.h describes."""

from __future__ import annotations

import ctypes
import os
import pathlib

FILE, ENCODED, PIXELS = 0, 1, 2


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 2044)]


class Options(ctypes.Structure):
    _fields_ = [
        ("checkpoint", ctypes.c_char_p),
        ("threads", ctypes.c_int32),
        ("uncalibrated", ctypes.c_int32),
        ("no_novelty", ctypes.c_int32),
        ("features", ctypes.c_int32),
    ]


class Image(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("height", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("row_stride", ctypes.c_ssize_t),
        ("column_stride", ctypes.c_ssize_t),
        ("channel_stride", ctypes.c_ssize_t),
    ]


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    handle, size, int32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    error = ctypes.POINTER(Error)
    out = ctypes.POINTER(int32)
    for name, result, arguments in [
        ("version", ctypes.c_char_p, []),
        ("open", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(Options), ctypes.POINTER(handle), error]),
        ("close", None, [handle]),
        ("notes", ctypes.c_char_p, [handle]),
        ("step", ctypes.c_int64, [handle]),
        ("class_count", size, [handle]),
        ("class_name", ctypes.c_char_p, [handle, size]),
        ("has_labels", ctypes.c_int, [handle]),
        ("novelty_limit", ctypes.c_double, [handle]),
        ("feature_count", size, [handle]),
        ("input_size", None, [handle, out, out, out]),
        ("predict", ctypes.c_int, [handle, ctypes.POINTER(Image), size, ctypes.POINTER(handle), error]),
        ("free", None, [handle]),
        ("image_error", ctypes.c_char_p, [handle, size]),
        ("probabilities", ctypes.POINTER(ctypes.c_double), [handle]),
        ("classes", out, [handle]),
        ("labels", ctypes.POINTER(ctypes.c_uint8), [handle]),
        ("distances", ctypes.POINTER(ctypes.c_double), [handle]),
        ("novel", ctypes.POINTER(ctypes.c_uint8), [handle]),
        ("features", ctypes.POINTER(ctypes.c_float), [handle]),
    ]:
        function = getattr(library, f"trainer_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_loaded: ctypes.CDLL | None = None


def load() -> ctypes.CDLL:
    """Loads the library beside this file, or the one that IMAGETRAINER_LIBRARY names."""
    global _loaded
    if _loaded is None:
        beside = pathlib.Path(__file__).resolve().parent / "libtrainer.so"
        _loaded = _declare(ctypes.CDLL(os.environ.get("IMAGETRAINER_LIBRARY", str(beside))))
    return _loaded
