#include "hooks/run_record.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"
#include "base/process/process.h"
#include "hooks/formats/best_json.h"
#include "hooks/formats/speed_json.h"
#include "results/evaluation/metrics_json.h"

namespace trainer::hooks {
namespace {

using Json = nlohmann::ordered_json;

Json metrics_json(const engine::Metrics& metrics) {
  Json json{{"loss", metrics.loss}, {"accuracy", metrics.accuracy}, {"count", metrics.count}};
  if (!metrics.multi_label.empty()) {
    for (const auto& [name, value] : metrics.multi_label.named()) json[name] = value;
    json["known_samples"] = metrics.multi_label.samples;
    json["exact"] = metrics.multi_label.exact;
    json["labels"] = results::labels_json(metrics.multi_label);
  }
  if (metrics.classes == 0) return json;
  json["correct"] = metrics.correct;
  json["accuracy_low"] = metrics.accuracy_interval.low;
  json["accuracy_high"] = metrics.accuracy_interval.high;
  if (metrics.classes > results::kMaxMatrixClasses) {
    json["class_counts"] = results::class_counts_json(metrics.confusion);
  }
  results::add_confusion(json, metrics.confusion);
  return json;
}

// Returns an empty object without a file, and for a damaged one.
Json read_record(const Path& path) {
  if (!std::filesystem::exists(path)) return Json::object();
  const std::string text = read_text_file(path);
  if (!is_shallow_json(text)) return Json::object();
  Json record = Json::parse(text, nullptr, false);
  return record.is_object() ? record : Json::object();
}

class RunRecordHook final : public Hook {
 public:
  explicit RunRecordHook(const RunOrigin& origin) {
    record_ = {
        {"program", origin.program}, {"compiler", origin.compiler},     {"libc", origin.libc},
        {"host", host_name()},       {"processor", origin.processor},   {"cores", origin.cores},
        {"machine", origin.machine}, {"device", origin.device},         {"on_cpu", origin.on_cpu},
        {"model", origin.model},     {"data", origin.data_fingerprint}, {"base", origin.base}};
    for (const auto& [split, samples, classes] : origin.splits) {
      record_["splits"][to_string(split)] = {{"samples", samples}, {"classes", classes}};
    }
    for (const Notice& notice : origin.data_notices) {
      const bool is_note = notice.kind == Notice::Kind::kNote;
      record_["data_notices"].push_back(
          {{"kind", is_note ? "note" : "warning"}, {"text", notice.text}});
    }
    for (const auto& [what, bytes] : origin.memory) record_["memory"][what] = bytes;
    record_["price_per_hour"] = origin.price_per_hour ? Json(*origin.price_per_hour) : Json();
  }

  std::string name() const override { return "run_record"; }

  void on_start(const RunInfo& info) override {
    path_ = info.dir / "run.json";
    read_earlier();
    ranks_ = info.ranks;
    record_["name"] = info.name;
    record_["classes"] = info.classes;
    record_["replicas"] = info.replicas;
    record_["global_batch"] = info.global_batch;
    record_["steps_per_epoch"] = info.steps_per_epoch;
    record_["total_steps"] = info.total_steps;
    session_ = {{"started", utc_time(std::chrono::system_clock::now())},
                {"command", command_line()},
                {"first_step", info.first_step},
                {"seconds", 0.0}};
    write();
  }

  Request on_step(const Progress& p) override {
    session_["seconds"] = p.elapsed;
    throughput_.add(p);
    return Request::kContinue;
  }
  void before_checkpoint(std::int64_t) override { write(); }

  void on_finish(const Finish& finish) override {
    session_["seconds"] = finish.wall_seconds;
    session_["step_seconds"] = finish.step_seconds;
    session_["input"] = finish.input;
    if (!finish.times.empty()) session_["step_times"] = step_times_json(finish.times, ranks_);
    if (finish.gap_seconds) session_["gap_seconds"] = *finish.gap_seconds;
    if (finish.energy_joules) session_["energy_joules"] = *finish.energy_joules;
    if (finish.joules_per_image) session_["joules_per_image"] = *finish.joules_per_image;
    if (finish.best) record_["best"] = best_json(*finish.best);
    if (finish.reason != FinishReason::kInterrupted) {
      // A run that had finished before is not evaluated again.
      const bool keeps = finish.reason != FinishReason::kDone && finish.evaluations.empty();
      Json metrics = keeps ? earlier_metrics_ : Json::object();
      for (const Evaluation& e : finish.evaluations) {
        metrics[to_string(e.split)] = metrics_json(e.metrics);
      }
      record_["finished"] = {{"steps", finish.steps},
                             {"reason", to_string(finish.reason)},
                             {"images_per_second", nullptr},
                             {"metrics", metrics},
                             {"parameters_sha256", finish.parameters_sha256}};
      record_["finished"].update(find_throughput(finish));
    }
    write();
  }

 private:
  // Reads the sessions and the end of the processes that trained this run before.
  void read_earlier() {
    sessions_ = Json::array();
    earlier_throughput_ = Json::object();
    earlier_metrics_ = Json::object();
    const Json old = read_record(path_);
    if (old.contains("sessions") && old["sessions"].is_array()) sessions_ = old["sessions"];
    if (!old.contains("finished") || !old["finished"].is_object()) return;
    const Json& finished = old["finished"];
    if (finished.contains("metrics") && finished["metrics"].is_object()) {
      earlier_metrics_ = finished["metrics"];
    }
    for (const auto& [key, value] : finished.items()) {
      if (key.starts_with("images_per_second") && value.is_number()) {
        earlier_throughput_[key] = value;
      }
    }
  }

  // Returns the throughput of the process before when this one finds the run finished and makes no
  // step.
  Json find_throughput(const Finish& finish) const {
    if (!finish.images_per_second) return earlier_throughput_;
    Json json = throughput_json(throughput_);
    json["images_per_second"] = *finish.images_per_second;
    return json;
  }

  void write() {
    session_["peak_memory_bytes"] = peak_memory_bytes();
    Json all = sessions_;
    all.push_back(session_);
    record_["sessions"] = std::move(all);
    write_file_atomic(path_, to_json_line(record_) + "\n");
  }

  Path path_;
  std::vector<std::string> ranks_;
  Json record_, sessions_, session_;
  // The end of the process before, as its record has it.
  Json earlier_metrics_;
  Json earlier_throughput_;  // the numbers that are known
  InputThroughput throughput_;
};

}  // namespace

std::optional<std::int64_t> read_finished_steps(const Path& run) {
  const Json record = read_record(run / "run.json");
  if (!record.contains("finished") || !record["finished"].is_object()) return std::nullopt;
  const Json& finished = record["finished"];
  if (!finished.contains("steps") || !finished["steps"].is_number_integer()) return std::nullopt;
  return finished["steps"].get<std::int64_t>();
}

std::unique_ptr<Hook> make_run_record_hook(const RunOrigin& origin) {
  return std::make_unique<RunRecordHook>(origin);
}

}  // namespace trainer::hooks
