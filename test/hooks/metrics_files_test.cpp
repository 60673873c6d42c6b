#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hooks/support.h"

namespace trainer::hooks {
namespace {

using namespace test;

constexpr const char* kHeader =
    "step,epoch,split,loss,accuracy,learning_rate,images_per_second,wait_share,seconds,"
    "steps_per_second,top_k_accuracy,data_wait_seconds,copy_seconds,forward_seconds,"
    "backward_seconds,all_reduce_seconds,hidden_all_reduce_seconds,update_seconds,other_seconds,"
    "f1_macro,f1_weighted,balanced_accuracy,auc";
// The columns of a step whose times by phase are not known.
constexpr const char* kNoPhases = ",,,,,,,,";
constexpr const char* kNoPhasesJson =
    R"("data_wait_seconds":null,"copy_seconds":null,"forward_seconds":null,)"
    R"("backward_seconds":null,"all_reduce_seconds":null,"hidden_all_reduce_seconds":null,)"
    R"("update_seconds":null,"other_seconds":null,)";
// What follows them: metrics of classes, of evaluations alone.
constexpr const char* kNoTimes = ",,,,,,,,,,,,";
const std::string kNoTimesJson = concat(
    kNoPhasesJson, R"("f1_macro":null,"f1_weighted":null,"balanced_accuracy":null,"auc":null)");
constexpr const char* kOfClasses = ",0.7333333333333334,0.7333333333333334,0.75,";
constexpr const char* kOfClassesJson =
    R"("f1_macro":0.7333333333333334,"f1_weighted":0.7333333333333334,"balanced_accuracy":0.75,)"
    R"("auc":null)";

std::string csv(const TemporaryFolder& folder) {
  return read_text_file(folder.path() / "metrics.csv");
}
std::string jsonl(const TemporaryFolder& folder) {
  return read_text_file(folder.path() / "metrics.jsonl");
}

// Steps (first, last] with an evaluation after every eighth, as a process would that is killed
// then.
void run(const TemporaryFolder& folder, std::int64_t first, std::int64_t last) {
  const auto hook = make_metrics_files_hook(steps(4));
  hook->on_start(run_info(folder.path(), first));
  for (std::int64_t n = first + 1; n <= last; ++n) {
    hook->on_step(after_step(n));
    if (n % 8 == 0) hook->on_evaluation(evaluation(Split::kValidation, n, 0.1));
  }
}

void append(const TemporaryFolder& folder, const char* name, const std::string& text) {
  const Path path = folder.path() / name;
  write_file_atomic(path, read_text_file(path) + text);
}

}  // namespace

TEST_CASE("metric files: values are averages of training and exact evaluations") {
  const TemporaryFolder folder;
  run(folder, 0, 9);
  CHECK(csv(folder) == concat(kHeader, "\n4,0.5,train,0.25,0.5,0.001,3200.0,0.25,0.08,50.0,",
                              kNoTimes, "\n", "8,1.0,train,0.65,0.5,0.001,3200.0,0.25,0.08,50.0,",
                              kNoTimes, "\n", "8,1.0,validation,0.1,0.75,,,,1.25,,", kNoPhases,
                              kOfClasses, "\n"));
  const auto rows = split_into_lines(jsonl(folder));
  REQUIRE(rows.size() == 3);
  CHECK(
      rows[0] ==
      std::string(
          R"({"step":4,"epoch":0.5,"split":"train","loss":0.25,"accuracy":0.5,"learning_rate":0.001,)"
          R"("images_per_second":3200.0,"wait_share":0.25,"seconds":0.08,"steps_per_second":50.0,)"
          R"("top_k_accuracy":null,)") +
          kNoTimesJson + "}");
  CHECK(rows[2] ==
        std::string(
            R"({"step":8,"epoch":1.0,"split":"validation","loss":0.1,"accuracy":0.75,)"
            R"("learning_rate":null,"images_per_second":null,"wait_share":null,"seconds":1.25,)"
            R"("steps_per_second":null,"top_k_accuracy":null,)") +
            kNoPhasesJson + kOfClassesJson + "}");
}

TEST_CASE("metric files: averages are weighted by samples, and the last steps have a row") {
  const TemporaryFolder folder;
  const auto hook = make_metrics_files_hook(steps(100));
  hook->on_start(run_info(folder.path(), 0, 2));
  StepRecord p = after_step(1);
  p.loss = 1;
  p.samples = 3;
  hook->on_step(p);
  CHECK(split_into_lines(csv(folder)).size() == 1);
  p = after_step(2);
  p.loss = 5;
  p.samples = 1;
  hook->on_step(p);
  CHECK(split_into_lines(csv(folder)).back() ==
        concat("2,0.25,train,2.0,0.5,0.001,100.0,0.25,0.04,50.0,", kNoTimes));
}

TEST_CASE("metric files: a run killed at any step and resumed has the rows of a whole run") {
  const TemporaryFolder whole;
  run(whole, 0, 20);
  for (std::int64_t killed = 1; killed < 20; ++killed) {
    const std::int64_t saved = killed / 4 * 4;  // a checkpoint every four steps
    const TemporaryFolder folder;
    run(folder, 0, killed);
    append(folder, "metrics.csv", "12,1.5,tra");
    append(folder, "metrics.jsonl", R"({"step":12,"ep)");
    run(folder, saved, 20);
    CAPTURE(killed);
    CHECK(csv(folder) == csv(whole));
    CHECK(jsonl(folder) == jsonl(whole));
  }
}

TEST_CASE("metric files: a run resumed at any step has the rows of a whole run") {
  // An evaluation after every third step falls between the rows of every fourth step. A signal
  // after such a step cancels it, and the resumed run begins with it.
  const auto make_steps = [](Hook& hook, std::int64_t first, std::int64_t last, double accuracy) {
    for (std::int64_t n = first + 1; n <= last; ++n) {
      if (n > first + 1 && (n - 1) % 3 == 0) {
        hook.on_evaluation(evaluation(Split::kTest, n - 1, 1));
      }
      StepRecord p = after_step(n);
      p.samples = n;
      p.loss = 1 / static_cast<double>(n);
      p.accuracy = accuracy;
      hook.on_step(p);
    }
  };
  for (const double accuracy : {0.3, std::nan("")}) {
    const TemporaryFolder whole;
    const auto undisturbed = make_metrics_files_hook(steps(4));
    undisturbed->on_start(run_info(whole.path()));
    make_steps(*undisturbed, 0, 20, accuracy);
    for (std::int64_t saved = 1; saved < 20; ++saved) {
      const TemporaryFolder folder;
      std::string text;
      {
        const auto hook = make_metrics_files_hook(steps(4));
        hook->on_start(run_info(folder.path()));
        make_steps(*hook, 0, saved, accuracy);
        text = hook->save();
        make_steps(*hook, saved, saved + 1, accuracy);  // lost by the kill
      }
      const auto hook = make_metrics_files_hook(steps(4));
      hook->restore(text);
      hook->on_start(run_info(folder.path(), saved));
      if (saved % 3 == 0) hook->on_evaluation(evaluation(Split::kTest, saved, 1));
      make_steps(*hook, saved, 20, accuracy);
      CAPTURE(saved);
      CAPTURE(text);
      CHECK(csv(folder) == csv(whole));
      CHECK(jsonl(folder) == jsonl(whole));
    }
  }
}

TEST_CASE("metric files: saved steps of another checkpoint or damaged ones are ignored") {
  const auto hook = make_metrics_files_hook(steps(4));
  const TemporaryFolder folder;
  hook->on_start(run_info(folder.path()));
  hook->on_step(after_step(1));
  const std::string saved = hook->save();
  for (std::int64_t n = 2; n <= 4; ++n) hook->on_step(after_step(n));
  CHECK(hook->save().empty());  // the row is written
  const auto rows_after = [](const std::string& text, std::int64_t first, const char* servers) {
    const TemporaryFolder resumed;
    const auto other = make_metrics_files_hook(steps(4));
    other->restore(text);
    RunInfo info = run_info(resumed.path(), first);
    info.servers = servers;
    other->on_start(info);
    other->on_evaluation(evaluation(Split::kTest, first, 1));
    return split_into_lines(csv(resumed)).size() - 1;
  };
  CHECK(rows_after(saved, 1, "") == 2);
  CHECK(rows_after(saved, 2, "") == 1);
  CHECK(rows_after(saved, 2, "2 workers") == 2);
  CHECK(rows_after(saved, 0, "2 workers") == 1);
  for (const std::string& text : {std::string(), std::string("1"), saved + " 1", saved + "x",
                                  "x" + saved, saved.substr(0, saved.rfind(' '))}) {
    CAPTURE(text);
    CHECK(rows_after(text, 1, "") == 1);
  }
}

TEST_CASE(
    "metric files: the chief of parameter servers writes mean and largest staleness of its steps") {
  const auto go = [](const TemporaryFolder& folder, std::int64_t first, std::int64_t last,
                     const std::string& servers) {
    const auto hook = make_metrics_files_hook(steps(4));
    RunInfo info = run_info(folder.path(), first);
    info.servers = servers;
    hook->on_start(info);
    for (std::int64_t n = first + 1; n <= last; ++n) {
      StepRecord p = after_step(n);
      p.staleness = n;
      hook->on_step(p);
      if (n % 8 == 0) hook->on_evaluation(evaluation(Split::kValidation, n, 0.1));
    }
  };
  const std::string header = std::string(kHeader) + ",staleness,staleness_max";
  const TemporaryFolder folder;
  go(folder, 0, 8, "2 workers");
  auto rows = split_into_lines(csv(folder));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0] == header);
  CHECK(rows[1].ends_with(concat(",0.08,50.0,", kNoTimes, ",2.5,4")));
  CHECK(rows[2].ends_with(concat(",0.08,50.0,", kNoTimes, ",6.5,8")));
  CHECK(rows[3].ends_with(concat(",1.25,,", kNoPhases, kOfClasses, ",,")));
  CHECK(split_into_lines(jsonl(folder))[1].ends_with(R"("staleness":6.5,"staleness_max":8})"));
  // Goes on in one process.
  const std::string before = csv(folder);
  go(folder, 8, 12, "");
  CHECK(csv(folder).starts_with(before));
  CHECK(split_into_lines(csv(folder)).back().ends_with(concat(",0.08,50.0,", kNoTimes, ",,")));
  // A run of one process that goes on with servers.
  const TemporaryFolder other;
  go(other, 0, 8, "");
  CHECK(split_into_lines(csv(other))[0] == kHeader);
  go(other, 8, 12, "2 workers");
  rows = split_into_lines(csv(other));
  REQUIRE(rows.size() == 5);
  CHECK(rows[0] == header);
  CHECK(rows[1].ends_with(concat(",0.08,50.0,", kNoTimes, ",,")));
  CHECK(rows[4].ends_with(concat(",0.08,50.0,", kNoTimes, ",10.5,12")));
}

TEST_CASE(
    "metric files: top-k accuracy is written if it is measured, and steps of other workers count") {
  const TemporaryFolder folder;
  const auto hook = make_metrics_files_hook(steps(4));
  hook->on_start(run_info(folder.path()));
  StepRecord p = after_step(4);
  p.steps = 4;
  hook->on_step(p);
  Evaluation e = evaluation(Split::kValidation, 4, 0.1);
  e.metrics.top_k = 5;
  e.metrics.top_k_accuracy = 0.875;
  hook->on_evaluation(e);
  const auto rows = split_into_lines(csv(folder));
  REQUIRE(rows.size() == 3);
  CHECK(rows[1].ends_with(concat(",0.02,200.0,", kNoTimes)));
  CHECK(rows[2].ends_with(concat(",1.25,,0.875", kNoPhases, kOfClasses)));
  CHECK(split_into_lines(jsonl(folder))[1].ends_with(
      concat(R"("top_k_accuracy":0.875,)", kNoPhasesJson, kOfClassesJson, "}")));
}

TEST_CASE("metric files: phase times and the straggler of several ranks are written") {
  const auto go = [](const TemporaryFolder& folder, std::int64_t first, std::int64_t last,
                     std::size_t ranks) {
    const auto hook = make_metrics_files_hook(steps(4));
    RunInfo info = run_info(folder.path(), first);
    for (std::size_t i = 0; i < ranks; ++i) info.ranks.push_back(concat("rank ", i));
    hook->on_start(info);
    for (std::int64_t n = first + 1; n <= last; ++n) {
      // Forward takes 1, 2, ... ms, but 16 on the last of several ranks; n does not matter on
      // average.
      std::vector<engine::RankTimes> times(ranks);
      for (std::size_t i = 0; i < ranks; ++i) {
        const bool slow = ranks > 1 && i + 1 == ranks;
        times[i][engine::StepPhase::kForward] =
            (slow ? 0.016 : 0.001 * static_cast<double>(i + 1)) + (n % 2 == 0 ? 5e-4 : -5e-4);
        times[i][engine::StepPhase::kAllReduceHidden] = 0.25;
      }
      StepRecord p = after_step(n);
      p.ranks = times;
      hook->on_step(p);
    }
  };
  const TemporaryFolder alone;
  go(alone, 0, 4, 1);
  CHECK(split_into_lines(csv(alone))[0] == kHeader);
  CHECK(split_into_lines(csv(alone))[1].ends_with(
      ",0.08,50.0,,0.0,0.0,0.001,0.0,0.0,0.25,0.0,0.0,,,,"));
  const TemporaryFolder folder;
  go(folder, 0, 8, 3);
  const auto rows = split_into_lines(csv(folder));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == kHeader + std::string(",data_wait_seconds_min,data_wait_seconds_max,"
                                         "copy_seconds_min,copy_seconds_max,forward_seconds_min,"
                                         "forward_seconds_max,backward_seconds_min,"
                                         "backward_seconds_max,all_reduce_seconds_min,"
                                         "all_reduce_seconds_max,hidden_all_reduce_seconds_min,"
                                         "hidden_all_reduce_seconds_max,update_seconds_min,"
                                         "update_seconds_max,other_seconds_min,"
                                         "other_seconds_max,straggler"));
  CHECK(
      rows[1].ends_with(",0.08,50.0,,0.0,0.0,0.002,0.0,0.0,0.25,0.0,0.0,,,,,0.0,0.0,0.0,0.0,"
                        "0.001,0.016,0.0,0.0,0.0,0.0,0.25,0.25,0.0,0.0,0.0,0.0,2"));
  const auto row = nlohmann::json::parse(split_into_lines(jsonl(folder))[1]);
  CHECK(row["forward_seconds"] == 0.002);
  CHECK(row["forward_seconds_max"] == 0.016);
  CHECK(row["straggler"] == 2);
  // Goes on in one process, with the columns of before.
  go(folder, 8, 12, 1);
  CHECK(split_into_lines(csv(folder))[0] == rows[0]);
  CHECK(split_into_lines(csv(folder))[3].ends_with(
      ",0.0,0.001,0.0,0.0,0.25,0.0,0.0,,,,,,,,,,,,,,,,,,,,,"));
}

TEST_CASE("metric files: all columns are written after a resume with a file of fewer columns") {
  const std::string old =
      "step,epoch,split,loss,accuracy,learning_rate,images_per_second,wait_share,seconds";
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "metrics.csv",
                    old + "\n4,0.5,train,0.25,0.5,0.001,3200.0,0.25,0.08\n");
  run(folder, 4, 8);
  auto rows = split_into_lines(csv(folder));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0] == kHeader);
  CHECK(rows[1] == concat("4,0.5,train,0.25,0.5,0.001,3200.0,0.25,0.08,,", kNoTimes));
  // The file of a run with servers.
  write_file_atomic(folder.path() / "metrics.csv",
                    old + ",staleness,staleness_max\n4,0.5,train,1,1,1,1,1,1,2.5,4\n");
  run(folder, 4, 8);
  rows = split_into_lines(csv(folder));
  CHECK(rows[0] == std::string(kHeader) + ",staleness,staleness_max");
  CHECK(rows[1] == concat("4,0.5,train,1,1,1,1,1,1,,", kNoTimes, ",2.5,4"));
}

TEST_CASE("metric files: a fresh start removes all rows, a resume without files creates them") {
  const TemporaryFolder folder;
  run(folder, 0, 20);
  run(folder, 0, 3);
  CHECK(csv(folder) == std::string(kHeader) + "\n");
  CHECK(jsonl(folder).empty());
  const TemporaryFolder empty;
  run(empty, 16, 20);
  CHECK(split_into_lines(csv(empty)).size() == 2);
}

TEST_CASE("metric files: a split that is evaluated again at the same step has one row") {
  const TemporaryFolder folder;
  run(folder, 0, 20);
  {
    const auto hook = make_metrics_files_hook(steps(4));
    hook->on_start(run_info(folder.path(), 20));
    hook->on_evaluation(evaluation(Split::kTest, 20, 0.3));
  }
  const std::string once = csv(folder);
  CHECK(split_into_lines(once).back().starts_with("20,2.5,test,0.3,"));
  const auto hook = make_metrics_files_hook(steps(4));
  hook->on_start(run_info(folder.path(), 20));
  hook->on_evaluation(evaluation(Split::kTest, 20, 0.3));
  CHECK(csv(folder) == once);
}

TEST_CASE("metric files: a file of another program is an error and does not change") {
  const auto resume = [](const TemporaryFolder& folder) {
    make_metrics_files_hook(steps(4))->on_start(run_info(folder.path(), 8));
  };
  for (const std::string text :
       {"time,value\n1,2\n", "4,0.5,train\n", "step,split,fan_power_watts\n4,train,5\n",
        "x,0.5,train,0.25,0.5,0.001,1,0.25,0.08\n"}) {
    const TemporaryFolder folder;
    write_file_atomic(folder.path() / "metrics.csv", text);
    try {
      resume(folder);
      FAIL("accepted " << text);
    } catch (const DataError& error) {
      CHECK(std::string(error.what()).find("metrics.csv:1: is not a row") != std::string::npos);
    }
    CHECK(csv(folder) == text);
  }
  for (const std::string text : {"{\n", "[]\n", "{\"step\":\"4\",\"split\":\"train\"}\n"}) {
    const TemporaryFolder folder;
    write_file_atomic(folder.path() / "metrics.jsonl", text);
    CHECK_THROWS_AS(resume(folder), DataError);
    CHECK(jsonl(folder) == text);
  }
}

TEST_CASE("metric files: later rows are in new files with a warning after they are removed") {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  const auto hook = make_metrics_files_hook(
      steps(1), {}, [&](const std::string& text) { warnings.push_back(text); });
  hook->on_start(run_info(folder.path()));
  hook->on_step(after_step(1));
  std::filesystem::remove(folder.path() / "metrics.csv");
  std::filesystem::remove(folder.path() / "metrics.jsonl");
  hook->on_step(after_step(2));
  hook->on_step(after_step(3));
  const auto csv = split_into_lines(read_text_file(folder.path() / "metrics.csv"));
  REQUIRE(csv.size() == 3);
  CHECK(csv[0].starts_with("step,epoch,split,"));
  CHECK(csv[1].starts_with("2,"));
  CHECK(csv[2].starts_with("3,"));
  CHECK(split_into_lines(read_text_file(folder.path() / "metrics.jsonl")).size() == 2);
  CHECK(warnings.size() == 2);
  std::filesystem::remove_all(folder.path());
  CHECK_THROWS_AS(hook->on_step(after_step(4)), DataError);
}

}  // namespace trainer::hooks
