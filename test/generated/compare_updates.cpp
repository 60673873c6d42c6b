// Trains the model of a config for a few updates on the CPU and by the reference backend, and
// prints one JSON line per variable and update with its distance from the reference.
//
//   test_compare_updates CONFIG CASE
//
// CONFIG has model.input, and its data is not read. CASE is a JSON file:
//   classes, samples  of the drawn batches
//   calls             that are accumulated per update
//   stages            a list; {"frozen": [a, b]} freezes the layers at these shares of the layers
//                     with parameters, {"only": NAME} freezes all but one layer
// Before each update all engines get the variables of the reference.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/random.h"
#include "engine/engine.h"
#include "support/backend.h"
#include "support/model.h"

namespace trainer::test {
namespace {

constexpr int kUpdatesPerStage = 2;
constexpr float kLearningRate = 0.02f;

using Variables = std::map<std::string, std::vector<float>>;

Variables read_variables(const engine::Engine& engine) {
  Variables variables;
  for (checkpoint::Tensor& tensor : engine.replica().tensors()) {
    variables[tensor.name] = std::move(tensor.values);
  }
  return variables;
}

// Freezes the layers of a stage. A parameter counts its updates from the one that first trains it.
void set_stage(graph::Graph& model, const nlohmann::json& stage, std::int64_t updates) {
  std::vector<graph::LayerInfo*> layers;
  for (graph::LayerInfo& layer : model.layers) {
    if (!layer.parameters.empty()) layers.push_back(&layer);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bool is_frozen = false;
    if (stage.contains("only")) {
      is_frozen = layers[i]->name != stage["only"].get<std::string>();
    } else {
      const double place = static_cast<double>(i) / static_cast<double>(layers.size());
      is_frozen =
          place >= stage["frozen"][0].get<double>() && place < stage["frozen"][1].get<double>();
    }
    layers[i]->trainable = !is_frozen;
    for (const graph::ValueId id : layers[i]->parameters) {
      graph::Value& value = model[id];
      if (value.role != graph::Role::kParameter) continue;
      if (!value.trainable && !is_frozen) value.updates_before = updates;
      value.trainable = !is_frozen;
    }
  }
}

// A batch of random bytes or numbers, and labels.
class Samples {
 public:
  Samples(const graph::Graph& model, std::int64_t count, std::int64_t classes, std::uint64_t seed)
      : count_(count) {
    Random random(seed, Stream::kSynthetic);
    const auto elements = [&](int input) {
      return count * model[model.inputs[input]].shape.elements();
    };
    for (std::int64_t i = 0; i < elements(0); ++i) {
      images_.push_back(static_cast<std::uint8_t>(random.next_u32() % 256));
    }
    const bool is_index = model[model.inputs[1]].type == DType::kInt32;
    for (std::int64_t i = 0; i < elements(1); ++i) {
      classes_.push_back(
          static_cast<std::int32_t>(random.next_u32() % static_cast<std::uint32_t>(classes)));
      numbers_.push_back(random.uniform());
    }
    labels_ = is_index ? static_cast<const void*>(classes_.data()) : numbers_.data();
  }
  engine::HostBatch batch() const { return {count_, images_.data(), false, labels_}; }

 private:
  std::int64_t count_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> classes_;
  std::vector<float> numbers_;
  const void* labels_;
};

// Returns whether all calls of an update have finite losses.
bool update(engine::Engine& engine, const std::vector<Samples>& calls, std::uint64_t number) {
  std::int64_t samples = 0;
  for (const Samples& call : calls) samples += call.batch().samples;
  backend::Scalars scalars;
  scalars.learning_rate = kLearningRate;
  scalars.update = number;
  scalars.loss_scale = 1.0 / static_cast<double>(samples);
  bool is_finite = true;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    scalars.accumulate = i > 0;
    scalars.apply = i + 1 == calls.size();
    is_finite = engine.step(calls[i].batch(), scalars).finite && is_finite;
    scalars.first_sample += static_cast<std::uint64_t>(calls[i].batch().samples);
  }
  return is_finite;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> distances;
  for (std::size_t i = 0; i < a.size(); ++i) {
    distances.push_back(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  }
  return norm(distances);
}

// The variables of an engine before and after an update, and the gradient of its trained
// parameters.
class Trace {
 public:
  explicit Trace(const engine::Engine& engine) : before(read_variables(engine)) {}
  void finish(engine::Engine& engine) {
    after = read_variables(engine);
    for (const backend::Segment& segment : engine.replica().variables().flat().segments) {
      std::vector<float>& gradient = gradients[segment.parameter];
      gradient.resize(segment.count);
      engine.replica().read_gradient(segment.offset, gradient);
    }
  }

  Variables before, after, gradients;
};

// Prints the distance of a variable from the expected one, and what it is to be compared with.
// `exact` is the reference without rounding to the precision of the config.
void print(std::int64_t number, const graph::Value& value, const Trace& tested,
           const Trace& expected, const Trace& exact) {
  const std::vector<float>&before = expected.before.at(value.name),
        &after = expected.after.at(value.name), &found = tested.after.at(value.name);
  nlohmann::json line = {{"update", number},
                         {"variable", value.name},
                         {"role", std::string(spell(value.role))},
                         {"trained", value.trainable},
                         {"elements", before.size()},
                         {"same", found == before},
                         {"length", distance(after, std::vector<float>(after.size()))},
                         {"move", distance(after, before)},
                         {"rounding", distance(after, exact.after.at(value.name))},
                         {"distance", distance(found, after)}};
  // The distance without the largest hundredth of the elements.
  std::vector<double> distances;
  for (std::size_t i = 0; i < found.size(); ++i) {
    distances.push_back(std::abs(static_cast<double>(found[i]) - static_cast<double>(after[i])));
  }
  std::sort(distances.begin(), distances.end());
  distances.resize(distances.size() - distances.size() / 100);
  line["distance_of_most"] = norm(distances);
  const auto gradient = expected.gradients.find(value.name);
  if (gradient != expected.gradients.end()) {
    const std::vector<float>& values = gradient->second;
    line["gradient"] = distance(values, std::vector<float>(values.size()));
    line["gradient_rounding"] = distance(values, exact.gradients.at(value.name));
    line["gradient_distance"] = distance(tested.gradients.at(value.name), values);
  }
  std::cout << line.dump() << '\n';
}

// Three engines with the same model: the one that is tested, the reference, and the reference
// without rounding.
class Comparison {
 public:
  Comparison(const config::Config& config, const graph::Graph& model)
      : tested_(model, config, engine::open_backends(config, {}), engine::Use::kTrain),
        reference_(model, alone(config), open_reference_backends(1), engine::Use::kTrain),
        exact_(model, in_float32(alone(config)), open_reference_backends(1), engine::Use::kTrain) {
    for (engine::Engine* engine : {&tested_, &reference_, &exact_}) {
      engine->initialise(config.seed);
    }
  }

  void change_frozen(const graph::Graph& model) {
    for (engine::Engine* engine : {&tested_, &reference_, &exact_}) engine->change_frozen(model);
  }

  // Updates all from the variables of the reference and prints a line per variable. Returns false
  // if a loss is not finite.
  bool update(const std::vector<Samples>& calls, std::int64_t number) {
    const std::vector<checkpoint::Tensor> start = reference_.replica().tensors();
    std::vector<Trace> traces;
    for (engine::Engine* engine : {&tested_, &reference_, &exact_}) {
      engine->write(start);
      traces.emplace_back(*engine);
      if (!test::update(*engine, calls, static_cast<std::uint64_t>(number))) return false;
      traces.back().finish(*engine);
    }
    tested_.check_equal();
    for (const graph::Value& value : reference_.replica().variable_values()) {
      print(number, value, traces[0], traces[1], traces[2]);
    }
    return true;
  }

 private:
  static config::Config alone(config::Config config) {
    config.train.batch_size = config.train.batch_size * config.parallel.replicas;
    config.parallel = {};
    config.parallel.device = DeviceKind::kCpu;
    return config;
  }
  static config::Config in_float32(config::Config config) {
    config.train.precision = config::Precision::kFloat32;
    return config;
  }

  engine::Engine tested_, reference_, exact_;
};

void run(const Path& config_path, const Path& case_path) {
  const config::Config config =
      config::parse_config(read_text_file(config_path), config_path.string(), {}, {}).config;
  const auto drawn = nlohmann::json::parse(read_text_file(case_path));
  const auto classes = drawn["classes"].get<std::int64_t>();
  model::SampleSpec spec = sample(Shape(config.model.input), classes);
  spec.label_is_index = config.model.loss != LossKind::kMeanSquaredError;
  graph::Graph model = model::build_model(config.model, config.data, spec, config.seed);
  set_stage(model, drawn["stages"][0], 0);
  Comparison comparison(config, model);
  std::int64_t number = 0;
  for (const nlohmann::json& stage : drawn["stages"]) {
    if (number > 0) {
      set_stage(model, stage, number);
      comparison.change_frozen(model);
    }
    for (int i = 0; i < kUpdatesPerStage; ++i) {
      std::vector<Samples> calls;
      for (std::int64_t call = 0; call < drawn["calls"].get<std::int64_t>(); ++call) {
        calls.emplace_back(model, drawn["samples"].get<std::int64_t>(), classes,
                           config.seed + 100 * number + call);
      }
      if (!comparison.update(calls, ++number)) return;
    }
  }
}

}  // namespace
}  // namespace trainer::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " CONFIG CASE\n";
    return 2;
  }
  try {
    trainer::test::run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
