#!/usr/bin/env python3
"""Writes cuDNN's descriptions of GPUs, by which it plans for a device that is not there.

The fields are those that cuDNN reads from CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, listed in openxla/xla's
xla/backends/gpu/target_config/cudnn_device_props.cc; the numbers are those of the data sheets and of XLA's
xla/backends/gpu/target_config/specs. memoryBusWidth is needed from cuDNN 9.28 on.

    test/cuda/plans/make_device_properties.py     writes test/cuda/plans/devices/*.json
"""

import json
import pathlib

# name: compute capability * 100, multiprocessors, shared memory of a block after opt-in, device memory in bytes,
# clock in kHz, L2 cache in bytes, memory clock in kHz, memory bus in bits, name
DEVICES = {
    "a100": (800, 108, 166912, 85100068864, 1410000, 41943040, 1593000, 5120, "NVIDIA A100-SXM4-80GB"),
    "h100": (900, 132, 232448, 84942979072, 1980000, 52428800, 2619000, 5120, "NVIDIA H100 80GB HBM3"),
    "h200": (900, 132, 232448, 151397597184, 1980000, 52428800, 3201000, 6144, "NVIDIA H200"),
    "b200": (1000, 148, 232448, 191514411008, 1965000, 132644864, 3996000, 8192, "NVIDIA B200"),
}


def properties(version, processors, shared, memory, clock, cache, memory_clock, bus, name):
    return {
        "deviceVer": version,
        "multiProcessorCount": processors,
        "warpSize": 32,
        "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": shared,
        "reservedSharedMemoryPerBlock": 1024,
        "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerSM": 2048,
        "regsPerBlock": 65536,
        "totalGlobalMem": memory,
        "smClockRateKHz": clock,
        "l2CacheSize": cache,
        "maxBlockSize": [1024, 1024, 64],
        "memClockRateKHz": memory_clock,
        "memoryBusWidth": bus,
        "maxGridSize": [2147483647, 65535, 65535],
        "supportCoopLaunch": 1,
        "pciDeviceId": 0,
        "isTccDriver": 0,
        "cudaDeviceId": 0,
        "driverVer": 13000,
        "deviceName": name,
    }


def main():
    folder = pathlib.Path(__file__).parent / "devices"
    folder.mkdir(exist_ok=True)
    for name, numbers in DEVICES.items():
        (folder / f"{name}.json").write_text(json.dumps(properties(*numbers), indent=1) + "\n")


if __name__ == "__main__":
    main()
