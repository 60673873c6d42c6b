#!/usr/bin/env python3
"""Writes lib/config/weight_table.cpp from the packages timm and torchvision, or checks it against them.

usage: scripts/python_env.sh torch torchvision timm -- scripts/weight_table.py [--check]

The names below are the choice; every number comes from timm's pretrained_cfg and torchvision's transforms. A name that a
package does not have is an error. A name whose network is no backbone of lib/config/pretrained.cpp is left out. The sizes
and means of transformers are not in its package but in a file beside the weights, so that its rows have none.
"""

import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "lib/config/weight_table.cpp"
BEGIN, END = "  // The rows begin here.\n", "  // The rows end here.\n"

TIMM = """
resnet18.a1_in1k resnet18.fb_swsl_ig1b_ft_in1k resnet18.tv_in1k resnet34.a1_in1k resnet34.tv_in1k
resnet50.a1_in1k resnet50.a1h_in1k resnet50.ram_in1k resnet50.b1k_in1k resnet50.fb_swsl_ig1b_ft_in1k
resnet50.tv_in1k resnet50.tv2_in1k resnet101.a1_in1k resnet101.a1h_in1k resnet101.tv2_in1k
resnet152.a1_in1k resnet152.a1h_in1k resnet152.tv2_in1k
resnext50_32x4d.a1h_in1k resnext50_32x4d.fb_swsl_ig1b_ft_in1k resnext50_32x4d.tv2_in1k
wide_resnet50_2.racm_in1k wide_resnet50_2.tv2_in1k vgg16.tv_in1k densenet121.ra_in1k densenet121.tv_in1k
mobilenetv2_100.ra_in1k mobilenetv3_small_100.lamb_in1k tf_mobilenetv3_small_100.in1k
mobilenetv3_large_100.ra_in1k mobilenetv3_large_100.miil_in21k_ft_in1k tf_mobilenetv3_large_100.in1k
mobilenetv4_conv_small.e2400_r224_in1k mobilenetv4_conv_medium.e500_r256_in1k
efficientnet_b0.ra_in1k efficientnet_b1.ft_in1k efficientnet_b2.ra_in1k efficientnet_b3.ra2_in1k
efficientnet_b4.ra2_in1k tf_efficientnet_b0.in1k tf_efficientnet_b0.ns_jft_in1k tf_efficientnet_b1.ns_jft_in1k
tf_efficientnet_b2.ns_jft_in1k tf_efficientnet_b3.ns_jft_in1k tf_efficientnet_b4.ns_jft_in1k
tf_efficientnetv2_b0.in1k tf_efficientnetv2_b1.in1k tf_efficientnetv2_b2.in1k tf_efficientnetv2_b3.in1k
tf_efficientnetv2_s.in1k tf_efficientnetv2_s.in21k_ft_in1k efficientnetv2_rw_s.ra2_in1k
convnext_tiny.fb_in1k convnext_tiny.fb_in22k_ft_in1k convnext_tiny.in12k_ft_in1k
convnext_small.fb_in1k convnext_small.fb_in22k_ft_in1k convnext_small.in12k_ft_in1k
convnext_base.fb_in1k convnext_base.fb_in22k_ft_in1k
convnextv2_atto.fcmae_ft_in1k convnextv2_femto.fcmae_ft_in1k convnextv2_pico.fcmae_ft_in1k
convnextv2_nano.fcmae_ft_in22k_in1k convnextv2_tiny.fcmae_ft_in22k_in1k
regnety_004.tv2_in1k regnety_008.pycls_in1k regnety_016.tv2_in1k regnety_032.tv2_in1k regnety_040.ra3_in1k
regnety_080.ra3_in1k legacy_xception.tf_in1k
vit_tiny_patch16_224.augreg_in21k_ft_in1k vit_small_patch16_224.augreg_in21k_ft_in1k
vit_small_patch16_224.augreg_in1k vit_base_patch16_224.augreg_in21k_ft_in1k vit_base_patch16_224.augreg2_in21k_ft_in1k
deit_tiny_patch16_224.fb_in1k deit_small_patch16_224.fb_in1k deit_base_patch16_224.fb_in1k
vit_small_patch14_dinov2.lvd142m vit_base_patch14_dinov2.lvd142m vit_small_patch14_reg4_dinov2.lvd142m
vit_base_patch14_reg4_dinov2.lvd142m
""".split()
# The networks of timm that are another one of the backbones, trained in another way.
ALIASES = {"deit_tiny_patch16_224": "vit_tiny_patch16_224", "deit_small_patch16_224": "vit_small_patch16_224",
           "deit_base_patch16_224": "vit_base_patch16_224"}
TORCHVISION = """
vgg16 resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d wide_resnet50_2 densenet121 mobilenet_v2
mobilenet_v3_small mobilenet_v3_large efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4
efficientnet_v2_s convnext_tiny convnext_small convnext_base regnet_y_400mf regnet_y_800mf regnet_y_1_6gf
regnet_y_3_2gf regnet_y_8gf vit_b_16
""".split()
# By the enumerator of the backbone.
TRANSFORMERS = {"kResNet18": "microsoft/resnet-18", "kResNet34": "microsoft/resnet-34", "kResNet50": "microsoft/resnet-50",
                "kResNet101": "microsoft/resnet-101", "kResNet152": "microsoft/resnet-152",
                "kConvNeXtTiny": "facebook/convnext-tiny-224", "kConvNeXtSmall": "facebook/convnext-small-224",
                "kConvNeXtBase": "facebook/convnext-base-224", "kConvNeXtV2Atto": "facebook/convnextv2-atto-1k-224",
                "kConvNeXtV2Femto": "facebook/convnextv2-femto-1k-224", "kConvNeXtV2Pico": "facebook/convnextv2-pico-1k-224",
                "kConvNeXtV2Nano": "facebook/convnextv2-nano-1k-224", "kConvNeXtV2Tiny": "facebook/convnextv2-tiny-1k-224",
                "kVitBasePatch16": "google/vit-base-patch16-224", "kDinoV2Small": "facebook/dinov2-small",
                "kDinoV2Base": "facebook/dinov2-base", "kDinoV2SmallReg": "facebook/dinov2-with-registers-small",
                "kDinoV2BaseReg": "facebook/dinov2-with-registers-base"}
PRESETS = {((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)): "kTorch", ((0.5,) * 3, (0.5,) * 3): "kTf",
           ((0.0,) * 3, (1.0,) * 3): "kScale"}


def read_networks():
    """The enumerator of the backbone by variant and name of the network in its library."""
    text = (ROOT / "lib/config/pretrained.cpp").read_text()
    rows = re.findall(r'\{(k\w+),\s*(k\w+),\s*"([^"]+)"', text)
    return {(variant, network): name for name, variant, network in rows}


def make_row(name, backbone, variant, side, crop, interpolation, preset, licence="", file=""):
    row = f'{{"{name}", {backbone}, {variant}, {side}, {crop:g}, k{interpolation.capitalize()}, {preset}'
    if licence or file:
        row += f', "{licence}"'
    return row + (f', "{file}"}}' if file else "}")


def find_preset(mean, std):
    return PRESETS[tuple(mean), tuple(std)]


def timm_row(name, networks):
    import timm
    architecture = name.split(".")[0]
    architecture = ALIASES.get(architecture, architecture)
    variant = "kTimmTf" if (("kTimmTf", architecture) in networks) else "kTimm"
    cfg = timm.models.get_pretrained_cfg(name, allow_unregistered=False)
    if not cfg or cfg.tag != name.split(".")[1]:
        sys.exit(f"weight_table.py: timm has no {name}")
    backbone = networks.get((variant, architecture))
    if backbone is None:
        return f"{name}: no backbone"
    if cfg.crop_mode not in (None, "center"):
        sys.exit(f"weight_table.py: {name} has the crop mode {cfg.crop_mode}, which no column has")
    return make_row("timm/" + name, backbone, variant, cfg.input_size[2], cfg.crop_pct, cfg.interpolation,
                    find_preset(cfg.mean, cfg.std), cfg.license or "")


def torchvision_rows(network, networks):
    import torchvision
    for weights in torchvision.models.get_model_weights(network):
        name = f"{network}.{weights.name}"
        backbone = networks.get(("kTorchvision", network))
        if backbone is None:
            yield f"{name}: no backbone"
            continue
        if "features" in weights.name.lower() or "SWAG" in weights.name:
            continue
        transform = weights.transforms()
        side, resized = transform.crop_size[0], transform.resize_size[0]
        crop = math.floor(side / resized * 1e4) / 1e4
        if math.floor(side / crop) != resized:
            sys.exit(f"weight_table.py: {name}: the share {crop} of {side} is not of {resized}")
        yield make_row("torchvision/" + name, backbone, "kTorchvision", side, crop, transform.interpolation.value,
                       find_preset(transform.mean, transform.std), "", weights.url.rsplit("/", 1)[1])


def make_rows():
    networks = read_networks()
    rows = [timm_row(name, networks) for name in TIMM]
    for network in TORCHVISION:
        rows += torchvision_rows(network, networks)
    backbones = set(networks.values())
    rows += [make_row(name, backbone, "kTransformers", 0, 1, "bilinear", "kTf" if name.startswith("google/vit") else "kTorch")
             for backbone, name in TRANSFORMERS.items() if backbone in backbones]
    for row in rows:
        if not row.startswith("{"):
            print("left out:", row)
    return [row for row in rows if row.startswith("{")]


def without_spaces(text):
    return re.sub(r"\s+", "", text)


def main():
    text = TABLE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    rows = make_rows()
    table = "static constexpr WeightRow kRows[] = {\n" + ",\n".join(rows) + "};\n"
    if sys.argv[1:] == ["--check"]:
        if without_spaces(text[begin:end]) != without_spaces(table):
            sys.exit(f"{TABLE.relative_to(ROOT)} is not what the installed timm and torchvision say; write it anew")
    else:
        TABLE.write_text(text[:begin] + table + text[end:])
        print(f"{len(rows)} rows; now run scripts/format.sh")


if __name__ == "__main__":
    main()
