#include <algorithm>
#include <ostream>
#include <set>
#include <string_view>

#include "base/formats/table.h"
#include "base/text.h"
#include "commands/plan/device_plan.h"
#include "train/servers/parameter_servers.h"

namespace trainer::commands {
namespace {

constexpr std::size_t kMaxListedClasses = 12;  // up to which samples are listed per class

std::string short_number(double value) { return significant(value, 6); }

std::string bytes(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 10 << 20) return fixed(value / (1 << 20), 1) + " MiB";
  if (count >= 10 << 10) return fixed(value / (1 << 10), 1) + " KiB";
  return std::to_string(count) + " bytes";
}

std::string samples(std::int64_t count) { return count > 0 ? grouped(count) + " samples" : "none"; }

bool is_default(const PlanReport::Setting& setting) {
  return !setting.given && setting.origin == "default";
}

// Returns whether another key, the data or the machine decides the value.
bool is_derived(const PlanReport::Setting& setting) {
  return !setting.given && !is_default(setting);
}

// Returns the file of an origin "FILE:LINE:COLUMN"; "" for other origins.
std::string find_file(const std::string& origin) {
  const std::size_t column = origin.rfind(':');
  const std::size_t line = column == std::string::npos || column == 0
                               ? std::string::npos
                               : origin.rfind(':', column - 1);
  return line == std::string::npos ? "" : origin.substr(0, line);
}

// Where all places are in one file, its name stands in the title, so that rows are short.
template <class Wanted>
void print_settings(const PlanReport& plan, const std::string& title, std::ostream& out,
                    std::optional<int> columns, Wanted wanted) {
  std::set<std::string> files;
  std::vector<const PlanReport::Setting*> settings;
  for (const PlanReport::Setting& setting : plan.settings) {
    if (!wanted(setting)) continue;
    settings.push_back(&setting);
    if (std::string file = find_file(setting.origin); !file.empty()) files.insert(std::move(file));
  }
  if (settings.empty()) return;
  const std::string file = files.size() == 1 ? *files.begin() : "";
  Table table({"", "", ""});
  for (const PlanReport::Setting* setting : settings) {
    const bool is_short = !file.empty() && find_file(setting->origin) == file;
    table.add({setting->key, setting->value,
               is_short ? "line " + setting->origin.substr(file.size() + 1) : setting->origin});
  }
  out << title << (file.empty() ? "" : concat(" in ", printable(file))) << '\n';
  table.print(out, "  ", columns);
}

void print_settings(const PlanReport& plan, std::ostream& out, Values values,
                    std::optional<int> columns) {
  print_settings(plan, "config, as given", out, columns,
                 [](const PlanReport::Setting& setting) { return setting.given; });
  print_settings(plan, "\nwhat follows from it", out, columns, is_derived);
  const auto defaults = std::ranges::count_if(plan.settings, is_default);
  if (values == Values::kAll) {
    print_settings(plan, "\ndefaults", out, columns, is_default);
  } else if (defaults > 0) {
    out << "\n" << defaults << " more values are defaults; --all lists them\n";
  }
}

// Returns whether a layer has imported weights, is frozen, or keeps its batch norm statistics.
bool is_transferred(const model::LayerRow& row) {
  return !row.weights.empty() || !row.trainable || row.batch_norm == "moving";
}

std::string describe_weights(const model::LayerRow& row) {
  if (row.parameters == 0) return "";
  return row.weights.empty() ? "initialisers" : "from a file";
}

// Returns the place after the digits that begin at `at`.
std::size_t skip_digits(const std::string& name, std::size_t at) {
  while (at < name.size() && name[at] >= '0' && name[at] <= '9') ++at;
  return at;
}

// Returns where the name of the block ends in the name of a layer; 0 for a layer outside blocks.
std::size_t find_block_end(const std::string& name) {
  // MobileNet: expanded_conv_depthwise, expanded_conv_3_project.
  constexpr std::string_view kExpanded = "expanded_conv_";
  if (name.starts_with(kExpanded)) {
    const std::size_t end = skip_digits(name, kExpanded.size());
    return end > kExpanded.size() ? end : kExpanded.size() - 1;
  }
  // PyTorch: layer1.0.conv1, blocks.1.0.conv_dw, features.1.0.block.0.0, stages.0.blocks.1.norm,
  // resnet.encoder.stages.0.layers.1.shortcut, vit.encoder.layer.0.norm1,
  // encoder.layers.encoder_layer_0.ln_1, s1.b1.conv1.conv. DenseNet: pool2_conv.
  constexpr std::string_view kEncoder = "encoder.";
  const std::size_t encoder = name.find(kEncoder);
  const std::size_t start = encoder == std::string::npos ? 0 : encoder + kEncoder.size();
  for (const std::string_view prefix : {"layers.encoder_layer_", "layer.", "layer", "pool",
                                        "blocks.", "features.", "stages.", "s"}) {
    if (name.compare(start, prefix.size(), prefix) != 0) continue;
    const std::size_t end = skip_digits(name, start + prefix.size());
    if (end == start + prefix.size()) continue;
    for (const std::string_view between : {".blocks.", ".layers.", ".b", "."}) {
      if (name.compare(end, between.size(), between) != 0) continue;
      const std::size_t second = skip_digits(name, end + between.size());
      if (second > end + between.size()) return second;
    }
    return end;
  }
  // Other networks: block_1_expand_BN, conv2_block1_1_conv, regnety004_Stage_0_YBlock_0_conv_1x1_1,
  // trunk_output.block1.block1-0.f.a.0.
  constexpr std::string_view kBlock = "lock";
  std::size_t at = name.rfind(kBlock);
  if (at == std::string::npos) return 0;
  at += kBlock.size();
  if (at < name.size() && name[at] == '_') ++at;
  const std::size_t end = skip_digits(name, at);
  if (end == at) return 0;
  if (end < name.size() && name[end] == '-') return skip_digits(name, end + 1);
  // Blocks of EfficientNet have a letter too: block2a.
  return end < name.size() && name[end] >= 'a' && name[end] <= 'z' ? end + 1 : end;
}

// Returns the block of a backbone's layer by its name: "block_1" of "block_1_expand_BN", "layer1.0"
// of "layer1.0.conv1"; "" for a layer outside blocks.
std::string find_block(const std::string& name) {
  const std::size_t end = find_block_end(name);
  return end < name.size() && (name[end] == '_' || name[end] == '.') ? name.substr(0, end) : "";
}

// A row of the printed table: a layer, or the layers of a block.
struct PrintedLayer {
  model::LayerRow row;
  std::string change;  // as in PlanReport::changes
  std::int64_t layers = 1;
  bool differs = false;  // the layers of the block are not trained alike
};

std::string describe_training(const PrintedLayer& layer) {
  if (layer.row.parameters == 0) return "";
  if (layer.differs) return "differs by layer";
  std::string text = layer.row.trainable ? "trained" : "frozen";
  // A frozen block always uses the moving statistics.
  const bool is_frozen_block = layer.layers > 1 && !layer.row.trainable;
  if (!layer.row.batch_norm.empty() && !is_frozen_block) {
    text += ", " + layer.row.batch_norm + " statistics";
  }
  return text + layer.change;
}

// Layers without parameters have no part in the training of a block, and layers without batch norm
// none in its statistics.
void add_training(PrintedLayer& block, const PrintedLayer& layer) {
  if (layer.row.parameters == 0) return;
  if (block.row.parameters == 0) {
    block.row.trainable = layer.row.trainable;
    block.row.batch_norm = layer.row.batch_norm;
    block.change = layer.change;
    return;
  }
  std::string& statistics = block.row.batch_norm;
  if (statistics.empty()) statistics = layer.row.batch_norm;
  const bool is_alike = layer.row.trainable == block.row.trainable &&
                        layer.change == block.change &&
                        (layer.row.batch_norm.empty() || layer.row.batch_norm == statistics);
  block.differs = block.differs || !is_alike;
}

void add_to_block(PrintedLayer& block, const PrintedLayer& layer) {
  add_training(block, layer);
  block.row.output_shape = layer.row.output_shape;
  block.row.parameters += layer.row.parameters;
  block.row.trainable_parameters += layer.row.trainable_parameters;
  block.row.flops += layer.row.flops;
  if (block.row.weights.empty()) block.row.weights = layer.row.weights;
  block.row.kind = concat(++block.layers, " layers");
}

std::vector<PrintedLayer> group_layers(const PlanReport& plan, LayerRows rows) {
  constexpr std::size_t kMaxRows = 40;  // more layers are printed by block
  const bool groups = rows == LayerRows::kBlocks && plan.layers.size() > kMaxRows;
  std::vector<PrintedLayer> printed;
  std::string open;  // the block of the last row
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    PrintedLayer layer{plan.layers[i], plan.changes[i]};
    const std::string block = groups ? find_block(layer.row.name) : "";
    if (!block.empty() && block == open) {
      add_to_block(printed.back(), layer);
      continue;
    }
    open = block;
    if (!block.empty()) layer.row.name = block;
    printed.push_back(std::move(layer));
  }
  return printed;
}

void print_layers(const PlanReport& plan, LayerRows rows, std::ostream& out,
                  std::optional<int> columns) {
  out << "\nmodel\n";
  if (plan.layers.empty()) {
    out << "  unknown without the data; give model.input and data.num_classes to plan without it\n";
    return;
  }
  const bool transfer = std::ranges::any_of(plan.layers, is_transferred);
  // Where all parameters are trainable, one column shows both, so that most tables fit 80 columns.
  const bool is_trained_whole = !transfer && plan.trainable == plan.parameters;
  const auto choose = [&](std::vector<std::string> cells) {
    if (!transfer) cells.resize(5);
    if (is_trained_whole) cells.erase(cells.begin() + 3);
    return cells;
  };
  const std::vector<std::string> titles = choose(
      {"layer (type)", "output shape", "parameters", "trainable", "FLOPs", "weights", "training"});
  std::vector<std::size_t> numbers{2, 3};
  if (!is_trained_whole) numbers.push_back(4);
  Table table(titles, numbers);
  const std::vector<PrintedLayer> printed = group_layers(plan, rows);
  for (const PrintedLayer& layer : printed) {
    const model::LayerRow& row = layer.row;
    table.add(choose({row.name + " (" + row.kind + ")", row.output_shape, grouped(row.parameters),
                      grouped(row.trainable_parameters), grouped(row.flops), describe_weights(row),
                      describe_training(layer)}));
  }
  table.add(choose({"total", "", grouped(plan.parameters), grouped(plan.trainable),
                    grouped(plan.flops), "", ""}));
  table.print(out, "  ", columns);
  out << "  FLOPs: forward, one sample";
  if (is_trained_whole) out << "; all parameters are trainable";
  if (printed.size() < plan.layers.size()) {
    out << "; --layers lists all " << plan.layers.size() << " layers";
  }
  out << '\n';
  std::set<std::string> files;
  for (const model::LayerRow& row : plan.layers) {
    if (row.parameters > 0 && !row.weights.empty())
      files.insert(Path(row.weights).filename().string());
  }
  for (const std::string& file : files) out << "  weights: " << printable(file) << '\n';
}

// "about 12.3 GFLOP: 4.1 forward, 8.2 backward"
std::string describe_work(const PlanReport& plan, const StepWork& work) {
  const auto gflop = [&](std::int64_t flops) {
    const auto samples = static_cast<double>(plan.steps->batch * plan.steps->accumulate);
    return short_number(static_cast<double>(flops) * samples / 1e9);
  };
  return concat("about ", gflop(work.total()), " GFLOP: ",
                work.frozen > 0 ? gflop(work.frozen) + " in frozen layers at the start, " : "",
                gflop(work.forward), " forward, ", gflop(work.backward), " backward");
}

void print_stages(const PlanReport& plan, std::ostream& out, std::optional<int> columns) {
  if (plan.stages.empty()) return;
  out << "\nunfreeze\n";
  Table table({"after", "steps", "trainable", "in layers", "learning rate times", "work per step"},
              {1, 2, 3, 4});
  const auto work = [&](const StepWork& one) { return plan.steps ? describe_work(plan, one) : ""; };
  table.add({"start", "0", grouped(plan.trainable), "", "1", plan.work ? work(*plan.work) : ""});
  for (const PlanReport::Stage& stage : plan.stages) {
    const bool never = plan.steps && stage.step >= plan.steps->total_steps;
    table.add({stage.at + (never ? " (the run ends before)" : ""),
               stage.step < 0 ? "unknown" : grouped(stage.step), grouped(stage.trainable),
               grouped(stage.layers), short_number(stage.learning_rate_multiplier),
               work(stage.work)});
  }
  table.print(out, "  ", columns);
}

// " (cat: 40, dog: 38)", of many classes the range alone.
std::string describe_counts(const PlannedData& data, Split split) {
  const auto found = data.class_counts.find(to_string(split));
  if (found == data.class_counts.end()) return "";
  const std::vector<std::int64_t>& counts = found->second;
  if (counts.size() > kMaxListedClasses) {
    const auto [least, most] = std::ranges::minmax_element(counts);
    return concat(" (", grouped(*least), " to ", grouped(*most), " per class)");
  }
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    text += concat(i > 0 ? ", " : "", printable(data.classes[i]), ": ", counts[i]);
  }
  return " (" + text + ")";
}

void print_data(const PlanReport& plan, std::ostream& out, std::optional<int> columns) {
  const PlannedData& data = plan.data;
  out << "\ndata\n";
  if (!data.unknown.empty()) {
    out << "  sizes unknown: " << data.unknown << '\n';
  } else {
    Table table({"", ""});
    for (const Split split : kSplits) {
      table.add({to_string(split), samples(data.size(split)) + describe_counts(data, split)});
    }
    table.print(out, "  ", columns);
    for (const std::string& warning : data.warnings) out << "  warning: " << warning << '\n';
    for (const std::string& note : data.notes) out << "  note: " << note << '\n';
  }
  if (data.sample) {
    out << "  images " << to_string(data.sample->image) << ' ' << to_string(data.sample->image_type)
        << ", " << data.sample->classes << " classes\n";
    if (!data.class_order.empty()) {
      out << "  classes in the order " << data.class_order << ": "
          << printable(join_first(data.classes, kMaxListedClasses)) << '\n';
    }
  }
}

void print_steps(const PlanReport& plan, std::ostream& out, std::optional<int> columns) {
  out << "\nsteps\n";
  if (!plan.steps) {
    out << "  unknown without the data\n";
    return;
  }
  const train::TrainingPlan& steps = *plan.steps;
  Table table({"", ""});
  table.add(
      {"global batch",
       concat(steps.batch * steps.accumulate, " (", steps.batch / steps.replicas, " per replica x ",
              counted(steps.replicas, "replica"),
              steps.accumulate > 1 ? concat(" x ", steps.accumulate, " accumulated") : "", ")")});
  if (steps.replicas > 1 && plan.rate) {
    table.add({"optimizer's learning rate", plan.rate->text()});
  }
  table.add({"steps per epoch", grouped(steps.steps_per_epoch)});
  if (steps.passes_per_epoch > 1) {
    table.add({"an epoch", concat("every replica goes through all samples in an order of its own: ",
                                  samples(steps.samples * steps.passes_per_epoch))});
  }
  if (steps.left_out > 0) {
    table.add(
        {"left out of an epoch",
         concat(samples(steps.left_out), " that do not fill a batch, by data.drop_remainder")});
  }
  table.add({"total steps", concat(grouped(steps.total_steps), " (",
                                   short_number(steps.epoch(steps.total_steps)), " epochs)")});
  if (steps.steps_per_epoch > 0) {
    table.add({"last step of an epoch", samples(steps.count_samples(steps.steps_per_epoch - 1))});
  }
  if (plan.work) table.add({"work per step", describe_work(plan, *plan.work)});
  table.print(out, "  ", columns);
}

// "rank 1 of 2, worker:1 at host:port, by TF_CONFIG"
std::string rank_of(const cluster::Identity& who) {
  if (who.source == "--world-size") return concat("any of ", who.size);
  const std::string place =
      who.rank < 0 ? concat(cluster::to_string(who.role), " beside ", counted(who.size, "worker"))
                   : concat("rank ", who.rank, " of ", who.size);
  const std::string name = who.rank < 0 ? "" : cluster::rank_name(who, who.rank);
  return concat(place, name.empty() || name == concat("rank ", who.rank) ? "" : ", " + name,
                ", by ", who.source);
}

// A step is one worker's, whose gradient goes to the servers and brings the newest parameters.
void print_servers(const PlanReport& plan, std::ostream& out, std::optional<int> columns) {
  out << "\nworkers and parameter servers\n";
  Table table({"", ""});
  table.add({"this process", rank_of(plan.who)});
  for (int rank = 0; rank < plan.who.size; ++rank) {
    table.add({concat("rank ", rank), cluster::rank_name(plan.who, rank)});
  }
  for (std::size_t i = 0; i < plan.who.cluster.ps.size(); ++i) {
    table.add({concat("server ", i), to_string(plan.who.cluster.ps[i])});
  }
  if (plan.steps) {
    table.add({"batch", concat(plan.steps->batch * plan.steps->accumulate,
                               " per step, all of one worker; steps are those of all workers")});
  }
  if (plan.trainable > 0) {
    table.add({"pushed per step", bytes(pushed_bytes(plan)) + " by the worker whose step it is"});
    table.add({"pulled per step", bytes(pulled_bytes(plan)) + " by the same"});
  }
  table.add({"evaluation", "by the chief"});
  table.print(out, "  ", columns);
}

void print_workers(const PlanReport& plan, std::ostream& out, std::optional<int> columns) {
  if (train::has_parameter_servers(plan.who)) return print_servers(plan, out, columns);
  const std::int64_t all = plan.who.size * plan.replicas;
  if (all == 1 && plan.who.rank >= 0) return;
  out << (plan.who.size > 1 ? "\nworkers\n" : "\nreplicas\n");
  Table table({"", ""});
  if (plan.who.size > 1 || plan.who.rank < 0) table.add({"this process", rank_of(plan.who)});
  const bool named = !plan.who.cluster.chief.empty() || !plan.who.cluster.worker.empty();
  for (int rank = 0; named && rank < plan.who.size; ++rank) {
    table.add({concat("rank ", rank), cluster::rank_name(plan.who, rank)});
  }
  table.add(
      {"replicas", concat(all, " (", plan.who.size, plan.who.size == 1 ? " process" : " workers",
                          " x ", plan.replicas, ")")});
  if (plan.steps) {
    table.add({"batch", concat(plan.steps->batch / plan.steps->replicas, " per replica, ",
                               plan.steps->batch / plan.who.size, " per process, ",
                               plan.steps->batch, " in all")});
  }
  if (plan.trainable > 0) {
    const std::string gradients = bytes(plan.trainable * 4) + " of gradients";
    const auto size = static_cast<double>(plan.who.size);
    const auto sent =
        static_cast<std::int64_t>(static_cast<double>(plan.trainable * 4) * 2 * (size - 1) / size);
    table.add({"reduced per step",
               plan.who.size == 1
                   ? gradients + ", in memory"
                   : concat(gradients, "; each worker sends and receives ", bytes(sent))});
  }
  table.add({"evaluation", plan.evaluates_alone ? "by rank 0 alone" : "spread over all"});
  table.print(out, "  ", columns);
}

void print_rates(const PlanReport& plan, std::ostream& out, std::optional<int> columns) {
  if (plan.rates.empty()) return;
  out << "\nlearning rate: " << short_number(plan.rates.front().rate) << " to "
      << short_number(plan.rates.back().rate) << ", lowest " << short_number(plan.lowest_rate)
      << ", highest " << short_number(plan.highest_rate) << '\n';
  if (plan.lowest_rate == plan.highest_rate) return;
  Table table({"step", "epoch", "learning rate"}, {0, 1, 2});
  for (const RatePoint& point : plan.rates) {
    table.add({grouped(point.step + 1), fixed(point.epoch, 2), short_number(point.rate)});
  }
  table.print(out, "  ", columns);
}

void print_kept(const PlanReport& plan, std::ostream& out, std::optional<int> columns) {
  if (plan.layers.empty()) return;
  out << "\nkept in memory and in a checkpoint\n";
  Table table({"", ""}, {1});
  table.add({"parameters and statistics", bytes(plan.parameters * 4)});
  table.add({"optimizer slots", bytes(plan.slots * 4)});
  table.print(out, "  ", columns);
}

std::string describe_cut(const engine::FrozenPrefix& prefix) {
  const std::int64_t row =
      prefix.shape().elements() * static_cast<std::int64_t>(size_of(prefix.type()));
  return concat("up to ", prefix.layer(),
                ", computed without gradient: ", to_string(prefix.shape()), " ",
                to_string(prefix.type()), ", ", bytes(row), " per sample");
}

// "12.5 GiB of 79.1 GiB", of one GPU.
std::string describe_share(const DevicePlan& device) {
  const std::int64_t needed = device.memory.total() / device.engine->count();
  const std::int64_t all = device.gpu->gpu.memory_bytes;
  return concat(bytes(needed), " of ", bytes(all), needed > all ? ": too much" : "",
                ", without what the driver and NCCL take");
}

}  // namespace

void print_plan(const PlanReport& plan, std::ostream& out, Values values, LayerRows rows,
                std::optional<int> columns) {
  print_settings(plan, out, values, columns);
  print_layers(plan, rows, out, columns);
  print_stages(plan, out, columns);
  print_data(plan, out, columns);
  print_steps(plan, out, columns);
  print_workers(plan, out, columns);
  print_rates(plan, out, columns);
  print_kept(plan, out, columns);
}

void print_device(const PlanReport& plan, const DevicePlan& device, std::ostream& out,
                  std::optional<int> columns) {
  out << "\ndevice\n";
  Table table({"", ""});
  table.add({"backend", device.backend});
  if (!device.machine.empty()) table.add({"machine", device.machine});
  if (device.engine) {
    const backend::MemoryReport& memory = device.memory;
    if (const auto& stage = device.memory_stage) {
      table.add(
          {"most memory", *stage == 0 ? "the start" : "after " + plan.stages.at(*stage - 1).at});
    }
    table.add({"parameters, statistics, slots",
               concat(bytes(memory.variables),
                      memory.slots > 0 ? concat(", of which slots ", bytes(memory.slots)) : "")});
    table.add({"gradients", bytes(memory.gradients)});
    table.add({"activations",
               concat(bytes(memory.activations),
                      memory.workspace > 0
                          ? concat(", of which the largest workspace ", bytes(memory.workspace))
                          : "")});
    table.add({"reordered weights", bytes(memory.derived)});
    if (memory.staging > 0) table.add({"batches and results", bytes(memory.staging)});
    if (memory.tables > 0) table.add({"tables", bytes(memory.tables)});
    if (device.gpu != nullptr) table.add({"of a GPU's memory", describe_share(device)});
    table.add({"compile time", fixed(device.compile_seconds, 3) + " s"});
    if (!device.sums.empty()) table.add({"gradients are summed", device.sums});
    if (const engine::FrozenPrefix* prefix = device.engine->replica().prefix()) {
      table.add({"frozen layers", describe_cut(*prefix)});
      table.add({"their features", device.features});
    }
    if (device.keeps_features && plan.steps && plan.work) {
      table.add(
          {"work per step with cached features", describe_work(plan, plan.work->with_features())});
    }
  }
  table.print(out, "  ", columns);
  print_gpu(device, out);
}

}  // namespace trainer::commands
