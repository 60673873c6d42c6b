"""Draws values of a config from its JSON schema, which `trainer schema` prints. Needs no packages."""

import json
import subprocess

OMIT = object()  # a key that is left out
SPLITS = ("train", "validation", "test")


def merge_alternatives(node):
    """The alternatives of a node, those of nested `anyOf` among them."""
    if "type" in node or "enum" in node or "$ref" in node:
        return [node]
    return [leaf for part in node.get("anyOf", []) for leaf in merge_alternatives(part)]


class Schema:
    """The schema of a config that extends no other."""

    def __init__(self, trainer):
        text = subprocess.run([trainer, "schema"], capture_output=True, text=True, check=True).stdout
        schema = json.loads(text)
        self.root, self.parts = schema["else"], schema["$defs"]

    def find_part(self, node):
        """(name, node) of the part that a node refers to, or (None, node)."""
        if "$ref" not in node:
            return None, node
        name = node["$ref"].split("/")[-1]
        return name, self.parts[name]

    def keys(self):
        """All keys: `train.epochs`, those of parts as `layer.conv.filters`, `split.path`."""
        found = set()

        def walk(node, path):
            for each in merge_alternatives(node):
                if "$ref" in each:
                    continue
                for key, child in each.get("properties", {}).items():
                    name = f"{path}.{key}" if path else key
                    found.add(name)
                    walk(child, name)
                if isinstance(each.get("items"), dict):
                    walk(each["items"], path)

        walk(self.root, "")
        for name, part in self.parts.items():
            walk(part, name)
        return found

    def used_keys(self, config):
        """The keys of keys() that a config gives a value."""
        found = set()

        def walk(value, node, path):
            for each in merge_alternatives(node):
                if "$ref" in each:
                    name, part = self.find_part(each)
                    if name != "environment":
                        walk(value, part, name)
                elif isinstance(value, dict) and each.get("type") == "object":
                    for key, child in each.get("properties", {}).items():
                        if value.get(key) is not None:
                            found.add(f"{path}.{key}" if path else key)
                            walk(value[key], child, f"{path}.{key}" if path else key)
                elif isinstance(value, list) and each.get("type") == "array":
                    for item in value:
                        walk(item, each["items"], path)
                elif isinstance(value, str) and value in each.get("enum", []) and path + "." + value in self.all:
                    found.add(f"{path}.{value}")

        if not hasattr(self, "all"):
            self.all = self.keys()
        walk(config, self.root, "")
        return found


class RandomValues:
    """Draws values of schema nodes. `hints` maps the path of a key to a function that draws its value, or to OMIT."""

    def __init__(self, draw, schema, hints, share):
        """`share` is the probability that an optional key is given."""
        self.draw, self.schema, self.hints, self.share = draw, schema, hints, share

    def value(self, node, path):
        """A value of the node, or OMIT."""
        if path in self.hints:
            hint = self.hints[path]
            return hint() if callable(hint) else hint
        alternatives = [each for each in merge_alternatives(node) if not each.get("$ref", "").endswith("environment")]
        if {"type": "null"} in alternatives:
            alternatives.remove({"type": "null"})
            if self.draw.random() < 0.04:
                return None
        if not alternatives:
            return OMIT
        maps = [each for each in alternatives if each.get("type") == "object"]
        each = self.draw.choice(maps if maps and self.draw.random() < 0.7 else alternatives)
        part, each = self.schema.find_part(each)
        if part:
            return self.value(each, part)
        if "enum" in each:
            return self.draw.choice([word for word in each["enum"] if f"{path}.{word}" not in self.hints])
        kind = each["type"]
        if kind == "object":
            return self.map(each, path)
        if kind == "array":
            if {"maxItems": 0} in each.get("anyOf", []) and self.draw.random() < 0.1:
                return []
            bounds = {**each, **next(iter(each.get("anyOf", [])), {})}
            count = self.draw.randint(bounds.get("minItems", 1), min(bounds.get("maxItems", 3), 3))
            values = [self.value(each["items"], path) for _ in range(count)]
            return OMIT if OMIT in values else values
        if kind == "boolean":
            return self.draw.random() < 0.5
        if kind == "integer":
            return self.integer(each)
        if kind == "number":
            return self.number(each)
        return self.text(each)

    def map(self, node, path):
        """A map with some of its keys, one of those that exclude each other.

        Maps below a section have more of them, so that the keys of every kind are drawn."""
        share = self.share if path in self.schema.root["properties"] else max(self.share, 0.5)
        keys = node.get("properties", {})
        if not keys:
            return OMIT if node.get("minProperties") else {}
        excluded, needed = set(), set(node.get("required", []))
        for group in [node.get("oneOf", [])] + [each["oneOf"] for each in node.get("allOf", [])]:
            names = [name for each in group for name in each.get("required", [])]
            chosen = self.draw.choice(names) if names else None
            has_other = any("not" in each for each in group)
            if not has_other or self.draw.random() < share:
                needed.add(chosen)
            excluded.update(name for name in names if name != chosen or chosen not in needed)
        made = {}
        for key, child in keys.items():
            if key in excluded or key not in needed and self.draw.random() >= share:
                continue
            value = self.value(child, f"{path}.{key}" if path else key)
            if value is not OMIT:
                made[key] = value
        return made

    def integer(self, node):
        low, high = int(node.get("minimum", -3)), int(node.get("maximum", 2**31))
        values = [low, low + 1, self.draw.randint(low, min(low + 8, high)), self.draw.randint(low, min(low + 40, high))]
        if "maximum" in node and high < 10000:
            values.append(high)
        return min(self.draw.choice(values), high)

    def number(self, node):
        draw = self.draw
        low = node.get("minimum", node.get("exclusiveMinimum", -1.5))
        high = node.get("maximum", node.get("exclusiveMaximum", 1e6))
        values = [low + (min(high, low + 2) - low) * draw.uniform(0.05, 0.95)] * 4
        values.append(low if "exclusiveMinimum" not in node else low + 10.0 ** draw.randint(-12, -2))
        if "maximum" in node:
            values.append(high)
        elif "exclusiveMaximum" in node:
            values.append(high - 1e-6)
        else:
            values.append(low + 10.0 ** draw.randint(-4, 3))
        return float(f"{draw.choice(values):.7g}")

    def text(self, node):
        """A duration, or no text: texts need hints."""
        if "step" not in node.get("pattern", ""):
            return OMIT
        return self.duration("second" in node["pattern"])

    def duration(self, seconds=False):
        draw = self.draw
        values = [f"{draw.randint(1, 5)} steps", "1 step", f"{draw.choice([0.5, 1, 2, 1e-3])} epochs", "1 epoch"]
        if seconds:
            values.append(f"{draw.choice([0.001, 0.02, 0.5, 30])} seconds")
        return draw.choice(values)
