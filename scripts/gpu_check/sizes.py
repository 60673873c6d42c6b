"""How much each step does: everything on a GPU, and little where only the steps themselves are tested."""

import dataclasses

RANKS = ("ReductionOptions*",)
SANITIZED = ("Pool: windows*", "BatchNorm: activations*", "BatchNorm: other*", "FoldBatchNorm*", "Activate*",
             "Softmax*", "Loss: every kind*", "GlobalPool*", "Add and Concat*", "ZeroPad*", "L2Penalty*",
             "residual block*", "depthwise convolution between*")
# Kernels whose threads exchange values through shared memory.
RACED = ("BatchNorm: activations*", "BatchNorm: other*", "residual block*", "depthwise convolution between*")


@dataclasses.dataclass(frozen=True)
class Size:
    """Test cases as patterns of doctest, and lengths of trainings."""

    conformance: tuple = ("*",)
    ranks: tuple = RANKS
    engine: tuple = ("*",)
    sanitized: tuple = SANITIZED
    raced: tuple = RACED
    config: str = ""  # of the trainings; empty: MNIST, or the drawn digits without it
    settings: tuple = ("run.summary_every=50 steps", "train.epochs=2")
    accuracy: float = 0.98  # that each training must reach
    verify_steps: int = 40
    speed: tuple = (("cnn", 64), ("cnn", 512), ("vgg16", 64), ("mobilenet_v2", 256), ("resnet50", 64), ("resnet50", 256))
    profiled: tuple = (("resnet50", 256), ("mobilenet_v2", 256), ("cnn", 512))
    large: tuple = ("vgg16", 672, ("model.backbone.freeze=none",))  # case, batch, settings of large_tensors
    benchmark_seconds: float = 2
    images: int = 60000  # of the training that is measured, within 60 to 4000 steps
    min_steps: int = 60

    def steps(self, batch):
        """The steps of a training that is measured."""
        return max(self.min_steps, min(4000, self.images // batch))


SIZES = {
    "full": Size(),
    "tiny": Size(conformance=("Dense*", "Softmax*"), ranks=("ReductionOptions: a loss of one rank*",),
                 engine=("Engine::check_equal*",), sanitized=("L2Penalty*",), raced=("L2Penalty*",), config="scripts/bench/cnn.yaml",
                 settings=("train.max_steps=12", "train.batch_size=8", "run.summary_every=4 steps"), accuracy=0, verify_steps=4,
                 large=("cnn", 8, ()), speed=(("cnn", 8),), profiled=(("cnn", 8),), benchmark_seconds=0.2, images=32, min_steps=4),
}
