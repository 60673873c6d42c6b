// data.drop_remainder and data.validation_split_order as a user runs them.
#include <doctest/doctest.h>

#include <fstream>

#include "base/text.h"
#include "pictures.h"
#include "program.h"

namespace trainer::e2e::drop_remainder_test {
namespace {

// 100 samples in batches of 32 make three steps per epoch, and four with the short batch.
std::string write_config(const Workspace& work, const std::string& data) {
  return work.config(
      concat("model: {layers: [{conv: {filters: 4, activation: relu}}, flatten, {dense: 10}]}\n"
             "data: {format: idx, limit: 100, path: ",
             work.data(), ", ", data, R"(}
optimizer: {adam: {learning_rate: 0.001}}
schedule: cosine
train: {epochs: 2, batch_size: 32}
parallel: {reduction: ordered}
run: {log_every: 1 steps, checkpoint_every: 2 steps, keep: 9}
)"));
}

const char* const kDrops = "drop_remainder: true";
const Arguments kTwo{"--replicas", "2", "--batch-size", "16", "--set", "parallel.lr_scaling=none"};

struct LedgerRow {
  std::string samples, sample_ids;
  bool operator==(const LedgerRow&) const = default;
};

std::vector<LedgerRow> read_ledger(const Path& dir) {
  std::ifstream file(dir / "ledger.csv");
  std::vector<LedgerRow> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split_text(line, ',');
    if (fields.back().empty()) rows.push_back({fields.at(1), fields.at(4)});
  }
  return rows;
}

// Sends `signal` after the step, if the program is not faster.
void interrupt(const std::string& config, const Path& dir) {
  Program running({"train", config, "--json", "--run-dir", dir});
  running.wait_for("\"step\":3");
  running.signal(SIGTERM);
  running.wait();
}

}  // namespace

TEST_CASE("train: drop_remainder trains on whole batches alone, as two replicas and a resume do") {
  const Workspace work;
  const Json kept = train_to_end(write_config(work, "drop_remainder: false"), work / "kept");
  CHECK(kept.at("steps") == 8);
  const std::string config = write_config(work, kDrops);
  const Json whole = train_to_end(config, work / "whole");
  CHECK(whole.at("steps") == 6);
  CHECK(whole.at("parameters_sha256") != kept.at("parameters_sha256"));
  CHECK(whole.at("metrics").at("test").at("count") == kept.at("metrics").at("test").at("count"));

  const std::vector<LedgerRow> all = read_ledger(work / "kept");
  const std::vector<LedgerRow> rows = read_ledger(work / "whole");
  REQUIRE(all.size() == 8);
  REQUIRE(rows.size() == 6);
  CHECK(all[3].samples == "4");
  for (std::size_t step = 0; step < 6; ++step) {
    CHECK(rows[step].samples == "32");
    CHECK(rows[step] == all[step + step / 3]);
  }

  CHECK(train_to_end(config, work / "two", kTwo).at("parameters_sha256") ==
        whole.at("parameters_sha256"));
  CHECK(read_ledger(work / "two") == rows);

  interrupt(config, work / "parts");
  CHECK(train_to_end(config, work / "parts", {"--resume"}).at("parameters_sha256") ==
        whole.at("parameters_sha256"));
  CHECK(read_ledger(work / "parts") == rows);
}

TEST_CASE("train --resume: the error of another drop_remainder names it") {
  const Workspace work;
  train_to_end(write_config(work, kDrops), work / "run");
  const Result refused = run({"train", write_config(work, "drop_remainder: false"), "--run-dir",
                              work / "run", "--resume"});
  CHECK(refused.code == 3);
  CAPTURE(refused.err);
  CHECK(refused.err.find("data.drop_remainder was true, is false") != std::string::npos);
}

TEST_CASE("train: drop_remainder with less than a batch is an error before the first step") {
  const Workspace work;
  const Result refused =
      run({"train", write_config(work, kDrops), "--run-dir", work / "run", "--batch-size", "101"});
  CHECK(refused.code == 2);
  CAPTURE(refused.err);
  CHECK(refused.err.find("data.drop_remainder: leaves out all training samples, because 100 "
                         "samples do not fill a batch of 101") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(work / "run" / "ledger.csv"));
}

TEST_CASE(
    "plan: drop_remainder changes the steps that are trained and the samples that are left out") {
  const Workspace work;
  const std::string config = write_config(work, kDrops);
  const Result plan = run({"plan", config});
  CAPTURE(plan.out);
  CHECK(plan.out.find("left out of an epoch") != std::string::npos);
  CHECK(plan.out.find("4 samples that do not fill a batch") != std::string::npos);
  const Json json = run({"plan", config, "--json"}).event("plan");
  CHECK(json.at("steps_per_epoch") == 3);
  CHECK(json.at("samples_left_out_per_epoch") == 4);
  const Result kept = run({"plan", write_config(work, "drop_remainder: false"), "--json"});
  CHECK(kept.event("plan").at("samples_left_out_per_epoch") == 0);
}

// 34 images in batches of 8. The order changes, so that the first epochs see different images.
TEST_CASE("train: drop_remainder with kept features equals a run without them bit by bit") {
  const Pictures pictures;
  const Arguments drops{"--set", "data.drop_remainder=true"};
  const Json off = pictures.finished("off", "off", drops);
  CHECK(off.at("steps") == 16);
  check_same(off, pictures.finished("memory", "memory", drops));
}

TEST_CASE("train and data: validation_split_order last takes the last files and warns of classes") {
  const Workspace work;
  write_images(work / "photos", 10, 1);
  const std::string config = work.config(
      concat("model: {input: [16, 16, 3], layers: [flatten, {dense: 2}]}\n"
             "data: {format: image_folder, train: ",
             (work / "photos").string(), ", validation_split: 0.5, validation_split_order: last}\n",
             "train: {epochs: 1, batch_size: 5}\n"));
  const Result plan = run({"plan", config});
  CAPTURE(plan.err);
  CAPTURE(plan.out);
  CHECK(concat(plan.out, plan.err).find("the training data has no sample of: right") !=
        std::string::npos);
  const Result data = run({"data", config});
  CAPTURE(data.out);
  CHECK(data.out.find("set aside from the training files by data.validation_split: 0.5 (the last "
                      "samples)") != std::string::npos);
  CHECK(data.out.find("with seed") == std::string::npos);
  const Json finished = train_to_end(config, work / "run");
  CHECK(finished.at("metrics").at("validation").at("count") == 10);
  // The run keeps the order: its validation part is not one that it was trained on.
  const Result evaluated = run({"evaluate", work / "run", "--split", "validation", "--json"});
  CAPTURE(evaluated.err);
  CHECK(evaluated.event("evaluated").at("count") == 10);
  const Result other = run({"train", config, "--run-dir", work / "run", "--resume", "--set",
                            "data.validation_split_order=stratified"});
  CHECK(other.code == 3);
  CHECK(other.err.find("data.validation_split_order was last, is stratified") != std::string::npos);
}

}  // namespace trainer::e2e::drop_remainder_test
