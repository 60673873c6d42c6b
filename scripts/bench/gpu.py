"""Training images/second on GPUs: trainer and PyTorch in one run on this machine.

Cases: the article's CNN, VGG16 as article Z retrains it, MobileNetV2 and ResNet50 trained whole. Each on numbers in memory and,
with --jpegs FOLDER (a folder a class), from JPEG files; on 1, 2, ... GPUs up to --gpus. PyTorch runs channels_last with autocast and
is probed plain, compiled with max-autotune, and captured in a CUDA graph; its best mode is measured in rounds that alternate with
trainer. Also printed: the share of the measured rate of matrix products that a step's arithmetic reaches, the gap between steps on
the device, energy per image, and the CPU time of a step. Ends with `ratio NAME VALUE`: ours / PyTorch's best, medians.

Needs a GPU. --device cpu runs the same steps on the CPU, which shows that the script works and nothing about GPUs.
--device fake does so with trainer on the tests' fake GPUs (TRAINER_CUDA_PLUGIN names the library), without PyTorch.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from common import HERE, Peer, events, fastest, find_trainer, settings_of

CASES = ("cnn", "vgg16", "mobilenet_v2", "resnet50")
BATCHES = {"cnn": 1024, "vgg16": 64, "mobilenet_v2": 256, "resnet50": 256}
SHORT = {"float32": "fp32", "bfloat16": "bf16"}


def gpu_peer(**options):
    """One warm process of PyTorch."""
    return Peer("torch", what="gpu", **options)


def gpu_count(trainer):
    """How many GPUs trainer can use; ends with the reason when there is none."""
    done = subprocess.run([trainer, "devices", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{trainer} devices failed ({done.returncode}):\n{done.stderr}")
    devices = json.loads(done.stdout)
    if not devices["gpus"]:
        sys.exit(f"scripts/bench/gpu needs a GPU: {devices['no_gpu']}. To see that the script works, give --device cpu")
    return len(devices["gpus"])


class Case:
    """One network at one batch size, precision, source and number of GPUs."""

    def __init__(self, name, precision, gpus, jpegs, options):
        self.name, self.precision, self.gpus, self.jpegs, self.options = name, precision, gpus, jpegs, options
        self.batch = options.batch or BATCHES[name]

    def title(self):
        return f"gpu{self.gpus}_{self.name}_{SHORT[self.precision]}_{'jpeg' if self.jpegs else 'synthetic'}"

    def config(self, folder):
        """The bench config; from JPEGs, the same with the folder's images and classes."""
        settings = [f"train.batch_size={self.batch}", f"train.precision={self.precision}", "parallel.lr_scaling=none"]
        if self.options.device == "cpu":
            settings += ["parallel.device=cpu", f"parallel.replicas={self.gpus}"]
        else:
            settings += ["parallel.device=cuda", f"parallel.gpus={self.gpus}"]
        side = self.options.side
        if side and self.name != "cnn":
            settings += [f"model.input=[{side},{side},3]", f"data.synthetic.shape=[{side},{side},3]"]
        settings.append(f"data.synthetic.train_samples={max(4 * self.batch * self.gpus, 64)}")
        source = HERE / f"{self.name}.yaml"
        if not self.jpegs:
            return source, settings
        classes = sorted(path.name for path in pathlib.Path(self.jpegs).iterdir() if path.is_dir())
        text = source.read_text()
        data = text[text.index("data:\n"):text.index("optimizer:")]
        text = text.replace(data, f"data:\n  format: image_folder\n  train: {{path: {json.dumps(str(self.jpegs))}}}\n"
                                  f"  validation_split: 0\n")
        text = text.replace("    - dense: 1000\n", f"    - dense: {len(classes)}\n").replace(
            "    - dense: {units: 4}\n", f"    - dense: {{units: {len(classes)}}}\n")
        path = pathlib.Path(folder) / f"{self.name}.yaml"
        path.write_text(text)
        return path, [one for one in settings if not one.startswith("data.synthetic")]

    def peer(self, mode):
        return gpu_peer(case=self.name, device=self.options.device, batch=self.batch, mode=mode, ranks=self.gpus,
                        side=self.options.side if self.name != "cnn" else None, jpegs=self.jpegs,
                        precision="bfloat16" if self.precision == "bfloat16" else "float32")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return list(events(done.stdout))


def measured_speed(trainer, case, folder):
    config, settings = case.config(folder)
    found = run([trainer, "benchmark", config, "--json", "--seconds", str(case.options.seconds), *settings_of(settings)])
    return next(event for event in found if event["event"] == "benchmark")["images_per_second"]


def measured_run(trainer, case, folder):
    """A whole training's end, and the CPU seconds of one of its steps: of a longer run less those of a shorter one."""
    config, settings = case.config(folder)
    used = []
    for steps in (case.options.steps, 3 * case.options.steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_folder = f"{folder}/{case.title()}_{steps}"
        found = run([trainer, "train", config, "--json", "--run-dir", run_folder, "--overwrite",
                     *settings_of([*settings, f"train.max_steps={steps}"])])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    finished = next(event for event in found if event["event"] == "finished")
    return finished, max(0.0, used[1] - used[0]) / (2 * case.options.steps)


def flops_per_image(trainer, case, folder):
    config, settings = case.config(folder)
    plan = next(event for event in run([trainer, "plan", config, "--json", *settings_of(settings)]) if "flops_per_step" in event)
    return plan["flops_per_step"] / (case.batch * case.gpus)


def matrix_rate(options, precision):
    peer = gpu_peer(case="matmul", device=options.device, precision="bfloat16" if precision == "bfloat16" else "float32")
    peer.wait_for("ready")
    rate = peer.ask(options.seconds)["flops_per_second"]
    peer.close()
    return rate


def best_peer(case):
    """The process at the fastest mode."""
    modes = ("eager", "compile", "graph") if case.options.device == "cuda" else ("eager", "compile")
    best = fastest((case.peer(mode) for mode in case.options.modes or modes), case.options.probe_seconds)
    if best is None:
        sys.exit(f"PyTorch could not be measured on {case.title()}")
    return best


def spread(name, values):
    print(f"  {name:8} {statistics.median(values):9.1f} images/s  (lowest {min(values):.1f}, highest {max(values):.1f}, "
          f"{len(values)} rounds)", flush=True)


def compare(trainer, case, rate, folder):
    """Prints a case's figures; returns them."""
    print(f"{case.title()}, batch {case.batch} a GPU:", flush=True)
    peer = None if case.options.device == "fake" or case.options.no_peer else best_peer(case)
    ours, theirs, their_cpu = [], [], []
    for _ in range(case.options.rounds):
        ours.append(measured_speed(trainer, case, folder))
        if peer:
            found = peer.ask(case.options.seconds)
            theirs.append(found["images_per_second"])
            their_cpu.append(found["cpu_seconds_per_step"])
    if peer:
        peer.close()
    finished, cpu = measured_run(trainer, case, folder)
    spread("trainer", ours)
    figures = {"case": case.title(), "batch": case.batch, "images_per_second": statistics.median(ours), "cpu_seconds_per_step": cpu,
               "parameters_sha256": finished["parameters_sha256"]}
    for key in ("gap_seconds", "joules_per_image"):
        if key in finished:
            figures[key] = finished[key]
    if theirs:
        spread("PyTorch", theirs)
        figures["torch_images_per_second"] = statistics.median(theirs)
        figures["torch_cpu_seconds_per_step"] = statistics.median(their_cpu)
    if rate:
        flops = flops_per_image(trainer, case, folder) * figures["images_per_second"] / case.gpus
        figures["matrix_share"] = flops / rate
        print(f"  {flops / 1e12:.2f} TFLOP/s a GPU, {100 * flops / rate:.0f} % of the measured {rate / 1e12:.2f} of matrix products")
    gap = f"{1e3 * figures['gap_seconds']:.3f} ms" if "gap_seconds" in figures else "not measured on this device"
    theirs_cpu = f" (PyTorch {1e3 * figures['torch_cpu_seconds_per_step']:.2f})" if theirs else ""
    print(f"  gap between steps: {gap}; CPU time of a step: {1e3 * cpu:.2f} ms{theirs_cpu}", flush=True)
    return figures


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", help="the binary; $TRAINER or build/release's when left out")
    parser.add_argument("--device", choices=("cuda", "cpu", "fake"), default="cuda")
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--precision", nargs="+", choices=sorted(SHORT), default=["bfloat16"])
    parser.add_argument("--gpus", type=int, help="the most GPUs; all when left out")
    parser.add_argument("--batch", type=int, help="of each GPU, in place of the case's")
    parser.add_argument("--side", type=int, help="of images, in place of 224")
    parser.add_argument("--jpegs", help="folder of JPEG files, a folder a class; measured besides numbers in memory")
    parser.add_argument("--modes", nargs="+", choices=("eager", "compile", "graph"), help="of PyTorch; all when left out")
    parser.add_argument("--no-peer", action="store_true", help="trainer alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each in each round")
    parser.add_argument("--probe-seconds", type=float, default=3.0)
    parser.add_argument("--steps", type=int, default=50, help="of the trainings that gap and CPU time are taken from")
    parser.add_argument("--json", help="file that all figures are written to")
    return parser.parse_args()


def main():
    options = parse_arguments()
    trainer = find_trainer(options.trainer)
    if options.jpegs and not os.path.isdir(options.jpegs):
        sys.exit(f"--jpegs: there is no folder {options.jpegs}")
    gpus = 1 if options.device == "cpu" else gpu_count(trainer)
    gpus = min(gpus, options.gpus or gpus) if options.device != "cpu" else options.gpus or 1
    all_figures, counts = [], sorted({1, *(2**i for i in range(1, 8) if 2**i <= gpus), gpus})
    with tempfile.TemporaryDirectory() as folder:
        for precision in options.precision:
            rate = None if options.device == "fake" or options.no_peer else matrix_rate(options, precision)
            for name in options.case:
                sources = [None] + ([options.jpegs] if options.jpegs and name != "cnn" else [])
                for jpegs in sources:
                    for count in counts:
                        all_figures.append(compare(trainer, Case(name, precision, count, jpegs, options), rate, folder))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"device": options.device, "figures": all_figures}, indent=1) + "\n")
    for figures in all_figures:
        if "torch_images_per_second" in figures:
            print(f"ratio {figures['case']} {figures['images_per_second'] / figures['torch_images_per_second']:.2f}")


if __name__ == "__main__":
    main()
