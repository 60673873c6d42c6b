#include "backend/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "backend/cpu/cpu.h"
#include "backend/nets.h"
#include "base/numbers/sum_tree.h"
#include "compile/compile.h"
#include "reference_backend/reference_backend.h"
#include "support/backend.h"

namespace trainer::test {

Group build_group(std::vector<int> lanes) {
  Group group;
  group.lanes = std::move(lanes);
  return group;
}

bool has_gpus(std::size_t ranks) {
  if (!uses_gpus() || std::getenv("TRAINER_TEST_SHARED_GPU") != nullptr) return true;
  static const std::size_t gpus = backend::list_gpus(test_platform()).gpus.size();
  if (ranks <= gpus) return true;
  std::cout << "[needs " << ranks << " GPUs]" << std::endl;
  return false;
}

std::vector<int> fit_gpus(std::vector<int> lanes) {
  while (!has_gpus(lanes.size())) lanes.pop_back();
  return lanes;
}

graph::Graph make_graph(const Net& net, const graph::Update& update) {
  compile::Options options;
  options.update = update;
  return compile::training_graph(forward_graph(net), options);
}

graph::Update plain_sgd() {
  graph::Update update;
  update.rule = graph::SgdRule{};
  return update;
}

double relative(const Kept& a, const Kept& b) {
  double worst = 0;
  for (const auto& [name, values] : a) {
    worst = std::max(worst, distance(values, {b.at(name).begin(), b.at(name).end()}));
  }
  return worst;
}

Ranks::Ranks(const graph::Graph& graph, const Net& net, std::int64_t max_samples,
             const Group& group)
    : graph_(graph),
      net_(net),
      guards_(group.guard >= 0),
      leaves_(group.reduction.ordered ? group.reduction.micro_batches : 0),
      team_(static_cast<int>(group.lanes.size())) {
  const std::size_t count = group.lanes.size();
  communicators_ = cluster::make_local_group(static_cast<int>(count));
  gradients_.resize(count);
  statistics_.resize(count);
  duplicates_.resize(count);
  runners_.resize(count);
  finite.resize(count);
  open_backends(group);
  run([&](std::size_t rank) { make_runner(rank, max_samples, group); });
}

void Ranks::open_backends(const Group& group) {
  if (uses_gpus() && !group.reference) {
    backends_ = open_test_gpus(static_cast<std::int64_t>(group.lanes.size()));
    return;
  }
  for (const int lanes : group.lanes) {
    if (group.reference) {
      backends_.push_back(open_reference_backend());
      continue;
    }
    backend::cpu::CpuOptions options;
    options.threads = options.lanes = lanes;
    backends_.push_back(backend::cpu::open_backend(options));
  }
}

void Ranks::make_runner(std::size_t rank, std::int64_t max_samples, const Group& group) {
  const std::size_t count = group.lanes.size();
  backend::CompileOptions options;
  options.reduction = group.reduction;
  if (count > 1) {
    gradients_[rank] = backends_[rank]->make_collective(*communicators_[rank]);
    options.reduction.gradients = gradients_[rank].get();
    if (group.sync) options.reduction.statistics = statistics_collective(rank);
  }
  options.reduction.max_all_samples = group.reduction.ordered ? max_samples : 0;
  options.max_samples = max_rank_samples(max_samples, leaves_, static_cast<std::int64_t>(count));
  options.result_outputs.loss = group.guard;
  runners_[rank] = std::make_unique<Runner>(*backends_[rank], graph_, options);
  auto values = starting_values(graph_);
  for (const graph::Value& value : graph_.values) {
    if (value.role == graph::Role::kSlot) values[value.name].assign(values[value.name].size(), 0);
  }
  start(*runners_[rank], values);
}

backend::Collective* Ranks::statistics_collective(std::size_t rank) {
  if (backends_[rank]->shares_collectives()) return gradients_[rank].get();
  duplicates_[rank] = communicators_[rank]->duplicate();
  statistics_[rank] = backends_[rank]->make_collective(*duplicates_[rank]);
  return statistics_[rank].get();
}

void Ranks::run(const std::function<void(std::size_t)>& work) {
  team_.run(
      [&](int rank) { work(static_cast<std::size_t>(rank)); },
      [&](int rank) { communicators_[static_cast<std::size_t>(rank)]->abort(handled_message()); });
}

std::vector<float> Ranks::step(const Step& step, const backend::Scalars& scalars,
                               std::uint64_t seed) {
  const auto whole = batch(graph_, step.samples, net_, seed);
  return this->step(step, scalars, whole);
}

std::vector<float> Ranks::step(const Step& step, const backend::Scalars& scalars,
                               const std::vector<std::vector<double>>& whole) {
  std::vector<float> losses(static_cast<std::size_t>(step.samples));
  run([&](std::size_t rank) {
    const Partition part =
        rank_samples(step.samples, leaves_, static_cast<std::int64_t>(runners_.size()),
                     static_cast<std::int64_t>(rank));
    std::vector<std::vector<double>> mine;
    for (const auto& input : whole) {
      const auto each = static_cast<std::int64_t>(input.size()) / step.samples;
      mine.emplace_back(input.begin() + part.first * each,
                        input.begin() + (part.first + part.count) * each);
    }
    backend::Scalars own = scalars;
    own.first_sample += static_cast<std::uint64_t>(part.first);
    own.all_samples = step.samples;
    own.accumulate = step.accumulate;
    own.apply = step.apply;
    const auto outputs = runners_[rank]->run(part.count, mine, own);
    std::copy(outputs[1].begin(), outputs[1].end(), losses.begin() + part.first);
    finite[rank] = guards_ ? runners_[rank]->result().finite : true;
  });
  return losses;
}

Kept Ranks::kept(std::size_t rank) const {
  Kept all;
  for (const graph::Value& value : graph_.values) {
    if (graph::is_persistent(value.role)) all[value.name] = runners_[rank]->read(value.name);
  }
  return all;
}

void Ranks::check_equal() const {
  for (std::size_t rank = 1; rank < runners_.size(); ++rank) CHECK(kept(rank) == kept(0));
}

namespace {

// Samples of the update that step i belongs to.
std::int64_t sum_samples(const std::vector<Step>& steps, std::size_t i) {
  std::int64_t samples = 0;
  std::size_t first = i, last = i;
  while (steps[first].accumulate) --first;
  while (!steps[last].apply) ++last;
  for (std::size_t k = first; k <= last; ++k) samples += steps[k].samples;
  return samples;
}

}  // namespace

Kept train(const Net& net, const graph::Update& update, const Group& group,
           const std::vector<Step>& steps, float rate, std::vector<float>* losses,
           std::string* printed) {
  const graph::Graph graph = make_graph(net, update);
  std::int64_t most = 0;
  for (const Step& step : steps) most = std::max(most, step.samples);
  Ranks ranks(graph, net, most, group);
  std::uint64_t updates = 1;
  backend::Scalars scalars;
  scalars.learning_rate = rate;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].accumulate) scalars.first_sample = 0;
    scalars.update = updates;
    scalars.loss_scale = 1.0 / static_cast<double>(sum_samples(steps, i));
    const auto now = ranks.step(steps[i], scalars, i + 1);
    if (losses) losses->insert(losses->end(), now.begin(), now.end());
    scalars.first_sample += static_cast<std::uint64_t>(steps[i].samples);
    updates += steps[i].apply ? 1 : 0;
  }
  ranks.check_equal();
  if (printed != nullptr) {
    std::ostringstream out;
    ranks.runner(0).print(out);
    *printed = out.str();
  }
  return ranks.kept();
}

}  // namespace trainer::test
