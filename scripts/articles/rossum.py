"""How throughput grows with the number of GPUs, and what feeding them ahead is worth."""

from article import HERE, Article, Published, ratio


def main():
    article = Article("rossum", "Keras on several GPUs: efficiency by replicas, with and without prefetch")
    data = article.folder("the full set of cats and dogs", "CATS_DOGS_DIR", "cats_vs_dogs", "cats_vs_dogs")
    if data is None:
        data = article.drawn(["cats", "dogs"], 32, 8, "validation", 32)
    pictures = HERE / "pictures_cnn.yaml"
    steps = 8 if article.quick else 60
    most = max(2, len(article.gpus) or article.cores)
    counts = [count for count in (1, 2, 4, 8) if count <= most]

    # Numbers in memory, no files: what the devices and their sums alone reach, as tf_cnn_benchmarks measures.
    synthetic = []
    for count in counts:
        synthetic.append(article.train(
            f"synthetic-{count}", pictures,
            [*article.replicas(count), f"train.max_steps={steps}",
             "data={format: synthetic, synthetic: {shape: [64, 64, 3], classes: 2, train_samples: 1024}}"],
            Published(text="efficiency: tf_cnn_benchmarks constant, Keras falling")))
    feeding = {}
    for count in counts[:2]:
        for name, more in (("no-prefetch", ["data.prefetch=0"]), ("prefetch", [])):
            feeding[name, count] = article.train(
                f"{name}-{count}", pictures,
                [*article.replicas(count), f"data.train.path={data / 'train'}",
                 f"data.validation.path={data / 'validation'}", f"train.max_steps={steps}", *more],
                Published(text="a gap between batches" if name == "no-prefetch" else "a shorter gap, also on 1 GPU"))
    base = synthetic[0]["images_per_second"]
    efficiency = ", ".join(f"{row['replicas']}: {row['images_per_second'] / base / row['replicas']:.0%}"
                           for row in synthetic)
    remarks = [f"efficiency against 1 replica, {efficiency}"]
    for count in counts[:2]:
        without, ahead = feeding["no-prefetch", count], feeding["prefetch", count]
        remarks.append(
            f"{count} replica(s): with prefetch {ratio(without, ahead, 'images_per_second')} the images/s; the devices "
            f"wait {without['wait_share']:.1%} of a step without and {ahead['wait_share']:.1%} with")
    article.finish("7 x GTX 1070/1080 (\"7gforce\"), 4 x Tesla M60 (Azure NV24)", remarks)


main()
