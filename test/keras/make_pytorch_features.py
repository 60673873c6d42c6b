#!/usr/bin/env python3
"""Writes test/keras/backbones/pytorch.json: logits of networks of torchvision, timm, transformers and
pytorch_resnet_cifar10 for one image, with weights of a formula.

    scripts/python_env.sh numpy torch torchvision timm transformers safetensors -- test/keras/make_pytorch_features.py [CASE...]

All cases, or those named; the others stay as they are. Each has a digest of the names and sizes of the tensors of the
state dict, in the order of their names, and the rank of each; and the logits. PyTorch computes in float64. The state
dicts of ViT and DINOv2 are for a square image `file_image`, and the image has another size, for which the library
interpolates the position embeddings. Names of transformers are those that save_pretrained() writes. `gradients`, of the
cases of GRADIENTS: the norm of the gradient of each parameter, in the order of their names, of the cross entropy of
class 7 for one image of the size of the file, with the moving statistics.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch

FILE = pathlib.Path(__file__).resolve().parent / "backbones" / "pytorch.json"
SIZE = (67, 96, 3)
CLASSES = 61
# By the name and variant of the backbone: the network in its library.
CASES = {
    "vit_tiny_patch16 timm": "vit_tiny_patch16_224",
    "vit_tiny_patch16 transformers": "vit_tiny_patch16",
    "vit_base_patch16 torchvision": "vit_b_16",
    "dinov2_small timm": "vit_small_patch14_dinov2",
    "dinov2_small_reg timm": "vit_small_patch14_reg4_dinov2",
    "dinov2_small transformers": "dinov2_small",
    "dinov2_small_reg transformers": "dinov2_small_reg",
    "mobilenet_v2 torchvision": "mobilenet_v2",
    "mobilenet_v2 timm": "mobilenetv2_100",
    "mobilenet_v3_small torchvision": "mobilenet_v3_small",
    "mobilenet_v3_small timm": "mobilenetv3_small_100",
    "mobilenet_v3_small timm_tf": "tf_mobilenetv3_small_100",
    "mobilenet_v3_large torchvision": "mobilenet_v3_large",
    "mobilenet_v3_large timm": "mobilenetv3_large_100",
    "efficientnet_b0 torchvision": "efficientnet_b0",
    "efficientnet_b0 timm": "efficientnet_b0",
    "efficientnet_b0 timm_tf": "tf_efficientnet_b0",
    "efficientnetv2_b0 timm_tf": "tf_efficientnetv2_b0",
    "densenet121 torchvision": "densenet121",
    "resnet18 transformers": "resnet18",
    "resnet50 transformers": "resnet50",
    "resnext50_32x4d torchvision": "resnext50_32x4d",
    "resnet20_cifar torchvision": "resnet20",
    "regnet_y_400mf torchvision": "regnet_y_400mf",
    "regnet_y_400mf timm": "regnety_004",
    "mobilenetv4_conv_small timm": "mobilenetv4_conv_small",
    "mobilenetv4_conv_medium timm": "mobilenetv4_conv_medium",
    "xception timm": "legacy_xception",
    "convnext_tiny torchvision": "convnext_tiny",
    "convnext_tiny timm": "convnext_tiny",
    "convnext_tiny transformers": "convnext_tiny",
    "convnextv2_atto timm": "convnextv2_atto",
    "convnextv2_atto transformers": "convnextv2_atto",
}

GRADIENTS = ["vit_tiny_patch16 timm", "vit_base_patch16 torchvision", "dinov2_small_reg timm", "convnextv2_atto timm",
             "regnet_y_400mf timm", "mobilenetv4_conv_small timm"]


class CifarBlock(torch.nn.Module):
    """The block with shortcut A of github.com/akamaster/pytorch_resnet_cifar10."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outputs)
        self.zeros = outputs // 4 if stride == 2 else None

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        if self.zeros is not None:
            x = torch.nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.zeros, self.zeros))
        return torch.relu(x + y)


class CifarResNet(torch.nn.Module):
    def __init__(self, blocks, classes=10):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        inputs = 16
        for stage, outputs in enumerate([16, 32, 64]):
            layers = [CifarBlock(inputs if i == 0 else outputs, outputs, 2 if i == 0 and stage > 0 else 1)
                      for i in range(blocks)]
            setattr(self, f"layer{stage + 1}", torch.nn.Sequential(*layers))
            inputs = outputs
        self.linear = torch.nn.Linear(64, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


def make_transformers(network, classes):
    import transformers
    depth = {"resnet18": [2, 2, 2, 2], "resnet34": [3, 4, 6, 3], "resnet50": [3, 4, 6, 3], "resnet101": [3, 4, 23, 3],
             "resnet152": [3, 8, 36, 3], "convnext_tiny": [3, 3, 9, 3], "convnext_small": [3, 3, 27, 3],
             "convnext_base": [3, 3, 27, 3], "convnextv2_atto": [2, 2, 6, 2], "convnextv2_femto": [2, 2, 6, 2],
             "convnextv2_pico": [2, 2, 6, 2], "convnextv2_nano": [2, 2, 8, 2], "convnextv2_tiny": [3, 3, 9, 3]}[network]
    if network.startswith("resnet"):
        basic = network in ("resnet18", "resnet34")
        sizes = [64, 128, 256, 512] if basic else [256, 512, 1024, 2048]
        return transformers.ResNetForImageClassification(transformers.ResNetConfig(
            depths=depth, hidden_sizes=sizes, layer_type="basic" if basic else "bottleneck", num_labels=classes))
    width = {"convnext_base": 128, "convnextv2_atto": 40, "convnextv2_femto": 48, "convnextv2_pico": 64,
             "convnextv2_nano": 80}.get(network, 96)
    sizes = {"depths": depth, "hidden_sizes": [width << i for i in range(4)], "num_labels": classes}
    if network.startswith("convnextv2"):
        return transformers.ConvNextV2ForImageClassification(transformers.ConvNextV2Config(**sizes))
    return transformers.ConvNextForImageClassification(transformers.ConvNextConfig(**sizes))


def make_network(variant, network, classes=CLASSES, side=None):
    if patch_size(network):
        return make_vit(variant, network, classes, 6 * patch_size(network) if side is None else side)
    if network in ("resnet20", "resnet56"):
        return CifarResNet({"resnet20": 3, "resnet56": 9}[network], classes)
    if variant == "torchvision":
        import torchvision
        return getattr(torchvision.models, network)(weights=None, num_classes=classes)
    if variant == "transformers":
        return make_transformers(network, classes)
    import timm
    return timm.create_model(network, num_classes=classes)


VIT_WIDTHS = {"tiny": 192, "small": 384, "base": 768}


def patch_size(network):
    """Of ViT and DINOv2; 0 for other networks."""
    return 14 if "dinov2" in network or "patch14" in network else 16 if "vit_" in network else 0


def make_vit(variant, network, classes, side):
    """A network for square images of `side` pixels, which takes images of other sizes but for torchvision."""
    if variant == "torchvision":
        import torchvision
        return getattr(torchvision.models, network)(weights=None, num_classes=classes, image_size=side)
    if variant == "timm":
        import timm
        return timm.create_model(network, num_classes=classes, img_size=side, dynamic_img_size=True)
    import transformers
    size = network.split("_")[1]
    kind = "ViT" if network.startswith("vit") else "Dinov2WithRegisters" if network.endswith("_reg") else "Dinov2"
    width = VIT_WIDTHS[size]
    hidden = {"intermediate_size": 4 * width} if kind == "ViT" else {}
    return getattr(transformers, kind + "ForImageClassification")(getattr(transformers, kind + "Config")(
        hidden_size=width, num_attention_heads=width // 64, image_size=side, patch_size=patch_size(network),
        num_labels=classes, **hidden))


def make_resized(model, variant, network, classes, image):
    """The network for an image [height, width] of another size than its own; only torchvision builds another."""
    if variant != "torchvision":
        return model
    import torchvision
    resized = make_vit(variant, network, classes, image[0]).to(next(model.parameters()).dtype).eval()
    state = torchvision.models.vision_transformer.interpolate_embeddings(image[0], 16, model.state_dict())
    resized.load_state_dict(state)
    return resized


def chaos(count, number):
    """Numbers in [-1, 1] that any language makes of integers alone."""
    i = np.arange(count, dtype=np.int64) % 100003
    return ((i * i * 31 + i * 17 + number * 101) % 10007) / 5003.0 - 1


def value_of(name, shape):
    count = int(np.prod(shape))
    u = chaos(count, sum(name.encode()))
    name = name.replace("lambda1", "gamma")  # layer scale
    if name.endswith((".running_var", ".gamma", "layer_scale", "layer_scale_parameter")) or (
            name.endswith(".weight") and (len(shape) == 1 or shape[:3] == (1, 1, 1))):
        u = 0.75 + 0.25 * u
    elif name.endswith(".weight"):
        u = u * np.sqrt(6.0 / np.prod(shape[1:]))
    else:
        u = 0.1 * u
    return torch.from_numpy(u.reshape(shape))


def digest(text):
    """FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def published_state(model):
    """The state dict with the names of the files that the library writes."""
    if not hasattr(model, "save_pretrained"):
        return model.state_dict()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return safetensors.torch.load_file(folder + "/model.safetensors")


def set_weights(model):
    """Returns the model, and its tensors in the order of their names."""
    state = {key: value for key, value in published_state(model).items()
             if not key.endswith(("num_batches_tracked", "mask_token"))}
    values = {key: value_of(key, tuple(value.shape)) for key, value in state.items()}
    if not hasattr(model, "save_pretrained"):
        model.load_state_dict(values, strict=False)
        return model, sorted(state.items())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        safetensors.torch.save_file(values, folder + "/model.safetensors", metadata={"format": "pt"})
        return type(model).from_pretrained(folder, dtype=torch.float64).eval(), sorted(state.items())


def compute(model, image):
    interpolates = type(model).__name__ == "ViTForImageClassification"
    with torch.no_grad():
        result = model(image, interpolate_pos_encoding=True) if interpolates else model(image)
    return getattr(result, "logits", result)


def make_image(size):
    return torch.from_numpy(chaos(int(np.prod(size)), 7).reshape((1,) + size)).permute(0, 3, 1, 2)


def compute_gradients(model, image):
    torch.nn.functional.cross_entropy(model(image), torch.tensor([7])).backward()
    norms = sorted((name, float(parameter.grad.norm())) for name, parameter in model.named_parameters())
    return [float(f"{norm:.6g}") for _, norm in norms]


def make(case):
    variant, network = case.split()[1], CASES[case]
    model, state = set_weights(make_network(variant, network).double().eval())
    patch, size, sizes = patch_size(network), SIZE, {}
    if case in GRADIENTS:
        sizes["gradients"] = compute_gradients(model, make_image((6 * patch, 6 * patch, 3) if patch else SIZE))
    if patch:
        size = (4 * patch, 4 * patch if variant == "torchvision" else 7 * patch, 3)
        sizes.update({"image": list(size), "file_image": [6 * patch, 6 * patch, 3]})
        model = make_resized(model, variant, network, CLASSES, size)
    numbers = compute(model, make_image(size)).numpy().ravel()
    return {**sizes, "tensors": digest("".join(f"{key} {value.numel()}\n" for key, value in state)),
            "ranks": "".join(str(value.dim()) for _, value in state),
            "norm": float(np.linalg.norm(numbers)), "step": 1, "count": len(numbers),
            "features": [float(f"{v:.9g}") for v in numbers]}


def main():
    content = json.loads(FILE.read_text()) if FILE.exists() else {}
    content["about"] = "image and weights: see chaos() and value_of() of make_pytorch_features.py"
    content["image"] = list(SIZE)
    for case in sys.argv[1:] or CASES:
        content[case] = make(case)
        print(case, content[case]["norm"])
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    FILE.write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
