"""Draws configs over all keys of the schema, for a drawn data set. Needs no packages."""

import re
import socket

from random_models import RandomModel
from random_values import OMIT, RandomValues, merge_alternatives

METRICS = ["validation/loss", "validation/accuracy", "validation/top_k_accuracy", "validation/f1_macro",
           "validation/auc", "validation/balanced_accuracy"]
LABEL_METRICS = ["validation/loss", "validation/f1_micro", "validation/subset_accuracy", "validation/hamming_loss",
                 "validation/average_precision"]
BACKBONES = ["mobilenet_v3_small"] * 3 + ["mobilenet_v2"] * 2 + ["resnet18"]
# Keys of a layer that decide the shape of its output, or belong to the graph of the model.
SHAPING = {"filters", "kernel_size", "strides", "padding", "dilation_rate", "groups", "depth_multiplier", "pool_size",
           "units", "target_shape", "size", "keepdims", "inputs", "name", "times", "layers", "shortcut", "over",
           "rounds", "max_value", "function", "alpha", "batch_norm", "rate", "activation", "num_heads", "key_dim", "mlp_dim",
           "mlp_ratio", "patch_size", "class_token", "count", "begin", "end"}


def draw_model_kind(draw):
    return draw.choice(["layers"] * 7 + ["dense_classifier"] + ["backbone"] * 2)


class RandomConfig:
    """The config `config` for a DataSet. `share` is the probability of each optional key."""

    def __init__(self, draw, schema, data, model_kind):
        self.draw, self.data, self.model_kind = draw, data, model_kind
        self.schema = schema
        self.values = RandomValues(draw, schema, {}, share=draw.choice([0.1, 0.25, 0.5]))
        self.make_hints()
        sections = {key: self.section(key) for key in ("optimizer", "schedule", "evaluate", "run", "parallel", "train")}
        self.config = {key: value for key, value in sections.items() if value not in (OMIT, {})}
        for key in ("name", "seed"):
            if draw.random() < 0.5:
                self.config[key] = self.values.hints[key]()
        self.config["data"] = self.make_data()
        self.config["model"] = self.make_model()
        stop = self.config["train"].get("early_stop") or {}
        if stop.get("restore_best") and draw.random() < 0.8:
            self.config["run"] = {**(self.config.get("run") or {}), "best": stop.get("metric", "validation/loss")}

    def node(self, *path):
        node = self.schema.root
        for key in path:
            maps = [each["properties"] for each in merge_alternatives(node) if "properties" in each]
            node = next(properties[key] for properties in maps if key in properties)
        return node

    def section(self, key):
        if key != "train" and self.draw.random() < 0.25:
            return OMIT
        value = self.values.value(self.node(key), key)
        return {"epochs": 1} if value is None and key == "train" else value

    def metric(self):
        if self.draw.random() < 0.1:
            return "validation/los"
        return self.draw.choice(LABEL_METRICS if self.data.labels else METRICS)

    def class_map(self):
        names = self.draw.sample(self.data.names, self.draw.randint(1, len(self.data.names)))
        return {name: self.draw.choice([0, 0.5, 1, 3]) for name in names}

    def rate(self):
        return self.draw.choice([0, 1e-4, 1e-3, 1e-3, 0.01, 0.01, 0.05])

    def seldom(self, *values, share=0.1):
        """A hint that gives one of the values now and then."""
        return lambda: self.draw.choice(values) if self.draw.random() < share else OMIT

    def make_hints(self):
        draw, data = self.draw, self.data
        pick = lambda *values: lambda: draw.choice(values)
        hints = self.values.hints
        hints.update({
            "name": pick("run", "a b", "7", "näme", "x" * 60, 12, True), "seed": pick(0, 1, 7, 2**31, 2**62),
            "run.dir": self.seldom("place/run"), "run.best": lambda: draw.choice(["", self.metric()]),
            "run.mlflow": self.seldom("", "http://127.0.0.1:9"),
            "run.prometheus": self.seldom("", "/dev/null/missing.prom"),
            "run.keep": pick(1, 2, 5, 10**9), "evaluate.top_k": pick(1, 2, 5, 1000),
            "evaluate.batch_size": pick(1, 3, 64, 1000),
            "train.batch_size": lambda: "auto" if draw.random() < 0.05 else draw.choice([1, 2, 4, 5, 8, 8, 16, 50]),
            "train.epochs": pick(0.5, 1, 1, 1.3, 2), "train.max_steps": pick(1, 2, 4, 6),
            "train.memory_mb": pick(1, 64, 500), "train.early_stop.metric": self.metric,
            "train.stop_at.metric": self.metric, "train.stop_at.value": pick(0, 0.3, 1, 5, -1),
            "train.class_weight": lambda: draw.choice(["balanced", self.class_map()]),
            "train.pos_weight": lambda: OMIT if not data.labels and draw.random() < 0.8 else
            draw.choice(["balanced", self.class_map()]),
            "train.precision": lambda: draw.choice(["tf32", "float16", "fp16"])
            if draw.random() < 0.15 else draw.choice(["float32", "bfloat16", "bf16", "fp32"]),
            "train.loss_scale": pick("dynamic", 128, 1e-3), "train.early_stop.patience": pick(1, 2, 100),
            "train.cache_features": lambda: draw.choice(["auto", "on", "memory", "disk", "off"])
            if self.model_kind == "backbone" else draw.choice(["auto", "off"]),
            "schedule.reduce_on_plateau.metric": self.metric,
            "parallel.strategy": self.seldom("all_reduce", "parameter_server", share=0.3),
            "parallel.max_staleness": self.seldom(0, 3, share=0.4),
            "parallel.device": lambda: "cuda" if draw.random() < 0.03 else draw.choice(["auto", "cpu"]),
            "parallel.gpus": self.seldom("all", 0, 1, 2, [0], [0, 0], share=0.4),
            "parallel.replicas": pick(1, 2, 2, 3), "parallel.micro_batches": pick(1, 2, 4, 8, 16, 64, 3),
            "parallel.threads": pick(1, 2, 2, 3, 5), "parallel.lanes": pick(1, 2, 3, 8),
            "parallel.collective": lambda: "nccl" if draw.random() < 0.1 else
            draw.choice(["auto", "ring"]),
            "parallel.timeout": pick("60 seconds", "1 second", "30.5 seconds", "604800 seconds", "3 steps"),
            # Each drawn job is one process.
            "parallel.require_cluster": pick(1), "parallel.hosts": pick(socket.gethostname()),
            "optimizer.accumulate": pick(1, 2, 3), "optimizer.clip_value": pick(1e-3, 0.1, 10),
            "optimizer.clip_norm": pick(1e-3, 0.1, 10), "optimizer.global_clip_norm": pick(1e-3, 0.1, 10),
            "optimizer.learning_rate_multiplier.match": lambda: "*" if draw.random() < 0.8 else
            draw.choice(["dense*", "a?", "*conv*", "no_such"]),
            "optimizer.exclude_from_weight_decay": lambda: draw.choice([["*/bias"], ["*"]]) if draw.random() < 0.8 else
            draw.choice([["*/gamma", "*/beta"], ["none"]]),
            "model.weights": OMIT, "model.backbone.weights": OMIT,
            "model.allow_missing": pick(["*/beta"], ["*"]), "model.backbone.allow_missing": pick(["*/beta"], ["*"]),
            "model.dense_classifier.hidden_units": lambda: [draw.choice([1, 4, 9]) for _ in range(draw.randint(1, 3))],
        })
        for kind in ("sgd", "rmsprop", "adam", "adamw", "nadam", "adagrad", "lion", "lamb"):
            hints[f"optimizer.{kind}.learning_rate"] = self.rate
        for key in ("step.every", "exponential.decay_every", "cosine.decay_over", "polynomial.decay_over",
                    "warm_up.over"):
            hints[f"schedule.{key}"] = self.values.duration
        hints["schedule.milestones.at"] = lambda: [f"{at} steps" for at in sorted(draw.sample(range(1, 9), 2))]

    # ---- data ------------------------------------------------------------------------------------

    def make_data(self):
        draw, data = self.draw, self.data
        hints = self.values.hints
        for key in self.node_keys("data"):
            if key in ("format", "path", "train", "validation", "test", "synthetic", "csv"):
                hints[f"data.{key}"] = OMIT
        pick = lambda *values: lambda: draw.choice(values)
        hints.update({
            "data.classes": self.seldom(data.names, data.names[::-1], share=0.5),
            "data.num_classes": lambda: len(data.names) if draw.random() < 0.8 else
            draw.choice([len(data.names) + 1, OMIT]),
            "data.class_order": self.seldom("text", "number", share=0.5), "data.relabel": OMIT, "data.group_by": OMIT,
            "data.range": OMIT, "data.error_budget": OMIT, "data.cache_dir": OMIT, "data.max_pixels": OMIT,
            "data.max_file_size": OMIT, "data.limit": pick(1, 5, 11, 30, 1000),
            "data.validation_split": pick(0.1, 0.2, 0.5, 0.99),
            "data.folds": pick(2, 3, 5), "data.fold": pick(1, 2, 3), "data.prefetch": pick(0, 1, 4, 1000),
            "data.threads": pick(1, 2, 5),
            "data.drop_remainder": lambda: draw.random() < 0.3, "data.repeats": pick(1, 2, 3, 50), "data.resize": OMIT,
            "data.channels": OMIT,
        })
        if not data.is_images and draw.random() < 0.9:
            for key in ("interpolation", "antialias", "fit", "crop_fraction", "scaled_decode", "on_error",
                        "on_conflict", "cache"):
                hints[f"data.{key}"] = OMIT
        elif draw.random() < 0.7:
            hints["data.on_error"] = lambda: draw.choice(["skip", "replace"]) if data.is_damaged else "fail"
        if "validation" in data.config and draw.random() < 0.9:
            hints["data.validation_split"] = hints["data.validation_split_order"] = OMIT
        for key, value in data.values.items():
            hints[f"data.{key}"] = value
        made = self.values.map(merge_alternatives(self.node("data"))[0], "data")
        made.update(data.config)
        if data.is_images:
            if data.size_key == "resize" or draw.random() < 0.3:
                made["resize"] = data.shape[:2]
                made["channels"] = data.shape[2]
        if draw.random() < 0.75:
            augment = [self.values.value({"$ref": "#/$defs/augmentation"}, "") for _ in range(draw.randint(1, 5))]
            augment = [each for each in augment if each]
            if draw.random() < 0.9:
                augment.sort(key=lambda each: ("mix" in str(each)) - ("random_resized_crop" in str(each)))
            made["train"] = {**made.get("train", {}), "augment": augment}
        return made

    def node_keys(self, *path):
        return [key for each in merge_alternatives(self.node(*path)) for key in each.get("properties", {})]

    # ---- model -----------------------------------------------------------------------------------

    def make_model(self):
        draw, data = self.draw, self.data
        hints = self.values.hints
        outputs = len(data.names)
        model = {}
        loss = draw.choice(["softmax_cross_entropy"] * 4 + ["mean_squared_error"])
        if data.labels and draw.random() < 0.95 or outputs == 2 and draw.random() < 0.4 or draw.random() < 0.02:
            loss = "binary_cross_entropy"
            if not data.labels and outputs == 2:
                outputs = 1
        if loss != "softmax_cross_entropy" or draw.random() < 0.3:
            model["loss"] = loss
        for key in ("label_smoothing", "focal", "allow_missing"):
            if draw.random() < self.values.share:
                value = self.values.value(self.node("model", key), f"model.{key}")
                if value is not OMIT:
                    model[key] = value
        if data.is_images and data.size_key == "input" or draw.random() < 0.2:
            model["input"] = data.shape
        if self.model_kind == "layers":
            random_model = RandomModel(draw, tuple(data.shape), outputs, has_tokens=True)
            model["layers"] = self.add_inputs(self.decorate(self.add_dropouts(random_model.layers)))
        elif self.model_kind == "dense_classifier":
            model["dense_classifier"] = self.values.value(self.node("model", "dense_classifier"),
                                                          "model.dense_classifier")
        else:
            model.update(self.make_backbone(hints, outputs))
        return model

    def make_backbone(self, hints, outputs):
        draw = self.draw
        names = {"mobilenet_v3_small": ["conv", "expanded_conv*"], "mobilenet_v2": ["block_1*"],
                 "resnet18": ["layer1*"]}
        name = draw.choice(BACKBONES)
        freeze = lambda: draw.choice(["all", "none", "[:-4]", "[:10]", 5, 1000, names[name], names[name][0], "[3:5]"])
        hints.update({
            "model.backbone.name": lambda: name, "model.backbone.freeze": freeze,
            "model.backbone.unfreeze.freeze": freeze,
            "model.backbone.alpha": lambda: draw.choice([0.25, 0.5, 0.75, 1]) if "mobile" in name else OMIT,
            "model.backbone.unfreeze.at": lambda: draw.choice(["1 step", "2 steps", "1 epoch", "0.5 epochs"]),
        })
        backbone = self.values.map(merge_alternatives(self.node("model", "backbone"))[0], "model.backbone")
        if "mobile" in name and draw.random() < 0.9:
            backbone["alpha"] = 0.25
        if draw.random() < 0.5:
            backbone["include_top"] = draw.random() < 0.06
        head = []
        if backbone.get("pooling") in (None, "none"):
            head.append(draw.choice(["global_average_pool", "flatten", {"global_max_pool": {}}]))
        if draw.random() < 0.4:
            head.append({"dropout": 0.3})
        head.append({"dense": outputs})
        return {"backbone": backbone, "head": self.decorate(head)}

    def add_dropouts(self, layers):
        draw = self.draw
        for kind in ("dropout", "spatial_dropout", "drop_path"):
            if draw.random() < 0.15:
                rate = draw.choice([0, 0.2, 0.5, 0.99])
                place = 0 if kind == "spatial_dropout" else len(layers) - 1
                layers.insert(place, {kind: rate if draw.random() < 0.4 else {"rate": rate, "name": kind}})
        if draw.random() < 0.1:
            layers.insert(0, draw.choice([
                {"repeat": {"over": {"size": [2, 3]},
                            "layers": [{"conv": {"filters": "$size", "kernel_size": 1}}]}},
                {"repeat": {"rounds": [{"layers": [{"conv": {"filters": 2, "padding": "same"}}]},
                                       {"layers": ["batch_norm", "relu"]}]}}]))
            layers.insert(1, {"conv": {"filters": self.data.shape[2], "kernel_size": 1}})
        return layers

    def add_inputs(self, layers):
        """Names the layer before some layers, which they would take anyway."""
        before = "input"
        for layer in layers:
            (kind, options), = layer.items() if isinstance(layer, dict) else [(layer, None)]
            if isinstance(options, dict):
                if before and "inputs" not in options and self.draw.random() < 0.25:
                    options["inputs"] = self.draw.choice([before, [before]])
            before = options.get("name") if isinstance(options, dict) and kind != "repeat" else None
        return layers

    def decorate(self, layers):
        """Adds keys that keep the shape of the layers."""
        part = self.schema.parts["layer"]
        kinds = next(each["properties"] for each in merge_alternatives(part) if "properties" in each)
        for number, layer in enumerate(layers):
            if not isinstance(layer, dict):
                continue
            (kind, options), = layer.items()
            if not isinstance(options, dict):
                continue
            for key in ("layers", "shortcut"):
                if key in options:
                    self.decorate(options[key])
            keys = next(each for each in merge_alternatives(kinds[kind]) if each.get("type") == "object")["properties"]
            for key, node in keys.items():
                shapes = key in SHAPING - {"batch_norm"} or key == "batch_norm" and self.draw.random() < 0.5
                if key in options or shapes or self.draw.random() > self.values.share:
                    continue
                value = self.values.value(node, f"layer.{kind}.{key}")
                if value is not OMIT:
                    options[key] = value
        return layers


def find_place(config, path):
    """(map or list, key) of the deepest part of a path such as data.train.augment[1].mixup that the config has."""
    keys = [int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)]
    place = None
    for key in keys:
        if isinstance(config, dict) and key in config or isinstance(config, list) and isinstance(key, int) and \
                key < len(config):
            place = config, key
            config = config[key]
        else:
            break
    return place


def repair(random_config, message):
    """Removes the key that a message names, or adds it. Returns whether the config has changed."""
    config = random_config.config
    path = message.split(": ")[0]
    place = find_place(config, path)
    keys = path.split(".")
    missing = re.search(r"missing required key '(\w+)'", message)
    if missing:
        keys.append(missing.group(1))
    if len(keys) == 2 and keys[1] not in (config.get(keys[0]) or {}) and "[" not in path:
        try:
            value = random_config.values.value(random_config.node(*keys), path)
        except StopIteration:
            return False
        if value is not OMIT and isinstance(config.get(keys[0]) or {}, dict):
            config[keys[0]] = {**(config.get(keys[0]) or {}), keys[1]: value}
            return True
    if place is None or place[1] in ("model", "data", "train"):
        return False
    del place[0][place[1]]
    return True
