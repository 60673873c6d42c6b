"""A config's `model.layers`, `optimizer` and `loss` as Keras 3 objects. Covers sequential models without dropout."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402

ACTIVATIONS = {
    "leaky_relu": lambda options: keras.layers.LeakyReLU(options["alpha"]),
    "elu": lambda options: keras.layers.ELU(options["alpha"]),
}
SHORT = {"group_norm": "groups", "up_sampling": "size", "max_pool": "pool_size", "average_pool": "pool_size", "dense": "units", "reshape": "target_shape"}


def pop_regularizers(options):
    """Config `{l2: 1e-4}` -> Keras regulariser."""
    return {
        key: keras.regularizers.L1L2(l1=value.get("l1", 0.0), l2=value.get("l2", 0.0)) if key.endswith("_regularizer") else value
        for key, value in options.items()
    }


def make_layer(entry):
    """One list entry: `flatten`, `{conv: {...}}`, `{activation: relu}`."""
    kind, options = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
    if kind == "activation":
        if isinstance(options, str):
            options = {"function": options}
        name = options["function"]
        if "alpha" in options:
            return ACTIVATIONS[name](options)
        return keras.layers.Activation(name)
    if kind == "zero_pad":
        pads = options["padding"] if isinstance(options, dict) else options
        if not isinstance(pads, int):
            pads = ((pads[0], pads[1]), (pads[2], pads[3]))
        return keras.layers.ZeroPadding2D(pads)
    classes = {
        "conv": keras.layers.Conv2D,
        "depthwise_conv": keras.layers.DepthwiseConv2D,
        "separable_conv": keras.layers.SeparableConv2D,
        "max_pool": keras.layers.MaxPooling2D,
        "average_pool": keras.layers.AveragePooling2D,
        "global_average_pool": keras.layers.GlobalAveragePooling2D,
        "global_max_pool": keras.layers.GlobalMaxPooling2D,
        "dense": keras.layers.Dense,
        "flatten": keras.layers.Flatten,
        "reshape": keras.layers.Reshape,
        "batch_norm": keras.layers.BatchNormalization,
        "layer_norm": keras.layers.LayerNormalization,
        "group_norm": keras.layers.GroupNormalization,
        "up_sampling": keras.layers.UpSampling2D,
        "conv_transpose": keras.layers.Conv2DTranspose,
        "prelu": keras.layers.PReLU,
    }
    if kind not in classes:
        raise SystemExit(f"layer '{kind}' has no counterpart in keras_model.py")
    if options is not None and not isinstance(options, dict):  # `dense: 10`, `max_pool: 2`
        options = {SHORT[kind]: options}
    if kind == "prelu" and options:
        options = dict(options)
        if options.pop("shared", False):
            options["shared_axes"] = [1, 2]
    return classes[kind](**pop_regularizers(options or {}))


def make_model(input_shape, entries):
    """Keras names its layers from scratch for each model, as a config's layers are named."""
    keras.backend.clear_session()
    return keras.Sequential([keras.Input(tuple(input_shape))] + [make_layer(entry) for entry in entries])


def make_optimizer(config):
    """The config's `optimizer` section; its own keys are Keras's but for clipping and the average."""
    config = {config: {}} if isinstance(config, str) else dict(config)
    shared = {}
    for ours, keras_name in (("clip_value", "clipvalue"), ("clip_norm", "clipnorm"),
                             ("global_clip_norm", "global_clipnorm")):
        if ours in config:
            shared[keras_name] = config.pop(ours)
    if "ema" in config:
        shared.update(use_ema=True, ema_momentum=config.pop("ema"))
    (kind, options), = config.items()
    classes = {"sgd": keras.optimizers.SGD, "rmsprop": keras.optimizers.RMSprop, "adam": keras.optimizers.Adam,
               "adamw": keras.optimizers.AdamW, "nadam": keras.optimizers.Nadam,
               "adagrad": keras.optimizers.Adagrad, "lion": keras.optimizers.Lion,
               "lamb": keras.optimizers.Lamb}
    options = dict(options or {})
    if kind == "sgd":
        options.setdefault("learning_rate", 0.01)
    return classes[kind](**options, **shared)


def make_loss(kind, label_smoothing, classes, focal=None, class_weight=None):
    """(labels, logits) -> mean loss, weighted as Model.fit weights it by class_weight."""
    if class_weight is not None:
        plain = make_loss(kind, label_smoothing, classes, focal)
        weights = keras.ops.convert_to_tensor(class_weight, "float32")
        return lambda labels, logits: plain(labels, logits, keras.ops.take(weights, keras.ops.cast(labels, "int32")))
    if focal is not None:
        if kind == "binary_cross_entropy":
            return keras.losses.BinaryFocalCrossentropy(
                apply_class_balancing="alpha" in focal, from_logits=True, label_smoothing=label_smoothing, **focal)
        loss = keras.losses.CategoricalFocalCrossentropy(from_logits=True, label_smoothing=label_smoothing, **focal)
        return lambda labels, logits, weights=None: loss(keras.ops.one_hot(labels, classes), logits, weights)
    if kind == "binary_cross_entropy":
        return keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=label_smoothing)
    if kind == "mean_squared_error":
        return keras.losses.MeanSquaredError()
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=label_smoothing)
    return lambda labels, logits, weights=None: loss(keras.ops.one_hot(labels, classes), logits, weights)


def weight_names(model):
    """(trainer's name, variable) in Keras's order: "conv2d/kernel", ..."""

    def name_of(layer, weight):
        # Keras 3 calls it "kernel"; Keras 2, the weight files in use, and trainer "depthwise_kernel".
        depthwise = type(layer).__name__ == "DepthwiseConv2D" and weight.name == "kernel"
        return f"{layer.name}/depthwise_kernel" if depthwise else f"{layer.name}/{weight.name}"

    return [(name_of(layer, weight), weight) for layer in model.layers for weight in layer.weights]


def train(model, optimizer, loss, batches, after_step=None):
    """One update a batch, on a graph as model.fit compiles it; a batch may have weights of its samples. Returns the
    losses before each update."""
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def step(images, labels, *weights):
        with tf.GradientTape() as tape:
            value = loss(labels, model(images, training=True), *weights)
            if model.losses:
                value += tf.add_n(model.losses)
        optimizer.apply(tape.gradient(value, model.trainable_variables))
        return value

    optimizer.build(model.trainable_variables)
    losses = []
    for batch in batches:
        losses.append(float(step(*(tf.constant(part) for part in batch))))
    return losses
