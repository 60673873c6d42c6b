#include "results/run_record.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "results/read_json.h"
#include "results/write_json.h"

namespace trainer::results {
namespace {

using Json = nlohmann::ordered_json;

// Gives the keys that the record of an older version lacks the values of an empty one.
template <class T>
void add_missing_keys(Json& json) {
  if (!json.is_object()) return;
  Json complete = to_json(T{});
  complete.update(json);
  json = std::move(complete);
}

// Makes all texts and keys printable.
void make_printable(Json& json) {
  if (json.is_string()) json = printable(json.get<std::string>());
  if (json.is_array()) std::ranges::for_each(json, make_printable);
  if (!json.is_object()) return;
  Json shown = Json::object();
  for (const auto& item : json.items()) {
    make_printable(item.value());
    shown[printable(item.key())] = std::move(item.value());
  }
  json = std::move(shown);
}

}  // namespace

void fields(FieldVisitor& v, SplitSize& size) {
  v("samples", size.samples, kSamples, "Samples of the split.");
  v("classes", size.classes, kSamples, "Samples of each class; empty if labels are not known.");
}

void fields(FieldVisitor& v, Notice& notice) {
  v("kind", notice.kind, "Whether something may be wrong.");
  v("text", notice.text, "The notice.");
}

void fields(FieldVisitor& v, RunSession& session) {
  v("started", session.started, "The time of the start, in UTC.");
  v("command", session.command, "The words of the command.");
  v("first_step", session.first_step, kSteps, "Steps that were done at the start.");
  v("seconds", session.seconds, kSeconds, "Wall time of training and evaluation.");
  v("peak_memory_bytes", session.peak_memory_bytes, kBytes,
    "Largest memory of the process on the host.");
  v.when_present("step_seconds", session.step_seconds, kSeconds, "Sum of the times of the steps.");
  v.when_present("input", session.input, "How training data was prefetched.");
  v.when_present("step_times", session.step_times, "Mean times of a step.");
  v.when_present("gap_seconds", session.gap_seconds, kSeconds,
                 "Mean gap between steps on a device.");
  v.when_present("energy_joules", session.energy_joules, "J",
                 "Energy of the devices of the chief.");
  v.when_present("joules_per_image", session.joules_per_image, "J",
                 "Energy per image that was trained on.");
}

void fields(FieldVisitor& v, FinishedRun& finished) {
  v("steps", finished.steps, kSteps, "Steps of the run.");
  v("reason", finished.reason, "Why the run ended.");
  v("images_per_second", finished.images_per_second, kImagesPerSecond,
    "Global batch per mean time of a step.");
  v("metrics", finished.metrics, "Final metrics by split.");
  v("parameters_sha256", finished.parameters_sha256, "Hash of the parameters.");
  fields(v, finished.rates);
}

void fields(FieldVisitor& v, RunWeights& weights) {
  v.when_present("name", weights.name, "The name that the config gives.");
  v("file", weights.file, "The file.");
  v.when_present("revision", weights.revision, "The revision of the repository.");
  v("sha256", weights.sha256, "The SHA-256 of the file.");
}

void fields(FieldVisitor& v, RunRecord& record) {
  v("program", record.program, "Name, version and commit of the program.");
  v("compiler", record.compiler, "The compiler of the program.");
  v("libc", record.libc, "The C library.");
  v("host", record.host, "The name of the machine.");
  v("processor", record.processor, "The model of the processor.");
  v("cores", record.cores, "cores", "Cores that the process may use.");
  v("machine", record.machine, "Caches and memory that the cores share.");
  v("device", record.device, "The device, and versions of its libraries.");
  v("on_cpu", record.on_cpu, "Whether the run trains on the CPU.");
  v.when_present("libraries", record.libraries,
                 "Versions of the libraries and the driver of the GPUs.");
  v("model", record.model, "The backbone, the layers and the number of parameters.");
  v.when_present("weights", record.weights, "The file of weights that the run started from.");
  v("data", record.data, "Fingerprint of the training split.");
  v("base", record.base, "The folder to which relative paths belong, relative to the run folder.");
  v.when_present("splits", record.splits, "Samples by split.");
  v.when_present("data_notices", record.data_notices,
                 "Notices about the data that were printed at the start.");
  v.when_present("memory", record.memory, kBytes, "Memory of the model on a device, by purpose.");
  v("price_per_hour", record.price_per_hour, Unit("price", 0), "run.price_per_hour.");
  v("name", record.name, "The name of the run.");
  v("classes", record.classes, "Names of the classes or labels.");
  v("replicas", record.replicas, "replicas", "Replicas of all workers.");
  v("global_batch", record.global_batch, kSamples, "Samples of a step.");
  v("steps_per_epoch", record.steps_per_epoch, kSteps, "Steps of an epoch.");
  v("total_steps", record.total_steps, kSteps, "Steps that the config asks for.");
  v("sessions", record.sessions, "The starts of the job, in their order.");
  v.when_present("best", record.best, "The best checkpoint.");
  v.when_present("finished", record.finished, "The end of a run that has ended by itself.");
}

std::optional<RunRecord> read_run_record(const Path& run, RecordTexts texts) {
  const JsonSource source{(run / kRunRecordFile).string(), ""};
  std::optional<Json> json = read_json_file(source);
  if (!json) return std::nullopt;
  if (texts == RecordTexts::kPrintable) make_printable(*json);
  add_missing_keys<RunRecord>(*json);
  for (Json& session : (*json)["sessions"]) add_missing_keys<RunSession>(session);
  const auto finished = json->find("finished");
  if (finished != json->end()) add_missing_keys<FinishedRun>(*finished);
  return from_json<RunRecord>(*json, source);
}

std::optional<RunRecord> find_run_record(const Path& run) {
  try {
    return read_run_record(run);
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::optional<std::int64_t> read_finished_steps(const Path& run) {
  const std::optional<RunRecord> record = find_run_record(run);
  return record && record->finished ? std::optional(record->finished->steps) : std::nullopt;
}

}  // namespace trainer::results
