"""Training steps against this machine's roofline: what it can compute, what its memory and second caches deliver, and each
layer's time against the longer of both. Nothing but trainer is measured, by `trainer profile` on all cores.

The limit of a layer is that of its operands read and written once; a Winograd convolution needs fewer operations than are
counted and may pass the peak, and what stays in a cache from one layer to the next may pass memory. Ends with
`ratio roofline_NAME VALUE`: the least time of all layers / the time of a step, the best of the rounds.
"""

import argparse
import os
import tempfile

from common import HERE, find_trainer, run_trainer, settings_of

CASES = {
    "cnn": ("cnn.yaml", 64, []),
    "vgg16": ("vgg16.yaml", 16, ["model.backbone.freeze=none"]),
    "mobilenet_v2": ("mobilenet_v2.yaml", 16, []),
    "resnet50": ("resnet50.yaml", 16, []),
}
SHORT = {"float32": "fp32", "bfloat16": "bf16"}


def has_bfloat16():
    with open("/proc/cpuinfo") as file:
        flags = file.read().split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def profile(trainer, case, precision, options):
    config, batch, settings = CASES[case]
    settings = [*settings, f"train.batch_size={options.batch or batch}", f"train.precision={precision}"]
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        arguments = ["--steps", str(options.steps), "--trace", trace, *settings_of(settings)]
        return next(e for e in run_trainer(trainer, "profile", HERE / config, *arguments) if e["event"] == "profile")


def seconds(row):
    return row["forward_seconds"] + row["backward_seconds"]


def share(event):
    return sum(row["least_seconds"] for row in event["rows"]) / event["step_seconds"]


def print_layers(event, count):
    """The rows that lose most against their limits, in the order of the step."""
    rows = event["rows"]
    shown = sorted(rows, key=lambda row: seconds(row) - row["least_seconds"], reverse=True)[:count]
    print(f"  {'layer':36} {'ms':>9} {'limit, ms':>9} {'share':>7} {'GFLOP/s':>8} {'GB/s':>7}")
    for row in rows:
        time = seconds(row)
        if row not in shown or time <= 0:
            continue
        reached = f"{100 * row['least_seconds'] / time:6.1f}%" if row["least_seconds"] > 0 else ""
        flops = f"{row['flops'] / time / 1e9:8.1f}" if row["flops"] else ""
        bandwidth = f"{row['bytes'] / time / 1e9:7.1f}" if row["bytes"] else ""
        print(f"  {row['name'][:36]:36} {1e3 * time:9.3f} {1e3 * row['least_seconds']:9.3f} {reached:>7} {flops:>8} {bandwidth:>7}")
    rest = [row for row in rows if row not in shown]
    print(f"  {f'{len(rest)} others':36} {1e3 * sum(map(seconds, rest)):9.3f} "
          f"{1e3 * sum(row['least_seconds'] for row in rest):9.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--case", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--precision", nargs="+", choices=sorted(SHORT), help="both where the processor has bfloat16, else float32")
    parser.add_argument("--batch", type=int, help="samples of a step; 64 of cnn and 16 of the others when left out")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=15, help="how many to show: those that lose most")
    options = parser.parse_args()
    trainer = find_trainer(options.trainer)
    precisions = options.precision or (["float32", "bfloat16"] if has_bfloat16() else ["float32"])
    if not options.precision and len(precisions) == 1:
        print("this processor has no bfloat16 arithmetic: float32 alone")

    table = []
    for case in options.case:
        for precision in precisions:
            best = max((profile(trainer, case, precision, options) for _ in range(options.rounds)), key=share)
            print(f"{case}, {precision}, batch {best['samples']}, {best['device']}:")
            print(f"  peak {best['peak_flops'] / 1e9:.0f} GFLOP/s, memory {best['memory_bandwidth'] / 1e9:.1f} GB/s, "
                  f"second caches {best['cache_bandwidth'] / 1e9:.0f} GB/s")
            print_layers(best, options.layers)
            table.append((case, precision, best["samples"] / best["step_seconds"], share(best)))
            print(flush=True)
    print(f"{'model':14} {'precision':9} {'images/s':>9} {'of limit':>9}")
    for case, precision, speed, reached in table:
        print(f"{case:14} {precision:9} {speed:9.1f} {100 * reached:8.1f}%")
    for case, precision, _, reached in table:
        print(f"ratio roofline_{case}_{SHORT[precision]} {reached:.2f}")


if __name__ == "__main__":
    main()
