"""The steps that measure: the machine's ceilings, trainer, and PyTorch in the same shapes."""

import os
import shlex
import sys

from check import ROOT, Failure, Skip, event
from correctness import as_options, train

BENCH = ROOT / "scripts/bench"
PYTHON = os.environ.get("TRAINER_BENCH_PYTHON", sys.executable)  # of PyTorch
MODES = ("eager", "graph", "compile")
WORST_LAYERS = 10


def make_settings(batch, *more):
    """Settings of a config of scripts/bench: bfloat16 on one GPU. The images are four batches of numbers in memory."""
    return [f"train.batch_size={batch}", "train.precision=bfloat16", "parallel.device=cuda", "parallel.gpus=1",
            f"data.synthetic.train_samples={max(4 * batch, 64)}", "run.checkpoint_every=1000000 steps", *more]


def need_torch(check):
    """Skips the step where PyTorch cannot use a GPU."""
    probe = check.try_command([PYTHON, "-c", "import torch; torch.cuda.init()"], 60, "torch_probe")
    if probe.code != 0:
        raise Skip(f"PyTorch of {PYTHON}, which TRAINER_BENCH_PYTHON names, cannot use a GPU here: {probe.reason()}")


def ceilings(check):
    """The rate of copies and of bfloat16 matrix products on random data, by PyTorch."""
    need_torch(check)
    code = """
import torch
def seconds(work, count):
    work(); torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count): work()
    end.record(); torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / count
a = torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16)
b = torch.empty(2**30, device='cuda'); c = torch.empty_like(b)
print(torch.__version__, torch.backends.cudnn.version())
print('bf16 matrix product %.0f TFLOP/s' % (2 * 8192**3 / seconds(lambda: a @ a, 30) / 1e12))
print('copy %.2f TB/s read and written' % (2 * 4 * 2**30 / seconds(lambda: c.copy_(b), 20) / 1e12))
"""
    return {"text": " | ".join(check.run([PYTHON, "-c", code], 60).splitlines()[-3:])}


def short(case, batch):
    """A case's name in the report."""
    return f"{case}_{batch}"


def measure(check, case, batch):
    """Images per second of `trainer benchmark`, and of the training loop, with the gap between its steps."""
    lines, found = [], {}
    ways = {"": [], "autotune": ["parallel.autotune=true"]}
    for way, more in ways.items():
        settings = make_settings(batch, *more)
        name = f"{short(case, batch)}{'_' if way else ''}{way}"
        output = check.run([check.trainer, "benchmark", BENCH / f"{case}.yaml", "--json", "--seconds", check.size.benchmark_seconds,
                            *as_options(settings)], 90, name)
        found[name] = {"benchmark": event(output, "benchmark")["images_per_second"]}
        finished = train(check, BENCH / f"{case}.yaml", name, *settings, f"train.max_steps={check.size.steps(batch)}", limit=90)
        found[name].update({key: finished[key] for key in ("images_per_second", "gap_seconds", "joules_per_image") if key in finished})
        lines.append(f"{name}: " + ", ".join(f"{key} {value:.6g}" for key, value in found[name].items()))
        check.note(name, **found[name])
    return {"lines": lines, "figures": found}


def profile(check, case, batch):
    """Where the device time of a step goes, by layer."""
    path = BENCH / f"{case}.yaml"
    settings = as_options(make_settings(batch))
    trace = check.out / f"trace_{short(case, batch)}.json"
    name = f"profile_{short(case, batch)}"
    output = check.run([check.trainer, "profile", path, "--steps", "5", "--trace", trace, "--overwrite", "--json", *settings], 90, name)
    measured = event(output, "profile")
    model = plan_model(check)
    planned = check.reference / plan_name(model, case, batch)
    plan = (planned.read_text(encoding="utf-8") if planned.is_file() else
            check.run([check.trainer, "plan", path, "--device", model, "--json", *settings], 90, f"plan_{short(case, batch)}"))
    predicted = event(plan, "plan")["gpu"]["predicted"]
    step, floor = measured["loop_seconds"], predicted["step_seconds"][0]
    text = (f"{1e3 * step:.3f} ms per step, at least {1e3 * floor:.3f} on a {model}: {100 * floor / step:.1f} % of the limit; the whole "
            f"table is in {name}.log")
    return {"text": text, "lines": worst_layers(measured["rows"], predicted["layers"])[:WORST_LAYERS]}


def plan_name(model, case, batch):
    """The file of a bundle with the plan of a training."""
    return f"plan_{model}_{short(case, batch)}.json"


def plan_model(check):
    """The model of a GPU that `plan --device` knows: that of the first GPU, or the H100."""
    names = " ".join(check.gpus[:1]).lower()
    return next((model for model in ("a100", "h200", "b200") if model in names), "h100")


def worst_layers(rows, planned):
    """Layers by the time that they take beyond the plan's floor, the worst first."""
    floors = {layer["name"]: layer["forward_seconds"][0] + layer["backward_seconds"][0] for layer in planned}
    beyond = []
    for row in rows:
        seconds, floor = row["forward_seconds"] + row["backward_seconds"], floors.get(row["name"])
        if row["layer"] and floor and seconds > 0:
            beyond.append((seconds - floor, f"{row['name']}: {1e6 * seconds:.1f} us, at least {1e6 * floor:.1f}: "
                                            f"{100 * floor / seconds:.0f} % of the limit; {row['implementations']}"))
    return [text for _, text in sorted(beyond, reverse=True)]


class Peer:
    """PyTorch's process at one mode, by the protocol of scripts/bench/peers/worker.py."""

    def __init__(self, check, case, batch, mode):
        self.check = check
        self.command = [PYTHON, BENCH / "peers/torch_gpu.py", "--case", case, "--batch", str(batch), "--mode", mode,
                        "--precision", "bfloat16"]

    def measure(self, seconds, limit):
        """Images per second."""
        script = f"echo {seconds} | {shlex.join(map(str, self.command))}"
        output = self.check.run(["bash", "-c", script], limit, "torch")
        return event(output, "measured")["images_per_second"]


def peers(check, case, batch):
    """PyTorch's images per second, eager, as a graph and compiled."""
    need_torch(check)
    found, lines = {}, []
    for mode in check.options.modes:
        try:
            found[mode] = Peer(check, case, batch, mode).measure(2, 150 if mode == "compile" else 60)
            lines.append(f"PyTorch {mode}: {found[mode]:.1f} images/s")
            check.note(mode, images_per_second=found[mode])
        except Failure as failure:
            lines.append(f"PyTorch {mode}: {failure}")
            check.note(mode, "failed")
    ours = max((figures["benchmark"] for step in check.steps() for name, figures in step.get("figures", {}).items()
                if name.startswith(short(case, batch)) and "benchmark" in figures), default=None)
    if ours and found:
        lines.append(f"ratio gpu1_{short(case, batch)}_bf16 {ours / max(found.values()):.2f}")
    return {"lines": lines, "torch": found}


def steps_of(work, cases, limit):
    """A step for each case."""
    return [(f"{work.__name__}_{short(*case)}", lambda check, case=case: work(check, *case), limit) for case in cases]
