// run.json: the origin of a run, its sessions and how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "results/field.h"
#include "results/metrics.h"
#include "results/step_times.h"

namespace trainer::results {

inline constexpr const char* kRunRecordFile = "run.json";

// The samples of a split.
struct SplitSize {
  std::int64_t samples = 0;
  std::vector<std::int64_t> classes;  // samples of each class; empty if labels are not known
};
void fields(FieldVisitor& v, SplitSize& size);

void fields(FieldVisitor& v, Notice& notice);

// A start of the job, as its chief recorded it.
struct RunSession {
  std::string started;  // in UTC: "2026-11-27T00:06:12.250Z"
  std::vector<std::string> command;
  std::int64_t first_step = 0;
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;  // memory of the process on the host
  // Set at the end of the session.
  std::optional<double> step_seconds;
  std::optional<std::string> input;  // how training data was prefetched
  std::optional<StepMeans> step_times;
  std::optional<double> gap_seconds, energy_joules, joules_per_image;
};
void fields(FieldVisitor& v, RunSession& session);

// The end of a run that has ended by itself.
struct FinishedRun {
  std::int64_t steps = 0;
  std::string reason;
  std::optional<double> images_per_second;
  std::vector<std::pair<std::string, SplitMetrics>> metrics;  // by split
  std::string parameters_sha256;
  FeatureRates rates;
};
void fields(FieldVisitor& v, FinishedRun& finished);

// The file of pretrained weights that a run started from.
struct RunWeights {
  std::string name;  // "timm/resnet50.a1_in1k"; empty if the config names a file
  std::string file;
  std::string revision;  // the commit of the repository; empty if it is not known
  std::string sha256;
};
void fields(FieldVisitor& v, RunWeights& weights);

struct RunRecord {
  // The program, the machine and the data, and what was known at the start.
  std::string program;          // name, version and commit
  std::string compiler, libc;   // names and versions
  std::string host, processor;  // the name of the machine, the model of its processor
  std::int64_t cores = 1;       // cores that the process may use
  std::string machine;          // the caches and memory that these cores share
  std::string device;           // name, and versions of its libraries
  bool on_cpu = true;
  std::optional<std::string> libraries;  // versions of the GPU libraries and driver
  std::string model;                     // the backbone, the layers and the parameters
  std::optional<RunWeights> weights;     // set if the run started from a file of weights
  std::string data;                      // the fingerprint of the training split
  std::string base;  // the folder to which relative paths belong, relative to the run folder
  std::vector<std::pair<std::string, SplitSize>> splits;
  std::vector<Notice> data_notices;  // the notices that were printed at the start
  // The bytes that the model takes on the device of a replica, by purpose.
  std::vector<std::pair<std::string, std::int64_t>> memory;
  std::optional<double> price_per_hour;  // run.price_per_hour
  // The run and its processes.
  std::string name;
  std::vector<std::string> classes;
  std::int64_t replicas = 1, global_batch = 0, steps_per_epoch = 0, total_steps = 0;
  std::vector<RunSession> sessions;
  std::optional<BestCheckpoint> best;
  std::optional<FinishedRun> finished;
};
void fields(FieldVisitor& v, RunRecord& record);

// Printable texts can be shown on a terminal or a page (base/text.h).
enum class RecordTexts { kAsStored, kPrintable };
// Returns run.json of a run folder, or nothing without a file. Throws DataError for a damaged one.
std::optional<RunRecord> read_run_record(const Path& run,
                                         RecordTexts texts = RecordTexts::kAsStored);
// Returns the record, or nothing without a file and for a damaged one.
std::optional<RunRecord> find_run_record(const Path& run);
// Returns the steps of a run that is recorded as finished; nothing for another.
std::optional<std::int64_t> read_finished_steps(const Path& run);

}  // namespace trainer::results
