// The update phase: each rule with all that comes before and after it, against the reference and
// against Keras's numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/harness.h"
#include "optim/optim.h"
#include "support/backend.h"
#include "support/model.h"
#include "support/skip.h"
#include "support/source_files.h"

namespace trainer::test::update_test {
namespace {

using graph::AdamRule;
using graph::Clip;
using graph::Phase;
using graph::RmsPropRule;
using graph::Role;
using graph::SgdRule;
using graph::Update;
using graph::ValueId;

// Parameters of these lengths whose gradients are inputs: a dense layer's of one input, x = 1.
graph::Graph update_graph(const std::vector<std::int64_t>& lengths, const Update& update) {
  Builder b(DType::kFloat32);
  const ValueId x = b.input({kBatch, 1}, {1, 1});
  std::vector<std::pair<ValueId, ValueId>> pairs;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const ValueId w = b.parameter({1, lengths[i]});
    b.graph[w].name = concat("w", i);
    const ValueId g = b.add1(graph::DenseBackwardWeights{}, {x, b.input({kBatch, lengths[i]})});
    b.graph[g].name = concat("w", i, "/gradient");
    b.graph[g].role = Role::kGradient;
    pairs.emplace_back(w, g);
  }
  for (const auto& [w, g] : pairs) {
    std::vector<ValueId> inputs{w, g};
    for (const graph::Slot& slot : graph::list_slots(update)) {
      graph::Value value;
      value.name = concat(b.graph[w].name, "/", slot.name);
      value.shape = b.graph[w].shape;
      value.role = Role::kSlot;
      value.initial.a = slot.initial;
      inputs.push_back(b.graph.add_value(value));
    }
    b.graph.add(update, inputs, "update", {}, Phase::kUpdate);
  }
  graph::verify(b.graph);
  return b.graph;
}

// With an output that counts as the loss: relu of the first parameter's gradient.
graph::Graph guarded_update_graph(const std::vector<std::int64_t>& lengths, const Update& update) {
  graph::Graph graph = update_graph(lengths, update);
  graph.outputs.push_back(graph.add1(graph::Activate{{graph::Activation::Kind::kRelu, 0}},
                                     {graph.inputs[1]}, "guarded", {}));
  std::stable_sort(graph.nodes.begin(), graph.nodes.end(),
                   [](const auto& a, const auto& b) { return a.phase < b.phase; });
  return graph;
}

// The second is longer than a lane takes at once.
const std::vector<std::int64_t> kLengths{5, 20000, 33};

std::vector<std::vector<double>> inputs_of_step(std::int64_t samples, std::uint64_t step) {
  std::vector<std::vector<double>> inputs{
      std::vector<double>(static_cast<std::size_t>(samples), 1.0)};
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    inputs.push_back(content({samples, kLengths[i]}, {}, DType::kFloat32, 100 * step + i));
  }
  return inputs;
}

std::map<std::string, std::vector<double>> starting_values(const graph::Graph& graph) {
  std::map<std::string, std::vector<double>> starting;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const graph::Value& value = graph.values[i];
    if (!graph::is_persistent(value.role)) continue;
    starting.try_emplace(value.name, static_cast<std::size_t>(value.shape.elements()),
                         value.initial.a);
    if (value.role != Role::kParameter) continue;
    starting[value.name] = content(value.shape, {-0.5, 0.5}, DType::kFloat32, i);
    // An average starts as its parameter, whose value comes before it.
    if (graph.find(value.name + "/average") != graph::kNoValue) {
      starting[value.name + "/average"] = starting[value.name];
    }
  }
  return starting;
}

Update plain(const graph::UpdateRule& rule) {
  Update update;
  update.rule = rule;
  return update;
}

struct Run {
  std::string name;
  Update update;
  std::uint64_t steps = 20;
};

std::vector<Run> runs() {
  std::vector<Run> rules{
      {"sgd", plain(SgdRule{})},
      {"momentum", plain(SgdRule{0.9f, false})},
      {"nesterov", plain(SgdRule{0.9f, true})},
      {"rmsprop", plain(RmsPropRule{})},
      {"rmsprop with momentum", plain(RmsPropRule{0.8f, 0.9f, 1e-5f, false})},
      {"centered rmsprop", plain(RmsPropRule{0.9f, 0, 1e-3f, true})},
      {"centered rmsprop with momentum", plain(RmsPropRule{0.9f, 0.5f, 1e-3f, true})},
      {"adam", plain(AdamRule{})},
      {"amsgrad", plain(AdamRule{0.8f, 0.9f, 1e-4f, true})},
      {"nadam", plain(graph::NadamRule{})},
      {"nadam of other betas", plain(graph::NadamRule{0.8f, 0.9f, 1e-4f})},
      {"adagrad", plain(graph::AdagradRule{})},
      {"adagrad of another start", plain(graph::AdagradRule{2.5f, 1e-3f})},
      {"lion", plain(graph::LionRule{0.875f, 0.75f})},
      {"lamb", plain(graph::LambRule{})},
      {"lamb of other betas", plain(graph::LambRule{0.8f, 0.9f, 1e-3f})}};
  std::vector<Run> all;
  for (const Run& rule : rules) {
    all.push_back(rule);
    const auto with = [&](const char* what, const auto& change) {
      Run run = rule;
      run.name += concat(", ", what);
      run.steps = 6;  // the rule itself is seen over more
      change(run.update);
      all.push_back(run);
    };
    with("value clipped", [](Update& u) { u.clip = {Clip::Kind::kValue, 0.3f}; });
    with("norm clipped, l2", [](Update& u) {
      u.clip = {Clip::Kind::kNorm, 1.0f};
      u.l2 = 0.1f;
    });
    with("global norm clipped, average", [](Update& u) {
      u.clip = {Clip::Kind::kGlobalNorm, 2.0f};
      u.ema = 0.9f;
    });
    with("l1", [](Update& u) {
      u.clip = {Clip::Kind::kNorm, 1.0f};
      u.l1 = 0.07f;
      u.l2 = 0.1f;
    });
    with("l2, decay, average, multiplier", [](Update& u) {
      u.l2 = 0.05f;
      u.weight_decay = 0.1f;
      u.ema = 0.8f;
      u.ema_warm_up = true;
      u.learning_rate_multiplier = 0.5f;
    });
  }
  return all;
}

backend::Scalars scalars_of_step(std::uint64_t step) {
  backend::Scalars scalars;
  scalars.update = step;
  scalars.learning_rate = 0.01f / static_cast<float>(step);
  return scalars;
}

void check_kept(const std::string& name, const Runner& runner, const Reference& reference) {
  for (const auto& [value, expected] : reference.kept) {
    const double d = distance(runner.read(value), expected);
    CHECK_MESSAGE(d < 1e-5, name, ", ", value, ": relative distance ", d);
  }
}

bool is_float32(const Setup& setup) { return setup.type == DType::kFloat32; }

}  // namespace

TEST_CASE("Update: every rule matches the reference over 20 steps") {
  std::vector<std::vector<std::vector<double>>> inputs;
  for (std::uint64_t step = 0; step <= 20; ++step) inputs.push_back(inputs_of_step(1, step));
  for (const Run& run : runs()) {
    const graph::Graph graph = update_graph(kLengths, run.update);
    std::vector<std::vector<float>> first;  // the same bits with any lanes
    Reference reference(graph);
    const auto starting = starting_values(graph);
    reference.kept = starting;
    for (std::uint64_t step = 1; step <= run.steps; ++step) {
      reference.run(1, inputs[step], scalars_of_step(step));
    }
    for (const Setup& setup : setups()) {
      if (!is_float32(setup)) continue;
      Runner runner(open(setup), graph, {});
      for (const auto& [name, values] : starting) runner.write(name, values);
      for (std::uint64_t step = 1; step <= run.steps; ++step) {
        runner.run(1, inputs[step], scalars_of_step(step));
      }
      check_kept(concat(run.name, ", ", to_string(setup)), runner, reference);
      if (setup.instruction_set != setups()[0].instruction_set) continue;
      std::vector<std::vector<float>> values;
      for (const auto& [name, expected] : reference.kept) values.push_back(runner.read(name));
      if (first.empty()) first = values;
      CHECK_MESSAGE(values == first, run.name, ": other bits with ", to_string(setup));
    }
  }
}

TEST_CASE("Executable: gradients of several calls are summed into one update") {
  Update clipped = plain(AdamRule{});
  clipped.clip = {Clip::Kind::kGlobalNorm, 1.0f};
  for (const Update& update : {plain(AdamRule{}), clipped, plain(graph::LambRule{})}) {
    const graph::Graph graph = update_graph(kLengths, update);
    for (const Setup& setup : setups()) {
      if (!is_float32(setup)) continue;
      backend::CompileOptions options;
      options.max_samples = 5;
      Runner runner(open(setup), graph, options);
      Reference reference(graph);
      reference.kept = starting_values(graph);
      for (const auto& [name, values] : reference.kept) runner.write(name, values);
      for (std::uint64_t call = 0; call < 12; ++call) {
        backend::Scalars scalars = scalars_of_step(call / 3 + 1);
        scalars.accumulate = call % 3 != 0;
        scalars.apply = call % 3 == 2;
        // Fewer samples than lanes, and as many as fit.
        const std::int64_t samples = call % 3 == 1 ? 1 : 5;
        const auto inputs = inputs_of_step(samples, call);
        runner.run(samples, inputs, scalars);
        reference.run(samples, inputs, scalars);
        if (call % 3 == 1) check_kept("before the update", runner, reference);
      }
      check_kept(concat("accumulation, ", to_string(setup)), runner, reference);
    }
  }
}

TEST_CASE("Executable: a loss that is not finite causes no update") {
  const graph::Graph graph = guarded_update_graph({4}, plain(SgdRule{}));
  for (const Setup& setup : all_setups()) {
    if (!is_float32(setup)) continue;
    backend::CompileOptions options;
    options.max_samples = 2;
    options.result_outputs.loss = 0;
    Runner runner(open(setup), graph, options);
    backend::Scalars scalars;
    scalars.learning_rate = 1;
    std::vector<std::vector<double>> inputs{{1, 1}, {1, 2, 3, 4, 1, 2, 3, 4}};
    runner.run(2, inputs, scalars);
    const std::vector<float> after_good{-2, -4, -6, -8};
    CHECK(runner.read("w0") == after_good);
    inputs[1][6] = HUGE_VAL;
    runner.run(2, inputs, scalars);
    CHECK(runner.read("w0") == after_good);
    inputs[1][6] = 3;
    runner.run(2, inputs, scalars);
    const std::vector<float> after_better{-4, -8, -12, -16};
    CHECK(runner.read("w0") == after_better);
    // Calls that may be on the way behind one that is not finite change nothing when they shall
    // not.
    scalars.stop_when_not_finite = true;
    inputs[1][6] = HUGE_VAL;
    runner.run(2, inputs, scalars);
    inputs[1][6] = 3;
    runner.run(2, inputs, scalars);
    CHECK_FALSE(runner.result().finite);
    CHECK(runner.read("w0") == after_better);
  }
}

TEST_CASE("CallResult::update_not_finite is set by an update with a number that is not finite") {
  if (uses_gpus()) TRAINER_SKIP("layers of GPUs keep a NaN, which the loss shows");
  constexpr std::size_t kPlace = 19999;  // in the second parameter, whose gradient the loss lacks
  const std::vector<graph::UpdateRule> rules{
      SgdRule{},         RmsPropRule{},    AdamRule{}, graph::NadamRule{}, graph::AdagradRule{},
      graph::LionRule{}, graph::LambRule{}};
  for (const graph::UpdateRule& rule : rules) {
    const graph::Graph graph = guarded_update_graph(kLengths, plain(rule));
    const auto starting = starting_values(graph);
    for (const Setup& setup : setups()) {
      if (!is_float32(setup)) continue;
      CAPTURE(to_string(setup));
      CAPTURE(rule.index());
      backend::CompileOptions options;
      options.result_outputs.loss = 0;
      Runner runner(open(setup), graph, options);
      for (const auto& [name, values] : starting) runner.write(name, values);
      backend::Scalars scalars = scalars_of_step(1);
      scalars.stop_when_not_finite = true;
      auto gradients = inputs_of_step(1, 1);
      runner.run(1, gradients, scalars);
      CHECK_FALSE(runner.result().update_not_finite);
      gradients[2][kPlace] = std::nan("");
      runner.run(1, gradients, scalars);
      CHECK(runner.result().finite);
      CHECK(runner.result().update_not_finite);
      const std::vector<float> after = runner.read("w0");
      runner.run(1, inputs_of_step(1, 2), scalars);
      CHECK_FALSE(runner.result().finite);
      CHECK(runner.read("w0") == after);
    }
  }
}

TEST_CASE("CallResult::update_not_finite is set by a parameter that overflows") {
  if (uses_gpus()) TRAINER_SKIP("layers of GPUs keep a NaN, which the loss shows");
  const graph::Graph graph = guarded_update_graph(kLengths, plain(SgdRule{}));
  for (const Setup& setup : setups()) {
    if (!is_float32(setup)) continue;
    backend::CompileOptions options;
    options.result_outputs.loss = 0;
    Runner runner(open(setup), graph, options);
    backend::Scalars scalars;
    scalars.learning_rate = 3e38f;
    auto gradients = inputs_of_step(1, 1);
    for (auto& values : gradients) std::ranges::fill(values, 1.0);
    runner.run(1, gradients, scalars);
    CHECK_FALSE(runner.result().update_not_finite);
    std::ranges::fill(gradients[1], 0.0);
    std::ranges::fill(gradients[2], 0.0);
    runner.run(1, gradients, scalars);  // only the last parameter moves, from -3e38
    CHECK(runner.result().update_not_finite);
  }
}

TEST_CASE(
    "CallResult::gradient_norm of an update includes the penalty's gradient before clipping") {
  const double l2 = 0.05;
  const auto gradients = inputs_of_step(1, 7);
  for (const Clip::Kind clip : {Clip::Kind::kNone, Clip::Kind::kValue, Clip::Kind::kGlobalNorm}) {
    Update update = plain(AdamRule{});
    update.clip = {clip, 0.25f};
    update.l2 = static_cast<float>(l2);
    const graph::Graph graph = guarded_update_graph(kLengths, update);
    const auto starting = starting_values(graph);
    double squares = 0;
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
      const std::vector<double>& w = starting.at(concat("w", i));
      for (std::size_t k = 0; k < w.size(); ++k) {
        squares += std::pow(gradients[i + 1][k] + 2 * l2 * w[k], 2);
      }
    }
    for (const Setup& setup : all_setups()) {
      if (!is_float32(setup)) continue;
      CAPTURE(to_string(setup));
      backend::CompileOptions options;
      options.result_outputs.loss = 0;
      Runner runner(open(setup), graph, options);
      for (const auto& [name, values] : starting) runner.write(name, values);
      backend::Scalars scalars = scalars_of_step(1);
      scalars.apply = false;
      runner.run(1, gradients, scalars);
      CHECK(std::isnan(runner.result().gradient_norm));
      scalars.apply = true;
      runner.run(1, gradients, scalars);
      CHECK(runner.result().gradient_norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-6));
    }
  }
}

TEST_CASE("Executable::gradient has one clip scale per parameter if norms are clipped, else none") {
  for (const Clip::Kind clip : {Clip::Kind::kNone, Clip::Kind::kGlobalNorm}) {
    Update update = plain(graph::LambRule{});
    update.clip = {clip, 1.0f};
    const graph::Graph graph = update_graph(kLengths, update);
    for (const Setup& setup : setups()) {
      if (!is_float32(setup)) continue;
      Runner runner(open(setup), graph, {});
      for (const auto& [name, values] : starting_values(graph)) runner.write(name, values);
      backend::Scalars scalars = scalars_of_step(1);
      scalars.apply = false;
      runner.run(1, inputs_of_step(1, 1), scalars);
      const auto scales = runner.gradient().clip_scales;
      CHECK(scales.size() == (clip == Clip::Kind::kNone ? 0 : kLengths.size()));
      for (const float scale : scales) CHECK((scale > 0 && scale < 1));
    }
  }
}

// Compares the parameters, and the averages of them, of every 20th of 200 updates with a fixture.
void check_updates(const std::string& path) {
  std::ifstream file(source_file(path));
  const nlohmann::json fixture = nlohmann::json::parse(file);
  for (const auto& c : fixture["cases"]) {
    const config::Config config =
        build_config("{layers: [flatten, dense: 2]}", "optimizer: " + c["optimizer"].dump() + "\n");
    const optim::UpdateSpec spec = optim::update_spec(config.optimizer);
    const graph::Graph graph = update_graph({5, 4}, spec.update);
    Runner runner(open(setups()[0]), graph, {});
    for (const auto& [name, values] : starting_values(graph)) runner.write(name, values);
    for (std::size_t t = 0; t < 2; ++t) {
      const auto initial = fixture["initial"][t].get<std::vector<double>>();
      runner.write(concat("w", t), initial);
      if (spec.update.ema > 0) runner.write(concat("w", t, "/average"), initial);
    }
    const double scale = c["scale"];
    for (std::uint64_t step = 0; step < 200; ++step) {
      std::vector<std::vector<double>> inputs{
          {1.0}, std::vector<double>(5), std::vector<double>(4)};
      for (std::size_t t = 0; t < 2; ++t) {
        for (std::size_t i = 0; i < inputs[t + 1].size(); ++i) {
          inputs[t + 1][i] = scale * std::sin(0.1 * static_cast<double>(step) +
                                              static_cast<double>(i) + 2 * static_cast<double>(t));
        }
      }
      backend::Scalars scalars;
      scalars.learning_rate = static_cast<float>(spec.learning_rate);
      scalars.update = step + 1;
      runner.run(1, inputs, scalars);
      if ((step + 1) % 20 != 0) continue;
      const std::size_t row = step / 20;
      for (std::size_t t = 0; t < 2; ++t) {
        const auto check_values = [&](const char* key, const std::string& name) {
          const double d =
              distance(runner.read(name), c[key][row][t].template get<std::vector<double>>());
          CHECK_MESSAGE(d < 2e-5, c["name"].template get<std::string>(), " after ", step + 1,
                        " updates, ", name, ": relative distance ", d);
        };
        check_values("values", concat("w", t));
        if (c.contains("averages")) check_values("averages", concat("w", t, "/average"));
      }
    }
  }
}

// Fixtures: test/keras/make_fixtures.py.
TEST_CASE("optimizer: each kind over 200 steps matches Keras") {
  check_updates("test/keras/optimizers.json");
}

// Fixture: make_timm_fixtures.py.
TEST_CASE("optimizer: the average of weights with and without warm-up matches timm") {
  check_updates("test/backend/timm_averages.json");
}

}  // namespace trainer::test::update_test
