"""Fashion-MNIST and retinal OCT scans on 1 and 2 GPUs with everything else constant."""

from article import CONFIGS, Article, Published, ratio

K80 = "K80"
OCT_CLASSES = ["CNV", "DME", "DRUSEN", "NORMAL"]


def oct_settings(article):
    """Config and settings: VGG16 where its weights are, else MobileNetV2."""
    data = article.folder("the full set of OCT scans", "OCT_DIR", "oct2017", "octdl")
    classes = OCT_CLASSES
    settings = []
    if data is None:
        data = article.drawn(OCT_CLASSES, 12, 6, "test", 32)
        settings += ["model.input=[32,32,3]", "data.resize=[32,32]"]
    elif not (data / "train" / "CNV").is_dir():
        classes = sorted(path.name for path in (data / "train").iterdir() if path.is_dir())
        article.note(f"the small set has the classes {', '.join(classes)}, of OCTDL, not those of the article")
    settings += [f"data.classes=[{', '.join(classes)}]", f"data.train.path={data / 'train'}",
                 f"data.test.path={data / 'test'}"]
    vgg16, mobilenet = article.weights("vgg16"), article.weights("mobilenet_v2")
    if vgg16 or not mobilenet:
        if not vgg16 and not article.quick:
            article.note("VGG16's weights are not there (trainer weights vgg16 gets them): its frozen layers are "
                         "random, and accuracies say nothing")
        return CONFIGS / "oct_vgg16.yaml", settings + [f'model.backbone.weights={vgg16 or chr(34) * 2}']
    article.note("VGG16's weights are not there (trainer weights vgg16 gets them): MobileNetV2, with its last "
                 "blocks trained, in its place")
    return CONFIGS / "octdl_mobilenet_v2.yaml", settings + [f"model.backbone.weights={mobilenet}"]


def main():
    article = Article("zalando", "Estimators on several GPUs: Fashion-MNIST and OCT scans at 1 and 2")
    fashion = article.digits_like("Fashion-MNIST", "FASHION_MNIST_DIR", "fashion_mnist")
    epochs = 1 if article.quick else article.length(5)
    rows = {}
    for replicas in (1, 2):
        rows["fashion", replicas] = article.train(
            f"fashion-mnist-{replicas}", CONFIGS / "fashion_mnist.yaml",
            [*fashion, *article.replicas(replicas), f"train.epochs={epochs:g}"],
            Published(text="poor scaling (a plot)" if replicas == 2 else "", hardware=f"{replicas} x {K80}"))
    # What the accuracy loses to the larger global batch comes back with the learning rate that goes with it.
    scaled = article.train(
        "fashion-mnist-2-lr", CONFIGS / "fashion_mnist.yaml",
        [*fashion, *article.replicas(2), f"train.epochs={epochs:g}", "parallel.lr_scaling=linear"],
        Published(text="advice: adjust the batch or the learning rate"))
    config, scans = oct_settings(article)
    epochs = 1 if article.quick else article.length(10)
    for replicas in (1, 2):
        rows["oct", replicas] = article.train(
            f"oct-{replicas}", config, [*scans, *article.replicas(replicas), f"train.epochs={epochs:g}"],
            Published(None, 0.95, "linear scaling (a plot)" if replicas == 2 else "", f"{replicas} x {K80}"))
    one, two = rows["fashion", 1], rows["fashion", 2]
    article.finish(
        "2 NVIDIA K80",
        [
            f"Fashion-MNIST: 2 replicas give {ratio(one, two, 'images_per_second')} the images/s of 1 (published: poor "
            f"scaling); accuracy {one['accuracy']:.4f} at 1, {two['accuracy']:.4f} at 2 with all else constant "
            f"(published: it falls), {scaled['accuracy']:.4f} at 2 with lr_scaling: linear",
            f"OCT: 2 replicas give {ratio(rows['oct', 1], rows['oct', 2], 'images_per_second')} the images/s of 1 "
            f"(published: linear); test accuracy {rows['oct', 1]['accuracy']:.4f} and {rows['oct', 2]['accuracy']:.4f} "
            "(published: about 0.95)",
        ],
    )


main()
