#!/usr/bin/env python3
"""The functions of CUDA, NCCL, cuDNN and cuBLASLt that the CUDA backend may call.

  symbols.py FILE...             fails if a shared library or an object file needs a function that is not on the list
  symbols.py --provides FILE...  fails if the static libraries together lack a function on the list

Each function on the list has a fake (test/cuda), so that what is called is also tested. Before adding one, add its
fake. An nm given by the environment variable NM is used.
"""
import os
import re
import subprocess
import sys

CUDART = """
GetDeviceCount SetDevice GetDevice GetDeviceProperties DeviceGetAttribute MemGetInfo Malloc Free HostAlloc FreeHost
MemcpyAsync MemsetAsync StreamCreateWithFlags StreamDestroy StreamSynchronize StreamQuery StreamWaitEvent
EventCreateWithFlags EventRecord EventQuery EventSynchronize EventElapsedTime EventDestroy StreamBeginCapture
StreamEndCapture GraphInstantiate GraphUpload GraphLaunch GraphDestroy GraphExecDestroy LaunchKernelExC FuncSetAttribute
GetLastError GetErrorName GetErrorString DriverGetVersion RuntimeGetVersion
"""
NCCL = """
GetUniqueId CommInitRankConfig CommGetAsyncError CommAbort CommDestroy AllReduce Broadcast AllGather GroupStart
GroupEnd GetLastError GetVersion GetErrorString
"""
CUDNN = """
Create Destroy SetStream BackendCreateDescriptor BackendDestroyDescriptor BackendSetAttribute BackendGetAttribute
BackendFinalize BackendExecute GetVersion GetLastErrorString GetErrorString
"""
CUBLASLT = """
Create Destroy MatmulDescCreate MatmulDescDestroy MatmulDescSetAttribute MatrixLayoutCreate MatrixLayoutDestroy
MatmulPreferenceCreate MatmulPreferenceDestroy MatmulPreferenceSetAttribute MatmulAlgoGetHeuristic Matmul
GetStatusName GetStatusString GetVersion
"""
# What nvcc puts into every object with kernels; the fake needs none of them.
NVCC = """
__cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary __cudaRegisterFunction
__cudaRegisterVar __cudaInitModule __cudaPushCallConfiguration __cudaPopCallConfiguration __cudaGetKernel
__cudaLaunchKernel
"""


def names(prefix, text):
    return {prefix + name for name in text.split()}


LISTED = names("cuda", CUDART) | names("nccl", NCCL) | names("cudnn", CUDNN) | names("cublasLt", CUBLASLT)
ALLOWED = LISTED | names("", NVCC)
# cuda, cudnn, cublas, nccl; the driver's cu followed by a capital; other libraries of the toolkit.
VENDOR = re.compile(r"^(__cuda|cuda|cudnn|cublas|p?nccl|nvrtc|nvJitLink|curand|cufft|cusolver|cusparse|cu[A-Z])")


def base_name(symbol):
    """cudaGetDeviceProperties_v2@libcudart.so.12 is cudaGetDeviceProperties."""
    return re.sub(r"(_v\d+|_pts[dz])+$", "", symbol.split("@")[0])


def symbols(path, *options):
    result = subprocess.run([os.environ.get("NM", "nm"), *options, path], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"symbols.py: nm cannot read {path}: {result.stderr.strip()}")
    lines = (line.split() for line in result.stdout.splitlines())
    return {base_name(words[-1]) for words in lines if len(words) >= 2}


def check_needed(path):
    options = ["--undefined-only"] if path.endswith(".o") else ["-D", "--undefined-only"]
    needed = {name for name in symbols(path, *options) if VENDOR.match(name)}
    return [f"{path} needs {name}, which is not on the list of {__file__}: use a function that is, or add it with its fake"
            for name in sorted(needed - ALLOWED)]


def check_provided(paths):
    provided = set().union(*(symbols(path, "--defined-only") for path in paths))
    return [f"{' and '.join(paths)} hold no fake of {name}" for name in sorted(LISTED - provided)]


def main(arguments):
    provides = arguments[:1] == ["--provides"]
    paths = arguments[1:] if provides else arguments
    if not paths or any(path.startswith("-") for path in paths):
        sys.exit(__doc__)
    problems = check_provided(paths) if provides else [p for path in paths for p in check_needed(path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
