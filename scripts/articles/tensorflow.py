"""MNIST with one and two workers that TF_CONFIG names, in step."""

import json
import os
import socket
import subprocess
import sys

from article import CONFIGS, Article, Published, ratio


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main():
    article = Article("tensorflow", "MultiWorkerMirroredStrategy: MNIST with 2 workers of localhost")
    mnist = article.digits_like("MNIST", "MNIST_DIR", "mnist")
    epochs = 1 if article.quick else article.length(3)
    config = CONFIGS / "mnist.yaml"
    settings = [*mnist, f"train.epochs={epochs:g}", "train.batch_size=64"]
    published = Published(text="converges; the workers' variables are equal")
    single = article.train("1-worker", config, [*settings, *article.replicas(1)], Published())
    rows = {}
    for collective in ("auto", "ring"):
        rows[collective] = article.train(
            f"2-workers-{collective}", config, [*settings, f"parallel.collective={collective}"], published, ("-n", "2"))
    article.train("2-workers-own-shuffle", config, [*settings, "parallel.shard=off"],
                  Published(text="or shuffles of all data with distinct seeds"), ("-n", "2"))
    article.train("2-workers-train-only", config, [*settings, "parallel.evaluate=false"],
                  Published(text="train_distribute without eval_distribute"), ("-n", "2"))
    # With sums in one order, 2 workers of 64 have the bits of 1 worker of 128: their variables are equal, and right.
    exact = [*mnist, "train.max_steps=20", "parallel.reduction=ordered", "run.evaluate_every=1000 epochs"]
    large = article.train("1-worker-exact", config, [*exact, *article.replicas(1), "train.batch_size=128"], Published())
    both = article.train("2-workers-exact", config, [*exact, "train.batch_size=64"], published, ("-n", "2"))
    hashes = by_tf_config(article, config, exact)
    article.finish(
        "2 processes of one machine (localhost:12345, localhost:23456)",
        [
            f"2 workers give {ratio(single, rows['auto'], 'images_per_second')} the images/s of 1, and ring "
            f"{ratio(rows['auto'], rows['ring'], 'images_per_second')} those of auto",
            "ordered sums: parameters of 2 workers of 64 "
            + ("equal" if large["parameters_sha256"] == both["parameters_sha256"] else "DIFFER FROM")
            + " those of 1 worker of 128, bit for bit",
            "started by hand with the article's TF_CONFIG (free ports in place of its own): parameters "
            + ("equal" if hashes == {large["parameters_sha256"]} else "DIFFER FROM") + " those of 1 worker",
        ],
    )
    if len(hashes | {large["parameters_sha256"], both["parameters_sha256"]}) != 1:
        sys.exit("tensorflow.sh: the workers' parameters differ from those of one worker")


def by_tf_config(article, config, settings):
    """Hashes of the parameters of the two processes that the article starts by hand."""
    run = article.out / "by-tf-config"
    command = [article.trainer, "train", str(config), "--run-dir", str(run), "--overwrite", "--json"]
    for setting in [*settings, "train.batch_size=64", "parallel.device=cpu", "parallel.threads=1"]:
        command += ["--set", setting]
    # Another process may take a free port before worker 0 does.
    for _ in range(5):
        hashes, codes = start_by_hand(command)
        if not any(codes):
            return hashes
    sys.exit(f"tensorflow.sh: the workers of TF_CONFIG ended with {codes}")


def start_by_hand(command):
    """Runs two workers; their hashes and exit codes."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    workers = []
    for index in range(2):
        environment = {**os.environ, "TRAINER_SECRET": "two workers of one machine",
                       "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})}
        workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [workers[0].communicate()[0]]
    if workers[0].returncode:
        workers[1].terminate()
    outputs.append(workers[1].communicate()[0])
    finished = [json.loads(line) for output in outputs for line in output.splitlines() if '"finished"' in line]
    return {event["parameters_sha256"] for event in finished}, [worker.returncode for worker in workers]


main()
