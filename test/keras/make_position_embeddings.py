#!/usr/bin/env python3
"""Writes test/keras/position_embeddings.json: position embeddings that timm, transformers and torchvision interpolate.

    scripts/python_env.sh numpy torch torchvision timm -- test/keras/make_position_embeddings.py
"""

import json
import pathlib

import numpy as np
import torch
from timm.layers import resample_abs_pos_embed
from torchvision.models.vision_transformer import interpolate_embeddings

CHANNELS = 2
SIZES = [(5, (7, 6)), (7, (3, 4)), (6, (6, 9)), (14, (6, 6)), (3, (1, 8))]


def main():
    rows = []
    draw = np.random.default_rng(5)
    for side, size in SIZES:
        values = torch.from_numpy(draw.standard_normal((1, 1 + side * side, CHANNELS)).astype(np.float32))
        image = values[:, 1:].reshape(1, side, side, CHANNELS).permute(0, 3, 1, 2)
        plain = torch.nn.functional.interpolate(image, size=size, mode="bicubic", align_corners=False)
        results = {"antialias": resample_abs_pos_embed(values, list(size), [side, side])[:, 1:],
                   "plain": plain.permute(0, 2, 3, 1).reshape(1, -1, CHANNELS)}
        if size[0] == size[1]:
            state = interpolate_embeddings(size[0] * 16, 16, {"encoder.pos_embedding": values})
            results["align_corners"] = state["encoder.pos_embedding"][:, 1:]
        round_all = lambda tensor: [round(float(value), 6) for value in tensor.ravel()]
        rows.append({"from": side, "to": list(size), "values": round_all(values[:, 1:]),
                     **{kind: round_all(result) for kind, result in results.items()}})
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    (pathlib.Path(__file__).resolve().parent / "position_embeddings.json").write_text(text)


if __name__ == "__main__":
    main()
