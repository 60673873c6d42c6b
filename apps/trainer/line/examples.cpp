#include "line/examples.h"

#include <ostream>
#include <string>

namespace trainer::app {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 2 config, 3 data, 4 device, 5 a check did not hold, 75 interrupted and "
    "saved.";

constexpr struct {
  const char* command;  // "" for the program
  const char* examples;
} kExamples[] = {
    {"",
     "  trainer train configs/digits.yaml\n"
     "  trainer train configs/mnist.yaml --epochs 3 --set optimizer.adam.learning_rate=5e-4\n"
     "  trainer train configs/mnist.yaml --resume\n"
     "  trainer evaluate runs/mnist\n"
     "  trainer plan configs/mnist.yaml\n"},
    {"train",
     "  trainer train photos/\n"
     "  trainer train configs/digits.yaml\n"
     "  trainer train configs/mnist.yaml --epochs 3 --set optimizer.adam.learning_rate=5e-4\n"
     "  trainer train configs/mnist.yaml --resume\n"
     "  trainer train configs/mnist.yaml --replicas 2 --set parallel.lr_scaling=linear\n"},
    {"evaluate",
     "  trainer evaluate runs/mnist\n"
     "  trainer evaluate runs/mnist runs/mnist_dense --quiet\n"
     "  trainer evaluate runs/mnist --best --split validation --json\n"
     "  trainer evaluate runs/cats_dogs --average 3 --flip\n"
     "  trainer evaluate runs/a --ensemble runs/b,runs/c\n"
     "  trainer evaluate runs/mnist --follow --throttle 60\n"},
    {"predict",
     "  trainer predict runs/mnist --limit 5\n"
     "  trainer predict runs/cats_dogs photos/ --top 2 --on-error skip\n"
     "  trainer predict configs/cats_dogs_mobilenet_v2.yaml photos/ --weights imagenet\n"
     "  trainer predict runs/cats_dogs photos/ --features photos.npy\n"
     "  trainer predict runs/cats_dogs photos/ --sheet photos.html --samples 50\n"
     "  trainer predict runs/mnist digits.npy --format csv > digits.csv\n"},
    {"export",
     "  trainer export runs/mnist --format onnx --output mnist.onnx\n"
     "  trainer export runs/mnist --best --format keras_h5 --output mnist.weights.h5\n"
     "  trainer export runs/flowers --format timm --output flowers_timm\n"},
    {"benchmark",
     "  trainer benchmark configs/mnist.yaml --seconds 10\n"
     "  trainer benchmark configs/cats_dogs_mobilenet_v2.yaml --input-only\n"
     "  trainer benchmark configs/mnist.yaml --synthetic --predict --json\n"},
    {"profile",
     "  trainer profile configs/mnist.yaml --steps 20\n"
     "  trainer profile configs/cats_dogs_mobilenet_v2.yaml --trace mobilenet.json\n"},
    {"new",
     "  trainer new photos/ --output first.yaml && trainer train first.yaml\n"
     "  trainer new list.csv\n"
     "  trainer new photos.zip\n"
     "  trainer new configs/mnist.yaml --output all_values.yaml\n"},
    {"data",
     "  trainer data photos/\n"
     "  trainer data configs/cats_dogs_mobilenet_v2.yaml --sheet sheet.png --samples 100\n"
     "  trainer data configs/oct_vgg16.yaml --group-by '([A-Z]+-[0-9]+)-[0-9]+'\n"
     "  trainer data xrays.yaml --suspects runs/xrays_crossval --sheet suspects.png\n"},
    {"plan",
     "  trainer plan configs/mnist.yaml\n"
     "  trainer plan configs/mnist.yaml --all --plot lr.svg\n"
     "  trainer plan configs/mnist.yaml --workers 64 --link 10Gbit\n"},
    {"find",
     "  trainer find learning-rate configs/mnist.yaml --plot range.svg\n"
     "  trainer find batch-size configs/mnist.yaml --most 512\n"},
    {"launch",
     "  trainer launch -n 2 -- train configs/mnist.yaml --set parallel.lr_scaling=none\n"
     "  trainer launch -n 3 --ps 1 --evaluator -- train configs/mnist_parameter_server.yaml\n"
     "  trainer launch -n 4 --print-job slurm -- train configs/mnist.yaml > job.sh\n"},
    {"sweep",
     "  NUM_GPUS=\"1 2\" BATCH_SIZE=\"32 64\" DEVICE=cpu trainer sweep configs/mnist.yaml\n"
     "  trainer sweep configs/mnist.yaml --over optimizer.adam.learning_rate=1e-3,1e-4 --over "
     "seed=1,2,3\n"
     "  trainer sweep configs/mnist.yaml --over train.batch_size=32,64 --launcher slurm | "
     "sbatch\n"},
    {"crossval",
     "  trainer crossval configs/mnist.yaml --folds 3\n"
     "  trainer crossval photos --dir runs/photos_folds --set train.epochs=3\n"},
    {"compare",
     "  trainer compare runs/mnist runs/mnist_dense\n"
     "  trainer compare runs/a runs/b runs/c --to-accuracy 0.98 --json\n"},
    {"diff", "  trainer diff runs/before runs/after\n"},
    {"report",
     "  trainer report runs/mnist\n"
     "  trainer report runs/mnist_sweep --output sweep.html\n"},
    {"runs",
     "  trainer runs\n"
     "  trainer runs runs/mnist_sweep --json\n"
     "  trainer runs clean --dry-run\n"},
    {"watch",
     "  trainer watch runs/mnist\n"
     "  trainer watch runs/a runs/b --html watch.html\n"
     "  trainer watch runs/mnist --json --every 60\n"},
    {"verify",
     "  trainer verify replicas configs/mnist.yaml --replicas 1,2,4 --steps 50\n"
     "  trainer verify resume configs/mnist.yaml\n"},
    {"validate",
     "  trainer validate configs/*.yaml\n"
     "  trainer validate configs/mnist.yaml --set train.batch_size=128 --json\n"},
    {"explain",
     "  trainer explain optimizer.adam\n"
     "  trainer explain conv\n"
     "  trainer explain --all > reference.md\n"},
    {"man", "  trainer man | man -l -\n"},
    {"schema", "  trainer schema > trainer.schema.json\n"},
    {"completion",
     "  source <(trainer completion bash)\n"
     "  trainer completion fish | source\n"},
    {"models",
     "  trainer models\n"
     "  trainer models --json\n"},
    {"weights",
     "  trainer weights\n"
     "  trainer weights mobilenet_v2\n"
     "  trainer weights --search resnet50\n"
     "  trainer weights timm/resnet50.a1_in1k\n"
     "  WEIGHTS_DIR=/data/weights trainer weights resnet50 vgg16\n"},
    {"devices",
     "  trainer devices\n"
     "  trainer devices --json\n"},
};

constexpr const char* kFirstSteps =
    "trainer trains, evaluates and applies image classifiers.\n\n"
    "  trainer train photos/            with a folder of images per class in photos/: writes the\n"
    "                                   config photos.yaml and trains with it\n"
    "  trainer data photos/             checks the images: damage, counts, duplicates\n"
    "  trainer train photos.yaml        trains with a config; --epochs 5 and others change values\n"
    "  trainer evaluate runs/photos     accuracy, and a table of the classes\n"
    "  trainer predict runs/photos new/ classes of other images\n\n"
    "A list of images and classes (CSV) may take the place of the folder.\n"
    "No images at hand? `trainer explain data` describes `format: digits`, which draws some.\n"
    "next: trainer --help lists all commands, trainer help COMMAND describes one.\n";

}  // namespace

void print_first_steps(std::ostream& out) { out << kFirstSteps; }

void add_examples(CommandLine& line) {
  for (const auto& [name, examples] : kExamples) {
    line.set_footer(name, std::string("Examples:\n") + examples + kExitCodes);
  }
}

}  // namespace trainer::app
