"""Drawn pictures for machines without data: stripes whose direction is the class, in noise, as binary PPM files."""

import math
import random


def picture(direction, side, generator):
    """Bytes of a side x side RGB picture with stripes in `direction` (radians)."""
    phase, width = generator.uniform(0, 2 * math.pi), generator.uniform(0.6, 1.0)
    tint = [generator.uniform(0.6, 1.0) for _ in range(3)]
    values = bytearray()
    for y in range(side):
        for x in range(side):
            wave = math.sin(width * (x * math.cos(direction) + y * math.sin(direction)) + phase)
            for channel in range(3):
                level = 128 + 80 * tint[channel] * wave + generator.gauss(0, 20)
                values.append(min(255, max(0, round(level))))
    return bytes(values)


def draw(folder, classes, count, side, seed):
    """`count` pictures of every class: FOLDER/CLASS/NUMBER.ppm, the same for the same seed."""
    generator = random.Random(seed)
    for index, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            content = picture(math.pi * index / len(classes), side, generator)
            (folder / name / f"{number}.ppm").write_bytes(b"P6\n%d %d\n255\n" % (side, side) + content)
