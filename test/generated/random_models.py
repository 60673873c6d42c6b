"""Draws models, losses and optimizers in the words of a config. Needs no packages."""

ACTIVATIONS = ["linear", "relu", "relu6", "leaky_relu", "elu", "sigmoid", "tanh", "gelu", "swish", "softmax",
               "hard_sigmoid", "hard_swish", "selu"]


def pool_size(size, window, stride, padding):
    return -(-size // stride) if padding == "same" else (size - window) // stride + 1


def both(size):
    """[height, width] of a number or of both."""
    return size if isinstance(size, list) else [size] * 2


class RandomModel:
    """The list `layers`, from an image of `shape` to `outputs` numbers.

    Every layer leads to the output, and images stay small, so that a model trains in milliseconds. With `wide_windows`,
    windows with padding may be larger than the image. One of `dense_layers` is the number of dense layers before the last,
    one of `units` the size of each."""

    MAX_CHANNELS, MAX_SIZE = 12, 16

    def __init__(self, draw, shape, outputs, has_batch_norm=True, wide_windows=False, units=range(2, 11),
                 dense_layers=(0, 0, 1, 2), has_tokens=False):
        self.draw = draw
        self.wide_windows = wide_windows
        self.units = units
        self.dense_layers = dense_layers
        self.has_batch_norm = has_batch_norm
        self.count = 0
        # Models without names have the automatic ones, which Keras and trainer count alike.
        self.is_named = draw.random() < 0.7
        # With branches the order of the layers in Keras's files depends on the depth, and a padding that Keras makes by
        # a layer of its own counts.
        self.has_branches = draw.random() < 0.6
        self.layers = []
        x = tuple(shape)
        for _ in range(draw.randint(1, 6)):
            x = self.add_block(self.layers, x)
        if has_tokens and draw.random() < 0.25:
            x = self.add_tokens(x)
        self.add_end(x, outputs)

    def name(self):
        self.count += 1
        return {"name": f"{self.draw.choice('abcdxyz')}{self.count}"} if self.is_named else {}

    def activation(self, is_image=True):
        """The name of a function. trainer takes softmax of features only."""
        function = self.draw.choice(ACTIVATIONS)
        return "relu" if is_image and function == "softmax" else function

    def regularizer(self, key):
        if self.draw.random() < 0.85:
            return {}
        penalty = {kind: round(self.draw.uniform(1e-4, 3e-3), 5) for kind in ("l1", "l2") if self.draw.random() < 0.7}
        return {key: penalty} if penalty else {}

    def norm_options(self, momentum=False):
        draw = self.draw
        options = {}
        if momentum and draw.random() < 0.5:
            options["momentum"] = draw.choice([0.5, 0.8, 0.9, 0.95])
        if draw.random() < 0.4:
            options["epsilon"] = draw.choice([0.1, 0.01, 1e-3])
        for key in ("center", "scale"):
            if draw.random() < 0.15:
                options[key] = False
        return options

    # ---- Layers of an image ---------------------------------------------------------------------

    def add_block(self, layers, x):
        """Appends one block to the list. Returns the shape of its output."""
        draw = self.draw
        if self.has_branches and draw.random() < 0.5:
            blocks = [self.add_residual]
            if self.is_named:
                blocks += [self.add_branches, self.add_branches, self.add_gate]
            return draw.choice(blocks)(layers, x)
        if draw.random() < 0.08:
            return self.add_repeat(layers, x)
        return self.add_layer(layers, x)

    def add_layer(self, layers, x, inputs=None):
        draw = self.draw
        kinds = ["conv"] * 6 + ["depthwise_conv", "separable_conv", "max_pool", "average_pool", "zero_pad",
                                "up_sampling", "conv_transpose"] + ["batch_norm"] * 2 * self.has_batch_norm + [
                                    "layer_norm", "group_norm", "activation", "relu", "prelu", "layer_scale"]
        while True:
            kind = draw.choice(kinds)
            made = getattr(self, "make_" + kind)(x)
            if made is None:
                continue
            options, shape = made
            if min(shape[:2]) < 1 or max(shape[:2]) > self.MAX_SIZE or shape[2] > self.MAX_CHANNELS:
                continue
            options.update(self.name())
            if inputs:
                options["inputs"] = inputs
            layers.append({kind: options} if options else kind)
            return shape

    def window(self, x, most=4):
        """(kernel, stride, padding, options) of a window that fits the image."""
        draw = self.draw
        padding = draw.choice(["same", "same", "valid"])
        largest = [most if self.wide_windows and padding == "same" else min(most, size) for size in x[:2]]
        kernel = [draw.randint(1, size) for size in largest]
        if draw.random() < 0.6:
            kernel = [min(kernel)] * 2
        stride = [draw.choice([1, 1, 2])] * 2
        if draw.random() < 0.3:
            stride = [draw.choice([1, 1, 1, 2, 3]) for _ in range(2)]
        return kernel, stride, padding

    def conv_shape(self, x, kernel, stride, padding, dilation, channels):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        return (*(pool_size(size, r, s, padding) for size, r, s in zip(x, reach, stride)), channels)

    def shared_conv_options(self, x):
        """Options of the kinds of convolution, and their shape without channels."""
        draw = self.draw
        kernel, stride, padding = self.window(x)
        dilation = [1, 1]
        if stride == [1, 1] and draw.random() < 0.15:
            dilation = [draw.choice([1, 2, 3])] * 2
        options = {"kernel_size": kernel if kernel[0] != kernel[1] or draw.random() < 0.5 else kernel[0]}
        if stride != [1, 1]:
            options["strides"] = stride if stride[0] != stride[1] else stride[0]
        if dilation != [1, 1]:
            options["dilation_rate"] = dilation[0]
        options["padding"] = padding
        if draw.random() < 0.5:
            options["activation"] = self.activation()
        if draw.random() < 0.3:
            options["use_bias"] = False
        return options, self.conv_shape(x, kernel, stride, padding, dilation, 0)

    def make_conv(self, x):
        draw = self.draw
        options, shape = self.shared_conv_options(x)
        filters = draw.randint(1, 8)
        # Keras computes groups by XLA, which compiles each of them for a second.
        if draw.random() < 0.03 and x[2] % 2 == 0:
            options["groups"] = 2
            filters += filters % 2
        options = {"filters": filters, **options, **self.regularizer("kernel_regularizer")}
        if self.has_batch_norm and draw.random() < 0.15:
            options["batch_norm"] = self.norm_options(momentum=True)
        is_dense = "strides" not in options and "dilation_rate" not in options
        if is_dense and not self.has_branches and draw.random() < 0.1:
            pads = [draw.randint(0, 2) for _ in range(4)]
            kernel = both(options["kernel_size"])
            options["padding"] = pads
            shape = (x[0] + pads[0] + pads[1] - kernel[0] + 1, x[1] + pads[2] + pads[3] - kernel[1] + 1)
        return options, (*shape[:2], filters)

    def make_depthwise_conv(self, x):
        options, shape = self.shared_conv_options(x)
        if isinstance(options.get("strides"), list):
            options["strides"] = options["strides"][0]  # TensorFlow has no other on the CPU
            kernel = both(options["kernel_size"])
            shape = self.conv_shape(x, kernel, [options["strides"]] * 2, options["padding"], [1, 1], 0)
        multiplier = self.draw.choice([1, 1, 2])
        if multiplier > 1:
            options["depth_multiplier"] = multiplier
        return {**options, **self.regularizer("depthwise_regularizer")}, (*shape[:2], x[2] * multiplier)

    def make_separable_conv(self, x):
        made, shape = self.make_depthwise_conv(x)
        filters = self.draw.randint(1, 8)
        return {"filters": filters, **made, **self.regularizer("pointwise_regularizer")}, (*shape[:2], filters)

    def make_conv_transpose(self, x):
        draw = self.draw
        kernel, stride = [draw.randint(1, 4) for _ in range(2)], [draw.randint(1, 2)] * 2
        padding, filters = draw.choice(["same", "valid"]), draw.randint(1, 6)
        options = {"filters": filters, "kernel_size": kernel, "strides": stride[0], "padding": padding}
        if draw.random() < 0.5:
            options["activation"] = self.activation()
        if draw.random() < 0.3:
            options["use_bias"] = False
        size = [s * t if padding == "same" else s * t + max(k - t, 0) for s, t, k in zip(x, stride, kernel)]
        return {**options, **self.regularizer("kernel_regularizer")}, (*size, filters)

    def make_max_pool(self, x):
        kernel, stride, padding = self.window(x, 3)
        options = {"pool_size": kernel, "padding": padding}
        if self.draw.random() < 0.5:
            options["strides"] = stride
        else:
            stride = kernel
        return options, self.conv_shape(x, kernel, stride, padding, [1, 1], x[2])

    make_average_pool = make_max_pool

    def make_zero_pad(self, x):
        pads = [self.draw.randint(0, 2) for _ in range(4)]
        return {"padding": pads}, (x[0] + pads[0] + pads[1], x[1] + pads[2] + pads[3], x[2])

    def make_up_sampling(self, x):
        size = [self.draw.randint(1, 2), self.draw.randint(1, 2)]
        options = {"size": size, "interpolation": self.draw.choice(["nearest", "bilinear"])}
        return options, (x[0] * size[0], x[1] * size[1], x[2])

    def make_batch_norm(self, x):
        return self.norm_options(momentum=True), x

    def make_layer_norm(self, x):
        return (self.norm_options(), x) if x[-1] > 1 else None

    def make_group_norm(self, x):
        groups = self.draw.choice([n for n in range(1, x[2] + 1) if x[2] % n == 0])
        return {"groups": -1 if groups == x[2] and self.draw.random() < 0.5 else groups, **self.norm_options()}, x

    def make_activation(self, x):
        function = self.activation()
        options = {"function": function}
        if function in ("leaky_relu", "elu") and self.draw.random() < 0.5:
            options["alpha"] = round(self.draw.uniform(0.05, 1.5), 2)
        return options, x

    def make_relu(self, x):
        return ({"max_value": 6} if self.draw.random() < 0.5 else {}), x

    def make_prelu(self, x):
        return {"shared": self.draw.random() < 0.5, **self.regularizer("alpha_regularizer")}, x

    def make_layer_scale(self, x):
        return {"initial": 0.5}, x

    # ---- Groups and branches --------------------------------------------------------------------

    def same_size_conv(self, filters):
        options = {"filters": filters, "kernel_size": self.draw.choice([1, 2, 3]), "padding": "same"}
        if self.draw.random() < 0.3:
            options["activation"] = self.activation()
        return {"conv": {**options, **self.name()}}

    def chain(self, channels, convolutions):
        """Layers that keep the size of the image and end with `channels`."""
        layers = []
        for left in range(convolutions, 0, -1):
            filters = channels if left == 1 or self.draw.random() < 0.6 else self.draw.randint(1, 6)
            layers.append(self.same_size_conv(filters))
            if self.has_batch_norm and self.draw.random() < 0.3:
                layers.append({"batch_norm": {**self.norm_options(momentum=True), **self.name()}})
            if self.draw.random() < 0.2:
                layers.append({"activation": {"function": self.activation(), **self.name()}})
        return layers

    def add_residual(self, layers, x):
        draw = self.draw
        convolutions = draw.randint(1, 3)
        has_shortcut = draw.random() < 0.6
        channels = draw.randint(1, 8) if has_shortcut else x[2]
        block = {"layers": self.chain(channels, convolutions)}
        if has_shortcut:
            # As many convolutions as the branch, of equal shapes: only their order in a file distinguishes them.
            block["shortcut"] = self.chain(channels, convolutions if draw.random() < 0.5 else draw.randint(1, 3))
        if draw.random() < 0.5:
            block["activation"] = self.activation()
        layers.append({"residual": {**block, **self.name()}})
        return (*x[:2], channels)

    def last_name(self, layers):
        return next(iter(layers[-1].values()))["name"]

    def anchor(self, layers, x):
        """The name of a new layer that several branches take."""
        layers.append(self.same_size_conv(x[2]))
        return self.last_name(layers)

    def add_branches(self, layers, x):
        """Two or three branches of different lengths from one layer, and a layer that joins them in any order."""
        draw = self.draw
        start = "input" if draw.random() < 0.1 and not layers else self.anchor(layers, x)
        kind = draw.choice(["add", "concatenate", "multiply"])
        count = 2 if kind == "multiply" else draw.randint(2, 3)
        channels = draw.randint(1, 4)
        ends = []
        for _ in range(count):
            branch = self.chain(channels, draw.randint(1, 3))
            next(iter(branch[0].values()))["inputs"] = [start]
            layers += branch
            ends.append(self.last_name(branch))
        may_join = start != "input" and (kind == "concatenate" or kind == "add" and channels == x[2])
        if may_join and draw.random() < 0.3:
            ends.append(start)
        draw.shuffle(ends)
        total = sum(x[2] if end == start else channels for end in ends) if kind == "concatenate" else channels
        if total > self.MAX_CHANNELS:
            kind, total = "add", channels
            ends = [end for end in ends if end != start]
        layers.append({kind: {"inputs": ends, **self.name()}})
        return (*x[:2], total)

    def add_gate(self, layers, x):
        """A factor per channel, made of the image's averages."""
        start = self.anchor(layers, x)
        pool = self.draw.choice(["global_average_pool", "global_max_pool"])
        layers.append({pool: {"keepdims": True, **self.name()}})
        layers.append({"conv": {"filters": x[2], "kernel_size": 1, "activation": "sigmoid", **self.name()}})
        layers.append({"multiply": {"inputs": [start, self.last_name(layers)], **self.name()}})
        return x

    def add_repeat(self, layers, x):
        """Rounds of layers that keep the shape; sometimes with a residual inside."""
        inner = self.chain(x[2], self.draw.randint(1, 2))
        if self.draw.random() < 0.4:
            inner = [{"residual": {"layers": inner, **self.name()}}]
        layers.append({"repeat": {"times": self.draw.randint(2, 3), "layers": inner}})
        return x

    # ---- The end ---------------------------------------------------------------------------------

    def add_tokens(self, x):
        """Layers of attention between an image and an image of one column."""
        draw = self.draw
        patch = [draw.choice([n for n in range(1, size + 1) if size % n == 0]) for size in x[:2]]
        heads = draw.choice([1, 2, 3])
        channels = heads * draw.choice([2, 4])
        first = draw.random() < 0.5
        self.layers.append({"patch_embedding": {"filters": channels, "patch_size": patch, "class_token": first,
                                                **self.name()}})
        tokens = x[0] * x[1] // (patch[0] * patch[1]) + first
        for kind in draw.choices(["attention", "transformer_block", "layer_norm", "prepend_tokens", "slice_tokens",
                                  "position_embedding"], k=draw.randint(1, 3)):
            options = {"num_heads": heads} if kind in ("attention", "transformer_block") else {}
            if kind == "attention" and draw.random() < 0.3:
                options["key_dim"] = draw.choice([1, 3])
            if kind == "prepend_tokens":
                options["count"] = draw.choice([1, 3])
                tokens += options["count"]
            if kind == "slice_tokens":
                options = {"begin": draw.randrange(tokens)}
                tokens -= options["begin"]
            self.layers.append({kind: {**options, **self.name()}})
        self.layers.append({"reshape": {"target_shape": [tokens, 1, channels], **self.name()}})
        return tokens, 1, channels

    def add_end(self, x, outputs):
        draw = self.draw
        if draw.random() < 0.5:
            self.layers.append({draw.choice(["global_average_pool", "global_max_pool"]): self.name()})
        elif draw.random() < 0.3:
            self.layers.append({"reshape": {"target_shape": draw.choice([[-1], [x[0] * x[1] * x[2]]]), **self.name()}})
        else:
            self.layers.append({"flatten": self.name()})
        for _ in range(draw.choice(self.dense_layers)):
            options = {"units": draw.choice(self.units)}
            if draw.random() < 0.6:
                options["activation"] = self.activation(is_image=False)
            if draw.random() < 0.3:
                options["use_bias"] = False
            self.layers.append({"dense": {**options, **self.regularizer("kernel_regularizer"), **self.name()}})
            extra = draw.choice(["", "", "batch_norm", "layer_norm", "activation", "prelu"])
            if extra == "batch_norm" and not self.has_batch_norm:
                extra = ""
            if extra == "activation":
                self.layers.append({extra: {"function": self.activation(is_image=False), **self.name()}})
            elif extra == "prelu":
                self.layers.append({extra: self.name()})
            elif extra:
                self.layers.append({extra: {**self.norm_options(momentum=extra == "batch_norm"), **self.name()}})
        self.layers.append({"dense": {"units": outputs, **self.regularizer("kernel_regularizer"), **self.name()}})


def random_loss(draw, classes):
    """Keys of `model` and of `train.class_weight` for the loss."""
    kind = "binary_cross_entropy" if classes == 2 and draw.random() < 0.6 else draw.choice(
        ["softmax_cross_entropy"] * 4 + ["mean_squared_error"])
    model, weights = {"loss": kind}, None
    if kind != "mean_squared_error":
        if draw.random() < 0.3:
            model["label_smoothing"] = round(draw.uniform(0.01, 0.3), 3)
        if draw.random() < 0.2:
            model["focal"] = {"gamma": round(draw.uniform(0.5, 3), 2)}
            if draw.random() < 0.5:
                model["focal"]["alpha"] = round(draw.uniform(0.1, 0.9), 2)
        # Keras's binary losses have no class weights of this form.
        elif draw.random() < 0.2 and kind == "softmax_cross_entropy":
            weights = [round(draw.uniform(0.2, 3), 2) for _ in range(classes)]
    return model, weights


def random_optimizer(draw):
    """The section `optimizer`, of Keras's words but for clipping and the average."""
    def rate(low, high):
        return float(f"{draw.uniform(low, high):.3g}")

    kind = draw.choice(["sgd", "sgd", "rmsprop", "adam", "adam", "adamw", "nadam", "adagrad", "lion", "lamb"])
    options = {"learning_rate": rate(1e-3, 0.03) if kind in ("sgd", "adagrad") else rate(2e-4, 4e-3)}
    if kind in ("sgd", "rmsprop") and draw.random() < 0.6:
        options["momentum"] = draw.choice([0.5, 0.9])
        if kind == "sgd" and draw.random() < 0.4:
            options["nesterov"] = True
    if kind == "rmsprop":
        options["rho"] = draw.choice([0.8, 0.9, 0.95])
        options["centered"] = draw.random() < 0.4
    if kind in ("adam", "adamw", "nadam", "lion", "lamb") and draw.random() < 0.5:
        options["beta_1"], options["beta_2"] = draw.choice([0.8, 0.9]), draw.choice([0.9, 0.95, 0.99])
    if kind in ("adam", "adamw") and draw.random() < 0.3:
        options["amsgrad"] = True
    if kind == "adagrad" and draw.random() < 0.5:
        options["initial_accumulator_value"] = rate(0.05, 1)
    if kind not in ("adam", "sgd", "lion") or draw.random() < 0.3:
        # An epsilon that counts makes the places differ where rules add it.
        if kind not in ("sgd", "lion"):
            options["epsilon"] = draw.choice([1e-7, 1e-3, 1e-2])
    if kind != "adam" and draw.random() < 0.4:
        options["weight_decay"] = rate(1e-3, 0.1)
    result = {kind: options}
    if draw.random() < 0.3:
        result[draw.choice(["clip_value", "clip_norm", "global_clip_norm"])] = rate(0.01, 1)
    return result
