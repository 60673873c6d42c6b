#!/usr/bin/env python3
"""symbols.py on small libraries. Usage: symbols_test.py COMPILER"""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).with_name("symbols.py")


def build(folder, compiler, functions):
    source, library = folder / "calls.c", folder / "calls.so"
    source.write_text("".join(f"extern void {f}(void);\n" for f in functions) +
                      "void call(void) {" + "".join(f"{f}();" for f in functions) + "}\n")
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


def check_provides(compiler):
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "fake.c"), pathlib.Path(folder, "fake.o")
        source.write_text("void cudaMalloc(void) {}\n")
        subprocess.run([compiler, "-x", "c", "-c", source, "-o", library], check=True)
        result = subprocess.run([sys.executable, SCRIPT, "--provides", library], capture_output=True, text=True)
    assert result.returncode == 1 and "no fake of cudaFree\n" in result.stderr, result
    assert "cudaMalloc\n" not in result.stderr, result


def check(compiler, functions, refused):
    with tempfile.TemporaryDirectory() as folder:
        library = build(pathlib.Path(folder), compiler, functions)
        result = subprocess.run([sys.executable, SCRIPT, library], capture_output=True, text=True)
    reported = [f for f in functions if f" needs {f}," in result.stderr]
    assert reported == refused, (functions, reported, result.stderr)
    assert result.returncode == (1 if refused else 0), (functions, result)


def main(compiler):
    check(compiler, ["cudaMalloc", "cudaGetDeviceProperties_v2", "ncclAllReduce", "cudnnBackendExecute",
                     "cublasLtMatmul", "__cudaRegisterFunction", "printed_by", "cut_here"], [])
    for function in ["cudaMallocManaged", "cudaDeviceSynchronize", "ncclSend", "cudnnConvolutionForward",
                     "cublasSgemm_v", "cuMemAlloc", "nvrtcCompileProgram"]:
        check(compiler, ["cudaMalloc", function], [function])
    check_provides(compiler)
    missing = subprocess.run([sys.executable, SCRIPT, "/nonexistent.so"], capture_output=True, text=True)
    assert missing.returncode == 1 and "nm cannot read" in missing.stderr, missing


if __name__ == "__main__":
    main(sys.argv[1])
