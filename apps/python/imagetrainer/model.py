"""Prediction with trained models."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import TYPE_CHECKING, Any, Iterable, Sequence, Union

try:
    import numpy
except ImportError as missing:
    raise ImportError("imagetrainer.Model needs NumPy: pip install numpy") from missing

from imagetrainer import library

if TYPE_CHECKING:
    import PIL.Image

    ImageLike = Union[str, os.PathLike, bytes, bytearray, memoryview, "PIL.Image.Image", numpy.ndarray]

_KINDS = ["", "argument", "config", "data", "device", "forked", "internal"]


class TrainerError(RuntimeError):
    """An error of a call; `kind` is argument, config, data, device, forked or internal."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The predictions of images, in their order."""

    probabilities: numpy.ndarray
    """float64 [images, classes]; the estimates of a regression; NaN for images that cannot be read."""
    indices: numpy.ndarray
    """int32 [images]: the predicted class by the run's operating point, or else the likeliest one; -1 for images that
    cannot be read, and of models that give an image several labels."""
    labels: numpy.ndarray | None
    """bool [images, classes]: the labels above their thresholds, of models that give an image several labels."""
    distances: numpy.ndarray | None
    """float64 [images]: the distance to the training images; None without a limit of novelty."""
    novel: numpy.ndarray | None
    """bool [images]: the images that show none of the classes, which have probabilities and a class all the same; None
    without a limit of novelty."""
    features: numpy.ndarray | None
    """float32 [images, features]: the output of the layer before the last one with weights; None unless
    Model(features=True)."""
    errors: list[str | None]
    """Why an image cannot be read; None for the others."""
    classes: tuple[str, ...]
    """The names of the columns of `probabilities`."""

    @property
    def names(self) -> list[str | None]:
        """The predicted class of each image; None where `indices` is -1."""
        return [self.classes[index] if index >= 0 else None for index in self.indices]

    def __len__(self) -> int:
        return len(self.errors)


class Model:
    """A trained model on the CPU. Several threads may use it at once.

    path: the folder of a run, or a checkpoint.
    checkpoint: "best" or "last" of a run; left out, the one that `trainer predict` takes.
    threads: the processor cores to use; 0: as the run's config says, all of them by default.
    calibrated: whether the temperature that `trainer evaluate --calibrate` found is used.
    novelty: whether the limit that `trainer evaluate --novelty` found is used.
    features: whether predictions have features, which are computed in float32.

    A process that is forked after the model was opened cannot use it: open it in that process, or start processes with
    multiprocessing.get_context("spawn").
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        checkpoint: str | None = None,
        threads: int = 0,
        calibrated: bool = True,
        novelty: bool = True,
        features: bool = False,
    ):
        self._handle = ctypes.c_void_p()
        self._library = library.load()
        options = library.Options(checkpoint.encode() if checkpoint else None, threads, not calibrated, not novelty, features)
        error = library.Error()
        self._library.trainer_open(os.fsencode(path), options, self._handle, error)
        _check(error)
        count = self._library.trainer_class_count(self._handle)
        self.classes: tuple[str, ...] = tuple(
            self._library.trainer_class_name(self._handle, index).decode(errors="replace") for index in range(count)
        )
        """The names of the classes, or of the labels of a model that gives an image several."""
        self.has_labels: bool = bool(self._library.trainer_has_labels(self._handle))
        """Whether the model gives an image several labels."""
        self.step: int = self._library.trainer_step(self._handle)
        """The step of the checkpoint."""
        self.notes: str = self._library.trainer_notes(self._handle).decode(errors="replace")
        """The lines that `trainer predict` prints about this model."""
        limit = self._library.trainer_novelty_limit(self._handle)
        self.novelty_limit: float | None = None if limit != limit else limit
        """The distance to the training images above which an image shows none of the classes; None without one."""
        self._features = self._library.trainer_feature_count(self._handle)
        sides = [ctypes.c_int32() for _ in range(3)]
        self._library.trainer_input_size(self._handle, *sides)
        self.input_shape: tuple[int, ...] = tuple(side.value for side in sides)
        """(height, width, channels) to which images are resized."""

    def predict(self, images: ImageLike | Iterable[ImageLike], *, on_error: str = "raise") -> Predictions:
        """Returns the predictions of `images`, which are resized as `trainer predict` resizes files.

        images: one image or several. An image is the path of a file (str or Path), the bytes of a file, a Pillow image,
            which is turned by its EXIF orientation, or a uint8 array [height, width] or [height, width, channels]. An
            array of four dimensions is several images.
        on_error: "raise" raises TrainerError if an image cannot be read; "nan" gives it a row of NaN and a reason in
            Predictions.errors.
        """
        if on_error not in ("raise", "nan"):
            raise ValueError(f"on_error={on_error!r}: expected 'raise' or 'nan'")
        if not self._handle:
            raise ValueError("the model is closed")
        several = _list_images(images)
        given = (library.Image * len(several))()
        kept = []  # what the structures point to
        for index, image in enumerate(several):
            given[index] = _describe(image, index, self.input_shape[2], kept)
        result, error = ctypes.c_void_p(), library.Error()
        self._library.trainer_predict(self._handle, given, len(several), result, error)
        _check(error)
        try:
            found = self._read(result, len(several))
        finally:
            self._library.trainer_free(result)
        failed = [text for text in found.errors if text is not None]
        if failed and on_error == "raise":
            raise TrainerError("data", f"{len(failed)} of {len(found)} images cannot be read: {failed[0]}")
        return found

    def _read(self, result: ctypes.c_void_p, count: int) -> Predictions:
        def copy(pointer: Any, kind: type, shape: Sequence[int]) -> numpy.ndarray:
            if not count:
                return numpy.empty(shape, kind)
            return numpy.ctypeslib.as_array(pointer, shape).astype(kind)  # a copy

        texts = [self._library.trainer_image_error(result, index) for index in range(count)]
        rows = (count, len(self.classes))
        has_limit = self.novelty_limit is not None
        return Predictions(
            probabilities=copy(self._library.trainer_probabilities(result), numpy.float64, rows),
            indices=copy(self._library.trainer_classes(result), numpy.int32, (count,)),
            labels=copy(self._library.trainer_labels(result), numpy.bool_, rows) if self.has_labels else None,
            distances=copy(self._library.trainer_distances(result), numpy.float64, (count,)) if has_limit else None,
            novel=copy(self._library.trainer_novel(result), numpy.bool_, (count,)) if has_limit else None,
            features=copy(self._library.trainer_features(result), numpy.float32, (count, self._features))
            if self._features
            else None,
            errors=[None if text is None else text.decode(errors="replace") for text in texts],
            classes=self.classes,
        )

    def close(self) -> None:
        """Frees the model. No other thread may be using it."""
        if self._handle:
            self._library.trainer_close(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_library", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<imagetrainer.Model of {len(self.classes)} classes, step {self.step}>"


def _check(error: library.Error) -> None:
    if error.code:
        raise TrainerError(_KINDS[error.code], error.message.decode(errors="replace"))


def _is_pillow(image: Any) -> bool:
    return hasattr(image, "convert") and hasattr(image, "mode")


def _list_images(images: Any) -> list[Any]:
    if isinstance(images, numpy.ndarray):
        return [*images] if images.ndim == 4 else [images]
    if isinstance(images, (str, os.PathLike, bytes, bytearray, memoryview)) or _is_pillow(images):
        return [images]
    return list(images)


def _describe(image: Any, index: int, channels: int, kept: list[Any]) -> library.Image:
    if isinstance(image, (str, os.PathLike)):
        path = ctypes.create_string_buffer(os.fsencode(image))
        kept.append(path)
        return library.Image(library.FILE, ctypes.addressof(path))
    if isinstance(image, (bytes, bytearray, memoryview)):
        content = numpy.frombuffer(image, numpy.uint8)
        kept.append(content)
        return library.Image(library.ENCODED, content.ctypes.data, content.nbytes)
    if _is_pillow(image):
        image = _read_pillow(image, index, channels)
    if not isinstance(image, numpy.ndarray):
        raise TypeError(
            f"image {index} is a {type(image).__name__}; expected a path, bytes, a Pillow image or a NumPy array"
        )
    if image.dtype != numpy.uint8 or image.ndim not in (2, 3):
        raise TypeError(
            f"image {index} is an array of {image.dtype} with {image.ndim} dimensions; expected uint8 [height, width] "
            "or [height, width, channels], with values from 0 to 255"
        )
    if image.ndim == 2:
        image = image[:, :, None]
    kept.append(image)
    return library.Image(library.PIXELS, image.ctypes.data, 0, *image.shape, *image.strides)


def _read_pillow(image: Any, index: int, channels: int) -> numpy.ndarray:
    from PIL import ImageOps

    if image.mode.startswith(("I", "F")):
        raise TypeError(
            f"image {index} has the Pillow mode {image.mode}, whose values are not bytes; give the path of its file"
        )
    grey = channels == 1 or image.mode in ("1", "L", "LA")
    return numpy.asarray(ImageOps.exif_transpose(image).convert("L" if grey else "RGB"))
