"""A config's `model.layers` with branches, groups and names as a functional Keras 3 model."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "keras"))

from keras_model import keras, make_layer  # noqa: E402


class LayerScale(keras.layers.Layer):
    """A trained factor per channel."""

    def build(self, shape):
        self.gamma = self.add_weight(name="gamma", shape=(shape[-1],), initializer="ones")

    def call(self, x):
        return x * self.gamma


def make_activation(options, name):
    """An Activation layer, also with alpha, so that Keras's automatic names are those of the config's layers."""
    options = {"function": options} if isinstance(options, str) else options
    function, alpha = options["function"], options.get("alpha")
    if alpha is not None:
        if function == "leaky_relu":
            return keras.layers.Activation(lambda x: keras.activations.leaky_relu(x, negative_slope=alpha), name=name)
        return keras.layers.Activation(lambda x: keras.activations.elu(x, alpha=alpha), name=name)
    return keras.layers.Activation(function, name=name)


class Builder:
    """Makes the layers in the order in which the config's groups are expanded, as Keras names layers by this order."""

    def __init__(self, image):
        self.outputs = {"input": image}

    def add_list(self, entries, x, suffix="", scope=None):
        """`scope` maps the names of the config to outputs inside a round of a repeated group."""
        scope = self.outputs if scope is None else scope
        for entry in entries:
            kind, options = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
            options = dict(options) if isinstance(options, dict) else options
            is_map = isinstance(options, dict)
            name = options.pop("name", None) if is_map else None
            names = options.pop("inputs", None) if is_map else None
            inputs = [scope[other] for other in names] if names else [x]
            full = name + suffix if name else None
            x = self.add(kind, options, full, inputs, suffix, scope)
            if name:
                scope[name] = x
                self.outputs[full] = x
        return x

    def add(self, kind, options, name, inputs, suffix, scope):
        if kind == "repeat":
            x = inputs[0]
            for index in range(1, options["times"] + 1):
                x = self.add_list(options["layers"], x, f"{suffix}_{index}", dict(scope))
            return x
        if kind == "residual":
            main = self.add_list(options["layers"], inputs[0], suffix, scope)
            shortcut = self.add_list(options.get("shortcut", []), inputs[0], suffix, scope)
            x = keras.layers.Add(name=name)([main, shortcut])
            return self.activate(options.get("activation", "linear"), name, x)
        if kind in ("add", "concatenate", "multiply"):
            classes = {"add": keras.layers.Add, "concatenate": keras.layers.Concatenate,
                       "multiply": keras.layers.Multiply}
            return classes[kind](name=name)(inputs)
        if kind == "activation":
            return make_activation(options, name)(inputs[0])
        if kind == "relu":
            return keras.layers.ReLU(options.get("max_value"), name=name)(inputs[0])
        if kind == "layer_scale":
            return LayerScale(name=name)(inputs[0])
        x = inputs[0]
        norm = options.pop("batch_norm", None) if kind == "conv" else None
        activation = options.pop("activation", "linear") if norm is not None else None
        if kind == "conv" and isinstance(options.get("padding"), list):
            top, bottom, left, right = options.pop("padding")
            x = keras.layers.ZeroPadding2D(((top, bottom), (left, right)))(x)
        if name and isinstance(options, dict) and kind != "zero_pad":
            options["name"] = name
        x = make_layer({kind: options})(x)
        if norm is None:
            return x
        x = keras.layers.BatchNormalization(**norm, name=name and name + "_bn")(x)
        return self.activate(activation, name, x)

    @staticmethod
    def activate(function, name, x):
        if function == "linear":
            return x
        return keras.layers.Activation(function, name=name and name + "_activation")(x)


def make_graph(shape, entries, floats):
    """The functional model in "float32" or "float64". Keras names its layers from scratch for each model."""
    keras.backend.clear_session()
    keras.config.set_floatx(floats)
    keras.config.set_dtype_policy(floats)
    image = keras.Input(tuple(shape), name="input")
    return keras.Model(image, Builder(image).add_list(entries, image))
