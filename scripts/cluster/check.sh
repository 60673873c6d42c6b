#!/usr/bin/env bash
# Validates the manifests of this folder, or those given; see check.py.
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../python_env.sh" pyyaml kubernetes-validate kubeflow-trainer-api -- "$here/check.py" "$@"
