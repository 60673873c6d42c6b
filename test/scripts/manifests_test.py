"""scripts/cluster/check.py accepts each manifest of the folder and that of launch --print-job, and finds a mistake that is planted in
it."""

import pathlib
import subprocess
import sys
import tempfile

CLUSTER = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts/cluster"
# What is replaced, by what, and a part of the message.
MISTAKES = {
    "indexed_job.yaml": [("batch/v1\n", "batch/v2\n", "batch"), ("completionMode:", "completionmode:", "completionmode"),
                         ("  name: digits\nspec:\n  #", "  name: other\nspec:\n  #", "no service has the name digits")],
    "jobset.yaml": [("v1alpha2", "v1alpha1", "v1alpha1"), ("onExitCodes:", "onExitCode:", "onExitCode"),
                    ("subdomain: digits", "subdomain: other", "no service has the name digits")],
    "trainjob.yaml": [("kind: TrainJob\n", "kind: TrainJobs\n", "TrainJobs"), ("numNodes: 4", "numNode: 4", "numNode"),
                      ("runtimeRef: {name: image-trainer}", "runtimeRef: {name: other}", "no runtime has the name other")],
    "sweep.yaml": [("onExitCodes:", "onExitCode:", "onExitCode"), ("backoffLimitPerIndex:", "backoffLimitPerIndexes:", "backoffLimitPerIndexes"),
                   ('$1"\n          resources', '$1" --set parallel.require_cluster=true\n          resources', "parallel.require_cluster is not for a sweep")],
    "tfjob.yaml": [("secretKeyRef", "secretRef", "secretRef"), ("mountPath", "mount", "mount"),
                   ("persistentVolumeClaim: {claimName: trainer-job}", "emptyDir: {}", "persistentVolumeClaim is missing")],
}


sys.path.insert(0, str(CLUSTER))
import check  # noqa: E402


def main():
    assert set(MISTAKES) == {file.name for file in CLUSTER.glob("*.yaml")}, "each manifest has mistakes here"
    with tempfile.TemporaryDirectory() as folder:
        for name, mistakes in MISTAKES.items():
            text = (CLUSTER / name).read_text()
            assert check.mistakes_of(CLUSTER / name) == [], name
            for before, after, message in mistakes:
                assert before in text, f"{name}: {before!r} is not there"
                wrong = pathlib.Path(folder, name)
                wrong.write_text(text.replace(before, after))
                found = check.mistakes_of(wrong)
                assert any(message in mistake for mistake in found), f"{name} with {after!r}: {found}"
        printed = pathlib.Path(folder, "printed.yaml")
        options = ["--name", "a-1", "--image", 'r/t: "1"', "--claim", "c", "--secret", "s", "--queue", "q", "--folder", "/data: x"]
        for more in ([], options):
            command = [sys.argv[1], "launch", "-n", "12", "--print-job", "kubernetes", *more, "--", "train", "a.yaml", "--set", 'name="$(X)"']
            printed.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            assert check.mistakes_of(printed) == [], printed.read_text()


if __name__ == "__main__":
    main()
