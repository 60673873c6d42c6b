#!/usr/bin/env python3
"""Writes timm_layer_decay.json: the groups that timm's layer_decay tells apart, by backbone.

    scripts/python_env.sh torch torchvision timm -- test/optim/make_timm_layer_decay.py

kernels: how many tensors of two dimensions or more each group has, from the input on; scales: what timm multiplies the
learning rate of each group by, with layer_decay 0.75. Biases and normalization differ between timm and Keras.
"""

import json
import pathlib

import timm
from timm.models import group_parameters
from timm.optim import param_groups_layer_decay

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {
    "vgg16": "vgg16", "resnet18": "resnet18", "resnet34": "resnet34", "resnet50": "resnet50", "resnet101": "resnet101",
    "densenet121": "densenet121", "mobilenet_v2": "mobilenetv2_100", "mobilenet_v3_small": "mobilenetv3_small_100",
    "mobilenet_v3_large": "mobilenetv3_large_100", "efficientnet_b0": "efficientnet_b0",
    "efficientnet_b1": "efficientnet_b1", "efficientnet_b2": "efficientnet_b2", "efficientnet_b3": "efficientnet_b3",
    "convnext_tiny": "convnext_tiny", "vit_tiny_patch16": "vit_tiny_patch16_224",
}


def main():
    rows = {}
    for ours, name in NAMES.items():
        model = timm.create_model(name)
        layer_of = group_parameters(model, model.group_matcher(coarse=False), reverse=True)
        groups = max(layer_of.values()) + 1
        kernels = [0] * groups
        for parameter, value in model.named_parameters():
            kernels[layer_of[parameter]] += value.ndim >= 2
        scales = [None] * groups
        for group in param_groups_layer_decay(model, layer_decay=0.75):
            places = [p for p, value in model.named_parameters() if value is group["params"][0]]
            scales[layer_of[places[0]]] = group["lr_scale"]
        rows[ours] = {"timm": name, "kernels": kernels, "scales": scales}
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
    (HERE / "timm_layer_decay.json").write_text(f'{{"timm": "{timm.__version__}", "backbones": {{\n{text}\n}}}}\n')


if __name__ == "__main__":
    main()
