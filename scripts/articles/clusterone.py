"""MNIST with an Estimator's intervals on clusters of 1, 2 and 4 workers, in step and not."""

from article import CONFIGS, Article, Published

PUBLISHED = "global_steps/s grow linearly (a plot)"


def main():
    article = Article("clusterone", "Distributed Estimator: MNIST on 1, 2 and 4 workers, asynchronous and synchronous")
    mnist = article.digits_like("MNIST", "MNIST_DIR", "mnist")
    steps = 80 if article.quick else 2000
    if article.quick:
        mnist.append("run.summary_every=10 steps")
    asynchronous, synchronous = [], []
    for workers in (1, 2, 4):
        hardware = f"{workers} x C4.xlarge"
        asynchronous.append(article.train(
            f"async-{workers}", CONFIGS / "mnist_parameter_server.yaml",
            [*mnist, f"train.max_steps={steps}", "train.batch_size=64"], Published(text=PUBLISHED, hardware=hardware),
            ("-n", str(workers), "--ps", "1"), asynchronous=True))
    for workers in (1, 2, 4):
        # A step of the cluster takes `workers` batches: the same samples in 1/workers of the steps.
        synchronous.append(article.train(
            f"sync-{workers}", CONFIGS / "mnist_dense.yaml",
            [*mnist, f"train.max_steps={steps // workers}", "train.batch_size=64", "parallel.device=cpu"],
            Published(text="not in the article"), ("-n", str(workers))))
    # What Estimators leave out: the same config without a cluster.
    article.train("local", CONFIGS / "mnist_parameter_server.yaml",
                  [*mnist, f"train.max_steps={steps}", "train.batch_size=64"],
                  Published(text="the same code, no cluster"))

    def rates(rows):
        first = rows[0]["steps_per_second"]
        return ", ".join(f"{workers}: {row['steps_per_second']:.0f} ({row['steps_per_second'] / first:.2f}x)"
                         for workers, row in zip((1, 2, 4), rows))

    article.finish(
        "1, 2 and 4 C4.xlarge instances (4 vCPUs each)",
        [
            f"asynchronous, global_steps/s by workers, {rates(asynchronous)} (published: linear)",
            f"synchronous, steps of the cluster/s by workers, {rates(synchronous)}; each takes as many batches as "
            "there are workers",
            f"all processes share {article.cores} cores here; the article's workers had 4 each",
        ],
    )


main()
