"""GPUs that a process cannot use: those without kernels are left out and named, and a driver that does not start is explained.

    left_out_test.py TRAINER PLUGIN

The fake has no kernels for a GPU below compute capability 8.0 (test/cuda/fake_runtime/launch.cpp).
"""

import os
import subprocess
import sys
import tempfile

TRAINER, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
CONFIG = """
model: {layers: [conv: {filters: 4, activation: relu}, max_pool, flatten, dense: 3]}
data: {format: synthetic, synthetic: {shape: [8, 8, 1], classes: 3, train_samples: 32, test_samples: 16}}
optimizer: {sgd: {learning_rate: 0.05}}
train: {max_steps: 4, batch_size: 8}
"""
REASON = "GPU 0 (Fake CUDA device 0) is not used: it has compute capability 3.5, and the CUDA backend was built for 8.0,"


def run(code, *arguments, **variables):
    """Returns what the program prints, which must end with this exit code."""
    environment = dict(os.environ, TRAINER_CUDA_PLUGIN=PLUGIN, TRAINER_FAKE_CUDA_DEVICES="2", TRAINER_FAKE_CUDA_COUNT="1")
    environment.update({f"TRAINER_FAKE_CUDA_{name}": value for name, value in variables.items()})
    done = subprocess.run([TRAINER, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, f"{arguments} {variables}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def expect(text, *parts):
    for part in parts:
        assert part in text, f"expected {part}\n{text}"


def check_left_out(config, folder):
    def train(code, *settings, **variables):
        settings = [text for each in settings for text in ("--set", each)]
        return run(code, "train", config, "--overwrite", "--run-dir", os.path.join(folder, "run"), *settings, **variables)

    mixed = {"CAPABILITIES": "3.5,9.0"}
    expect(run(0, "devices", **mixed), REASON, "\nGPU 1: Fake CUDA device 1, compute capability 9.0")
    for settings in ([], ["parallel.gpus=1"], ["parallel.device=cuda"]):
        printed = train(0, *settings, **mixed)
        expect(printed, REASON, "fake cuda: contexts: 1\n")
        assert printed.count("is not used") == 1, printed
    printed = train(0, "parallel.gpus=[1]", **mixed)
    expect(printed, "fake cuda: contexts: 1\n")
    assert "is not used" not in printed, printed
    expect(train(4, "parallel.gpus=2", "parallel.lr_scaling=none", **mixed), "this machine has 1 GPU that can be used (" + REASON)
    expect(train(4, "parallel.gpus=[0]", **mixed), "there is no GPU 0 to use", REASON)
    old = {"CAPABILITIES": "7.5,7.0"}
    expect(run(0, "devices", **old), "no GPU: GPU 0 (Fake CUDA device 0) is not used: it has compute capability 7.5,")
    expect(train(0, **old), "parallel.device: auto uses the CPU: GPU 0 (", "compute capability 7.0", "fake cuda: contexts:\n")
    expect(train(4, "parallel.device=cuda", **old), "parallel.device: cuda: GPU 0 (Fake CUDA device 0) is not used:")


def check_start_errors(config):
    for error, name, remedy in (("802", "cudaErrorSystemNotReady", "nvidia-fabricmanager"),
                                ("803", "cudaErrorSystemDriverMismatch", "restart the machine"),
                                ("804", "cudaErrorCompatNotSupportedOnDevice", "LD_LIBRARY_PATH"),
                                ("999", "cudaErrorUnknown", "modprobe nvidia_uvm")):
        printed = run(0, "devices", FAIL=f"cudaGetDeviceCount:1:{error}")
        expect(printed, f"no GPU: the CUDA runtime cannot list the GPUs: {name}: ", remedy)
    # Creating the first context fails where another process has an exclusive GPU.
    printed = run(4, "benchmark", config, "--gpus", "1", FAIL="cudaStreamCreateWithFlags:1:46")
    expect(printed, "cudaErrorDevicesUnavailable: ", "`nvidia-smi -c DEFAULT`")


def main():
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG)
        check_left_out(config, folder)
        check_start_errors(config)


main()
