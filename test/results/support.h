// Folders of runs as `trainer train` leaves them, with numbers that tests choose.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "results/run_record.h"
#include "results/write_json.h"

namespace trainer::test {

using Json = nlohmann::ordered_json;

struct FakeRun {
  std::int64_t steps = 4, samples = 32, replicas = 1;
  double seconds = 0.5, wait_seconds = 0.1;  // the times of a step
  double evaluation_seconds = 1, wall_seconds = 10;
  std::int64_t correct = 90, count = 100;
  bool finished = true, on_cpu = true;
  Json price = nullptr;
  std::string program = "trainer 1";
  std::int64_t batch_size = 32;
  std::function<std::string(std::int64_t)> loss = [](std::int64_t step) {
    return std::to_string(4 - step) + ".5";
  };
  std::string samples_hash = "00000000000000aa", gradient_norm = "0.5";
  std::string parameters_hash = "feed";
  Json step_times = nullptr;  // those of run.json; null: the run has none
  Json best = nullptr;        // that of run.json
  Json throughput = nullptr;  // numbers of "finished" in run.json, by key
  // Each session has its seconds, energy and energy per image.
  Json sessions = nullptr;
};

// Returns the JSON of an empty result with other values for some keys.
template <class Result>
Json complete(const Json& values) {
  Json json = results::to_json(Result{});
  json.update(values);
  return json;
}

// A rank's step: seconds by column, those that are left out are 0.
inline Json rank_times(const std::string& name, const Json& seconds) {
  Json rank = complete<results::RankMeans>({{"name", name}});
  rank.update(seconds);
  return rank;
}
inline Json step_times(const std::vector<Json>& ranks) {
  return complete<results::StepMeans>({{"steps", 4}, {"ranks", ranks}});
}

inline std::string fake_config(std::int64_t batch_size) {
  return concat(
      "name: fake\nmodel: {layers: [flatten, dense: 2]}\ndata: {path: nowhere}\n"
      "train: {max_steps: 4, batch_size: ",
      batch_size, "}\n");
}

// One evaluation in the middle with half of the final accuracy, and one at the end.
inline void write_run(const Path& folder, const FakeRun& run) {
  std::filesystem::create_directories(folder);
  const double accuracy = static_cast<double>(run.correct) / static_cast<double>(run.count);
  Json record = complete<results::RunRecord>({{"program", run.program},
                                              {"compiler", "12"},
                                              {"libc", "glibc 2"},
                                              {"host", "somewhere"},
                                              {"processor", "cpu"},
                                              {"device", "cpu, oneDNN"},
                                              {"on_cpu", run.on_cpu},
                                              {"data", "abc"},
                                              {"price_per_hour", run.price},
                                              {"name", "fake"},
                                              {"classes", {"cat", "dog & co"}},
                                              {"replicas", run.replicas},
                                              {"global_batch", run.samples},
                                              {"total_steps", run.steps},
                                              {"steps_per_epoch", 2}});
  record["sessions"] = Json::array({complete<results::RunSession>(
      {{"seconds", run.wall_seconds}, {"peak_memory_bytes", 200 << 20}})});
  if (!run.step_times.is_null()) record["sessions"][0]["step_times"] = run.step_times;
  if (!run.best.is_null()) record["best"] = complete<results::BestCheckpoint>(run.best);
  if (!run.sessions.is_null()) {
    record["sessions"] = Json::array();
    for (const Json& session : run.sessions) {
      record["sessions"].push_back(complete<results::RunSession>(session));
    }
  }
  if (run.finished) {
    record["finished"] = complete<results::FinishedRun>(
        {{"steps", run.steps},
         {"reason", "done"},
         {"metrics",
          {{"test",
            {{"loss", 0.25},
             {"accuracy", accuracy},
             {"count", run.count},
             {"correct", run.correct},
             {"confusion", {{run.correct, 0}, {run.count - run.correct, 0}}}}}}}});
    if (!run.throughput.is_null()) record["finished"].update(run.throughput);
  }
  write_file_atomic(folder / "run.json", record.dump() + "\n");
  write_file_atomic(folder / "config.yaml", fake_config(run.batch_size));
  std::string metrics =
      "step,epoch,split,loss,accuracy,learning_rate,images_per_second,wait_share,seconds,"
      "steps_per_second,top_k_accuracy\n";
  std::string ledger =
      "step,samples,loss,learning_rate,sample_ids,gradient_norm,seconds,wait_seconds,parameters\n0,"
      ",,,,,,,start\n";
  for (std::int64_t step = 1; step <= run.steps; ++step) {
    ledger += concat(step, ',', run.samples, ',', run.loss(step), ",0.001,", run.samples_hash, ',',
                     run.gradient_norm, ',', run.seconds, ',', run.wait_seconds, ",\n");
    metrics +=
        concat(step, ',', 0.5 * static_cast<double>(step), ",train,", run.loss(step), ",0.5,0.001,",
               static_cast<double>(run.samples) / run.seconds, ",0.2,", run.seconds, ",2,\n");
    if (step * 2 != run.steps && step != run.steps) continue;
    ledger += concat(step, ",,,,,,,,", run.parameters_hash, "\n");
    metrics += concat(step, ",1,test,0.25,", step == run.steps ? accuracy : accuracy / 2, ",,,,",
                      run.evaluation_seconds, ",,\n");
  }
  write_file_atomic(folder / "metrics.csv", metrics);
  write_file_atomic(folder / "ledger.csv", ledger);
}

}  // namespace trainer::test
