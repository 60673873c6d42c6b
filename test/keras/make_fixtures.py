#!/usr/bin/env python3
"""Writes the numbers of Keras 3 that the tests hold trainer against, so that the tests need no Keras:

    optimizers.json   parameters over 200 updates with gradients of a formula
    schedules.json    learning rates at 200 steps
    plateaus.json     learning rates that ReduceLROnPlateau makes of metrics
    class_metrics.json   F1, balanced accuracy, AUC and balanced class weights (scikit-learn)
    layers.json, more_layers.json   outputs and gradients of single layers, losses
    training/*.json   losses of 50 training steps of small models

Run it after a change of the cases, not of Keras:

    scripts/python_env.sh keras scikit-learn -- test/keras/make_fixtures.py

Option and layer names are those of a trainer config. Each file states its formulas.
"""

import json
import math
import pathlib

import numpy as np
import cases
from keras_model import keras, make_loss, make_model, make_optimizer, train, weight_names

HERE = pathlib.Path(__file__).resolve().parent


def digits(values):
    """Nine significant digits hold a float32 exactly; nested lists for arrays."""
    if isinstance(values, (list, tuple)):
        return [digits(value) for value in values]
    array = np.asarray(values)
    if array.ndim:
        return [digits(value) for value in array]
    return float(f"{float(array):.9g}")


def write(name, content):
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items() if key != "cases"]
    if "cases" in content:
        rows = ",\n".join(json.dumps(case) for case in content["cases"])
        lines.append(f'"cases": [\n{rows}\n]')
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{path.relative_to(HERE)}: {path.stat().st_size} bytes")


def optimizers():
    initial = [[0.5, -0.25, 1.0, 0.0, -1.5], [0.1, 0.2, -0.3, 2.0]]
    content = {
        "keras": keras.__version__,
        "gradient": "float32(scale * sin(0.1 * step + index + 2 * tensor)) computed in double, step from 0",
        "values": "after 20, 40, ... 200 updates, all tensors; averages likewise, where the optimizer keeps them",
        "initial": initial,
        "cases": [],
    }
    for name, config, scale in cases.OPTIMIZERS:
        keras.backend.clear_session()
        variables = [keras.Variable(np.array(values, np.float32)) for values in initial]
        optimizer = make_optimizer(config)
        optimizer.build(variables)
        values, averages = [], []
        for step in range(200):
            gradients = [
                np.array([scale * math.sin(0.1 * step + i + 2 * t) for i in range(len(initial[t]))], np.float32)
                for t in range(len(initial))
            ]
            optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients])
            if (step + 1) % 20 == 0:
                values.append(digits([v.numpy() for v in variables]))
                if optimizer.use_ema:
                    averages.append(digits([v.numpy() for v in optimizer._model_variables_moving_average]))
        case = {"name": name, "optimizer": config, "scale": scale, "values": values}
        if averages:
            case["averages"] = averages
        content["cases"].append(case)
    write("optimizers.json", content)


def ramp_up(epoch, start, peak, floor, ramp_epochs, sustain_epochs, decay):
    if epoch < ramp_epochs:
        return (peak - start) / ramp_epochs * epoch + start
    if epoch < ramp_epochs + sustain_epochs:
        return peak
    return (peak - floor) * decay ** (epoch - ramp_epochs - sustain_epochs) + floor


def schedules():
    s = keras.optimizers.schedules
    base = 0.05
    made = [
        ("exponential", {"exponential": {"decay_every": "30 steps", "decay_rate": 0.7}},
         s.ExponentialDecay(base, 30, 0.7)),
        ("exponential_staircase", {"exponential": {"decay_every": "30 steps", "decay_rate": 0.7, "staircase": True}},
         s.ExponentialDecay(base, 30, 0.7, staircase=True)),
        ("exponential_epochs", {"exponential": {"decay_every": "2 epochs", "decay_rate": 0.9}},
         s.ExponentialDecay(base, 50, 0.9)),
        ("cosine", {"cosine": {"decay_over": "150 steps"}}, s.CosineDecay(base, 150)),
        ("cosine_alpha", {"cosine": {"decay_over": "150 steps", "alpha": 0.1}}, s.CosineDecay(base, 150, alpha=0.1)),
        ("cosine_warm_up", {"cosine": {"decay_over": "120 steps"}, "warm_up": {"over": "40 steps"}},
         s.CosineDecay(0.0, 120, warmup_target=base, warmup_steps=40)),
        ("cosine_warm_up_alpha",
         {"cosine": {"decay_over": "120 steps", "alpha": 0.2}, "warm_up": {"over": "1 epoch", "start_factor": 0.1}},
         s.CosineDecay(0.1 * base, 120, alpha=0.2, warmup_target=base, warmup_steps=25)),
        ("cosine_restarts", {"cosine_restarts": {"first_decay": "20 steps"}}, s.CosineDecayRestarts(base, 20)),
        ("cosine_restarts_options",
         {"cosine_restarts": {"first_decay": "1 epoch", "t_mul": 1.5, "m_mul": 0.8, "alpha": 0.1}},
         s.CosineDecayRestarts(base, 25, t_mul=1.5, m_mul=0.8, alpha=0.1)),
        ("cosine_restarts_equal", {"cosine_restarts": {"first_decay": "30 steps", "t_mul": 1.0, "m_mul": 0.5}},
         s.CosineDecayRestarts(base, 30, t_mul=1.0, m_mul=0.5)),
        ("polynomial", {"polynomial": {"decay_over": "150 steps", "end_learning_rate": 0.001}},
         s.PolynomialDecay(base, 150, 0.001)),
        ("polynomial_square", {"polynomial": {"decay_over": "6 epochs", "power": 2.0}},
         s.PolynomialDecay(base, 150, 1e-4, power=2.0)),
        ("step", {"step": {"every": "60 steps", "factor": 0.5}}, lambda step: base * 0.5 ** (step // 60)),
    ]
    content = {
        "keras": keras.__version__,
        "about": "learning rates of updates 0..199; Keras computes them in float32; ramp_up and step are plain Python",
        "learning_rate": base,
        "steps_per_epoch": 25,
        "total_steps": 200,
        "cases": [],
    }
    for name, config, schedule in made:
        values = [float(schedule(step)) for step in range(200)]
        content["cases"].append({"name": name, "schedule": config, "values": digits(values)})
    article_w = {"start": 1e-5, "peak": 5e-5, "floor": 1e-5, "ramp_epochs": 3, "sustain_epochs": 1, "decay": 0.8}
    for by in ("epoch", "step"):
        values = [ramp_up(step // 25 if by == "epoch" else step / 25, **article_w) for step in range(200)]
        content["cases"].append(
            {"name": f"ramp_up_{by}", "schedule": {"ramp_up": {**article_w, "by": by}}, "values": digits(values)}
        )
    write("schedules.json", content)


def plateaus():
    """Keras's ReduceLROnPlateau over made-up losses, and the learning rate after each epoch."""
    about = "learning rate after each value; mode max for accuracy; Keras keeps the rate in float32"
    content = {"keras": keras.__version__, "about": about, "learning_rate": 0.05, "cases": []}
    for name, options in cases.PLATEAUS:
        largest = options["metric"].endswith("accuracy")
        values = [round(0.6 + (1 if largest else -1) * 0.3 * (1 - 0.9**i) + 0.02 * math.sin(2.1 * i * i), 6)
                  for i in range(40)]
        given = {key: value for key, value in options.items() if key != "metric"}
        if "min_learning_rate" in given:
            given["min_lr"] = given.pop("min_learning_rate")
        callback = keras.callbacks.ReduceLROnPlateau(monitor="value", mode="max" if largest else "min", **given)
        model = make_model((1,), [{"dense": 1}])
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
        callback.set_model(model)
        callback.on_train_begin()
        rates = []
        for epoch, value in enumerate(values):
            callback.on_epoch_end(epoch, {"value": value})
            rates.append(float(model.optimizer.learning_rate.numpy()))
        content["cases"].append({"name": name, "schedule": options, "values": values, "rates": digits(rates)})
    write("plateaus.json", content)


def class_metrics():
    """scikit-learn's numbers for predictions of a formula; test/keras/README.md names its version's package."""
    import sklearn
    from sklearn import metrics

    content = {"scikit-learn": sklearn.__version__,
               "about": "scores[s][c] are logits; predicted: the largest, or > 0 of a single one; auc of softmax "
                        "probabilities, one class against the rest",
               "cases": []}
    for name, samples, outputs, digits_kept, classes in cases.METRICS:
        scores = np.round([[2.5 * math.sin(1.3 * s + 2.1 * c + 0.01 * s * s) for c in range(outputs)]
                           for s in range(samples)], digits_kept)
        labels = np.array([(3 * s + s * s % 7) % classes for s in range(samples)])
        for s in range(samples):  # so that scores tell something of the labels
            if outputs == 1:
                scores[s, 0] += 1 if labels[s] else -1
            else:
                scores[s, labels[s]] += 1
        scores = np.round(scores, digits_kept)
        if outputs == 1:
            predicted = (scores[:, 0] > 0).astype(int)
            auc = metrics.roc_auc_score(labels, scores[:, 0])
        else:
            predicted = scores.argmax(axis=1)
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            # The same logits in another order give the same chances but for rounding.
            p = np.round(p / p.sum(axis=1, keepdims=True), 13)
            present = [c for c in range(outputs) if (labels == c).any()]
            auc = np.mean([metrics.roc_auc_score(labels == c, p[:, c]) for c in present])
            if len(present) == outputs and outputs > 2:
                assert abs(auc - metrics.roc_auc_score(labels, p, multi_class="ovr", average="macro")) < 1e-12
            if outputs == 2:
                auc = metrics.roc_auc_score(labels, p[:, 1])
        content["cases"].append({
            "name": name, "outputs": outputs, "scores": scores.tolist(), "labels": labels.tolist(),
            "f1_macro": metrics.f1_score(labels, predicted, average="macro", zero_division=0),
            "f1_weighted": metrics.f1_score(labels, predicted, average="weighted", zero_division=0),
            "balanced_accuracy": metrics.balanced_accuracy_score(labels, predicted),
            "auc": auc,
            "class_weight": {
                str(c): w for c, w in zip(
                    np.unique(labels).tolist(),
                    sklearn.utils.class_weight.compute_class_weight("balanced", classes=np.unique(labels), y=labels))},
        })
    write("class_metrics.json", content)


def formula(shape, scale, phase):
    """Short decimal numbers without a pattern that a wrong index could repeat."""
    count = int(np.prod(shape))
    return np.round([scale * math.sin(1.7 * i + phase + 0.01 * i * i) for i in range(count)], 3).reshape(shape)


def layer_cases(layers):
    """Rows of layers.json."""
    import tensorflow as tf

    rows = []
    for name, entry, shape in layers:
        model = make_model(shape[1:], [entry])
        for number, (weight_name, weight) in enumerate(weight_names(model)):
            if "moving" not in weight_name:
                offset = 1.0 if weight_name.endswith("gamma") else 0.0
                weight.assign(offset + formula(weight.shape, 0.5, number + 1))
        before = [(n, w.numpy()) for n, w in weight_names(model)]
        x = tf.constant(formula(shape, 2.0, 0), tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = model(x, training=True)
            dy = tf.constant(formula(y.shape, 1.0, 5), tf.float32)
            total = tf.reduce_sum(y * dy)
        dx, dweights = tape.gradient(total, [x, model.trainable_variables])
        case = {"name": name, "layer": entry, "x_shape": list(shape), "x": x, "y_shape": list(y.shape), "y": y, "dy": dy,
                "dx": dx}
        flat = {key: digits(value.numpy().ravel()) if key in ("x", "y", "dy", "dx") else value
                for key, value in case.items()}
        flat["weights"] = {
            n.split("/")[1]: {"shape": list(w.shape), "values": digits(w.ravel())} for n, w in before if "moving" not in n
        }
        flat["dweights"] = {
            v.name: digits(g.numpy().ravel()) for v, g in zip(model.trainable_variables, dweights)
        }
        statistics = {n.split("/")[1]: digits(w.numpy()) for n, w in weight_names(model) if "moving" in n}
        if statistics:
            flat["statistics"] = statistics
        rows.append(flat)
    return rows


def layers():
    import tensorflow as tf

    content = {
        "keras": keras.__version__,
        "about": "y = layer(x); dx and dweights are the gradients of sum(y * dy). Flat, in Keras's order; training mode. "
                 "statistics: the moving ones after the one call. losses: each sample's, and the gradient of their mean",
        "cases": layer_cases(cases.LAYERS),
        "losses": [],
    }
    for name, kind, smoothing, logits_shape, focal, class_weight in cases.LOSSES:
        logits = tf.constant(formula(logits_shape, 3.0, 2), tf.float32)
        if kind == "softmax_cross_entropy":
            labels = [(2 * i + 1) % logits_shape[1] for i in range(logits_shape[0])]
            targets = tf.one_hot(labels, logits_shape[1])
        elif kind == "binary_cross_entropy":
            labels = [(i * i + 1) % 2 for i in range(logits_shape[0])]
            targets = tf.constant(np.array(labels, np.float32).reshape(-1, 1))
        else:
            targets = tf.constant(formula(logits_shape, 1.0, 3), tf.float32)
            labels = digits(targets.numpy())
        function = {
            "softmax_cross_entropy": lambda: keras.losses.categorical_crossentropy(
                targets, logits, from_logits=True, label_smoothing=smoothing),
            "binary_cross_entropy": lambda: keras.losses.binary_crossentropy(
                targets, logits, from_logits=True, label_smoothing=smoothing),
            "mean_squared_error": lambda: keras.losses.mean_squared_error(targets, logits),
        }[kind]
        if focal is not None and kind == "softmax_cross_entropy":
            function = lambda: keras.losses.categorical_focal_crossentropy(
                targets, logits, from_logits=True, label_smoothing=smoothing, **focal)
        elif focal is not None:
            function = lambda: keras.losses.binary_focal_crossentropy(
                targets, logits, apply_class_balancing="alpha" in focal, from_logits=True, label_smoothing=smoothing,
                **focal)
        weights = 1.0 if class_weight is None else tf.constant([class_weight[label] for label in labels], tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(logits)
            values = function() * weights
            mean = tf.reduce_mean(values)
        content["losses"].append({
            "name": name, "loss": kind, "label_smoothing": smoothing, "focal": focal, "class_weight": class_weight,
            "shape": list(logits_shape),
            "logits": digits(logits.numpy().ravel()), "labels": labels, "losses": digits(values.numpy()),
            "dlogits": digits(tape.gradient(mean, logits).numpy().ravel()),
        })
    write("layers.json", content)


def more_layers():
    write("more_layers.json", {"keras": keras.__version__, "about": "as layers.json",
                               "cases": layer_cases(cases.MORE_LAYERS)})


def make_keras_loss(model_config):
    """A loss for compile(), which takes class indices."""
    if model_config["loss"] == "binary_cross_entropy":
        return keras.losses.BinaryCrossentropy(from_logits=True)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def weighted_evaluation(model, loss, shape, kind, classes):
    """What Keras's evaluate(sample_weight=...) says of all samples of a run, with the weights that the model has."""
    images, labels = cases.samples(shape, classes)
    images = images.astype(np.float32) * np.float32(1 / 255)
    binary = kind == "binary_cross_entropy"
    accuracy = keras.metrics.BinaryAccuracy(threshold=0.0) if binary else keras.metrics.SparseCategoricalAccuracy()
    model.compile(loss=loss, metrics=[accuracy])
    result = model.evaluate(images, labels, batch_size=cases.BATCH, sample_weight=cases.sample_weights(),
                            return_dict=True, verbose=0)
    return {"loss": digits(result["loss"]), "accuracy": digits(result[accuracy.name])}


def training(only=None):
    """All runs, or the one of this name."""
    for name, model_config, optimizer_config in cases.TRAINING:
        if only not in (None, name):
            continue
        shape = model_config["input"]
        classes = cases.CLASSES if model_config["loss"] != "binary_cross_entropy" else 2
        model = make_model(shape, model_config["layers"])
        weights = []
        for number, (weight_name, weight) in enumerate(weight_names(model)):
            scale, offset = cases.weight_formula(weight_name, weight.shape)
            values = cases.weight_values(weight.shape, number, scale, offset)
            weight.assign(values)
            weights.append({"name": weight_name, "shape": list(weight.shape), "scale": scale, "offset": offset})
        weight = cases.CLASS_WEIGHTS.get(name)
        loss = make_loss(model_config["loss"], model_config.get("label_smoothing", 0.0), classes,
                         model_config.get("focal"), weight)
        batches = [cases.batch(shape, step, model_config["loss"], classes) for step in range(cases.STEPS)]
        if name in cases.SAMPLE_WEIGHTS:
            batches = [(*batch, cases.weights_of_batch(step)) for step, batch in enumerate(batches)]
        extra = {}
        if name in cases.SAMPLE_WEIGHTS:
            extra["evaluation_before"] = weighted_evaluation(
                model, make_keras_loss(model_config), shape, model_config["loss"], classes)
        losses = train(model, make_optimizer(optimizer_config), loss, batches)
        images, labels = batches[0][:2]
        # Evaluation takes no weights.
        unweighted = make_loss(model_config["loss"], model_config.get("label_smoothing", 0.0), classes,
                               model_config.get("focal"))
        evaluation = float(unweighted(labels, model(images, training=False)))
        final = {n: digits(w.numpy().ravel()) for n, w in weight_names(model) if w.numpy().size <= 16}
        write(f"training/{name}.json", {
            "keras": keras.__version__,
            "images": "pixel i of sample s is ((i*31 + s*17 + (i*s)%23 + label*i*5) % 256), uint8, x / 255; row by row",
            "labels": "sample s has label s % classes; batch of step t: samples t*batch_size ... of the epoch, "
                      "s modulo samples",
            "initial": "element i of weight number n is float32(offset + scale * sin(i + 1 + n)) computed in double",
            "model": model_config, "optimizer": optimizer_config,
            "class_weight": weight,
            **({"sample_weight": "of sample s: 0.75 * (7 s % 5)"} if name in cases.SAMPLE_WEIGHTS else {}),
            "classes": classes, "samples": cases.SAMPLES, "batch_size": cases.BATCH, "steps": cases.STEPS,
            "weights": weights, "losses": digits(losses),
            "evaluation_loss_of_first_batch": digits(evaluation), **extra, "final": final,
        })


if __name__ == "__main__":
    optimizers()
    schedules()
    plateaus()
    class_metrics()
    layers()
    more_layers()
    training()
