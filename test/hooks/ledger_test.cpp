// ledger.csv and run.json.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "hooks/formats/csv_columns.h"
#include "hooks/run_record.h"
#include "hooks/support.h"

namespace trainer::hooks {
namespace {

using namespace test;

std::unique_ptr<Hook> ledger() {
  return make_ledger_hook([] { return std::string(64, 'a'); });
}

StepRecord with_samples(std::int64_t step) {
  StepRecord p = after_step(step);
  p.sample_ids = 0x1234;
  p.gradient_norm = 0.5;
  return p;
}

nlohmann::json record_in(const Path& folder) {
  return nlohmann::json::parse(read_text_file(folder / "run.json"));
}

TEST_CASE("ledger: each step and each checkpoint has one row") {
  const TemporaryFolder folder;
  const auto hook = ledger();
  hook->on_start(run_info(folder.path()));
  hook->before_checkpoint(0);
  hook->on_step(with_samples(1));
  hook->on_step(after_step(2));
  hook->before_checkpoint(2);
  hook->on_finish(finish(FinishReason::kDone));
  const auto lines = split_into_lines(read_text_file(folder.path() / "ledger.csv"));
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] ==
        "step,samples,loss,learning_rate,sample_ids,gradient_norm,seconds,wait_seconds,parameters");
  CHECK(lines[1] == "0,,,,,,,,aaaaaaaaaaaaaaaa");
  CHECK(lines[2].starts_with("1,64,0.1000000000000000"));
  CHECK(lines[2].find(",0000000000001234,0.5,0.02") != std::string::npos);
  CHECK(lines[3].find(",,,0.02") != std::string::npos);
  CHECK(lines[4] == "2,,,,,,,,aaaaaaaaaaaaaaaa");
}

TEST_CASE("CsvColumns: a row with another number of fields than the header is not read") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "rows.csv";
  write_file_atomic(file, "step,loss\n");
  const CsvColumns columns(file, {"loss", "step", "time"}, [](const std::string&) { return true; });
  REQUIRE(columns.fields("1,0.5"));
  CHECK(columns.format_row(*columns.fields("1,0.5")) == "0.5,1,");
  CHECK_FALSE(columns.fields("1"));
  CHECK_FALSE(columns.fields("1,0.5,3"));
}

TEST_CASE("ledger: every step has one row after a killed run is resumed") {
  const TemporaryFolder folder;
  {
    const auto hook = ledger();
    hook->on_start(run_info(folder.path()));
    hook->on_step(after_step(1));
    hook->on_step(after_step(2));
    hook->before_checkpoint(2);
    hook->on_step(after_step(3));  // the process is killed here
  }
  const auto hook = ledger();
  hook->on_start(run_info(folder.path(), 2));
  hook->on_step(after_step(3));
  hook->on_finish(finish(FinishReason::kDone));
  std::string steps;
  for (const auto& line : split_into_lines(read_text_file(folder.path() / "ledger.csv"))) {
    steps += line.substr(0, line.find(',')) + " ";
  }
  CHECK(steps == "step 1 2 2 3 ");
}

TEST_CASE("ledger: a resumed run rejects a file with other columns or rows") {
  const TemporaryFolder folder;
  const std::string header =
      "step,samples,loss,learning_rate,sample_ids,gradient_norm,seconds,wait_seconds,parameters\n";
  for (const std::string& text :
       {std::string("step,colour,parameters\n1,red,\n"), std::string("step,loss\n1,2\n"),
        header + "1,64\n", header + "one,,,,,,,,beef\n"}) {
    CAPTURE(text);
    write_file_atomic(folder.path() / "ledger.csv", text);
    CHECK_THROWS_AS(ledger()->on_start(run_info(folder.path(), 1)), DataError);
    CHECK(read_text_file(folder.path() / "ledger.csv") == text);
  }
}

// Sums over the rows of a ledger: rows, samples, waiting in ms, hashes.
struct Sums {
  std::int64_t rows = 0, samples = 0, waited = 0;
  std::uint64_t ids = 0;
  bool operator==(const Sums&) const = default;
};

Sums sum_rows(const Path& folder) {
  Sums sums;
  const auto lines = split_into_lines(read_text_file(folder / "ledger.csv"));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split_text(lines[i], ',');
    if (!fields.back().empty()) continue;  // the hash of a checkpoint
    ++sums.rows;
    sums.samples += std::stoll(fields[1]);
    sums.waited += std::llround(1000 * std::stod(fields[7]));
    sums.ids += std::stoull(fields[4], nullptr, 16);
  }
  return sums;
}

TEST_CASE("ledger: a long run writes fewer and fewer rows whose sums are those of all steps") {
  constexpr std::int64_t kDense = 1 << 17, kEnd = 4 * kDense, kStop = 2 * kDense + 1;
  const TemporaryFolder folder;
  auto hook = ledger();
  hook->on_start(run_info(folder.path()));
  const auto train = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from + 1; step <= to; ++step) hook->on_step(with_samples(step));
  };
  train(0, kDense);
  hook->before_checkpoint(kDense);
  CHECK(sum_rows(folder.path()).rows == kDense);
  train(kDense, kStop);
  hook->before_checkpoint(kStop);  // between two rows
  const std::string saved = hook->save();
  CHECK_FALSE(saved.empty());
  train(kStop, kStop + 100);
  hook = ledger();  // killed, and resumed from the checkpoint
  hook->restore(saved);
  hook->on_start(run_info(folder.path(), kStop));
  train(kStop, kEnd);
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(sum_rows(folder.path()) ==
        Sums{kDense + kDense / 2 + kDense / 2, 64 * kEnd, 5 * kEnd, 0x1234 * kEnd});
}

// A folder in memory, where a sync takes no time.
class MemoryFolder {
 public:
  MemoryFolder() {
    const bool has_memory = std::filesystem::exists("/dev/shm");
    std::string pattern = has_memory ? "/dev/shm/test-XXXXXX" : "/tmp/test-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~MemoryFolder() { std::filesystem::remove_all(path_); }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

TEST_CASE("ledger: a checkpoint after each of 316,000 steps makes fewer rows than steps") {
  constexpr std::int64_t kSteps = 316'000;
  const MemoryFolder folder;
  const auto hook = ledger();
  hook->on_start(run_info(folder.path()));
  hook->before_checkpoint(0);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    hook->on_step(with_samples(step));
    hook->before_checkpoint(step);
  }
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(sum_rows(folder.path()) == Sums{(1 << 17) + (1 << 16) + (kSteps - (1 << 18)) / 4,
                                        64 * kSteps, 5 * kSteps, 0x1234 * kSteps});
  std::int64_t hashes = 0;
  for (const std::string& line : split_into_lines(read_text_file(folder.path() / "ledger.csv"))) {
    hashes += line.ends_with(",aaaaaaaaaaaaaaaa") ? 1 : 0;
  }
  // Step 0, 2^14 steps, 2^13 rows per doubling up to 2^18 steps, and one row per 32 steps.
  CHECK(hashes == 1 + (1 << 14) + 4 * (1 << 13) + (kSteps - (1 << 18)) / 32);
  CHECK(std::filesystem::file_size(folder.path() / "ledger.csv") < 24'000'000);
}

TEST_CASE("ledger: every step counts once in a run that ended between two rows and resumes") {
  constexpr std::int64_t kDense = 1 << 17, kStop = kDense + 1, kEnd = kDense + 10;
  const TemporaryFolder folder;
  auto hook = ledger();
  hook->on_start(run_info(folder.path()));
  for (std::int64_t step = 1; step <= kStop; ++step) hook->on_step(with_samples(step));
  std::string saved = hook->save();
  hook->before_checkpoint(kStop);
  SUBCASE("its end is written") { hook->on_finish(finish(FinishReason::kInterrupted)); }
  SUBCASE("killed before its end") {}
  SUBCASE("the saved sums are of another step") {
    hook->on_finish(finish(FinishReason::kDone));
    saved = "7" + saved;
  }
  hook = ledger();
  hook->restore(saved);
  hook->on_start(run_info(folder.path(), kStop));
  for (std::int64_t step = kStop + 1; step <= kEnd; ++step) hook->on_step(with_samples(step));
  hook->on_finish(finish(FinishReason::kDone));
  const Sums sums = sum_rows(folder.path());
  CHECK(sums.samples == 64 * kEnd);
  CHECK(sums.waited == 5 * kEnd);
  CHECK(sums.ids == 0x1234 * kEnd);
}

// The steps that other workers make between the last step of the chief and its checkpoint are among
// those of the chief's next step.
TEST_CASE(
    "ledger: a resume keeps the open row of a checkpoint of a later step than the last row's") {
  constexpr std::int64_t kDense = 1 << 17, kLast = kDense + 1, kSaved = kDense + 4;
  constexpr std::int64_t kEnd = kDense + 10;
  const TemporaryFolder folder;
  auto hook = ledger();
  hook->on_start(run_info(folder.path()));
  for (std::int64_t step = 1; step <= kLast; ++step) hook->on_step(with_samples(step));
  const std::string saved = hook->save();
  hook->before_checkpoint(kSaved);
  SUBCASE("its end is written") { hook->on_finish(finish(FinishReason::kInterrupted)); }
  SUBCASE("killed before its end") {}
  hook = ledger();
  hook->restore(saved);
  hook->on_start(run_info(folder.path(), kSaved));
  StepRecord next = with_samples(kSaved + 1);
  next.samples = 64 * (kSaved + 1 - kLast);
  hook->on_step(next);
  for (std::int64_t step = kSaved + 2; step <= kEnd; ++step) hook->on_step(with_samples(step));
  hook->on_finish(finish(FinishReason::kDone));
  const Sums sums = sum_rows(folder.path());
  CHECK(sums.samples == 64 * kEnd);
  CHECK(sums.waited == 5 * (kEnd - (kSaved - kLast)));
}

TEST_CASE("ledger: the hash has the step of a checkpoint of a later step than the last row's") {
  const TemporaryFolder folder;
  const auto hook = ledger();
  hook->on_start(run_info(folder.path()));
  hook->on_step(with_samples(2));
  hook->before_checkpoint(5);
  hook->on_finish(finish(FinishReason::kDone));
  const auto lines = split_into_lines(read_text_file(folder.path() / "ledger.csv"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[2] == "5,,,,,,,,aaaaaaaaaaaaaaaa");
}

TEST_CASE("ledger: a file of another program is rejected") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "ledger.csv", "when,what\nmonday,bread\n");
  CHECK_THROWS_WITH_AS(ledger()->on_start(run_info(folder.path(), 1)),
                       doctest::Contains("ledger.csv:1"), DataError);
}

TEST_CASE("run record: the build, the config and the result are recorded") {
  const TemporaryFolder folder;
  results::RunRecord origin;
  origin.program = "trainer 9";
  origin.device = "cpu, 2 threads";
  origin.model = "3 layers";
  origin.data = "abc";
  origin.base = "../..";
  origin.price_per_hour = 1.5;
  origin.splits = {{"train", {30, {10, 20}}}, {"test", {9, {}}}};
  origin.memory = {{"gradients", 12}};
  origin.data_notices = {Notice("no sample of: cow"), Notice::note("a range")};
  {
    const auto hook = make_run_record_hook(origin);
    hook->on_start(run_info(folder.path()));
    hook->on_step(after_step(5));
    hook->before_checkpoint(5);
    CHECK_FALSE(record_in(folder.path()).contains("finished"));
    hook->on_finish(finish(FinishReason::kInterrupted, 5));
    CHECK_FALSE(record_in(folder.path()).contains("finished"));
  }
  const auto hook = make_run_record_hook(origin);
  hook->on_start(run_info(folder.path(), 5));
  Finish done = finish(FinishReason::kDone);
  done.evaluations = {evaluation(Split::kTest, 20, 0.5)};
  hook->on_finish(done);
  const nlohmann::json record = record_in(folder.path());
  CHECK(record["program"] == "trainer 9");
  CHECK(record["model"] == "3 layers");
  CHECK(record["data"] == "abc");
  CHECK(record["base"] == "../..");
  CHECK(record["price_per_hour"] == 1.5);
  CHECK(record["splits"]["train"]["samples"] == 30);
  CHECK(record["splits"]["train"]["classes"] == std::vector<int>{10, 20});
  CHECK(record["splits"]["test"]["classes"].empty());
  CHECK(record["memory"]["gradients"] == 12);
  const nlohmann::json warning{{"kind", "warning"}, {"text", "no sample of: cow"}};
  const nlohmann::json note{{"kind", "note"}, {"text", "a range"}};
  CHECK(record["data_notices"] == nlohmann::json::array({warning, note}));
  REQUIRE(record["sessions"].size() == 2);
  CHECK(record["sessions"][0]["first_step"] == 0);
  CHECK(record["sessions"][0]["started"].get<std::string>().size() ==
        std::string("2026-01-31T12:00:00.250Z").size());
  CHECK(record["sessions"][0]["command"][0].get<std::string>().ends_with("test_hooks"));
  CHECK(record["sessions"][1]["first_step"] == 5);
  CHECK(record["sessions"][1]["seconds"] == doctest::Approx(12.3456));
  CHECK(record["sessions"][1]["peak_memory_bytes"].get<std::int64_t>() > 1'000'000);
  CHECK(record["finished"]["reason"] == "done");
  CHECK(record["finished"]["metrics"]["test"]["correct"] == 3);
  CHECK(record["finished"]["metrics"]["test"]["confusion"][1][0] == 1);
}

TEST_CASE("ledger: later rows are in a new file with a warning after the file is removed") {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  const auto hook = make_ledger_hook([] { return std::string(64, 'a'); },
                                     [&](const std::string& text) { warnings.push_back(text); });
  const Path path = folder.path() / "ledger.csv";
  hook->on_start(run_info(folder.path()));
  hook->on_step(with_samples(1));
  hook->before_checkpoint(1);
  CHECK(warnings.empty());
  std::filesystem::remove(path);
  hook->on_step(with_samples(2));
  hook->before_checkpoint(2);
  hook->on_finish(finish(FinishReason::kDone));
  const auto lines = split_into_lines(read_text_file(path));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("step,samples,"));
  CHECK(lines[1].starts_with("2,64,"));
  CHECK(lines[2].starts_with("2,,"));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("ledger.csv: was moved, removed, replaced or emptied") !=
        std::string::npos);
}

TEST_CASE(
    "run record: the matrix is for up to 256 classes, and beyond there are counts and top "
    "confusions") {
  for (const std::int64_t classes : {256, 257, 22'000}) {
    const TemporaryFolder folder;
    const auto hook = make_run_record_hook({});
    hook->on_start(run_info(folder.path()));
    Finish done = finish(FinishReason::kDone);
    done.evaluations = {evaluation(Split::kTest, 20, 0.5)};
    engine::Metrics& metrics = done.evaluations[0].metrics;
    metrics.classes = classes;
    metrics.confusion = engine::Confusion(classes);
    metrics.confusion.add(3, 3, 10);
    metrics.confusion.add(255, 3, 2);
    metrics.confusion.add(3, 254, 5);
    hook->on_finish(done);
    CHECK(std::filesystem::file_size(folder.path() / "run.json") < 500'000);
    const auto record = record_in(folder.path())["finished"]["metrics"]["test"];
    CHECK(record.contains("confusion") == (classes == 256));
    CHECK(record.contains("top_confusions") == (classes > 256));
    if (classes == 256) {
      CHECK(record["confusion"][255][3] == 2);
      continue;
    }
    using Cells = std::vector<std::vector<int>>;
    CHECK(record["top_confusions"].get<Cells>() == Cells{{3, 254, 5}, {255, 3, 2}});
    CHECK(record["class_counts"]["support"].size() == static_cast<std::size_t>(classes));
    CHECK(record["class_counts"]["support"][3] == 15);
    CHECK(record["class_counts"]["predicted"][3] == 12);
    CHECK(record["class_counts"]["correct"][3] == 10);
  }
}

TEST_CASE("run record: the rate of the process before stays after a resume that makes no step") {
  const TemporaryFolder folder;
  const auto finished_with = [&](std::optional<double> rate) {
    const auto hook = make_run_record_hook({});
    hook->on_start(run_info(folder.path(), 20));
    Finish end = finish(rate ? FinishReason::kDone : FinishReason::kAlreadyDone);
    end.images_per_second = rate;
    hook->on_finish(end);
    return record_in(folder.path())["finished"]["images_per_second"];
  };
  CHECK(finished_with({}).is_null());
  CHECK(finished_with(1234.5) == 1234.5);
  CHECK(finished_with({}) == 1234.5);
  CHECK(finished_with(99) == 99);
  write_file_atomic(folder.path() / "run.json", R"({"finished":{"images_per_second":"fast"}})");
  CHECK(finished_with({}).is_null());
  write_file_atomic(folder.path() / "run.json", R"({"finished":[1]})");
  CHECK(finished_with({}).is_null());
}

TEST_CASE("the run record keeps a damaged file, and warns that it begins anew") {
  const TemporaryFolder folder;
  const std::string damaged = R"({"sessions":[{"seconds":"long"}]})";
  write_file_atomic(folder.path() / "run.json", damaged);
  std::string warning;
  const auto hook = make_run_record_hook({}, [&](const std::string& text) { warning = text; });
  hook->on_start(run_info(folder.path()));
  CHECK(warning.find("run.json: is damaged: the value of sessions[0].seconds is not a number") !=
        std::string::npos);
  CHECK(warning.find("it is renamed to run.json.damaged") != std::string::npos);
  CHECK(read_text_file(folder.path() / "run.json.damaged") == damaged);
  CHECK(record_in(folder.path())["sessions"].size() == 1);
}

TEST_CASE("the run record keeps its metrics when a resumed run is not evaluated again") {
  const TemporaryFolder folder;
  const auto end_with = [&](FinishReason reason, std::vector<Evaluation> evaluations) {
    const auto hook = make_run_record_hook({});
    hook->on_start(run_info(folder.path(), 20));
    Finish end = finish(reason, 20);
    end.evaluations = std::move(evaluations);
    hook->on_finish(end);
    return record_in(folder.path())["finished"]["metrics"];
  };
  CHECK_FALSE(results::read_finished_steps(folder.path()));
  const auto first = end_with(FinishReason::kDone, {evaluation(Split::kTest, 20, 1)});
  CHECK(first["test"]["loss"] == 1.0);
  CHECK(results::read_finished_steps(folder.path()) == 20);
  CHECK(end_with(FinishReason::kAlreadyDone, {}) == first);
  CHECK(end_with(FinishReason::kDone, {}).empty());
  write_file_atomic(folder.path() / "run.json", R"({"finished":{"steps":"20","metrics":[1]}})");
  CHECK_FALSE(results::read_finished_steps(folder.path()));
  CHECK(end_with(FinishReason::kAlreadyDone, {}).empty());
}

TEST_CASE("run record: the throughput of cached features is apart from that of computing them") {
  const TemporaryFolder folder;
  const auto train = [&](const std::vector<std::pair<StepInput, double>>& steps) {
    const auto hook = make_run_record_hook({});
    hook->on_start(run_info(folder.path(), 20));
    std::int64_t number = 0;
    for (const auto& [input, seconds] : steps) {
      StepRecord p = after_step(++number);
      p.input = input;
      p.step_seconds = seconds;
      hook->on_step(p);
    }
    Finish end = finish(FinishReason::kDone);
    if (steps.empty()) end.images_per_second.reset();
    hook->on_finish(end);
    return record_in(folder.path())["finished"];
  };
  const char* const computing = "images_per_second_computing_features";
  const char* const cached = "images_per_second_cached_features";
  const auto check_both = [&](const nlohmann::json& finished) {
    CHECK(finished.at(computing) == 32);
    CHECK(finished.at(cached) == 128);
    CHECK(finished.at("images_per_second") == 21345.67);
  };
  check_both(train({{StepInput::kNewFeatures, 2}, {StepInput::kCachedFeatures, 0.5}}));
  check_both(train({}));  // resumed after the last step

  const auto only_cached = train({{StepInput::kCachedFeatures, 0.25}});
  CHECK(only_cached.at(cached) == 256);
  CHECK_FALSE(only_cached.contains(computing));
  const auto of_samples = train({{StepInput::kSamples, 0.25}});
  CHECK_FALSE(of_samples.contains(cached));
  CHECK_FALSE(of_samples.contains(computing));
}

TEST_CASE("run record: the sessions of an old run.json with brackets a million deep are dropped") {
  const TemporaryFolder folder;
  const std::string deep(1'000'000, '[');
  write_file_atomic(folder.path() / "run.json",
                    "{\"sessions\": [" + deep + std::string(deep.size(), ']') + "]}");
  const auto hook = make_run_record_hook({});
  hook->on_start(run_info(folder.path(), 5));
  CHECK(record_in(folder.path())["sessions"].size() == 1);
}

}  // namespace
}  // namespace trainer::hooks
