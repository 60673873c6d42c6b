"""Models that `trainer` has trained, in Python: classes of images, and the metrics of runs.

    import imagetrainer

    with imagetrainer.Model("runs/flowers") as model:
        found = model.predict(["a.jpg", "b.jpg"])
        print(found.names, found.probabilities)

    loss = imagetrainer.Run("runs/flowers").metrics["train"]["loss"]

Model and Run need NumPy, and load when they are first used. The command `trainer` is main().
"""

import os
import sys

TYPE_CHECKING = False  # as typing.TYPE_CHECKING; the command starts without that module
if TYPE_CHECKING:
    from imagetrainer.model import Model, Predictions, TrainerError
    from imagetrainer.run import Run

__all__ = ["Model", "Predictions", "Run", "TrainerError", "main"]


def __getattr__(name):
    if name in ("Model", "Predictions", "TrainerError"):
        from imagetrainer import model as module
    elif name == "Run":
        from imagetrainer import run as module
    else:
        raise AttributeError(f"module 'imagetrainer' has no attribute {name!r}")
    return getattr(module, name)


def __dir__():
    return sorted({*globals(), *__all__})


def main():
    """Replaces this process by the program, with the same arguments."""
    os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer"), sys.argv)
