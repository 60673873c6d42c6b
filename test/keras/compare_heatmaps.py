#!/usr/bin/env python3
"""Compares trainer's Grad-CAM heatmaps with those of Keras's own models on the same weights.

    scripts/python_env.sh keras -- test/keras/compare_heatmaps.py build/release/apps/trainer/trainer [BACKBONE...]

TRAINER is the program of the build; BACKBONE is one of those below, all when left out. Needs Keras and Pillow, which
scripts/python_env.sh installs. The weights are drawn as in compare_export.py. For the last layer before pooling and for
one in the middle, Keras computes the gradient of each class's logit with a GradientTape, and TensorFlow enlarges the
map. Each picture of trainer is compared with the one made of the map of Keras in float64. A map is a sum whose terms
can cancel, and is then divided by its largest number, so that rounding may show: Keras in float32 is the measure of
that. Prints by how many of 256 levels the pictures of both differ at most. Exits with 1 where the pictures of trainer
of a layer differ by more than 2 levels and by more than twice as much as those of Keras in float32, or where no map has
a positive number, with 77 without Keras. The largest differences of a layer are compared, because which of the pictures
shows rounding is chance.
"""

import sys

import compare_export as export

# A layer in the middle of each backbone.
MIDDLE = {
    "vgg16": "block4_conv3", "mobilenet_v2": "block_6_expand_relu", "resnet50": "conv4_block6_out",
    "densenet121": "conv4_block12_concat", "efficientnet_b0": "block5c_add",
}
COMMAND = "scripts/python_env.sh keras -- test/keras/compare_heatmaps.py"
OPACITY, LEVELS, FACTOR = 0.4, 2, 2


def keras_maps(model, layer, x, label):
    """Grad-CAM of each image, enlarged to its size and divided by its largest value."""
    import tensorflow as tf
    np = export.np
    output = model.get_layer(layer).output if layer else model.layers[-3].output
    both = export.keras.Model(model.input, [output, model.output])
    with tf.GradientTape() as tape:
        features, logits = both(tf.constant(x), training=False)
        score = tf.reduce_sum(logits[:, label])
    weights = tf.reduce_mean(tape.gradient(score, features), axis=(1, 2), keepdims=True)
    maps = tf.nn.relu(tf.reduce_sum(weights * features, axis=-1, keepdims=True))
    maps = tf.image.resize(maps, x.shape[1:3]).numpy()[..., 0]
    largest = maps.max(axis=(1, 2), keepdims=True)
    return np.where(largest > 0, maps / np.maximum(largest, 1e-30), 0)


def all_keras_maps(name, weights, x, number):
    """The maps of both layers and all classes, computed with numbers of this type."""
    export.keras.config.set_floatx(number)
    model = export.keras_model(name)
    model.load_weights(weights)
    maps = {(layer, label): keras_maps(model, layer, x.astype(number), label)
            for layer in (None, MIDDLE[name]) for label in range(export.CLASSES)}
    export.keras.config.set_floatx("float32")
    return maps


def drawn(images, maps):
    """Returns the images with the maps over them, from blue to red, as trainer draws them."""
    np = export.np
    colours = [np.clip(1.5 - np.abs(4 * (maps - centre)), 0, 1) for centre in (0.75, 0.5, 0.25)]
    return (1 - OPACITY) * images + OPACITY * 255 * np.stack(colours, axis=-1)


def compare(trainer, name, folder):
    """Returns whether the pictures of both layers are nearly those of Keras."""
    np = export.np
    x, config, _, _ = export.predicted(trainer, name, folder)
    weights = folder / "keras.weights.h5"
    exact, rounded = (all_keras_maps(name, weights, x, number) for number in ("float64", "float32"))
    files = [folder / "images" / str(i % export.CLASSES) / f"{i}.png" for i in range(export.IMAGES)]
    images = np.stack([np.asarray(export.Image.open(file)) for file in files]).astype(np.float64)
    same = True
    for layer in (None, MIDDLE[name]):
        positive, ours_differ, keras_differ = 0, 0.0, 0.0
        for label in range(export.CLASSES):
            maps_folder = folder / f"maps-{layer}-{label}"
            options = ["--heatmap-layer", layer] if layer else []
            export.run(trainer, "predict", config, "--weights", weights, *files, "--heatmap", maps_folder, "--heatmap-class",
                       label, *options, "--quiet")
            ours = np.stack([np.asarray(export.Image.open(maps_folder / f"{i % export.CLASSES}_{i}.png"))
                             for i in range(export.IMAGES)]).astype(np.float64)
            expected = drawn(images, exact[layer, label])
            positive += int((exact[layer, label].max(axis=(1, 2)) > 0).sum())
            of_ours = np.abs(ours - expected).max(axis=(1, 2, 3))
            of_keras = np.abs(drawn(images, rounded[layer, label]) - expected).max(axis=(1, 2, 3))
            ours_differ, keras_differ = max(ours_differ, of_ours.max()), max(keras_differ, of_keras.max())
        print(f"{name} {layer or 'last layer'}: {positive} of {export.CLASSES * export.IMAGES} maps have positive numbers, "
              f"pictures differ by {ours_differ:.2f} levels, those of Keras in float32 by {keras_differ:.2f}", flush=True)
        same = same and positive > 0 and ours_differ <= max(LEVELS, FACTOR * keras_differ)
    return same


if __name__ == "__main__":
    sys.exit(export.compare_backbones(__doc__, COMMAND, MIDDLE, compare))
