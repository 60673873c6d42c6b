"""torchvision's ImageFolder and DataLoader. Each line on standard input is a number of seconds to measure; answers with images/second as JSON."""

import argparse
import json
import sys
import time

import torch
from torchvision import datasets, transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transform = transforms.Compose(
        [
            transforms.Resize((options.size, options.size), antialias=True),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    dataset = datasets.ImageFolder(options.folder, transform)
    # Epochs without a seam: samples are drawn with replacement, more than any measurement takes.
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=10_000_000)
    loader = torch.utils.data.DataLoader(dataset, options.batch, sampler=sampler, num_workers=options.workers, prefetch_factor=4)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    for line in sys.stdin:
        seconds, images, start = float(line), 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            images += len(next(batches)[1])
        print(json.dumps({"images_per_second": images / (time.perf_counter() - start)}), flush=True)


if __name__ == "__main__":
    main()
