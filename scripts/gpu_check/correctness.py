"""The steps that show whether results on the GPU are right."""

import csv
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import libraries
from check import ROOT, Failure, Skip, event
from sizes import RANKS

# Test cases of the CPU's kernels and of other backends.
OTHER_BACKENDS = ("recompute: several threads*", "AMX*", "Winograd*", "reference backend*", "arena*", "placement*",
                  "CPU program*", "Lowering*", "ProgramBuffers*", "make_pointers*", "find_bucket_ends*")
SKIPPED = 77  # exit code of a test program whose cases were all skipped
CASE_SECONDS = 150
FAR, WORST_CASES = 4, 10  # of the distances in the report


def machine(check):
    """What this machine is."""
    smi = ["nvidia-smi", "--query-gpu=name,uuid,driver_version,memory.total,power.limit,clocks.max.sm", "--format=csv,noheader"]
    lines = []
    for command in (["git", "rev-parse", "HEAD"], ["uname", "-srm"], smi):
        if shutil.which(command[0]):
            lines += check.try_command(command, 20).output.strip().splitlines()
    lines.append(f"plugin: {check.plugin}")
    lines += [f"libraries: {folder}" for folder in check.library_folders]
    return {"lines": lines}


def devices(check):
    """`trainer devices` finds GPUs."""
    found = json.loads(check.run([check.trainer, "devices", "--json"], 60))
    if not found["gpus"]:
        raise Failure(found["no_gpu"])
    return {"text": f"{len(found['gpus'])} found", "gpus": [gpu["name"] for gpu in found["gpus"]]}


def compare_properties(live, known):
    """Fields that differ, as text, and the names of those that are not known: newer versions of cuDNN have more. Left out: fields
    that depend on the machine and not on the model, and those that this version of cuDNN does not give."""
    own = {"pciDeviceId", "cudaDeviceId", "driverVer", "isTccDriver", "deviceName", "totalGlobalMem"}
    compared = sorted(live.keys() & known.keys() - own)
    return ([f"{key}: this GPU {live[key]}, expected {known[key]}" for key in compared if live[key] != known[key]],
            sorted(live.keys() - known.keys() - own))


def properties(check):
    """cuDNN's description of each GPU against the one that plans are tested with (lib/backend/gpu_model.cpp)."""
    program = check.build / "test/cuda/plans/cuda_device_properties"
    models = {model["deviceName"]: model for model in map(json.loads, check.run([program, "models"]).splitlines())}
    lines, wrong = [], []
    for index, name in enumerate(check.gpus):
        described = check.try_command([program, index])
        if described.code != 0 and name not in models:
            lines.append(f"{name}: no known model, and cuDNN does not describe it: {described.reason()}")
            continue
        if described.code != 0:
            raise Failure(f"cuDNN does not describe GPU {index}: {described.reason()}")
        live = json.loads(described.output)
        (check.out / f"gpu{index}_properties.json").write_text(json.dumps(live, indent=1) + "\n")
        if name not in models:
            lines.append(f"{name}: no known model; gpu{index}_properties.json has what one would need")
            continue
        different, unknown = compare_properties(live, models[name])
        lines.append(f"{name}: {'as expected' if not different else 'differs from what was expected'}")
        if unknown:
            lines.append(f"{name}: not compared, as plans are tested without them: {', '.join(unknown)}")
        wrong += different
    if wrong:
        raise Failure("the properties differ", wrong)
    return {"lines": lines}


def test_program(check, name):
    """The path of a test program."""
    path = check.build / "test" / name.removeprefix("test_") / name
    if not path.is_file():
        raise Failure(f"there is no {path}")
    return path


def pattern_of(case):
    """A case's name as doctest's filter; a comma would end the pattern."""
    return case.replace(",", "?")


def list_cases(check, program, cases, left_out):
    """The names of a program's test cases that the patterns select."""
    output = check.run([program, "--list-test-cases", f"--test-case={','.join(cases)}", f"--test-case-exclude={','.join(left_out)}"])
    names = [line for line in output.splitlines() if line and not line.startswith(("[doctest]", "===", "$ "))]
    if not names:
        raise Failure(f"{program.name} has no test case of {cases}")
    return names


def state_of(done):
    """What a test program's exit code means."""
    return {0: "passed", SKIPPED: "skipped"}.get(done.code, "failed")


def case_command(check, prefix, program, case, variables):
    """A test case in a process of its own, as a line for a shell."""
    names = {"TRAINER_TEST_BACKEND": "cuda", "TRAINER_CUDA_PLUGIN": check.plugin, **variables}
    words = [f"{name}={value}" for name, value in names.items()] + [*prefix, program, f"--test-case={pattern_of(case)}"]
    return shlex.join(map(str, words))


def missing_gpus(output):
    """The number of GPUs that a test case asked for in vain; 0 if it had all."""
    return max(map(int, re.findall(r"^\[needs (\d+) GPUs\]$", output, re.MULTILINE)), default=0)


def run_cases(check, name, cases, left_out=(), prefix=(), **variables):
    """Runs each test case in a process of its own, since an error of a kernel ends all later work of its process."""
    program = test_program(check, name)
    names = list_cases(check, program, cases, left_out)
    workers = max(1, min(12, (os.cpu_count() or 1) - 2))

    def run_case(number, case):
        if check.seconds_left(CASE_SECONDS) < 1:
            return None
        done = check.try_command([*prefix, program, f"--test-case={pattern_of(case)}"], CASE_SECONDS, f"{name}_{number:03}",
                                 TRAINER_TEST_BACKEND="cuda", **variables)
        if not check.stopped:
            check.note(case, state_of(done), seconds=round(done.seconds, 1))
        return done

    works = [lambda number=number, case=case: run_case(number, case) for number, case in enumerate(names)]
    done = check.run_side_by_side(works, workers)
    lines, counts = [], {"passed": 0, "skipped": 0, "failed": 0}
    not_run = [case for case, result in zip(names, done) if result is None]
    commands = [case_command(check, prefix, program, case, variables) + "  # no time was left" for case in not_run]
    if not_run:
        lines.append(f"{len(not_run)} cases were not run, as the step's time was over: {', '.join(not_run[:5])} ...")
    done = {case: result for case, result in zip(names, done) if result is not None}
    for case, result in done.items():
        state = state_of(result)
        counts[state] += 1
        if gpus := missing_gpus(result.output):
            commands.append(case_command(check, prefix, program, case, variables) + f"  # its cases of up to {gpus} GPUs")
        if state == "failed":
            lines.append(f"{case}: {result.reason()}")
    text = f"{name}: {counts['passed']} cases passed, {counts['skipped']} skipped, {counts['failed']} failed"
    slowest = sorted(done.items(), key=lambda pair: -pair[1].seconds)[:3]
    found = {"slowest": [f"{result.seconds:.1f} s: {case}" for case, result in slowest], "commands": commands}
    if lines or not counts["passed"]:
        raise Failure(text, lines, **found)
    return {"text": text, **found}


def read_distances(path):
    """The worst relative distance from the reference of each case and type, by a file that TRAINER_TEST_DISTANCES named."""
    worst = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        case, kind, _, distance, _ = line.split("\t")
        # A NaN is the worst.
        known, found = worst.get((case, kind), 0.0), float(distance)
        worst[case, kind] = known if math.isnan(known) or found <= known else found
    return worst


def compare_distances(here, fake):
    """The table of distances by type, and the cases that are farther from the reference than the fake's results."""
    lines = []
    for kind in sorted({kind for _, kind in here}):
        cases = {case: distance for (case, of), distance in here.items() if of == kind}
        case = max(cases, key=lambda name: (math.isnan(cases[name]), cases[name]))
        lines.append(f"{kind}: {len(cases)} cases, the worst distance {cases[case]:.1e}: {case}")
    if not fake:
        return [*lines, "there are no distances of the fake to compare with; scripts/package/bundle.sh makes them"]
    # Below this, a distance is of the last digits that the type has.
    floor = {"float32": 1e-7, "bfloat16": 1e-3, "float16": 1e-4}
    ratios = {key: here[key] / max(fake[key], floor[key[1]]) for key in here if key in fake}
    far = [key for key, ratio in ratios.items() if not ratio <= FAR]
    lines.append(f"{len(ratios)} of {len(here)} compared with the fake's: {len(far)} are more than {FAR} times as far")
    far.sort(key=lambda key: (math.isnan(ratios[key]), ratios[key]), reverse=True)
    return [*lines, *(f"{key[0]}, {key[1]}: {here[key]:.1e}, the fake {fake[key]:.1e}" for key in far[:WORST_CASES])]


def conformance(check):
    """Every op, gradient, update and precision against the double-precision reference, with the distance of each case and type."""
    path = check.log_folder / "distances.tsv"
    path.unlink(missing_ok=True)
    found = run_cases(check, "test_backend", check.size.conformance, (*OTHER_BACKENDS, *RANKS), TRAINER_TEST_DISTANCES=str(path))
    here = read_distances(path)
    if not here:
        raise Failure("no case wrote its distance")
    for (case, kind), distance in here.items():
        check.note(f"distance of {case}, {kind}", distance=distance)
    return {**found, "lines": compare_distances(here, read_distances(check.reference / "distances.tsv"))}


def engine(check):
    """Replicas, frozen layers and precisions of the engine, all replicas on one GPU."""
    return run_cases(check, "test_engine", check.size.engine, TRAINER_TEST_SHARED_GPU="1")


def ranks_shared(check):
    """Sums over ranks that share one GPU."""
    return run_cases(check, "test_backend", check.size.ranks, OTHER_BACKENDS, TRAINER_TEST_SHARED_GPU="1")


def need_gpus(check, count):
    """Skips the step where there are fewer GPUs."""
    if len(check.gpus) < count:
        raise Skip(f"needs {count} GPUs; this machine has {len(check.gpus)}")


def ranks(check):
    """Sums over ranks with one GPU each."""
    need_gpus(check, 2)
    return run_cases(check, "test_backend", check.size.ranks, OTHER_BACKENDS)


def sanitize(check, tool, cases, *options):
    """NVIDIA's compute-sanitizer on test cases."""
    program = libraries.find_sanitizer(ROOT)
    if program is None:
        raise Skip("there is no compute-sanitizer on PATH, in the CUDA Toolkit, among NVIDIA's wheels (pip install "
                   "nvidia-cuda-sanitizer-api) or in a bundle that was made with --sanitizer")
    return run_cases(check, "test_backend", cases, (*OTHER_BACKENDS, *RANKS),
                     (program, "--tool", tool, "--error-exitcode", "9", *options))


def sanitizer(check):
    """Accesses out of bounds or misaligned."""
    return sanitize(check, "memcheck", check.size.sanitized)


# The libraries' kernels are not checked: they are slow under these tools.
OWN_KERNELS = ("--kernel-name", "kernel_substring=trainer")


def racecheck(check):
    """Races of threads in shared memory."""
    return sanitize(check, "racecheck", check.size.raced, *OWN_KERNELS)


def synccheck(check):
    """Barriers that not all threads of a block reach."""
    return sanitize(check, "synccheck", check.size.raced, *OWN_KERNELS)


def config(check):
    """The config and settings of the trainings: those of the size, else MNIST, or the drawn digits without it."""
    settings = list(check.size.settings)
    if check.size.config:
        return ROOT / check.size.config, settings
    folder = os.environ.get("MNIST_DIR", ROOT / "datasets/mnist")
    name = "mnist" if pathlib.Path(folder).is_dir() else "digits"
    return ROOT / f"configs/{name}.yaml", settings


def config_without_length(check):
    """The same without the settings of the number of steps."""
    path, settings = config(check)
    return path, [setting for setting in settings if "max_steps" not in setting and "epochs" not in setting]


def as_options(settings):
    """--set arguments."""
    return [word for setting in settings for word in ("--set", setting)]


def train(check, path, name, *settings, limit=120, **variables):
    """The finished event of a run in a folder of its own."""
    output = check.run([check.trainer, "train", path, "--json", "--overwrite", "--run-dir", check.out / "runs" / name,
                        *as_options([*settings, "parallel.lr_scaling=none"])], limit, name, **variables)
    return event(output, "finished")


def accuracy_of(finished):
    """The best accuracy of a run over its splits."""
    return max((split.get("accuracy", 0.0) for split in finished["metrics"].values()), default=0.0)


def training(check):
    """A whole training without graphs, with them, in each precision, and on the CPU: accuracy and the parameters' checksum."""
    path, settings = config(check)
    wanted = check.size.accuracy
    lines, wrong = [], []
    gpu = ["parallel.device=cuda", "parallel.gpus=1"]
    runs = {"gpu_eager": gpu, "gpu": gpu, "gpu_again": gpu, "gpu_autotune": [*gpu, "parallel.autotune=true"],
            "gpu_tf32": [*gpu, "train.precision=tf32"], "gpu_bf16": [*gpu, "train.precision=bfloat16"],
            "gpu_fp16": [*gpu, "train.precision=float16"], "cpu": ["parallel.device=cpu", "parallel.gpus=0"]}
    hashes = {}
    for name, where in runs.items():
        graphs = "0" if name == "gpu_eager" else "1"
        try:
            finished = train(check, path, name, *settings, *where, TRAINER_CUDA_GRAPHS=graphs)
        except Failure as failure:
            wrong.append(f"{name}: {failure}")
            check.note(name, "failed")
            continue
        hashes[name] = finished["parameters_sha256"]
        gap = f", gap {1e6 * finished['gap_seconds']:.0f} us" if "gap_seconds" in finished else ""
        lines.append(f"{name}: accuracy {accuracy_of(finished):.4f}, {finished['images_per_second']:.0f} images/s{gap}")
        check.note(name, accuracy=accuracy_of(finished), images_per_second=finished["images_per_second"],
                   parameters_sha256=hashes[name])
        if accuracy_of(finished) < wanted:
            wrong.append(f"{name}: accuracy {accuracy_of(finished)}, expected {wanted} or more")
    if hashes.get("gpu") != hashes.get("gpu_again"):
        wrong.append("two runs of the same config ended with different parameters")
    if hashes.get("gpu") != hashes.get("gpu_eager"):
        wrong.append("runs with and without graphs ended with different parameters")
    if wrong:
        raise Failure(path.name, [*wrong, *lines])
    return {"lines": lines, "text": path.name}


def verify_resume(check):
    """A resumed run ends as a whole one does."""
    path, settings = config(check)
    check.run([check.trainer, "verify", "resume", path, "--steps", check.size.verify_steps,
               *as_options(["parallel.device=cuda", "parallel.gpus=1", *settings])], 100)
    return {}


def verify_replicas(check):
    """Replicas train as one does."""
    path, settings = config(check)
    need_gpus(check, 2)
    counts = [count for count in (1, 2, 4) if count <= len(check.gpus)]
    check.run([check.trainer, "verify", "replicas", path, "--steps", check.size.verify_steps, "--replicas",
               ",".join(map(str, counts)), *as_options(["parallel.device=cuda", *settings])], 100)
    return {}


# configs/guide_gpus.md: how the order of NCCL's sums is pinned.
PINNED = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_MIN_NCHANNELS": "2", "NCCL_MAX_NCHANNELS": "2"}


def two_runs(check):
    """Two equal trainings on all GPUs have the same bits where the order of NCCL's sums is pinned. Without that, the report says
    whether they do."""
    need_gpus(check, 2)
    path, settings = config_without_length(check)
    gpus, steps = len(check.gpus), check.size.verify_steps
    lines, equal = [], {}
    for way, variables in (("free", {}), ("pinned", PINNED)):
        hashes = [train(check, path, f"{way}_{run}", *settings, f"train.max_steps={steps}", "parallel.device=cuda",
                        f"parallel.gpus={gpus}", **variables)["parameters_sha256"] for run in (1, 2)]
        equal[way] = hashes[0] == hashes[1]
        check.note(way, "passed" if equal[way] else "differs", parameters_sha256=hashes)
        lines.append(f"{way}: {'the same bits' if equal[way] else 'different bits'}")
    text = f"{gpus} GPUs, {steps} steps"
    if not equal["pinned"]:
        raise Failure(f"{text}: pinned sums gave different bits", lines)
    return {"text": text, "lines": lines}


def resume_elsewhere(check):
    """A run begun on the GPU goes on on the CPU, and the other way round."""
    path, settings = config_without_length(check)
    places = {"gpu": ["parallel.device=cuda", "parallel.gpus=1"], "cpu": ["parallel.device=cpu", "parallel.gpus=0"]}
    first, last = check.size.verify_steps, 2 * check.size.verify_steps
    whole = train(check, path, "cpu_whole", *settings, *places["cpu"], f"train.max_steps={last}")
    expected = next(iter(whole["metrics"].values()))["loss"]
    losses = {}
    for begin, end in (("gpu", "cpu"), ("cpu", "gpu")):
        name = f"{begin}_then_{end}"
        train(check, path, name, *settings, *places[begin], f"train.max_steps={first}")
        output = check.run([check.trainer, "train", path, "--json", "--resume", "--run-dir", check.out / "runs" / name,
                            *as_options([*settings, *places[end], f"train.max_steps={last}", "parallel.lr_scaling=none"])], 100, name)
        finished = event(output, "finished")
        losses[name] = next(iter(finished["metrics"].values()))["loss"]
    text = ", ".join(f"{name}: loss {loss:.5f}" for name, loss in losses.items()) + f", CPU alone: {expected:.5f}"
    if any(abs(loss - expected) > 0.02 * expected for loss in losses.values()):
        raise Failure(text)
    return {"text": text}


def images(check):
    """A training on a few JPEG files, which the loader decodes and the GPU normalizes."""
    seeds = sorted((ROOT / "test/fuzz/seeds/jpeg").glob("*.jpg"))
    if not seeds:
        raise Skip(f"there is no JPEG file in {ROOT / 'test/fuzz/seeds/jpeg'}")
    folder = check.out / "images"
    for path in seeds:
        kind = folder / ("grey" if path.name.startswith("grey") else "colour")
        kind.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kind)
    config_path = check.out / "images.yaml"
    config_path.write_text("model: {layers: [conv: {filters: 4}, global_average_pool, dense: 2]}\n"
                           f"data: {{format: image_folder, path: {json.dumps(str(folder))}, resize: [32, 32]}}\n"
                           "optimizer: {sgd: {learning_rate: 0.01}}\n", encoding="utf-8")
    finished = train(check, config_path, "images", "train.max_steps=4", "train.batch_size=4", "parallel.device=cuda", "parallel.gpus=1")
    return {"text": f"{len(seeds)} files, {finished['images_per_second']:.0f} images/s"}


def telemetry(check):
    """The run's rows have utilisation, power and energy of each GPU, and the gap between steps."""
    path = check.out / "runs/gpu/metrics.csv"
    if not path.is_file():
        raise Skip("the training before did not end")
    with open(path, encoding="utf-8") as file:
        row = [row for row in csv.DictReader(file) if row["split"] == "train"][-1]
    keys = ("utilization", "power_watts", "temperature_celsius", "energy_joules")
    values = {key: row.get(f"gpu0_{key}", "") for key in keys}
    lines = ["gpu0: " + ", ".join(f"{key} {value or 'not given'}" for key, value in values.items())]
    if not values["utilization"] and not values["power_watts"]:
        raise Failure("metrics.csv has neither utilization nor power of gpu0", lines)
    if not row.get("gap_seconds"):
        raise Failure("metrics.csv has no gap_seconds", lines)
    return {"lines": lines, "text": f"gap between steps {1e3 * float(row['gap_seconds']):.3f} ms"}


def transfer(check):
    """MobileNetV2 with ImageNet's weights on cats and dogs, where both are."""
    data = pathlib.Path(os.environ.get("CATS_DOGS_DIR", ROOT / "datasets/cats_vs_dogs"))
    file = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"
    folders = [os.environ.get("WEIGHTS_DIR", ROOT / "weights"), ROOT / "weights", pathlib.Path.home() / ".keras/models"]
    if not data.is_dir():
        raise Skip(f"there is no {data}; datasets/cats_vs_dogs.sh downloads it")
    if not any((pathlib.Path(folder) / file).is_file() for folder in folders):
        raise Skip(f"there is no {file}; trainer weights mobilenet_v2 downloads it")
    finished = train(check, ROOT / "configs/cats_dogs_mobilenet_v2.yaml", "transfer", "train.precision=bfloat16")
    if accuracy_of(finished) < 0.95:
        raise Failure(f"accuracy {accuracy_of(finished)}, expected 0.95 or more")
    return {"text": f"accuracy {accuracy_of(finished):.4f}, {finished['images_per_second']:.0f} images/s"}


def large_tensors(check):
    """A training step whose largest tensor has more than 2^31 elements ends as that of two replicas which have half of it each."""
    case, batch, settings = check.size.large
    losses = []
    for replicas in (1, 2):
        finished = train(check, ROOT / f"scripts/bench/{case}.yaml", f"large_tensors_{replicas}", "train.max_steps=1", *settings,
                         "train.precision=bfloat16", f"train.batch_size={batch // replicas}", f"data.synthetic.train_samples={batch}",
                         "evaluate.batch_size=16", "parallel.device=cuda", f"parallel.gpus={[0] * replicas}",
                         TRAINER_CUDA_LARGE_TENSORS="1")
        losses.append(next(iter(finished["metrics"].values()))["loss"])
    text = f"{case}, {batch} samples: loss {losses[0]:.5f}, by halves {losses[1]:.5f}"
    if abs(losses[0] - losses[1]) > 0.02 * losses[1]:
        raise Failure(text)
    return {"text": text}


# Each step with its limit in seconds.
STEPS = [(machine, 60), (devices, 60), (properties, 60), (conformance, 240), (training, 150), (telemetry, 10), (images, 30),
         (verify_resume, 60), (verify_replicas, 60), (two_runs, 60), (resume_elsewhere, 60), (ranks_shared, 120), (ranks, 120),
         (engine, 120), (transfer, 120), (sanitizer, 120), (racecheck, 120), (synccheck, 120),
         (large_tensors, 120)]


def missing_gpu():
    """Why no GPU can be used on this machine; None where nvidia-smi lists one."""
    if not shutil.which("nvidia-smi"):
        return ("this machine has no nvidia-smi, so no NVIDIA driver: run this where a GPU is, or with --fake to see that the "
                "steps work")
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    if done.returncode != 0 or "GPU 0" not in done.stdout:
        return f"nvidia-smi lists no GPU: {(done.stdout + done.stderr).strip()}"
    return None
