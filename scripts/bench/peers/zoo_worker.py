"""What the peers of model_zoo share: their options, and worker.py's protocol by way of transfer_worker.py."""

import argparse
import os

CLASSES = 1000


def arguments(modes):
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True, help="the backbone, as the peer calls it")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--side", type=int, default=224, help="of the images in pixels")
    parser.add_argument("--predict", action="store_true", help="forward passes alone")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--model", help="an ONNX file")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--channels-last", action="store_true", help="layout (PyTorch)")
    parser.add_argument("--inter-op", type=int, default=1, help="operations side by side (Keras)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()
