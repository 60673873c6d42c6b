#include "backend/harness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "backend/cpu/cpu.h"
#include "base/numbers/half.h"
#include "base/numbers/random.h"
#include "reference_backend/reference_backend.h"
#include "support/backend.h"

namespace trainer::test {
namespace {

using backend::CompileOptions;
using graph::Graph;
using graph::ValueId;

constexpr char kReference[] = "reference";
constexpr char kCuda[] = "cuda";

// Values as a host gives them: in the input's own type.
std::vector<char> packed(const std::vector<double>& values, DType type) {
  std::vector<char> bytes(values.size() * size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    char* to = bytes.data() + i * size_of(type);
    const auto put = [to](auto value) { std::memcpy(to, &value, sizeof value); };
    switch (type) {
      case DType::kFloat32:
        put(static_cast<float>(values[i]));
        break;
      case DType::kBFloat16:
        put(float_to_bfloat16(static_cast<float>(values[i])));
        break;
      case DType::kFloat16:
        put(float_to_float16(static_cast<float>(values[i])));
        break;
      case DType::kUInt8:
        put(static_cast<std::uint8_t>(values[i]));
        break;
      case DType::kInt32:
        put(static_cast<std::int32_t>(values[i]));
        break;
    }
  }
  return bytes;
}

// Without an update phase every lane has gradients of its own; statistics are those of the whole
// batch.
bool same_on_all_lanes(const Graph& graph, ValueId id) {
  if (graph[id].shape.batched()) return true;
  const int producer = graph.producer(id);
  return producer >= 0 && std::holds_alternative<graph::BatchNorm>(
                              graph.nodes[static_cast<std::size_t>(producer)].op);
}

// What packed() makes of values, as float32.
std::vector<float> unpacked(const std::vector<char>& bytes, DType type) {
  std::vector<float> values(bytes.size() / size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto get = [&]<class T>(T value) {
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      return value;
    };
    switch (type) {
      case DType::kFloat32:
        values[i] = get(float{});
        break;
      case DType::kBFloat16:
        values[i] = bfloat16_to_float(get(std::uint16_t{}));
        break;
      case DType::kFloat16:
        values[i] = float16_to_float(get(std::uint16_t{}));
        break;
      case DType::kUInt8:
        values[i] = static_cast<float>(get(std::uint8_t{}));
        break;
      case DType::kInt32:
        values[i] = static_cast<float>(get(std::int32_t{}));
        break;
    }
  }
  return values;
}

// What a built graph's values are filled with.
struct Contents {
  std::map<std::string, std::vector<double>> kept;  // by name
  std::vector<std::vector<double>> inputs;
};

Contents make_contents(const Builder& builder, std::int64_t samples) {
  Contents contents;
  for (std::size_t i = 0; i < builder.graph.values.size(); ++i) {
    const graph::Value& value = builder.graph.values[i];
    const bool kept = graph::is_persistent(value.role);
    if (!kept && value.role != graph::Role::kInput) continue;
    auto values = content(value.shape.batched() ? value.shape.with_batch(samples) : value.shape,
                          builder.fills[i], kept ? builder.type() : value.type, i);
    if (kept) {
      contents.kept[value.name] = std::move(values);
    } else {
      contents.inputs.push_back(std::move(values));
    }
  }
  return contents;
}

CompileOptions options_for(const Case& c, std::int64_t samples) {
  CompileOptions options;
  options.max_samples = samples;
  options.convolution = c.convolution;
  return options;
}

// Adds a line to the file that TRAINER_TEST_DISTANCES names: case, type, samples, the worst
// distance of an output from the reference, and the largest that is allowed.
void note_distance(const Case& c, const Setup& setup, std::int64_t samples, double worst,
                   double tolerance) {
  const char* path = std::getenv("TRAINER_TEST_DISTANCES");
  if (path == nullptr) return;
  // One write, so that the lines of several programs do not mix.
  const std::string line = concat(c.name, '\t', to_string(setup.type), '\t', samples, '\t', worst,
                                  '\t', tolerance, '\n');
  std::ofstream(path, std::ios::app) << line << std::flush;
}

// Returns whether `got` is 0 wherever `expected` is: gradients that are 0 by shape are exactly 0.
bool has_zeros(const std::vector<float>& got, const std::vector<double>& expected) {
  std::size_t i = 0;
  while (i < got.size() && (expected[i] != 0 || got[i] == 0)) ++i;
  return i == got.size();
}

// Large numbers in the memory in which the programs of a CPU backend compute, so that a step that
// reads what no step has written gives another result.
class Poison {
 public:
  // Reserves the memory, which programs that are compiled later use.
  Poison(backend::Backend& backend, int lanes) : backend_(backend), lanes_(lanes) {
    compile(kReserved);
  }

  // Fills the memory of the program.
  void fill(const Runner& program) {
    std::int64_t bytes = 1 << 16;
    while (bytes < arena_bytes(program)) bytes *= 2;
    REQUIRE(bytes <= kReserved);
    auto& runner = runners_[bytes];
    if (!runner) runner = compile(bytes);
    // Each byte is 0x7f: a number near the largest one of float32 and of bfloat16.
    const float value = std::bit_cast<float>(0x7f7f7f7fU);
    const std::size_t count = static_cast<std::size_t>(bytes) / sizeof value * lanes_;
    runner->run(lanes_, {std::vector<double>(count, static_cast<double>(value))});
  }

 private:
  static constexpr std::int64_t kReserved = 16 << 20;

  // Compiles a program whose only value takes `bytes` of memory, on each lane.
  std::unique_ptr<Runner> compile(std::int64_t bytes) {
    Builder builder(DType::kFloat32);
    const ValueId x = builder.input({kBatch, bytes / static_cast<std::int64_t>(sizeof(float))});
    builder.output(builder.add1(graph::Activate{{graph::Activation::Kind::kRelu, 0}}, {x}));
    CompileOptions options;
    options.max_samples = lanes_;
    return std::make_unique<Runner>(backend_, builder.graph, options);
  }

  static std::int64_t arena_bytes(const Runner& program) {
    std::ostringstream printed;
    program.print(printed);
    const std::string text = printed.str(), mark = "arena ";
    std::int64_t most = 0;
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
      at += mark.size();
      most = std::max(most, static_cast<std::int64_t>(std::atoll(text.c_str() + at)));
    }
    return most;
  }

  backend::Backend& backend_;
  int lanes_;
  std::map<std::int64_t, std::unique_ptr<Runner>> runners_;
};

// Returns the poison of a setup's backend; null if it is not the CPU backend.
Poison* find_poison(const Setup& setup) {
  if (setup.instruction_set == kReference || setup.instruction_set == kCuda) return nullptr;
  static std::map<backend::Backend*, std::unique_ptr<Poison>> all;
  auto& poison = all[&open(setup)];
  if (!poison) poison = std::make_unique<Poison>(open(setup), setup.lanes);
  return poison.get();
}

void check_setup(const Case& c, const Setup& setup, std::int64_t samples) {
  Builder builder(setup.type);
  c.build(builder);
  Graph& graph = builder.graph;
  if (setup.splits_batch()) {
    std::erase_if(graph.outputs, [&](ValueId id) { return !same_on_all_lanes(graph, id); });
    if (graph.outputs.empty()) return;
  }
  graph::verify(graph);

  const Contents contents = make_contents(builder, samples);
  Poison* const poison = find_poison(setup);
  Runner runner(open(setup), graph, options_for(c, samples));
  Reference reference(graph);
  for (const auto& [name, values] : contents.kept) {
    runner.write(name, values);
    reference.kept[name] = values;
  }
  backend::Scalars scalars;
  scalars.loss_scale = 1.0 / static_cast<double>(samples);
  const auto expected = reference.run(samples, contents.inputs, scalars);
  const double tolerance = setup.type == DType::kFloat32 ? c.tolerance : 2e-2;
  // A GPU, and Winograd, may round a sum that is 0 by its numbers, which those of bfloat16 often
  // are.
  const bool may_round_zeros =
      setup.instruction_set == kCuda ||
      (c.convolution == ConvolutionAlgorithm::kWinograd && setup.type == DType::kBFloat16);
  double worst = 0;
  // The second run finds memory as the first left it.
  for (int run = 0; run < 2; ++run) {
    if (run == 0 && poison != nullptr) poison->fill(runner);
    const auto got = runner.run(samples, contents.inputs, scalars);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double d = distance(got[i], expected[i]);
      worst = d <= worst ? worst : d;  // a NaN is the worst
      CHECK_MESSAGE((may_round_zeros || has_zeros(got[i], expected[i])), c.name, ", ",
                    to_string(setup), ", batch ", samples, ", output ", i, " (",
                    graph[graph.outputs[i]].name, "): another number where 0 is expected");
      CHECK_MESSAGE(d <= tolerance, c.name, ", ", to_string(setup), ", batch ", samples, ", run ",
                    run, ", output ", i, " (", graph[graph.outputs[i]].name,
                    "): relative distance ", d);
      if (!(d <= tolerance)) return note_distance(c, setup, samples, worst, tolerance);
    }
  }
  note_distance(c, setup, samples, worst, tolerance);
}

}  // namespace

std::string to_string(const Setup& setup) {
  return concat(setup.instruction_set, ", ", setup.lanes, " lanes, ", to_string(setup.type));
}

backend::Backend& open(const Setup& setup) {
  static std::map<std::pair<int, std::string>, std::unique_ptr<backend::Backend>> opened;
  auto& backend = opened[{setup.lanes, setup.instruction_set}];
  if (!backend && setup.instruction_set == kReference) backend = open_reference_backend();
  if (!backend && setup.instruction_set == kCuda) backend = std::move(open_test_gpus(1).front());
  if (!backend) {
    backend::cpu::CpuOptions options;
    options.threads = 2;
    options.lanes = setup.lanes;
    options.instruction_set = setup.instruction_set;
    backend = backend::cpu::open_backend(options);
  }
  return *backend;
}

std::vector<Setup> setups() {
  static const std::vector<Setup> all = [] {
    std::vector<Setup> made;
    if (uses_gpus()) {
      for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        made.push_back({1, kCuda, type});
      }
      return made;
    }
    for (const char* isa : {"x86-64-v4", "x86-64-v3", "amx"}) {
      for (const int lanes : {1, 2}) {
        for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
          const Setup setup{lanes, isa, type};
          // In float32 AMX changes nothing.
          if (setup.instruction_set == "amx" && type == DType::kFloat32) continue;
          try {
            if (open(setup).supports(type)) made.push_back(setup);
          } catch (const DeviceError&) {  // a processor without these instructions
          }
        }
      }
    }
    return made;
  }();
  return all;
}

std::vector<graph::Activation> activations() {
  using Kind = graph::Activation::Kind;
  return {{Kind::kRelu, 0},    {Kind::kRelu6, 0}, {Kind::kLeakyRelu, 0.3f}, {Kind::kElu, 1.0f},
          {Kind::kSigmoid, 0}, {Kind::kTanh, 0},  {Kind::kGelu, 0},         {Kind::kSwish, 0}};
}

std::vector<Setup> all_setups() {
  std::vector<Setup> all = setups();
  if (uses_gpus()) return all;
  all.push_back({1, kReference, DType::kFloat32});
  all.push_back({1, kReference, DType::kBFloat16});
  return all;
}

std::vector<std::vector<double>> compute_expected(const Case& c, DType type, std::int64_t samples) {
  Builder builder(type);
  c.build(builder);
  const Contents contents = make_contents(builder, samples);
  Reference reference(builder.graph);
  reference.kept.insert(contents.kept.begin(), contents.kept.end());
  return reference.run(samples, contents.inputs, {});
}

std::vector<std::vector<float>> collect_outputs(const Case& c, const Setup& setup,
                                                std::int64_t samples) {
  Builder builder(setup.type);
  c.build(builder);
  graph::verify(builder.graph);
  Runner runner(open(setup), builder.graph, options_for(c, samples));
  const Contents contents = make_contents(builder, samples);
  for (const auto& [name, values] : contents.kept) runner.write(name, values);
  return runner.run(samples, contents.inputs);
}

void check(const Case& c) {
  for (const Setup& setup : all_setups()) {
    if (setup.type != DType::kFloat32 && !c.half_precision) continue;
    for (const std::int64_t samples : c.batches) {
      try {
        check_setup(c, setup, samples);
      } catch (const std::exception& error) {
        FAIL_CHECK(c.name, ", ", to_string(setup), ", batch ", samples, ": ",
                   std::string(error.what()));
      }
    }
  }
}

double distance(const std::vector<float>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-3);
}

std::vector<double> content(const Shape& shape, const Fill& fill, DType type, std::uint64_t seed) {
  Random random(7, Stream::kSynthetic, seed);
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (double& value : values) {
    float v = random.uniform(static_cast<float>(fill.low), static_cast<float>(fill.high));
    if (fill.whole) v = std::floor(v);
    value = static_cast<double>(v);
    if (type == DType::kBFloat16) {
      value = static_cast<double>(bfloat16_to_float(float_to_bfloat16(v)));
    }
    if (type == DType::kFloat16) {
      value = static_cast<double>(float16_to_float(float_to_float16(v)));
    }
  }
  for (std::size_t i = 0; fill.unknown_every > 0 && i < values.size(); i += fill.unknown_every) {
    values[i] = std::nan("");
  }
  return values;
}

Runner::Runner(backend::Backend& backend, const Graph& graph, const CompileOptions& options)
    : backend_(backend),
      graph_(graph),
      has_result_(options.result_outputs.loss >= 0),
      result_(backend.allocate_host(sizeof(backend::CallResult))),
      stream_(backend.make_stream()),
      variables_(backend.allocate(graph)),
      executable_(backend.compile(graph, *variables_, options)) {}

std::vector<std::vector<float>> Runner::run(std::int64_t samples,
                                            const std::vector<std::vector<double>>& inputs,
                                            const backend::Scalars& scalars) {
  std::vector<std::vector<char>> given;
  std::vector<backend::Buffer> device;
  std::vector<backend::Span> from, to;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(packed(inputs[i], graph_[graph_.inputs[i]].type));
    device.push_back(backend_.allocate(given.back().size()));
    from.push_back(device.back().span());
    stream_->upload(from.back(), given.back().data(), given.back().size());
  }
  std::vector<std::vector<char>> taken;
  for (const ValueId id : graph_.outputs) {
    const graph::Value& value = graph_[id];
    const Shape whole = value.shape.batched() ? value.shape.with_batch(samples) : value.shape;
    // Every byte 0xff: not a number in each type.
    taken.emplace_back(static_cast<std::size_t>(whole.elements()) * size_of(value.type), '\xff');
    device.push_back(backend_.allocate(taken.back().size()));
    to.push_back(device.back().span());
    given.push_back(taken.back());  // what is uploaded stays as it is until the stream is done
    stream_->upload(to.back(), given.back().data(), given.back().size());
  }
  auto* result = reinterpret_cast<backend::CallResult*>(result_.data());
  try {
    executable_->launch({samples, from, to, has_result_ ? result : nullptr}, scalars, *stream_);
    for (std::size_t i = 0; i < to.size(); ++i) {
      stream_->download(taken[i].data(), to[i], taken[i].size());
    }
    stream_->synchronize();
  } catch (...) {
    stream_ = backend_.make_stream();  // the old one ends its work, which uses this call's memory
    throw;
  }
  std::vector<std::vector<float>> outputs;
  for (std::size_t i = 0; i < to.size(); ++i) {
    outputs.push_back(unpacked(taken[i], graph_[graph_.outputs[i]].type));
  }
  return outputs;
}

const backend::CallResult& Runner::result() const {
  return *reinterpret_cast<const backend::CallResult*>(result_.data());
}

void Runner::write(const std::string& name, const std::vector<double>& values) {
  write(name, std::vector<float>(values.begin(), values.end()));
}
void Runner::write(const std::string& name, const std::vector<float>& values) {
  variables_->write(name, values);
}

std::vector<float> Runner::read(const std::string& name) const {
  for (const graph::Value& value : variables_->values()) {
    if (value.name != name) continue;
    std::vector<float> values(static_cast<std::size_t>(value.shape.elements()));
    variables_->read(name, values);
    return values;
  }
  throw std::logic_error("no variable " + name);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int count_instructions(const graph::Graph& graph, const std::string& mark,
                       const backend::CompileOptions& options) {
  backend::CompileOptions of_two = options;
  of_two.max_samples = 2;
  const Runner runner(open(setups()[0]), graph, of_two);
  std::ostringstream printed;
  runner.print(printed);
  const std::string text = printed.str();
  int count = 0;
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += mark.size()) {
    ++count;
  }
  return count;
}

}  // namespace trainer::test
