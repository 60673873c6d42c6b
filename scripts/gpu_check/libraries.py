"""Folders of the libraries that the plugin loads: NVIDIA's Python wheels and the CUDA Toolkit."""

import glob
import pathlib
import sysconfig

TOOLKIT = ("/usr/local/cuda/lib64",)
WHEELS = ("cudnn", "cu13", "cublas", "cuda_runtime", "nccl")  # below nvidia/ in site-packages


def folders(build, fake):
    """Folders that exist, in the order in which the loader shall search them."""
    if fake:
        return [build / "test/cuda/fake_nvml/fake_nvml"]
    found = []
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for package in sorted(packages):
        found += [pathlib.Path(package) / "nvidia" / wheel / "lib" for wheel in WHEELS]
    found += map(pathlib.Path, TOOLKIT)
    return [folder for folder in found if folder.is_dir() and glob.glob(str(folder / "*.so*"))]
