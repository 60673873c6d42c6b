// The lines of `train --json`, and what a tracking server gets at the end of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/spelling.h"
#include "base/split.h"
#include "data/damaged_files.h"
#include "results/field.h"
#include "results/metrics.h"
#include "results/step_times.h"

namespace trainer::results {

struct StartEvent {
  Path run;
  std::int64_t total_steps = 0, steps_per_epoch = 0, first_step = 0, global_batch = 0;
  std::int64_t replicas = 1, passes_per_epoch = 1;
  std::string weights;  // the result of importing a weight file; "" without one
};
void fields(FieldVisitor& v, StartEvent& event);

// The values that must be equal for two measured step times to be comparable: the model's size, the
// batch size and the number of replicas. Only the batch size is set of what is not a training.
struct MeasuredKeys {
  std::optional<std::int64_t> parameters = {}, trainable_parameters = {}, flops = {};
  std::int64_t batch_size = 0;
  std::optional<std::int64_t> replicas = {};
};
void fields(FieldVisitor& v, MeasuredKeys& keys);

// The line of `train --json` on the model.
struct ModelEvent {
  MeasuredKeys keys;
};
void fields(FieldVisitor& v, ModelEvent& event);

struct StepEvent {
  MetricsRow row;
  double elapsed = 0;
  std::optional<double> staleness;  // set with parameter servers
  std::optional<std::int64_t> staleness_max;
};
void fields(FieldVisitor& v, StepEvent& event);

// The metrics of an evaluation behind its loss and accuracy.
struct FurtherMetrics {
  std::int64_t top_k = 0;
  double top_k_accuracy = MetricMeans::kNone;
  MetricMeans means;
};
FurtherMetrics find_further_metrics(const engine::Metrics& metrics);
void fields(FieldVisitor& v, FurtherMetrics& metrics);

struct Evaluation {
  Split split = Split::kValidation;
  std::int64_t step = 0;
  double epoch = 0, seconds = 0;
  engine::Metrics metrics;
};
void fields(FieldVisitor& v, Evaluation& evaluation);

// The line on damaged files of a split.
struct DataReportEvent {
  std::string split;
  data::Damage damage;
  std::string path;
};
void fields(FieldVisitor& v, DataReportEvent& event);

struct CheckpointEvent {
  Path path;
  std::int64_t step = 0;
};
void fields(FieldVisitor& v, CheckpointEvent& event);

// The staleness of the gradients of all workers of parameter servers since the start of a process.
struct Staleness {
  double mean = 0;
  std::int64_t max = 0;
  std::int64_t rejected = 0;  // gradients above parallel.max_staleness
};
void fields(FieldVisitor& v, Staleness& staleness);

struct FinalMetrics {
  double loss = 0, accuracy = 0;
  std::int64_t count = 0;
};
void fields(FieldVisitor& v, FinalMetrics& metrics);

enum class FinishReason {
  kDone,
  kAlreadyDone,  // resumed after its last step
  kEarlyStop,    // requested by a hook
  kInterrupted   // interrupted by a signal
};
constexpr auto spellings(FinishReason) {
  using enum FinishReason;
  return std::to_array<Spelling<FinishReason>>({{kDone, "done"},
                                                {kAlreadyDone, "already done"},
                                                {kEarlyStop, "early stop"},
                                                {kInterrupted, "interrupted"}});
}
inline std::string to_string(FinishReason reason) { return std::string(spell(reason)); }

// How a process has ended its part of a run.
struct Finish {
  std::int64_t steps = 0;
  double wall_seconds = 0;  // time of this process's training, evaluation included
  double step_seconds = 0;  // the sum of the steps' times
  engine::StepTimes times;  // times of this process's steps
  std::string input;        // describes how training data was prefetched; "" if unknown
  double read_seconds = 0;  // mean time that one core takes to read a batch; 0 if unknown
  // The global batch / mean step time; nullopt if this process made no step.
  std::optional<double> images_per_second;
  FinishReason reason = FinishReason::kDone;
  std::int64_t skipped_updates = 0;  // this process's steps whose float16 gradient overflowed
  std::string parameters_sha256;
  std::vector<Evaluation> evaluations;  // the last one of each split
  // The best checkpoint so far, if there is one.
  std::optional<BestCheckpoint> best;
  std::optional<Staleness> staleness;  // set with parameter servers
  // The devices of this process; empty where they are not measured. The energy is that of all of
  // them together, evaluations included; per image, it is divided by the images that they trained
  // on.
  std::vector<engine::DeviceUse> devices;
  std::optional<double> energy_joules, joules_per_image;
  std::optional<double> gap_seconds;  // mean gap between steps on a device, where it has a clock
};

struct FinishedEvent {
  Path run;
  Finish finish;
  FeatureRates rates;
  std::vector<std::string> ranks;  // their names
};
void fields(FieldVisitor& v, FinishedEvent& event);

// An event with the time of day, if there is a clock.
template <class Event>
struct Timed {
  Event event;
  std::string time;
};
template <class Event>
void fields(FieldVisitor& v, Timed<Event>& timed) {
  fields(v, timed.event);
  v.when_present("time", timed.time, "The time of day, in UTC.");
}

// The keys of a line of `train --json` or `benchmark --json` that other commands read, as far as
// the line has them.
struct LineKeys {
  std::string event;
  std::int64_t total_steps = 0, step = 0;
  double images_per_second = MetricMeans::kNone;
};
void fields(FieldVisitor& v, LineKeys& keys);

struct TrackedEnd {
  Finish finish;
};
void fields(FieldVisitor& v, TrackedEnd& end);

}  // namespace trainer::results
