// What errors in a config advise: each advice is followed, and the config is then valid.
#include <doctest/doctest.h>

#include "advice.h"
#include "base/error.h"
#include "support/contains.h"

namespace trainer::e2e::config_advice_test {
namespace {

using test::contains;

struct KeyAdvice {
  std::string failed;  // options of the command
  const char* text;    // a part of the message
  Arguments followed;  // the options to give then, for each thing that the text advises
};

void check_keys(const std::string& config, const std::vector<KeyAdvice>& advices,
                const std::string& command = "validate ") {
  const AdvicePlace place;
  const std::string checked = command + config + " ";
  place.check_success(checked);
  for (const KeyAdvice& advice : advices) {
    INFO(std::string(advice.text));
    const Result failed = place.run(checked + advice.failed);
    CHECK(failed.code == kExitConfig);
    CHECK_MESSAGE(contains(failed.err, advice.text), failed.err);
    for (const std::string& options : advice.followed) place.check_success(checked + options);
  }
}

std::string set(const std::string& setting) { return concat("--set '", setting, "' "); }

// A model of a backbone with these keys and this head.
std::string set_backbone(const std::string& keys,
                         const std::string& head = "[global_average_pool, dense: 2]") {
  return set(concat("model={input: [32, 32, 3], backbone: {", keys, "}",
                    head.empty() ? "" : ", head: " + head, "}"));
}

std::string set_layers(const std::string& layers) {
  return set(concat("model.layers=[", layers, ", flatten, dense: 2]"));
}

const std::string kMobileNet = "name: mobilenet_v2, alpha: 0.35";

std::vector<KeyAdvice> make_data_advices() {
  const std::string augment = "[{random_erasing: {}}]";
  const std::string validation = set("data.validation.path=IMAGES");
  return {
      {set("data.path=\"\""),
       "give train: {path: ...}",
       {set("data.path=\"\"") + set("data.train={path: IMAGES}")}},
      {set("data.resize=[]") + set("model.input=[]"),
       "needs 'resize', [height, width]: image files differ in size; or give model.input",
       {set("data.resize=[32, 32]") + set("model.input=[]"), set("data.resize=[]")}},
      {set("data.cache=disk") + set("data.train.augment=[{random_resized_crop: {}}]"),
       "use memory or none",
       {set("data.cache=memory") + set("data.train.augment=[{random_resized_crop: {}}]"),
        set("data.cache=none") + set("data.train.augment=[{random_resized_crop: {}}]")}},
      {set("data.preprocess=caffe") + set("data.channels=1") + set("model.input=[32, 32, 1]"),
       "use tf or scale, or data.normalize in its place",
       {set("data.preprocess=tf") + set("data.channels=1") + set("model.input=[32, 32, 1]"),
        set("data.preprocess=scale") + set("data.channels=1") + set("model.input=[32, 32, 1]"),
        set("data.normalize={mean: 127, std: 50}") + set("data.channels=1") +
            set("model.input=[32, 32, 1]")}},
      {set("data.class_order=text") + set("data.classes=[left, right]"),
       "cannot be given beside data.classes, which is the order; remove one",
       {set("data.class_order=text"), set("data.classes=[left, right]")}},
      {set("data.validation_split=0.2") + validation,
       "cannot be given beside data.validation; choose one",
       {set("data.validation_split=0.2"), validation}},
      {set("data.validation_split_order=last"),
       "needs data.validation_split, the fraction that is set aside, e.g. 0.2",
       {set("data.validation_split_order=last") + set("data.validation_split=0.2")}},
      {set("data.fold=1"),
       "needs data.folds, the number of parts, e.g. folds: 5",
       {set("data.fold=1") + set("data.folds=5")}},
      {set("data.repeats=2"),
       "list random changes there, or remove it",
       {set("data.repeats=2") + set("data.train.augment=" + augment), ""}},
      {set("data.sampling=balanced") + set("data.shuffle=false"),
       "remove shuffle: false",
       {set("data.sampling=balanced")}},
      {validation + set("data.validation.augment=" + augment),
       "move it to data.train",
       {validation + set("data.train.augment=" + augment)}},
      {set("data.train.augment=[{random_erasing: {mode: pixel, value: 3}}]"),
       "value belongs to mode: value, and the mode is pixel; remove one of them",
       {set("data.train.augment=[{random_erasing: {mode: pixel}}]"),
        set("data.train.augment=[{random_erasing: {value: 3}}]")}},
      {set("name=a/b"),
       "it names a folder below runs/; use run.dir for a path",
       {set("name=b") + set("run.dir=FREE/a/b")}},
      {set("run.mlflow=http://me:secret@localhost:5000"),
       "set the environment variables MLFLOW_TRACKING_USERNAME",
       {set("run.mlflow=http://localhost:5000")}},
      {set("run.mlflow=localhost:5000"),
       "expected the URL of a server, such as http://localhost:5000",
       {set("run.mlflow=http://localhost:5000")}},
      {set("run.prometheus=9400"),
       "or \":PORT\" with a port from 1 to 65535",
       {set("run.prometheus=:9400")}},
  };
}

std::vector<KeyAdvice> make_csv_advices() {
  const std::string separator = set("data.csv.label_separator=\"|\"");
  return {
      {separator,
       "give model.loss: binary_cross_entropy",
       {separator + set("model.loss=binary_cross_entropy")}},
      {set("data.train.path=\"\""), "give train: {path: ...}", {set("data.train={path: LIST}")}},
  };
}

std::vector<KeyAdvice> make_model_advices() {
  return {
      {set_layers("flatten, {dense: {units: 2, name: a}}, add"),
       "needs 'inputs' with the names of two layers or more",
       {set_layers("flatten, {dense: {units: 2, name: a}}, {dense: {units: 2, name: b}}, "
                   "{add: {inputs: [a, b]}}")}},
      {set_layers("flatten, {dense: {units: 2, name: a}}, {dense: {units: 2, name: b}}, "
                  "{relu: {inputs: [a, b]}}"),
       "takes one input; join several with add or concatenate first",
       {set_layers("flatten, {dense: {units: 2, name: a}}, {dense: {units: 2, name: b}}, "
                   "{add: {inputs: [a, b]}}, relu"),
        set_layers("flatten, {dense: {units: 2, name: a}}, {dense: {units: 2, name: b}}, "
                   "{concatenate: {inputs: [a, b]}}, relu")}},
      {set_layers("{relu: {inputs: [b]}}, {relu: {name: b}}"),
       "'b' is not before this layer; inputs name earlier layers",
       {set_layers("{relu: {name: b}}, {relu: {inputs: [b]}}")}},
      {set_layers("{repeat: {over: {size: [8, 16], rate: [0.1]}, layers: [{conv: {filters: $size, "
                  "kernel_size: 3}}, {dropout: $rate}]}}"),
       "but that of size has length 2; give a value for each round",
       {set_layers("{repeat: {over: {size: [8, 16], rate: [0.1, 0.2]}, layers: [{conv: {filters: "
                   "$size, kernel_size: 3}}, {dropout: $rate}]}}")}},
      {set_layers("{repeat: {over: {size: [8, 16]}, layers: [{conv: {filters: 8, kernel_size: "
                  "3}}]}}"),
       "no layer uses $size; write it in place of the value that differs, or remove it",
       {set_layers("{repeat: {over: {size: [8, 16]}, layers: [{conv: {filters: $size, kernel_size: "
                   "3}}]}}"),
        set_layers("{repeat: {times: 2, layers: [{conv: {filters: 8, kernel_size: 3}}]}}")}},
      {set_layers("{repeat: {times: 2, over: {size: [8, 16]}, layers: [{conv: {filters: $size, "
                  "kernel_size: 3}}]}}"),
       "cannot both be given; choose one of: times, over, rounds",
       {set_layers("{repeat: {over: {size: [8, 16]}, layers: [{conv: {filters: $size, kernel_size: "
                   "3}}]}}"),
        set_layers("{repeat: {times: 2, layers: [{conv: {filters: 8, kernel_size: 3}}]}}")}},
      {set("model.allow_missing=[dense]"),
       "needs model.weights, a file with the tensors",
       {set("model.allow_missing=[dense]") + set("model.weights=RUN")}},
      {set("model={input: [32, 32, 3], head: [flatten, dense: 2]}"),
       "needs model.backbone, whose features it takes",
       {set_backbone(kMobileNet)}},
      {set_backbone(kMobileNet, ""),
       "e.g. head: [global_average_pool, {dense: {units: 4}}]",
       {set_backbone(kMobileNet, "[global_average_pool, {dense: {units: 2}}]")}},
      {set_backbone("name: vgg16, drop_path: 0.1"),
       "has none; remove it",
       {set_backbone("name: vgg16")}},
      {set_backbone(kMobileNet + ", allow_missing: [conv]"),
       "needs weights, a file with the tensors",
       {set_backbone(kMobileNet + ", allow_missing: [conv], weights: RUN")}},
      {set_backbone(kMobileNet + ", freeze: all, unfreeze: [{at: 3 epochs, freeze: none}, "
                                 "{at: 2 epochs, freeze: none}]"),
       "list them in the order in which they come",
       {set_backbone(kMobileNet + ", freeze: all, unfreeze: [{at: 2 epochs, freeze: none}, "
                                  "{at: 3 epochs, freeze: none}]")}},
      {set_backbone(kMobileNet + ", freeze: [\"[:4]\", \"[1000:]\"]"),
       "the slice selects none of the ",
       {set_backbone(kMobileNet + ", freeze: [\"[:4]\"]"),
        set_backbone(kMobileNet + ", freeze: [\"[:4]\", \"[-2:]\"]")}},
  };
}

// What is found when the model is built for its images.
std::vector<KeyAdvice> make_shape_advices() {
  const std::string small = set("data.resize=[16, 16]");
  return {
      {small,
       "remove model.input or give these numbers",
       {small + set("model.input=[]"), small + set("model.input=[16, 16, 3]")}},
      {set("model={backbone: {name: mobilenet_v2}, head: [global_average_pool, dense: 2]}") + small,
       "enlarge them with data.resize",
       {set("model={backbone: {name: mobilenet_v2}, head: [global_average_pool, dense: 2]}")}},
      {set_layers("{relu: {name: a}}, {relu: {name: b, inputs: [input]}}"),
       "a: no later layer uses this one; name it in the inputs of a later layer, or remove it",
       {set_layers(
            "{relu: {name: a}}, {relu: {name: b, inputs: [input]}}, {add: {inputs: [a, b]}}"),
        set_layers("{relu: {name: b, inputs: [input]}}")}},
      {set_layers("flatten, {conv: {filters: 2, kernel_size: 3}}"),
       "move it before the layer that flattens, or add a reshape",
       {set_layers("{conv: {filters: 2, kernel_size: 3}}"),
        set_layers("flatten, {reshape: {target_shape: [32, 32, 3]}}, {conv: {filters: 2, "
                   "kernel_size: 3}}")}},
      {set_layers("{conv: {filters: 2, kernel_size: 40}}"),
       "use a smaller window, padding: same, or fewer strides and poolings before it",
       {set_layers("{conv: {filters: 2, kernel_size: 30}}"),
        set_layers("{conv: {filters: 2, kernel_size: 40, padding: same}}")}},
      {set_layers("{max_pool: {pool_size: 17}}"),
       "use global_max_pool, or two poolings in a row",
       {set("model.layers=[global_max_pool, dense: 2]"),
        set_layers("{max_pool: 2}, {max_pool: 8}")}},
      {set("data.normalize={mean: [1, 2], std: 3}"),
       "give one, or one per channel",
       {set("data.normalize={mean: 1, std: 3}"), set("data.normalize={mean: [1, 2, 3], std: 3}")}},
      {set("model.layers=[{conv: {filters: 4, kernel_size: 3}}, global_average_pool]"),
       "end the model with dense: {units: 2}",
       {set("model.layers=[{conv: {filters: 4, kernel_size: 3}}, global_average_pool, {dense: "
            "{units: 2}}]")}},
      {set("model.layers=[{conv: {filters: 4, kernel_size: 3}}]"),
       "end the model with flatten and dense: {units: 2}",
       {set("model.layers=[{conv: {filters: 4, kernel_size: 3}}, flatten, {dense: {units: 2}}]")}},
  };
}

std::vector<KeyAdvice> make_training_advices() {
  const std::string servers = set("parallel.strategy=parameter_server");
  const std::string split = set("data.validation_split=0.25");
  const std::string stop = set("train.early_stop={patience: 3, restore_best: true}") +
                           set("run.best=validation/loss") + split;
  const std::string plateau = set("schedule={reduce_on_plateau: {}}") + split;
  const std::string frozen = set_backbone(kMobileNet + ", freeze: all");
  const std::string erasing = set("data.train.augment=[{random_erasing: {}}]");
  return {
      {servers + set("optimizer={lamb: {}}"),
       "use adamw",
       {servers + set("optimizer={adamw: {}}")}},
      {servers + stop,
       "take the best checkpoint of the run folder instead",
       {servers + set("run.best=validation/loss") + split}},
      {servers + plateau,
       "use another schedule, or strategy: all_reduce",
       {servers + set("schedule={cosine: {}}"), plateau + set("parallel.strategy=all_reduce")}},
      {set("train.stop_at={metric: validation/accuracy, value: 0.9}") + set("data.path=\"\"") +
           set("data.train.path=IMAGES"),
       "give data.validation or data.validation_split",
       {set("train.stop_at={metric: validation/accuracy, value: 0.9}") + set("data.path=\"\"") +
            set("data.train.path=IMAGES") + set("data.validation.path=IMAGES"),
        set("train.stop_at={metric: validation/accuracy, value: 0.9}") + split}},
      {set("train.cache_features=memory"),
       "set model.backbone.freeze",
       {frozen + set("train.cache_features=memory")}},
      {frozen + set("train.cache_features=memory") + erasing,
       "remove it, or use auto or off",
       {frozen + set("train.cache_features=memory"),
        frozen + set("train.cache_features=auto") + erasing,
        frozen + set("train.cache_features=off") + erasing}},
      {set("parallel.shard=off") + set("data.shuffle=false"),
       "off needs data.shuffle",
       {set("parallel.shard=off")}},
      {set("parallel.max_staleness=3"),
       "needs parallel.strategy: parameter_server",
       {servers + set("parallel.max_staleness=3")}},
      {servers + set("parallel.replicas=2") + set("parallel.lr_scaling=none"),
       "start more workers",
       {servers}},
      {set("schedule={ramp_up: {peak: 0.1}, warm_up: {over: 5 steps}}"),
       "remove warm_up or set ramp_epochs",
       {set("schedule={ramp_up: {peak: 0.1}}"),
        set("schedule={ramp_up: {peak: 0.1, ramp_epochs: 2}}")}},
      {set("train.loss_scale=128"),
       "remove it, or use float16 instead of float32",
       {"", set("train.loss_scale=128") + set("train.precision=float16")}},
      {servers + set("train.precision=float16"),
       "use bfloat16 or float32",
       {servers + set("train.precision=bfloat16"), servers + set("train.precision=float32")}},
      {set("parallel.collective=nccl") + set("parallel.gpus=[0, 0]") +
           set("parallel.lr_scaling=none"),
       "has GPU 0 more than once; use auto",
       {set("parallel.collective=auto") + set("parallel.gpus=[0, 0]") +
        set("parallel.lr_scaling=none")}},
      {set("parallel.replicas=2") + set("parallel.lr_scaling=linear") +
           set("schedule={ramp_up: {peak: 0.1}}"),
       "must be none or left out",
       {set("parallel.replicas=2") + set("parallel.lr_scaling=none") +
            set("schedule={ramp_up: {peak: 0.1}}"),
        set("parallel.replicas=2") + set("schedule={ramp_up: {peak: 0.1, scale: linear}}")}},
  };
}

struct TextAdvice {
  std::string failed;  // put before the sections of a config
  const char* text;
  Arguments followed;
};

}  // namespace

TEST_CASE("messages: the config that follows each advice on a key of data is valid") {
  check_keys("PHOTOS", make_data_advices());
  check_keys("LISTED", make_csv_advices());
}

TEST_CASE("messages: the config that follows each advice on a key of the model is valid") {
  check_keys("PHOTOS", make_model_advices());
}

TEST_CASE("messages: the plan that follows each advice on shapes of the model succeeds") {
  check_keys("PHOTOS", make_shape_advices(), "plan ");
}

TEST_CASE("messages: the config that follows each advice on a key of training is valid") {
  check_keys("PHOTOS", make_training_advices());
}

TEST_CASE("messages: the config that follows each advice on the text of a config is valid") {
  const AdvicePlace place;
  const std::string rest = read_text_file(place.work / "photos.yaml");
  const auto validate = [&](const std::string& text) {
    write_file_atomic(place.work / "text.yaml", text + rest);
    return run({"validate", place.work / "text.yaml"});
  };
  for (const TextAdvice& advice : std::vector<TextAdvice>{
           {"name: a\n---\n", "a config is one document; remove '---'", {"name: a\n"}},
           {"name: !!str 12\n", "are not used in a config; remove it", {"name: '12'\n"}},
           {"name: a\nname: b\n", "duplicate key 'name', first given at ", {"name: a\n"}},
           {"name: \"a\\0b\"\n", "holds a NUL byte; remove it", {"name: ab\n"}},
           {"name: ${NOT_SET_ANYWHERE}\n",
            "set it, or write ${NOT_SET_ANYWHERE:-default}",
            {"name: ${NOT_SET_ANYWHERE:-default}\n"}},
           {"name: ${not closed\n", "a literal '$' is written '$$'", {"name: $$not_closed\n"}},
           {"x-base: &base 3\nrun:\n  <<: *base\n",
            "expects a map or a list of maps, such as '<<: *base'",
            {"x-base: &base {keep: 3}\nrun:\n  <<: *base\n"}}}) {
    INFO(std::string(advice.text));
    const Result failed = validate(advice.failed);
    CHECK(failed.code == kExitConfig);
    CHECK_MESSAGE(contains(failed.err, advice.text), failed.err);
    for (const std::string& text : advice.followed) {
      const Result followed = validate(text);
      CHECK_MESSAGE(followed.code == 0, followed.err);
    }
  }
  write_file_atomic(place.work / "text.yaml", "name: ${NOT_SET_ANYWHERE}\n" + rest);
  CHECK(run({"validate", place.work / "text.yaml"}, {{"NOT_SET_ANYWHERE", "set"}}).code == 0);
}

}  // namespace trainer::e2e::config_advice_test
