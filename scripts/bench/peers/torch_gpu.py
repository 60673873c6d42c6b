#!/usr/bin/env python3
"""The networks of scripts/bench/gpu in PyTorch on GPUs, as a careful user would write the loop: channels_last, autocast,
fused optimizers, non-blocking copies from pinned memory; plain, compiled (max-autotune), or the whole step captured in a
CUDA graph. With --ranks, a process a GPU with DistributedDataParallel. With --jpegs, batches come from a DataLoader over a
folder of a folder a class. --device cpu takes the same way through every mode but the captured one.

--case matmul measures the device's rate of matrix products instead, in FLOP a second.
See worker.py for the protocol; {"event":"measured"} also has the CPU time that a step took.
"""

import argparse
import os
import resource
import socket
import subprocess
import sys
import time

from worker import say

SHAPES = {"cnn": (1, 28, 28, 10), "vgg16": (3, 224, 224, 4), "mobilenet_v2": (3, 224, 224, 2), "resnet50": (3, 224, 224, 1000)}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=[*SHAPES, "matmul"], default="cnn")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--side", type=int, help="of images, in place of the case's")
    parser.add_argument("--precision", choices=("float32", "tf32", "bfloat16"), default="bfloat16")
    parser.add_argument("--mode", choices=("eager", "compile", "graph"), default="eager")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--jpegs", help="folder of images; numbers in memory when left out")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="of the DataLoader")
    return parser.parse_args()


options = arguments()

import torch  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402

RANK = int(os.environ.get("RANK", 0))


def join_ranks():
    """Starts the other ranks' processes from rank 0 and meets them."""
    if RANK == 0:
        with socket.create_server(("127.0.0.1", 0)) as free:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE=str(options.ranks))
        for other in range(1, options.ranks):
            subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(other)}, stdin=subprocess.DEVNULL)
        os.environ["RANK"] = "0"
    torch.distributed.init_process_group("nccl" if options.device == "cuda" else "gloo")


def make_model():
    if options.case == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10))
    if options.case == "vgg16":  # frozen: all before block5_conv1, Keras's layers[:-4]
        features = torchvision.models.vgg16(weights=None).features
        for parameter in features[:24].parameters():
            parameter.requires_grad_(False)
        return nn.Sequential(features, nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(512 * 7 * 7, 4))
    if options.case == "mobilenet_v2":
        return nn.Sequential(torchvision.models.mobilenet_v2(weights=None).features, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Linear(1280, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 1))
    model = torchvision.models.resnet50(weights=None)
    # ResNet v1, as in Keras and in the paper: torchvision has the stride in the 3x3 convolution.
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    return model


class Memory:
    """Batches of numbers in pinned host memory; bytes for the backbones, as images are."""

    def __init__(self, shape, binary):
        channels, side, _, classes = shape
        layout = torch.channels_last if channels > 1 else torch.contiguous_format
        self.images = [torch.randint(0, 256, (options.batch, channels, side, side), dtype=torch.uint8)
                       .contiguous(memory_format=layout) for _ in range(4)]
        if binary:
            self.labels = [torch.randint(0, 2, (options.batch, 1)).float() for _ in range(4)]
        else:
            self.labels = [torch.randint(0, classes, (options.batch,)) for _ in range(4)]
        if options.device == "cuda":
            self.images = [one.pin_memory() for one in self.images]
            self.labels = [one.pin_memory() for one in self.labels]
        self.next = 0

    def __call__(self):
        self.next = (self.next + 1) % len(self.images)
        return self.images[self.next], self.labels[self.next]


class Jpegs:
    """Batches of a folder's images, decoded and resized by worker processes, as bytes."""

    def __init__(self, side, binary):
        from torch.utils.data import DataLoader  # pylint: disable=import-outside-toplevel
        from torchvision import transforms  # pylint: disable=import-outside-toplevel
        data = torchvision.datasets.ImageFolder(options.jpegs, transforms.Compose(
            [transforms.Resize((side, side)), transforms.PILToTensor()]))
        if len(data) < options.batch:
            sys.exit(f"{options.jpegs} has {len(data)} images, fewer than a batch of {options.batch}")
        self.loader = DataLoader(data, options.batch, shuffle=True, num_workers=options.workers, drop_last=True,
                                 pin_memory=options.device == "cuda", persistent_workers=options.workers > 0)
        self.binary, self.batches = binary, iter(self.loader)

    def __call__(self):
        try:
            images, labels = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            images, labels = next(self.batches)
        return images, (labels % 2).float().unsqueeze(1) if self.binary else labels


class Step:
    """One training step, in the chosen mode."""

    def __init__(self, device):
        self.device = device
        torch.manual_seed(RANK)
        shape = SHAPES[options.case]
        side = options.side or shape[1]
        self.binary = options.case == "mobilenet_v2"
        self.model = make_model().to(device, memory_format=torch.channels_last).train()
        if options.case == "vgg16":
            self.model[0][:24].eval()
        if options.ranks > 1:
            self.model = nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True, static_graph=True)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        capturable = options.mode == "graph"
        if options.case == "resnet50":
            self.optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9, fused=True)
        else:
            self.optimizer = torch.optim.Adam(trained, lr=1e-4, eps=1e-7, fused=True, capturable=capturable)
        self.criterion = nn.BCEWithLogitsLoss() if self.binary else nn.CrossEntropyLoss()
        shape = (shape[0], side, side, shape[3])
        self.batches = Jpegs(side, self.binary) if options.jpegs else Memory(shape, self.binary)
        self.forward = self.loss_of
        if options.mode == "compile":
            self.forward = torch.compile(self.loss_of, mode="max-autotune" if device.type == "cuda" else "default")
        if options.mode == "graph":
            self.capture()

    def loss_of(self, images, labels):
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=options.precision == "bfloat16"):
            return self.criterion(self.model(images), labels)

    def work(self, images, labels):
        # Gray images have the CNN's one channel as bytes too.
        loss = self.forward(images.to(torch.float32, memory_format=torch.channels_last) / 255, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def capture(self):
        """The whole step in one graph, over fixed inputs: PyTorch's notes on CUDA graphs."""
        self.fixed = [one.to(self.device) for one in self.batches()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(11 if options.ranks > 1 else 3):
                self.work(*self.fixed)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.work(*self.fixed)

    def __call__(self):
        images, labels = self.batches()
        if options.mode == "graph":
            self.fixed[0].copy_(images, non_blocking=True)
            self.fixed[1].copy_(labels, non_blocking=True)
            self.graph.replay()
        else:
            self.work(images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True))


def synchronize():
    if options.device == "cuda":
        torch.cuda.synchronize()


def cpu_seconds():
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def run_steps(step, steps):
    """Rank 0 tells the others how far to go."""
    if options.ranks > 1:
        torch.distributed.broadcast(torch.tensor([steps], device=step.device), 0)
    for _ in range(steps):
        step()
    synchronize()


def serve(step):
    run_steps(step, 6)
    started = time.perf_counter()
    run_steps(step, 3)
    per_step = (time.perf_counter() - started) / 3
    say(event="ready", device=torch.cuda.get_device_name() if options.device == "cuda" else "cpu", torch=torch.__version__)
    for line in sys.stdin:
        chunk = max(1, round(0.2 / per_step))
        steps, started, cpu, elapsed = 0, time.perf_counter(), cpu_seconds(), 0.0
        while elapsed < float(line):
            run_steps(step, chunk)
            steps += chunk
            elapsed = time.perf_counter() - started
        say(event="measured", images_per_second=steps * options.batch * options.ranks / elapsed,
            cpu_seconds_per_step=(cpu_seconds() - cpu) / steps)


def serve_matmul(device):
    """FLOP a second of products of square matrices, the best of some sizes."""
    types = {"bfloat16": torch.bfloat16, "float32": torch.float32, "tf32": torch.float32}
    sizes = (4096, 8192) if device.type == "cuda" else (256, 512)
    matrices = {n: torch.randn(n, n, device=device, dtype=types[options.precision]) for n in sizes}
    say(event="ready")
    for line in sys.stdin:
        best = 0.0
        for n, a in matrices.items():
            torch.matmul(a, a)
            synchronize()
            steps, started, elapsed = 0, time.perf_counter(), 0.0
            while elapsed < float(line) / len(sizes):
                for _ in range(4):
                    torch.matmul(a, a)
                synchronize()
                steps += 4
                elapsed = time.perf_counter() - started
            best = max(best, steps * 2 * n**3 / elapsed)
        say(event="measured", flops_per_second=best)


def main():
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    if options.mode == "graph" and options.device == "cpu":
        sys.exit("a CUDA graph needs a GPU")
    if options.ranks > 1:
        join_ranks()
    device = torch.device(options.device, RANK) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision != "float32"
    if options.case == "matmul":
        return serve_matmul(device)
    step = Step(device)
    if RANK == 0:
        serve(step)
        if options.ranks > 1:
            torch.distributed.broadcast(torch.tensor([0], device=device), 0)
    else:
        steps = torch.tensor([1], device=device)
        while steps.item() > 0:
            torch.distributed.broadcast(steps, 0)
            for _ in range(int(steps.item())):
                step()
            synchronize()
    if options.ranks > 1:
        torch.distributed.destroy_process_group()
    return None


if __name__ == "__main__":
    main()
