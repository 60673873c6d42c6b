"""Validates FOLDER/valid/*.yaml and FOLDER/invalid/*.yaml against FOLDER/schema.json."""
import json
import pathlib
import sys

import jsonschema
import yaml

folder = pathlib.Path(sys.argv[1])
schema = json.loads((folder / "schema.json").read_text())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)

wrong = 0
for path in sorted(folder.glob("*/*.yaml")):
    text = path.read_text()
    errors = [error.message[:200] for error in validator.iter_errors(yaml.safe_load(text))]
    if bool(errors) != (path.parent.name == "invalid"):
        wrong += 1
        print(f"{path.parent.name}, but the schema says: {errors or 'valid'}\n{text}")
sys.exit(1 if wrong else 0)
