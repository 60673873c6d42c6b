// Hooks watch a run and may ask it to save or stop; the loop decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/process/progress.h"
#include "base/split.h"
#include "config/sections/duration.h"
#include "engine/device_use.h"
#include "engine/metrics/metrics.h"
#include "engine/step_times.h"
#include "results/metrics.h"
#include "results/train_events.h"

namespace trainer::config {
struct Config;
struct EarlyStop;
struct StopAt;
}  // namespace trainer::config

namespace trainer::hooks {

// Facts about a run that are known at its start.
struct RunInfo {
  std::string name;
  Path dir;
  std::vector<std::string> classes;
  bool is_multi_label = false;  // a sample has several labels, which are then `classes`
  double largest_weight = 1;    // the largest weight of a training sample
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t first_step = 0;  // > 0 when resumed
  std::int64_t global_batch = 0;
  std::int64_t passes_per_epoch = 1;  // the number of times that an epoch uses each sample
  int replicas = 1;  // all workers' replicas; with parameter servers, the number of workers
  // The names of the ranks in StepRecord::ranks: "rank 1 (worker 1 on host b)".
  std::vector<std::string> ranks;
  std::string devices;      // the devices of the replicas: "2 CPU threads", "4 replicas"
  std::string scaled_rate;  // the learning rate as scaled by the number of replicas
  std::string weights;      // the result of importing a weight file, in one line; "" without one
  std::string servers;      // "3 workers, 1 parameter server, asynchronous"; else ""
  // Returns the totals of each device of this process since the start, always the same devices in
  // the same order; null where devices are not measured. Valid until on_finish() returns.
  std::function<std::vector<engine::DeviceTotals>()> device_totals;
  // The gaps between steps on all devices of this process, since they were opened; null where a
  // device has no clock. Valid until on_finish() returns.
  std::function<engine::Gaps()> gaps;
};

// What the model of a step reads. The first epochs of a frozen prefix compute its features; later
// epochs read them from a cache, many times faster.
enum class StepInput { kSamples, kNewFeatures, kCachedFeatures };

// The argument of on_step(), which is called once per step; with parameter servers, per step of the
// chief.
struct StepRecord {
  std::int64_t step = 0;     // steps done
  std::int64_t steps = 1;    // 1; with parameter servers, all steps since the chief's last one
  double epoch = 0;          // epochs done
  std::int64_t samples = 0;  // samples of `steps`
  double loss = 0;           // mean of this step's samples, L2 penalty included
  double accuracy = 0;       // accuracy of this step's samples; NaN if they have no classes
  double learning_rate = 0;
  double step_seconds = 0;  // wall time since the last step
  double wait_seconds = 0;  // the part of step_seconds that this process spent waiting for data
  // The step's time by phase for each rank; with parameter servers, for the chief. Valid during the
  // call.
  std::span<const engine::RankTimes> ranks;
  double elapsed = 0;  // seconds since the run started (this process)
  StepInput input = StepInput::kSamples;
  // With parameter servers, the updates of other workers since the parameters of this step were
  // pulled.
  std::int64_t staleness = 0;
  // True if the update was skipped because a float16 gradient overflowed under the loss scale.
  bool skipped = false;
  // backend::CallResult::gradient_norm; NaN where this process does not update.
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();
  // A hash of the samples of all ranks and of their order in the step; 0 if that is not known. It
  // does not depend on how the ranks divide the samples.
  std::uint64_t sample_ids = 0;
};

using results::Evaluation;
using results::Finish;
using results::FinishReason;

enum class Request { kContinue, kSave, kStop };

// The time of day for lines and rows. Without a clock no times are written.
using WallClock = std::function<std::chrono::system_clock::time_point()>;
// Returns "2026-01-31T12:00:00.250Z".
std::string utc_time(std::chrono::system_clock::time_point time);
// Returns "2026-01-31 12:00:00 +0100" in the time zone of this machine.
std::string local_time(std::chrono::system_clock::time_point time);

class Hook {
 public:
  virtual ~Hook() = default;
  virtual void on_start(const RunInfo&) {}
  virtual Request on_step(const StepRecord&) { return Request::kContinue; }
  virtual Request on_evaluation(const Evaluation&) { return Request::kContinue; }
  // Called before the checkpoint of `step` becomes visible. With parameter servers it may be later
  // than the last on_step(), because other workers make steps. A resumed run continues the files of
  // hooks at that step: their content up to the step must be on the disk on return.
  // Reasons: lib/decisions/hooks.md#files-of-a-run-are-synced-before-its-checkpoint.
  virtual void before_checkpoint([[maybe_unused]] std::int64_t step) {}
  // Called after the checkpoint has become visible.
  virtual void on_checkpoint(const Path&) {}
  virtual void on_finish(const Finish&) {}
  // save() returns the state that a resume must restore, as text; "" for none.
  virtual std::string name() const = 0;
  virtual std::string save() const { return ""; }
  virtual void restore(const std::string&) {}
  // Returns whether the evaluations so far, those of restore() included, end the run by the hook's
  // config, which may have changed since they were made.
  virtual bool has_stopped() const { return false; }
};

// ---- The hooks, one per file ----

// The facts besides the run that the lines of a terminal depend on.
struct TerminalFacts {
  std::function<int()> columns;         // width of the terminal, called before every line; null: 80
  WallClock clock;                      // the time at the start of lines that are not rewritten
  std::function<void()> output_closed;  // called once, when the reader of the output has gone
  std::string origin = {};     // the second line of a run: its devices, program, host and data
  std::string libraries = {};  // the third line, of a run on GPUs: the versions of their libraries
  double min_log_seconds = 0;  // the time between two lines of steps that are not rewritten
};
// Writes for a terminal: a progress line on a TTY, with means over the epoch so far, otherwise
// plain lines every `log_every`, with means since the last line, then evaluations and two closing
// lines, which scripts may read. With `quiet`, writes results only.
std::unique_ptr<Hook> make_progress_hook(std::ostream& out, bool is_tty, bool quiet,
                                         const config::Duration& log_every,
                                         TerminalFacts facts = {});
// Writes the output of --json, one object per line. A step line comes every `log_every`, with means
// over the samples of the steps since the last line, as in the terminal's lines and metrics.csv.
// The first step also has a line of its own, and counts in the next one too. `output_closed` is
// called once, when the reader of the output has gone.
std::unique_ptr<Hook> make_json_hook(std::ostream& out, const config::Duration& log_every,
                                     WallClock clock = {},
                                     std::function<void()> output_closed = {});
// Writes metrics.csv and metrics.jsonl in the run directory. A resumed run drops the rows of steps
// that it will repeat, and appends. With parameter servers the files have columns for the mean and
// largest staleness of the chief's steps. A resumed file keeps these columns and gets those that it
// lacks. If a file is moved or removed during the run, the hook calls `warn` and starts a new file.
std::unique_ptr<Hook> make_metrics_files_hook(const config::Duration& summary_every,
                                              WallClock clock = {},
                                              std::function<void(const std::string&)> warn = {});
// Writes ledger.csv in the run directory: a row per step, and a row with a hash of all parameters
// per checkpoint. `parameters_hash` returns the current hash. `warn` is called as by
// make_metrics_files_hook().
std::unique_ptr<Hook> make_ledger_hook(std::function<std::string()> parameters_hash,
                                       std::function<void(const std::string&)> warn = {});
// Options for TensorBoard's event files in the run directory.
struct TensorBoardOptions {
  config::Duration summary_every;
  std::string config = {};  // YAML; "" for an evaluator, which has no session of its own
  std::vector<std::pair<std::string, std::string>> parameters = {};  // parameters of the session
  std::function<Bytes()> samples = {};  // draws a PNG of training samples, once; may be null
  // Called if an event file is moved or removed during the run; later events go to a new file.
  std::function<void(const std::string&)> warn = {};
};
std::unique_ptr<Hook> make_tensorboard_hook(TensorBoardOptions options);
// What an MLflow server receives of a run besides its metrics and its config.
struct MlflowOptions {
  std::vector<std::pair<std::string, std::string>> tags;  // names and values
  std::map<std::string, std::string> environment;         // includes MLflow's variables
  std::function<void(const std::string&)> warn;
  std::chrono::milliseconds pause{1000};     // time between requests, and before the first retry
  std::chrono::milliseconds patience{5000};  // see mlflow::Timing
};
// Sends the run to the server of run.mlflow from a thread of its own: settings, the rows of
// metrics.csv, the end, and a few small files. "mlflow.json" in the run directory names the run on
// the server, which a resumed run continues. A server that fails costs the run rows on it and one
// warning, which comes with the next step.
std::unique_ptr<Hook> make_mlflow_hook(const config::Config& config, MlflowOptions options);
struct PrometheusOptions {
  Progress progress{};  // without it for parallel.timeout, /healthz fails
  std::function<void(const std::string&)> warn;
};
// Writes the metrics of the run in Prometheus's text format to the file of run.prometheus, at most
// every five seconds, or serves them from a thread. A file or port that cannot be used costs the
// run its metrics and one warning.
std::unique_ptr<Hook> make_prometheus_hook(const config::Config& config, PrometheusOptions options);
struct KubeflowOptions {
  std::map<std::string, std::string> environment;  // includes Kubeflow's variables
  std::function<void(const std::string&)> warn;
  std::chrono::milliseconds period{5000};        // between two posts
  std::chrono::milliseconds patience{5000};      // for the last post, besides the period
  std::chrono::milliseconds token_age{300'000};  // after which the token is read again
};
// Posts progress, time to the end and metrics to Kubeflow Trainer, from a thread of its own, where
// its variables KUBEFLOW_TRAINER_SERVER_URL, _CA_CERT and _TOKEN are set; returns null elsewhere. A
// server that fails costs one warning.
std::unique_ptr<Hook> make_kubeflow_hook(KubeflowOptions options);
// Asks to stop when the metric has not improved for `patience` evaluations.
std::unique_ptr<Hook> make_early_stop_hook(const config::EarlyStop& early_stop);
// Asks to stop when the metric has reached the value.
std::unique_ptr<Hook> make_stop_at_hook(const config::StopAt& stop_at);
// Warns once if the training loss diverges, which means that it is far above the loss of guessing
// or rises for an epoch. With train.stop_on_divergence the hook throws CheckError instead.
std::unique_ptr<Hook> make_divergence_hook(const config::Config& config,
                                           std::function<void(const std::string&)> warn);

// Returns the metric named "validation/accuracy", "test/loss", ...; nothing if the evaluation lacks
// it.
std::optional<double> find_metric(const Evaluation& evaluation, const std::string& name);
// Returns whether a larger value of the metric is better.
bool larger_is_better(const std::string& metric);

// The form of a run's progress output.
struct Output {
  bool is_tty = false;
  bool quiet = false;
  bool json = false;
  TerminalFacts facts = {};
  std::function<void(const std::string&)> warn = {};
  std::function<Bytes()> samples = {};  // see TensorBoardOptions::samples
};
std::vector<std::unique_ptr<Hook>> make_hooks(const config::Config& config, std::ostream& out,
                                              const Output& output);

}  // namespace trainer::hooks
