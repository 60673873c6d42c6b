"""The cases of make_fixtures.py and compare_training.py, in the words of a trainer config. Needs numpy only."""

import math

import numpy as np

# name, optimizer section, scale of the gradients
OPTIMIZERS = [
    ("sgd", {"sgd": {"learning_rate": 0.05}}, 1.0),
    ("sgd_momentum", {"sgd": {"learning_rate": 0.02, "momentum": 0.9}}, 1.0),
    ("sgd_nesterov", {"sgd": {"learning_rate": 0.02, "momentum": 0.9, "nesterov": True}}, 1.0),
    ("sgd_weight_decay", {"sgd": {"learning_rate": 0.05, "momentum": 0.5, "weight_decay": 0.01}}, 1.0),
    ("sgd_clip_value", {"sgd": {"learning_rate": 0.05}, "clip_value": 0.4}, 1.0),
    ("sgd_clip_norm", {"sgd": {"learning_rate": 0.05, "momentum": 0.9}, "clip_norm": 1.0}, 1.0),
    ("sgd_global_clip_norm", {"sgd": {"learning_rate": 0.05}, "global_clip_norm": 1.5}, 1.0),
    ("sgd_ema", {"sgd": {"learning_rate": 0.05, "momentum": 0.9}, "ema": 0.95}, 1.0),
    ("rmsprop", {"rmsprop": {"learning_rate": 0.01}}, 1.0),
    ("rmsprop_momentum", {"rmsprop": {"learning_rate": 0.005, "rho": 0.8, "momentum": 0.9}}, 1.0),
    ("rmsprop_centered", {"rmsprop": {"learning_rate": 0.01, "centered": True}}, 1.0),
    ("rmsprop_centered_momentum",
     {"rmsprop": {"learning_rate": 0.005, "momentum": 0.5, "centered": True, "epsilon": 1e-3}}, 0.5),
    ("rmsprop_weight_decay", {"rmsprop": {"learning_rate": 0.01, "weight_decay": 0.02}}, 1.0),
    ("adam", {"adam": {"learning_rate": 0.01}}, 1.0),
    ("adam_default", {"adam": {}}, 0.01),
    ("adam_betas", {"adam": {"learning_rate": 0.01, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-4}}, 1.0),
    ("adam_amsgrad", {"adam": {"learning_rate": 0.01, "beta_2": 0.9, "amsgrad": True}}, 1.0),
    ("adam_clip_value", {"adam": {"learning_rate": 0.01}, "clip_value": 0.3}, 1.0),
    ("adam_clip_norm", {"adam": {"learning_rate": 0.01}, "clip_norm": 0.5}, 2.0),
    ("adam_global_clip_norm", {"adam": {"learning_rate": 0.01}, "global_clip_norm": 0.5}, 2.0),
    ("adam_ema", {"adam": {"learning_rate": 0.01}, "ema": 0.9}, 1.0),
    ("adamw", {"adamw": {"learning_rate": 0.01}}, 1.0),
    ("adamw_amsgrad", {"adamw": {"learning_rate": 0.01, "weight_decay": 0.1, "amsgrad": True}}, 1.0),
    ("nadam", {"nadam": {"learning_rate": 0.01}}, 1.0),
    ("nadam_betas", {"nadam": {"learning_rate": 0.01, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-4}}, 0.5),
    ("nadam_weight_decay", {"nadam": {"learning_rate": 0.01, "weight_decay": 0.05}, "global_clip_norm": 1.0}, 1.0),
    ("adagrad", {"adagrad": {"learning_rate": 0.1}}, 1.0),
    ("adagrad_initial", {"adagrad": {"learning_rate": 0.1, "initial_accumulator_value": 1.5, "epsilon": 1e-3}}, 1.0),
    ("adagrad_weight_decay_ema", {"adagrad": {"learning_rate": 0.1, "weight_decay": 0.02}, "ema": 0.9}, 1.0),
    ("lion", {"lion": {"learning_rate": 0.003}}, 1.0),
    ("lion_betas", {"lion": {"learning_rate": 0.003, "beta_1": 0.8, "beta_2": 0.9, "weight_decay": 0.1}}, 1.0),
    ("lamb", {"lamb": {"learning_rate": 0.01}}, 1.0),
    ("lamb_betas", {"lamb": {"learning_rate": 0.02, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3}}, 0.5),
    ("lamb_weight_decay_ema", {"lamb": {"learning_rate": 0.01, "weight_decay": 0.05}, "clip_norm": 0.5, "ema": 0.9},
     1.0),
    ("adamw_clip_ema", {"adamw": {"learning_rate": 0.01, "weight_decay": 0.05}, "global_clip_norm": 1.0, "ema": 0.99},
     1.0),
]

# name, options of reduce_on_plateau
PLATEAUS = [
    ("loss", {"metric": "validation/loss", "factor": 0.5, "patience": 2}),
    ("cooldown", {"metric": "validation/loss", "factor": 0.5, "patience": 2, "cooldown": 3, "min_delta": 0.01}),
    ("least", {"metric": "validation/loss", "factor": 0.2, "patience": 1, "min_learning_rate": 0.003}),
    ("accuracy", {"metric": "validation/accuracy", "factor": 0.3, "patience": 3, "min_delta": 0.02}),
]

# name, samples, outputs, decimals of the scores (few: many are equal), classes that labels have
METRICS = [
    ("one logit", 200, 1, 1, 2),
    ("two logits", 150, 2, 3, 2),
    ("five classes", 300, 5, 3, 5),
    ("equal scores", 240, 4, 0, 4),
    ("absent class", 100, 6, 2, 5),
]

IMAGE = (2, 5, 6, 2)
# name, entry of a layer list, shape of its input
LAYERS = [
    ("conv_same", {"conv": {"filters": 3, "kernel_size": 3, "padding": "same"}}, IMAGE),
    ("conv_same_stride_2", {"conv": {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"}}, IMAGE),
    ("conv_same_even_kernel", {"conv": {"filters": 2, "kernel_size": [2, 4], "padding": "same"}}, IMAGE),
    ("conv_valid_stride_2_relu",
     {"conv": {"filters": 2, "kernel_size": 3, "strides": 2, "padding": "valid", "activation": "relu"}}, IMAGE),
    ("conv_dilated", {"conv": {"filters": 2, "kernel_size": 2, "dilation_rate": 2, "padding": "same"}}, IMAGE),
    ("conv_no_bias", {"conv": {"filters": 2, "kernel_size": 1, "use_bias": False}}, IMAGE),
    ("conv_groups", {"conv": {"filters": 4, "kernel_size": 3, "groups": 2, "padding": "same"}}, IMAGE),
    ("depthwise_same_stride_2",
     {"depthwise_conv": {"kernel_size": 3, "strides": 2, "padding": "same", "depth_multiplier": 2}}, IMAGE),
    ("depthwise_valid", {"depthwise_conv": {"kernel_size": 3}}, IMAGE),
    ("separable_same",
     {"separable_conv": {"filters": 3, "kernel_size": 3, "padding": "same", "activation": "relu"}}, IMAGE),
    ("max_pool", {"max_pool": {"pool_size": 2}}, IMAGE),
    ("max_pool_same_3_2", {"max_pool": {"pool_size": 3, "strides": 2, "padding": "same"}}, IMAGE),
    ("average_pool", {"average_pool": {"pool_size": 2}}, IMAGE),
    ("average_pool_same_3_2", {"average_pool": {"pool_size": 3, "strides": 2, "padding": "same"}}, IMAGE),
    ("global_average_pool", "global_average_pool", IMAGE),
    ("global_max_pool", "global_max_pool", IMAGE),
    ("dense", {"dense": {"units": 3, "activation": "tanh"}}, (3, 4)),
    ("flatten", "flatten", (2, 2, 3, 2)),
    ("zero_pad", {"zero_pad": {"padding": [1, 0, 2, 1]}}, (1, 2, 3, 2)),
    ("batch_norm", "batch_norm", IMAGE),
    ("batch_norm_options", {"batch_norm": {"momentum": 0.8, "epsilon": 0.1, "scale": False}}, IMAGE),
    ("batch_norm_dense", {"batch_norm": {"momentum": 0.9}}, (6, 3)),
] + [
    (f"activation_{name}", {"activation": name}, (2, 9))
    for name in ("relu", "relu6", "leaky_relu", "elu", "sigmoid", "tanh", "gelu", "swish", "softmax")
]

# Likewise, in a file of their own.
MORE_LAYERS = [
    ("layer_norm", "layer_norm", IMAGE),
    ("layer_norm_options", {"layer_norm": {"epsilon": 0.1, "center": False}}, (5, 7)),
    ("group_norm", {"group_norm": {"groups": 2}}, (2, 3, 4, 6)),
    ("group_norm_of_channels", {"group_norm": {"groups": -1, "epsilon": 0.05, "scale": False}}, (2, 3, 4, 3)),
    ("up_sampling_nearest", {"up_sampling": {"size": [2, 3]}}, (2, 3, 4, 2)),
    ("up_sampling_bilinear", {"up_sampling": {"size": 2, "interpolation": "bilinear"}}, (2, 3, 4, 2)),
    ("up_sampling_bilinear_3", {"up_sampling": {"size": [3, 4], "interpolation": "bilinear"}}, (1, 4, 3, 2)),
    ("conv_transpose_same",
     {"conv_transpose": {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"}}, IMAGE),
    ("conv_transpose_valid",
     {"conv_transpose": {"filters": 3, "kernel_size": [3, 2], "strides": [2, 1], "activation": "relu"}}, IMAGE),
    ("conv_transpose_gaps", {"conv_transpose": {"filters": 2, "kernel_size": 2, "strides": 3, "use_bias": False}},
     IMAGE),
    ("conv_transpose_even", {"conv_transpose": {"filters": 2, "kernel_size": 4, "strides": 2, "padding": "same"}},
     IMAGE),
    ("prelu", "prelu", IMAGE),
    ("prelu_shared", {"prelu": {"shared": True}}, IMAGE),
    ("global_average_pool_keepdims", {"global_average_pool": {"keepdims": True}}, IMAGE),
] + [
    (f"activation_{name}", {"activation": name}, (4, 9)) for name in ("hard_sigmoid", "hard_swish", "selu")
]

# name, loss, label smoothing, shape of the logits, focal section, weights of the classes
LOSSES = [
    ("softmax", "softmax_cross_entropy", 0.0, (5, 4), None, None),
    ("softmax_smoothing", "softmax_cross_entropy", 0.1, (5, 4), None, None),
    ("binary", "binary_cross_entropy", 0.0, (6, 1), None, None),
    ("binary_smoothing", "binary_cross_entropy", 0.2, (6, 1), None, None),
    ("mean_squared_error", "mean_squared_error", 0.0, (4, 3), None, None),
    ("softmax_focal", "softmax_cross_entropy", 0.0, (5, 4), {}, None),
    ("softmax_focal_options", "softmax_cross_entropy", 0.1, (5, 4), {"gamma": 0.7, "alpha": 0.6}, None),
    ("binary_focal", "binary_cross_entropy", 0.0, (6, 1), {}, None),
    ("binary_focal_alpha", "binary_cross_entropy", 0.2, (6, 1), {"gamma": 3.0, "alpha": 0.3}, None),
    ("softmax_weights", "softmax_cross_entropy", 0.1, (5, 4), None, [0.5, 2.0, 1.0, 3.5]),
    ("binary_weights", "binary_cross_entropy", 0.0, (6, 1), None, [0.25, 4.0]),
    ("softmax_focal_weights", "softmax_cross_entropy", 0.0, (5, 4), {}, [0.5, 2.0, 1.0, 3.5]),
]

# ---- Whole training runs -------------------------------------------------------------------------

STEPS = 50
BATCH = 16
SAMPLES = 200  # 12 batches of 16 and a last one of 8
CLASSES = 5

PLAIN = {
    "input": [8, 8, 1],
    "layers": [
        {"conv": {"filters": 4, "kernel_size": 3, "padding": "same", "activation": "relu"}},
        {"max_pool": {"pool_size": 2}},
        {"conv": {"filters": 6, "kernel_size": 3, "activation": "relu"}},
        "flatten",
        {"dense": {"units": 16, "activation": "relu"}},
        {"dense": {"units": CLASSES}},
    ],
    "loss": "softmax_cross_entropy",
}
NORMALISED = {
    "input": [8, 8, 1],
    "layers": [
        {"conv": {"filters": 4, "kernel_size": 3, "padding": "same", "use_bias": False}},
        "batch_norm",
        {"activation": "relu"},
        {"depthwise_conv": {"kernel_size": 3, "strides": 2, "padding": "same", "use_bias": False}},
        {"batch_norm": {"momentum": 0.9}},
        {"activation": "relu6"},
        {"average_pool": {"pool_size": 2, "padding": "same"}},
        "flatten",
        {"dense": {"units": CLASSES, "kernel_regularizer": {"l2": 0.001}}},
    ],
    "loss": "softmax_cross_entropy",
    "label_smoothing": 0.1,
}
WEIGHTED = {**PLAIN, "focal": {"gamma": 1.5, "alpha": 0.5}}
BINARY = {
    "input": [8, 8, 1],
    "layers": [
        {"separable_conv": {"filters": 4, "kernel_size": 3, "activation": "relu"}},
        "global_average_pool",
        {"dense": {"units": 8, "activation": "tanh"}},
        {"dense": {"units": 1}},
    ],
    "loss": "binary_cross_entropy",
}
GROUPED = {
    "input": [8, 8, 1],
    "layers": [
        {"conv": {"filters": 6, "kernel_size": 3, "strides": 2, "padding": "same",
                  "kernel_regularizer": {"l1": 0.002, "l2": 0.001}}},
        {"group_norm": {"groups": 2}},
        {"prelu": {"shared": True}},
        {"conv_transpose": {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "same"}},
        "layer_norm",
        {"activation": "hard_swish"},
        {"max_pool": {"pool_size": 2}},
        {"up_sampling": {"size": 2, "interpolation": "bilinear"}},
        {"conv": {"filters": 4, "kernel_size": 3, "activation": "selu"}},
        "flatten",
        {"dense": {"units": CLASSES, "kernel_regularizer": {"l1": 0.001}}},
    ],
    "loss": "softmax_cross_entropy",
}
SGD = {"sgd": {"learning_rate": 0.05}}
MOMENTUM = {"sgd": {"learning_rate": 0.02, "momentum": 0.9}}
# At a larger rate rounding grows into other losses within 50 steps.
SLOW_MOMENTUM = {"sgd": {"learning_rate": 0.004, "momentum": 0.9}}
ADAM = {"adam": {"learning_rate": 0.002}}

# By class: name -> weights that Keras's fit(class_weight=...) takes too.
CLASS_WEIGHTS = {"class_weight_sgd": [0.5, 2.0, 1.0, 3.5, 0.25], "class_weight_focal_adam": [0.5, 2.0, 1.0, 3.5, 0.25]}

# Runs whose sample s has the weight 0.75 * (7 s % 5), as Keras's fit(sample_weight=...) takes them.
SAMPLE_WEIGHTS = ("sample_weight_sgd", "sample_weight_binary_adam")

# name, model section, optimizer section
TRAINING = [
    ("plain_sgd", PLAIN, SGD),
    ("plain_momentum", PLAIN, MOMENTUM),
    ("plain_adam", PLAIN, ADAM),
    ("batch_norm_sgd", NORMALISED, SGD),
    ("batch_norm_momentum", NORMALISED, MOMENTUM),
    ("batch_norm_adam", NORMALISED, ADAM),
    ("binary_adam", BINARY, ADAM),
    ("class_weight_sgd", PLAIN, SGD),
    ("class_weight_focal_adam", WEIGHTED, ADAM),
    ("grouped_momentum", GROUPED, SLOW_MOMENTUM),
    ("sample_weight_sgd", PLAIN, SGD),
    ("sample_weight_binary_adam", BINARY, ADAM),
]


def samples(shape, classes):
    """The data set of the runs: (uint8 images, labels)."""
    pixels = np.arange(int(np.prod(shape)))
    images, labels = [], []
    for s in range(SAMPLES):
        label = s % classes
        images.append((pixels * 31 + s * 17 + (pixels * s) % 23 + label * pixels * 5) % 256)
        labels.append(label)
    return np.array(images, np.uint8).reshape(SAMPLES, *shape), np.array(labels, np.int32)


def sample_weights():
    """The weights of all samples of a run of SAMPLE_WEIGHTS."""
    return np.array([0.75 * (7 * s % 5) for s in range(SAMPLES)], np.float32)


def weights_of_batch(step):
    """Those of batch `step`."""
    first = step % -(-SAMPLES // BATCH) * BATCH
    return sample_weights()[first : first + BATCH]


def batch(shape, step, loss, classes):
    """Images as float32 in [0, 1] and labels of batch `step`, in order; the last batch of an epoch is short."""
    images, labels = samples(shape, classes)
    first = step % math.ceil(SAMPLES / BATCH) * BATCH
    chosen = slice(first, first + BATCH)
    images = images[chosen].astype(np.float32) * np.float32(1 / 255)
    if loss == "binary_cross_entropy":
        return images, labels[chosen].astype(np.float32).reshape(-1, 1)
    return images, labels[chosen]


def weight_formula(name, shape):
    """(scale, offset) of a weight's initial values."""
    kind = name.split("/")[1]
    if kind == "moving_mean":
        return 0.0, 0.0
    if kind == "moving_variance":
        return 0.0, 1.0
    if kind == "gamma":
        return 0.1, 1.0
    if kind in ("bias", "beta", "alpha"):
        return 0.05, 0.0
    fan_in = int(np.prod(shape[:-1])) if kind != "depthwise_kernel" else int(np.prod(shape[:2]))
    return round(1.5 / math.sqrt(fan_in), 3), 0.0


def weight_values(shape, number, scale, offset):
    count = int(np.prod(shape))
    return np.array([offset + scale * math.sin(i + 1 + number) for i in range(count)], np.float32).reshape(shape)
