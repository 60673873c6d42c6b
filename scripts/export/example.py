"""Predicts image files with the packages onnxruntime, numpy and pillow."""
import json, pathlib, sys, numpy as np, onnxruntime
from PIL import Image, ImageOps
FILE = pathlib.Path(__file__)
MODEL = json.loads(FILE.with_suffix(".json").read_text())
RESIZE, OUTPUT, (HEIGHT, WIDTH, CHANNELS) = MODEL["resize"], MODEL["output"], MODEL["input"]["shape"]
SESSION = onnxruntime.InferenceSession(FILE.with_suffix(".onnx"), providers=["CPUExecutionProvider"])

def fit(height, width):
    """The size of the resized image, which is larger than the input before a crop and smaller before a border."""
    high, wide = RESIZE["size"]  # before the crop
    wider = high * width - wide * height
    if RESIZE["fit"] == "crop":
        return (high, max(high * width // height, wide)) if wider >= 0 else (max(wide * height // width, high), wide)
    if RESIZE["fit"] == "pad" and wider > 0: high = min(high, max(1, round(height / width * wide)))
    elif RESIZE["fit"] == "pad" and wider < 0: wide = min(wide, max(1, round(width / height * high)))
    return high, wide

def weights(begin, end, size, count):
    """Whole weights that resize the pixels from begin to end to `size`, count in the middle of it, and their bits."""
    scale, cubic, skip = (end - begin) / size, RESIZE["filter"] == "bicubic", max(round((size - count) / 2), 0)
    widen = max(scale, 1) if RESIZE["antialias"] else 1
    centre, reach = begin + (skip + np.arange(count)[:, None] + 0.5) * scale, (2 if cubic else 1) * widen
    x = abs((k := np.arange(int(np.ceil(end)))) - centre + 0.5) / widen
    keys = np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0))
    within = (k >= np.trunc(centre - reach + 0.5)) & (k < np.trunc(centre + reach + 0.5))
    exact = within * (keys if cubic else np.maximum(1 - x, 0))
    exact /= exact.sum(axis=1, keepdims=True)
    bits = RESIZE["weight_bits"] - int(abs(exact).max() >= 0.999)
    whole = np.sign(exact) * np.floor(abs(exact) * 2**bits + 0.5)
    whole[np.arange(count), exact.argmax(axis=1)] += 2**bits - whole.sum(axis=1)
    return whole, bits

def read(path):
    image = Image.open(path)
    turned = image.getexif().get(274, 1)
    width, height = image.size[::-1] if turned > 4 else image.size
    high, wide = fit(height, width)
    scaled = (8, 4, 2) if RESIZE["scaled_decode"] and image.format == "JPEG" else ()
    n = next((n for n in scaled if height // n >= high and width // n >= wide), 1)
    image.draft(kind := {1: "L", 3: "RGB"}[CHANNELS], (image.width // n, image.height // n))
    x = np.asarray(ImageOps.exif_transpose(image).convert(kind), float)
    for full, size, count, mirrored, sign in ((height, high, HEIGHT, (3, 4, 7, 8), -1),
                                              (width, wide, WIDTH, (2, 3, 6, 7), 1)):
        begin = len(x) - full / n if turned in mirrored else 0  # the last pixel of a scaled JPEG may be a part of one
        whole, bits = weights(begin, begin + full / n, size, min(size, count))
        x = np.floor(np.tensordot(whole, x, 1) / 2.0 ** (bits + sign * RESIZE["row_bits"]) + 0.5).swapaxes(0, 1)
    border = [(round(free / 2), free - round(free / 2)) for free in (HEIGHT - x.shape[0], WIDTH - x.shape[1])]
    return np.pad(np.clip(x.reshape(*x.shape[:2], CHANNELS), 0, 255), (*border, (0, 0))).astype(MODEL["input"]["type"])

def predict(path):
    y = SESSION.run(None, {MODEL["input"]["name"]: read(path)[None]})[0][0].astype(float)
    kind = OUTPUT["name"] == "logits" and OUTPUT["activation"]
    if kind == "softmax": y = np.exp(y - y.max()) / np.exp(y - y.max()).sum()
    elif kind == "sigmoid": y = 1 / (1 + np.exp(-y))
    if len(y) < len(MODEL["classes"]): y = np.array([1 - y[0], y[0]])
    return dict(zip(MODEL["classes"], y.tolist()))

if __name__ == "__main__":
    for path in sys.argv[1:]: print(json.dumps({"file": path, "probabilities": predict(path)}))
