"""Cats and dogs with MobileNetV2: the five runs of the report, and the model in two runs."""

from article import CONFIGS, Article, Published, ratio

K80 = "1 x K80"
K80_4 = "4 x K80"
# The learning rates are only in the figures of the article. Without a schedule: that of TensorFlow's guide to transfer
# learning. With one: those of configs/cats_dogs_mobilenet_v2.yaml.
CONSTANT = ["schedule=constant", "optimizer.rmsprop.learning_rate=1e-4"]


def main():
    article = Article("wandb", "Cats and dogs with MobileNetV2, fine-tuned: five runs on 1 and 4 GPUs")
    data = article.folder("the full set of cats and dogs", "CATS_DOGS_DIR", "cats_vs_dogs", "cats_vs_dogs")
    settings = []
    if data is None:
        data = article.drawn(["cats", "dogs"], 24, 8, "validation", 32)
        settings += ["model.input=[32,32,3]", "data.resize=[32,32]"]
    settings += [f"data.train.path={data / 'train'}", f"data.validation.path={data / 'validation'}"]
    weights = article.weights("mobilenet_v2")
    if weights:
        settings.append(f"model.backbone.weights={weights}")
    else:
        settings.append('model.backbone.weights=""')
        if not article.quick:
            article.note("ImageNet's weights are not there (trainer weights mobilenet_v2 gets them): all starts "
                         "from random numbers, and accuracies say nothing")
    small, large = 16, 32
    epochs = 1 if article.quick else article.length(10)
    if article.quick:
        settings.append("model.backbone.alpha=0.35")
        small, large = 2, 4
    settings += [f"train.epochs={epochs:g}", "run.best=validation/accuracy"]
    config = CONFIGS / "cats_dogs_mobilenet_v2.yaml"

    def row(name, replicas, batch, more, published):
        sets = [*settings, *article.replicas(replicas), f"train.batch_size={batch}", *more]
        if more[:1] == CONSTANT[:1]:
            sets.append("parallel.lr_scaling=none")
        return article.train(name, config, sets, published)

    row("1-gpu-ft", 1, small, CONSTANT, Published(2090, 0.94, hardware=K80))
    single = row("1-gpu-ft-lrs", 1, small, [], Published(2080, 0.98, "some overfitting", K80))
    without = row("4-gpu-ft-no-pref", 4, small, ["data.prefetch=0"],
                  Published(1046, 0.98, "1.99x of 1 GPU", K80_4))
    ahead = row("4-gpu-ft-pref", 4, small, [], Published(1040, 0.98, "6 s less", K80_4))
    larger = row("4-gpu-ft-largerbs", 4, large, [], Published(887, None, "accuracy suffers", K80_4))

    # In two runs: a head on frozen features, then everything from the first run's best checkpoint.
    frozen = CONFIGS / "cats_dogs_mobilenet_v2_frozen.yaml"
    first = article.train("frozen", frozen, [*settings, *article.replicas(1), f"train.batch_size={large}"],
                          Published(text="\"very shallow\"; features are computed once here"))
    second = row("frozen-then-ft", 1, small, [f"model.weights={article.out / 'frozen'}"],
                 Published(text="not in the article"))
    article.finish(
        "1 and 4 NVIDIA K80 (AI Platform), batch 16 or 32 a GPU, 10 epochs",
        [
            f"throughput of 4 replicas with the schedule: {ratio(single, without, 'images_per_second')} of 1 "
            "(published: 1.99x)",
            f"prefetch: {ratio(without, ahead, 'total_seconds')} of the time without (published: 0.99x); waiting for "
            f"data {without['wait_share']:.1%} of a step without, {ahead['wait_share']:.1%} with",
            f"twice the batch: {ratio(ahead, larger, 'total_seconds')} of the time (published: 0.85x)",
            f"frozen, then fine-tuned: {second['accuracy']:.4f} after {first['accuracy']:.4f}; in one run "
            f"{single['accuracy']:.4f}",
        ],
    )


main()
