"""The small images that the fixtures of Pillow's operations start from, and the layout of these files."""

import json

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 9, 11


def make_images():
    """Returns Pillow images by name: two in colour, and one in grey."""
    count = np.arange(HEIGHT * WIDTH * 3)
    arrays = {
        "noise": (count * 37 % 251).reshape(HEIGHT, WIDTH, 3),
        "slope": (40 + count % 3 * 20 + count // 9 * 3).reshape(HEIGHT, WIDTH, 3),
        "grey": (count[: HEIGHT * WIDTH] * 53 % 241).reshape(HEIGHT, WIDTH),
    }
    return {name: Image.fromarray(array.astype(np.uint8)) for name, array in arrays.items()}


def pixels(image):
    """Returns the pixels as hexadecimal digits, row by row."""
    return np.asarray(image, np.uint8).tobytes().hex()


def write(path, content):
    """Writes a JSON object with a line for each key, and for each entry of a list of objects."""
    rows = [f"{json.dumps(key)}: " + ("[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
                                      if isinstance(value, list) and value and isinstance(value[0], dict)
                                      else json.dumps(value)) for key, value in content.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    print(f"{path.name}: {path.stat().st_size} bytes")
