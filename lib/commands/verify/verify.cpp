#include "commands/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/table.h"
#include "checkpoint/safetensors.h"
#include "config/derived.h"
#include "model/build_model.h"
#include "results/write_json.h"
#include "train/loop.h"
#include "train/open.h"
#include "train/resolve_batch_size.h"

namespace trainer::commands {

using results::kSeconds;
using results::kSteps;

namespace {

using config::Config;
using config::Parallel;

constexpr double kTolerance = 1e-5;
constexpr std::int64_t kFastSteps = 10;

// Asks for the end of the run after a step.
class StopHook : public hooks::Hook {
 public:
  explicit StopHook(std::int64_t step) : step_(step) {}
  std::string name() const override { return "verify"; }
  hooks::Request on_step(const hooks::StepRecord& record) override {
    return record.step == step_ ? hooks::Request::kStop : hooks::Request::kContinue;
  }

 private:
  std::int64_t step_;
};

struct Outcome {
  hooks::Finish finish;
  std::vector<checkpoint::Tensor> tensors;
};

// One run, or what is left of it after its checkpoint, on the devices that `devices` asks for.
Outcome run(const Config& config, const data::Datasets& data, const graph::Graph& model,
            const Path& folder, train::Start start, const backend::DeviceOptions& devices,
            std::int64_t stop_after = 0) {
  engine::Engine engine(model, config, backend::open_backends(devices), engine::Use::kTrain);
  train::prepare_run_folder(folder, config, start);
  train::ProcessGroup alone;
  train::Job job{config, data, engine, train::plan_steps(config, data.train->size()), alone};
  job.run = folder;
  job.start = start;
  job.warn = [](const Notice&) {};
  if (stop_after > 0) job.hooks.push_back(std::make_unique<StopHook>(stop_after));
  Outcome outcome;
  outcome.finish = train::train(job);
  if (outcome.finish.reason == hooks::FinishReason::kInterrupted) {
    throw Error(kExitInterrupted, "interrupted: nothing was verified");
  }
  outcome.tensors = engine.replica().tensors();
  return outcome;
}

// The config as it is run here: so many steps, nothing that ends it early, evaluated once.
Config shortened(const Config& config, std::int64_t steps) {
  Config made = config;
  made.train.epochs.reset();
  made.train.max_steps = steps;
  made.train.early_stop.reset();
  made.train.stop_at.reset();
  made.run.best.clear();
  const config::Duration never{static_cast<double>(steps + 1), config::Duration::Unit::kSteps};
  made.run.checkpoint_every = made.run.evaluate_every = never;
  return made;
}

double sum_of_squares(const checkpoint::Tensor& tensor) {
  double sum = 0;
  for (const float value : tensor.values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

// The largest Euclidean distance of any variable, relative to its length or, where that is less, to
// the length of as many usual numbers (their root mean square over all variables): a bias before a
// batch norm is nothing but rounding. Infinite where a number is not finite.
double distance(const std::vector<checkpoint::Tensor>& a,
                const std::vector<checkpoint::Tensor>& b) {
  double all = 0, count = 0, worst = 0;
  for (const checkpoint::Tensor& tensor : a) {
    all += sum_of_squares(tensor);
    count += static_cast<double>(tensor.values.size());
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    double apart = 0;
    for (std::size_t k = 0; k < a[i].values.size(); ++k) {
      const double d = static_cast<double>(b[i].values[k]) - static_cast<double>(a[i].values[k]);
      apart += d * d;
    }
    const double usual = all / count * static_cast<double>(a[i].values.size());
    const double relative =
        apart == 0 ? 0 : std::sqrt(apart / std::max(sum_of_squares(a[i]), usual));
    worst = std::isfinite(relative) ? std::max(worst, relative) : HUGE_VAL;
  }
  return worst;
}

bool same_bits(const Outcome& a, const Outcome& b) {
  if (checkpoint::sha256_of(a.tensors) != checkpoint::sha256_of(b.tensors)) return false;
  const auto& x = a.finish.evaluations;
  const auto& y = b.finish.evaluations;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const hooks::Evaluation& one, const hooks::Evaluation& other) {
                      return one.metrics.loss == other.metrics.loss &&
                             one.metrics.confusion == other.metrics.confusion;
                    });
}

// Returns the row of a run, without whether the promise holds.
Verification::Row make_row(Promise promise, const std::string& name, const Outcome& outcome,
                           const Outcome& first) {
  return {.promise = promise,
          .run = name,
          .steps = outcome.finish.steps,
          .sha256 = outcome.finish.parameters_sha256,
          .distance = distance(first.tensors, outcome.tensors),
          .seconds = outcome.finish.wall_seconds};
}

std::string exponent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return value == 0 ? "0" : text;
}

// Rows of the runs with each number of replicas, and what the first one came to.
Outcome verify_group(Promise promise, const Config& config, const data::Datasets& data,
                     const graph::Graph& model, const VerifyOptions& options,
                     Verification& verification) {
  const TemporaryFolder folder;
  std::optional<Outcome> first;
  for (const std::int64_t count : options.replicas) {
    const Config own = config::with_replicas(config, count);
    Outcome outcome =
        run(own, data, model, folder.path() / std::to_string(count), train::Start::kOverwrite,
            engine::device_options(own.parallel, options.platform));
    if (!first) first = outcome;
    auto row = make_row(promise, concat(count, " x ", std::int64_t{own.train.batch_size}), outcome,
                        *first);
    row.holds =
        promise == Promise::kOrdered ? same_bits(*first, outcome) : row.distance <= kTolerance;
    verification.rows.push_back(std::move(row));
  }
  return std::move(*first);
}

// Some models magnify rounding, and no two orders of their sums agree within kTolerance. The first
// run is repeated with its sums in other orders; that its replicas agree as well is then all that
// can be asked. How far one other order ends apart is chance, so that the farthest of several
// counts.
void allow_for_rounding(const Config& config, const data::Datasets& data, const graph::Graph& model,
                        const Outcome& first, const VerifyOptions& verify,
                        Verification& verification) {
  const auto is_fast = [](const Verification::Row& row) { return row.promise == Promise::kFast; };
  std::vector<Verification::Row>& rows = verification.rows;
  const auto hold = [&] {
    return std::ranges::all_of(rows, [&](const auto& row) { return !is_fast(row) || row.holds; });
  };
  constexpr int kMargin = 4, kMaxOrders = 8;
  const Config own = config::with_replicas(config, verify.replicas.front());
  const backend::DeviceOptions options = engine::device_options(own.parallel, verify.platform);
  double rounding = 0;
  int orders = 0;
  for (; orders < kMaxOrders && !hold(); ++orders) {
    const auto devices = backend::reorder_sums(options, orders);
    if (!devices) return;
    const TemporaryFolder folder;
    const Outcome other =
        run(own, data, model, folder.path() / "other", train::Start::kOverwrite, *devices);
    rounding = std::max(rounding, distance(first.tensors, other.tensors));
    for (Verification::Row& row : rows) {
      if (is_fast(row)) row.holds = row.distance <= std::max(kTolerance, kMargin * rounding);
    }
  }
  if (orders == 0) return;
  verification.notes.push_back(
      concat("this model magnifies rounding: the first fast run with its sums in ", orders,
             orders == 1 ? " other order" : " other orders", " ends up to ", exponent(rounding),
             " apart, so that runs must agree within ", kMargin, " times that"));
}

}  // namespace

bool Verification::holds() const { return std::ranges::all_of(rows, &Row::holds); }

Verification verify_replicas(const Config& config, const data::Datasets& data,
                             const graph::Graph& model, const VerifyOptions& options) {
  if (config.parallel.shard == Parallel::Shard::kOff) {
    throw ConfigError(config.parallel.loc,
                      "parallel.shard: with off, which samples make up a batch depends on the "
                      "number of replicas, so that no two numbers can agree; verify needs sample");
  }
  Verification verification;
  Config ordered = shortened(config, options.steps);
  ordered.parallel.reduction = Parallel::Reduction::kOrdered;
  const bool statistics = engine::uses_batch_statistics(model);
  if (statistics) {
    verification.notes.emplace_back(
        "batch norm takes its statistics over the batch: ordered sums cannot be had, and fast ones "
        "are compared with parallel.batch_norm.sync");
  } else {
    verify_group(Promise::kOrdered, ordered, data, model, options, verification);
  }
  Config fast = shortened(config, std::min(options.steps, kFastSteps));
  fast.parallel.reduction = Parallel::Reduction::kFast;
  fast.parallel.batch_norm.sync = statistics;
  fast.optimizer = {};
  fast.optimizer.kind = config::Sgd{};
  const Outcome first = verify_group(Promise::kFast, fast, data, model, options, verification);
  allow_for_rounding(fast, data, model, first, options, verification);
  verification.notes.push_back(
      concat("fast: ", fast.train.max_steps.value_or(0), " steps of ",
             "gradient descent without momentum, whatever the optimizer: others make whole steps "
             "of the rounding of small gradients"));
  return verification;
}

Verification verify_resume(const Config& config, const data::Datasets& data,
                           const graph::Graph& model, const VerifyOptions& options) {
  Verification verification;
  const Config made = shortened(config, options.steps);
  const auto devices = engine::device_options(made.parallel, options.platform);
  const TemporaryFolder folder;
  const Outcome whole =
      run(made, data, model, folder.path() / "whole", train::Start::kOverwrite, devices);
  verification.rows.push_back(make_row(Promise::kResume, "in one go", whole, whole));
  verification.rows.back().holds = true;
  const std::int64_t half = options.steps / 2;
  const Path stopped = folder.path() / "stopped";
  run(made, data, model, stopped, train::Start::kOverwrite, devices, half);
  const Outcome resumed = run(made, data, model, stopped, train::Start::kResume, devices);
  verification.rows.push_back(
      make_row(Promise::kResume, concat("resumed after step ", half), resumed, whole));
  verification.rows.back().holds = same_bits(whole, resumed);
  return verification;
}

void print_verification(const Verification& verification, std::ostream& out) {
  Table table({"promise", "run", "steps", "parameters", "distance", "seconds", ""}, {2, 4, 5});
  for (const Verification::Row& row : verification.rows) {
    table.add({std::string(spell(row.promise)), row.run, std::to_string(row.steps),
               row.sha256.substr(0, 12), exponent(row.distance), fixed(row.seconds, 1),
               row.holds ? "holds" : "DOES NOT HOLD"});
  }
  table.print(out, "");
  for (const std::string& note : verification.notes) out << "note: " << note << '\n';
}

void fields(results::FieldVisitor& v, Verification::Row& row) {
  v.event("verify");
  v("promise", row.promise, "What is verified.");
  v("run", row.run, "Replicas and samples per replica, or how the run went.");
  v("steps", row.steps, kSteps, "Steps of the run.");
  v("parameters_sha256", row.sha256, "Hash of the parameters.");
  v("distance", row.distance, {"", 0}, "Largest relative distance from the first run's variables.");
  v("seconds", row.seconds, kSeconds, "Time of the run.");
  v("holds", row.holds, "Whether the run agrees with the first one.");
}

void fields(results::FieldVisitor& v, Verification& verification) {
  v.event("verified");
  v.derived("holds", verification.holds(), "Whether all runs agree.");
  v("notes", verification.notes, "What limits the result.");
}

void print_verification_json(const Verification& verification, std::ostream& out) {
  for (const Verification::Row& row : verification.rows) results::print_json(row, out);
  results::print_json(verification, out);
}

int execute(const VerifyArguments& arguments, const Context& context) {
  config::Config config = load(arguments, context).config;
  const data::Datasets data = train::open_training_data(config);
  context.warn(train::resolve_normalize(config, data));
  const graph::Graph model = model::build_model(config, train::sample_spec(data));
  VerifyOptions options = arguments.options;
  options.platform = backend::read_platform(context.environment);
  context.warn(train::resolve_batch_size(config, options.platform, model, data.train->size()));
  const Verification verification = arguments.what == "replicas"
                                        ? verify_replicas(config, data, model, options)
                                        : verify_resume(config, data, model, options);
  if (arguments.json) {
    print_verification_json(verification, context.out);
  } else {
    print_verification(verification, context.out);
  }
  return verification.holds() ? kExitOk : kExitCheck;
}

}  // namespace trainer::commands
