"""The libraries that stand for the GPU: NVIDIA's, or the fakes of the tests."""

import glob
import os
import pathlib
import shutil
import sysconfig

TOOLKIT = ("/usr/local/cuda/lib64",)
WHEELS = ("cudnn", "cu13", "cublas", "cuda_runtime", "nccl")  # below nvidia/ in site-packages
FAKE_GPUS = "4"


def folders():
    """Folders with libraries that the plugin loads, in the order in which the loader shall search them."""
    found = []
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for package in sorted(packages):
        found += [pathlib.Path(package) / "nvidia" / wheel / "lib" for wheel in WHEELS]
    found += map(pathlib.Path, TOOLKIT)
    return [folder for folder in found if folder.is_dir() and glob.glob(str(folder / "*.so*"))]


def find_sanitizer(root):
    """NVIDIA's compute-sanitizer: of PATH, the toolkit, the wheel nvidia-cuda-sanitizer-api, or a bundle. None without one."""
    wheels = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), root / "sanitizer"]
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
              *(pathlib.Path(wheel) / "nvidia/cu13/bin/compute-sanitizer" for wheel in wheels)]
    return next((str(place) for place in places if place and os.access(place, os.X_OK)), None)


def add_to(variable, folder):
    """Puts a folder in front of those that an environment variable lists."""
    os.environ[variable] = ":".join(filter(None, [str(folder), os.environ.get(variable)]))


def select_fake_gpus(root, build):
    """Makes the tests' plugin, NVML and nvidia-smi those that this process and its commands find. Nothing else differs from a run on
    a GPU."""
    os.environ["TRAINER_CUDA_PLUGIN"] = str(build / "test/cuda/plugin/libtrainer_cuda_fake.so")
    os.environ.setdefault("TRAINER_FAKE_CUDA_DEVICES", FAKE_GPUS)
    os.environ["TRAINER_GPU_CHECK"] = "0"
    add_to("LD_LIBRARY_PATH", build / "test/cuda/fake_nvml/fake_nvml")
    add_to("PATH", root / "test/cuda/gpu_check/bin")
