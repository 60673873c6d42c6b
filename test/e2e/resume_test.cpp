// A run that is stopped in any way and resumed ends as the one that was not.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "program.h"

namespace trainer::e2e::resume_test {
namespace {

Arguments train(const std::string& config, const Path& dir, const Arguments& more = {}) {
  Arguments arguments{"train", config, "--json", "--run-dir", dir};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// All tensors of the last checkpoint: slots and averages too.
std::vector<checkpoint::Tensor> last_tensors(const Path& dir) {
  std::vector<std::string> warnings;
  auto tensors = checkpoint::load_last(dir, warnings).tensors;
  CHECK(warnings.empty());
  return tensors;
}

void check_same(const Path& one, const Path& other) {
  const auto a = last_tensors(one), b = last_tensors(other);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("tensor ", a[i].name);
    CHECK(a[i].name == b[i].name);
    CHECK(a[i].values == b[i].values);
  }
}

std::string steps_column(const Path& csv) {
  std::ifstream file(csv);
  std::string steps;
  for (std::string line; std::getline(file, line);) steps += line.substr(0, line.find(',')) + ' ';
  return steps;
}

struct Reference {
  Workspace work;
  std::string config = rich_config(work);
  Json finished;

  Reference() {
    const Result result = run(train(config, work / "whole"));
    INFO(result.err);
    REQUIRE(result.code == 0);
    finished = result.event("finished");
    CHECK(finished.at("reason") == "done");
    CHECK(finished.at("steps") == 80);
  }

  void check(const Result& result, const Path& dir) const {
    INFO(result.err);
    REQUIRE(result.code == 0);
    const Json now = result.event("finished");
    CHECK(now.at("parameters_sha256") == finished.at("parameters_sha256"));
    CHECK(now.at("metrics") == finished.at("metrics"));
    check_same(work / "whole", dir);
    CHECK(steps_column(dir / "metrics.csv") == steps_column(work / "whole" / "metrics.csv"));
  }
};

// Sends `signal` to the program when it has printed `text`. The program prints into a pipe of one
// page, so that it waits for this reader and cannot end before the signal comes.
Result interrupt_after(const std::string& text, const Arguments& arguments, int signal) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(::fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
  Program program(arguments, {}, [&] { ::dup2(ends[1], STDOUT_FILENO); });
  ::close(ends[1]);
  std::string out;
  bool is_sent = false;
  char byte = 0;
  while (::read(ends[0], &byte, 1) == 1) {
    out += byte;
    if (!is_sent && out.ends_with(text)) {
      program.signal(signal);
      is_sent = true;
    }
  }
  ::close(ends[0]);
  Result result = program.wait();
  result.out = out;
  INFO(result.err);
  REQUIRE(is_sent);
  return result;
}

}  // namespace

TEST_CASE("train --resume: a run killed at random moments equals an uninterrupted one bit by bit") {
  const Reference reference;
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    CAPTURE(seed);
    const Path dir = reference.work / ("killed" + std::to_string(seed));
    std::mt19937 random(seed);
    int killed = 0;
    for (int kill = 0; kill < 4; ++kill) {
      Program program(train(reference.config, dir, {"--resume"}));
      if (kill > 0) {  // the first kill may come before the program has done anything
        program.wait_for("\"event\":\"step\"", 1 + static_cast<int>(random() % 25));
      }
      // A kill at a moment that no event marks is what is tested.
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      program.signal(SIGKILL);
      killed += program.wait().code == -SIGKILL ? 1 : 0;
    }
    CHECK(killed > 0);
    reference.check(run(train(reference.config, dir, {"--resume"})), dir);
  }
}

TEST_CASE(
    "train --resume: a run that a signal interrupts in mid-epoch equals a whole one bit by bit") {
  const Reference reference;
  int signal = SIGTERM;
  SUBCASE("SIGTERM") {}
  SUBCASE("SIGHUP of a closed terminal") { signal = SIGHUP; }
  SUBCASE("SIGUSR1, which Slurm may send before the time limit") { signal = SIGUSR1; }
  SUBCASE("SIGUSR2") { signal = SIGUSR2; }
  const Path dir = reference.work / "stopped";
  const Result stopped = interrupt_after("\"step\":13,", train(reference.config, dir), signal);
  CHECK(stopped.code == 75);
  CHECK(stopped.event("finished").at("reason") == "interrupted");
  CHECK_FALSE(stopped.event("checkpoint").is_null());
  reference.check(run(train(reference.config, dir, {"--resume"})), dir);
}

TEST_CASE("train --resume: a run that a closed output interrupts equals a whole one bit by bit") {
  const Reference reference;
  const Path dir = reference.work / "unread";
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  Program program(train(reference.config, dir), {}, [&] {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  });
  ::close(ends[1]);
  std::string read;
  char piece[512];
  while (read.find("\"step\":13,") == std::string::npos) {
    const auto length = ::read(ends[0], piece, sizeof piece);
    REQUIRE(length > 0);
    read.append(piece, static_cast<std::size_t>(length));
  }
  ::close(ends[0]);
  const Result stopped = program.wait();
  CHECK(stopped.code == 75);
  CHECK(stopped.err.find("not all of the output could be written") != std::string::npos);
  reference.check(run(train(reference.config, dir, {"--resume"})), dir);
}

TEST_CASE("train: Ctrl-C prints a message at once and saves a checkpoint") {
  const Reference reference;
  const Path dir = reference.work / "stopped";
  const Result stopped = interrupt_after("\"step\":13,", train(reference.config, dir), SIGINT);
  CHECK(stopped.code == 75);
  CHECK(stopped.err.find("stopping after this step; Ctrl-C again ends without saving\n") !=
        std::string::npos);
  CHECK_FALSE(stopped.event("checkpoint").is_null());
}

TEST_CASE("train --resume takes the one before a damaged newest checkpoint with a warning") {
  const Reference reference;
  const Path dir = reference.work / "damaged";
  REQUIRE(run(train(reference.config, dir, {"--set", "train.max_steps=21"})).code == 0);
  const Path newest = dir / "checkpoints" / "step-00000021.safetensors";
  REQUIRE(std::filesystem::exists(newest));
  std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-50, std::ios::end);
  file.put('\x5a');
  file.put('\x77');
  file.close();
  // The schedule follows the length of the run, so that only the damage is looked at here.
  const Result resumed =
      run(train(reference.config, dir, {"--resume", "--set", "train.max_steps=21"}));
  CHECK(resumed.code == 0);
  CHECK(resumed.err.find("warning: ") != std::string::npos);
  CHECK(resumed.err.find("step-00000021") != std::string::npos);
  CHECK(resumed.event("start").at("first_step") == 14);
  const Path whole = reference.work / "whole21";
  const Result once = run(train(reference.config, whole, {"--set", "train.max_steps=21"}));
  CHECK(resumed.event("finished").at("parameters_sha256") ==
        once.event("finished").at("parameters_sha256"));
  check_same(whole, dir);
}

TEST_CASE("train --resume: a finished run makes no further step") {
  const Reference reference;
  const Result again = run(train(reference.config, reference.work / "whole", {"--resume"}));
  CHECK(again.code == 0);
  CHECK(again.event("start").at("first_step") == 80);
  CHECK(again.event("finished").at("parameters_sha256") ==
        reference.finished.at("parameters_sha256"));
}

TEST_CASE("train --resume: early_stop ends at the same step after any interruption") {
  const Workspace work;
  const std::string config =
      work.config(kModel + ("data: {format: idx, validation_split: 0.5, path: " + work.data() + R"(}
optimizer: {adam: {learning_rate: 1.0e-2}}
train: {epochs: 100, batch_size: 32, early_stop: {metric: validation/loss, patience: 2}}
run: {evaluate_every: 2 steps, checkpoint_every: 7 steps}
)"));
  const Result whole = run(train(config, work / "whole"));
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  const Json finished = whole.event("finished");
  REQUIRE(finished.at("reason") == "early stop");
  const Result again = run(train(config, work / "whole", {"--resume"}));
  CHECK(again.event("finished").at("reason") == "early stop");
  CHECK(again.event("finished").at("steps") == finished.at("steps"));
  // A larger patience judges the evaluations that the run has stored, as a run from the start.
  const Arguments patient{"--set", "train.early_stop.patience=4"};
  const Result longer = run(train(config, work / "longer", patient));
  Arguments resume{"--resume"};
  resume.insert(resume.end(), patient.begin(), patient.end());
  std::filesystem::copy(work / "whole", work / "copy", std::filesystem::copy_options::recursive);
  const Result resumed = run(train(config, work / "copy", resume));
  CHECK(resumed.event("finished").at("steps") > finished.at("steps"));
  CHECK(resumed.event("finished").at("steps") == longer.event("finished").at("steps"));
  CHECK(resumed.event("finished").at("parameters_sha256") ==
        longer.event("finished").at("parameters_sha256"));

  // Interrupted again and again, so that some signals fall into an evaluation.
  Result last;
  int interruptions = 0;
  do {
    Program program(train(config, work / "parts", {"--resume"}));
    if (interruptions < 12 && program.wait_for("\"event\":\"start\"")) {
      // The moments differ on purpose: some lie within an evaluation.
      std::this_thread::sleep_for(std::chrono::milliseconds(interruptions % 5));
      program.signal(SIGTERM);
    }
    last = program.wait();
  } while (last.code == 75 && ++interruptions < 100);
  CHECK(interruptions > 0);
  INFO(last.err);
  REQUIRE(last.code == 0);
  CHECK(last.event("finished").at("reason") == "early stop");
  CHECK(last.event("finished").at("steps") == finished.at("steps"));
  CHECK(last.event("finished").at("parameters_sha256") == finished.at("parameters_sha256"));
  std::vector<std::string> warnings;
  CHECK(checkpoint::sha256_of(checkpoint::load_best(work / "parts").tensors) ==
        checkpoint::sha256_of(checkpoint::load_best(work / "whole").tensors));
}

TEST_CASE("train --resume: another batch size or number of samples is an error") {
  const Workspace work;
  const std::string config = rich_config(work);
  const Arguments few{"--set", "train.max_steps=5"};
  REQUIRE(run(train(config, work / "run", few)).code == 0);
  const Result other = run(train(config, work / "run", {"--resume", "--batch-size", "16"}));
  CHECK(other.code == 3);
  CHECK(other.err.find("global batch was 32, is 16") != std::string::npos);

  const Arguments limited{"--set", "train.max_steps=5", "--set", "data.limit=320"};
  REQUIRE(run(train(config, work / "limited", limited)).code == 0);
  const Result fewer =
      run(train(config, work / "limited", {"--resume", "--set", "data.limit=300"}));
  CHECK(fewer.code == 3);
  CHECK(fewer.err.find("training data: 320 samples before, 300 now") != std::string::npos);
}

TEST_CASE("train --resume: a changed model is an error, and changed training keys are a warning") {
  const Workspace work;
  const std::string config = rich_config(work);
  const Arguments few{"--set", "train.max_steps=5"};
  REQUIRE(run(train(config, work / "run", few)).code == 0);
  const std::string kept = read_text_file(work / "run" / "config.yaml");
  for (const auto& [setting, message] :
       {std::pair{"model.loss=mean_squared_error",
                  "model.loss was softmax_cross_entropy, is mean_squared_error"},
        std::pair{"data.normalize.scale=1", "data.normalize"},
        std::pair{"model.layers[0].conv.strides=2", "model.layers[0].conv.strides was 1, is 2"}}) {
    const Result refused = run(train(config, work / "run", {"--resume", "--set", setting}));
    CAPTURE(refused.err);
    CHECK(refused.code == 3);
    CHECK(refused.err.find(message) != std::string::npos);
  }
  CHECK(read_text_file(work / "run" / "config.yaml") == kept);
  const Result told =
      run(train(config, work / "run",
                {"--resume", "--set", "train.max_steps=6", "--set", "model.label_smoothing=0.25"}));
  CHECK(told.code == 0);
  CHECK(told.err.find("model.label_smoothing was") != std::string::npos);
  CHECK(told.err.find("train.max_steps was 5, is 6") != std::string::npos);
  CHECK(told.err.find("model.layers") == std::string::npos);
}

TEST_CASE("train --resume: no readable checkpoint is an error, and no run starts anew") {
  const Workspace work;
  const std::string config = rich_config(work);
  REQUIRE(run(train(config, work / "run", {"--set", "train.max_steps=5"})).code == 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(work / "run" / "checkpoints")) {
    std::filesystem::resize_file(entry.path(), 100);
    ++files;
  }
  const Result resumed = run(train(config, work / "run", {"--resume"}));
  CAPTURE(resumed.err);
  CHECK(resumed.code == 3);
  CHECK(resumed.err.find("--overwrite") != std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(work / "run" / "checkpoints")) {
    CHECK(entry.file_size() == 100);
    --files;
  }
  CHECK(files == 0);
}

TEST_CASE(
    "train: a run folder with a config.yaml but no checkpoints is an error and does not change") {
  const Workspace work;
  const std::string config = rich_config(work);
  std::filesystem::create_directories(work / "mine");
  write_file_atomic(work / "mine" / "config.yaml", "# mine\n");
  for (const Arguments& more : {Arguments{}, {"--resume"}, {"--overwrite"}}) {
    const Result refused = run(train(config, work / "mine", more));
    CHECK(refused.code == 2);
    CHECK(refused.err.find("holds a config.yaml") != std::string::npos);
  }
  CHECK(read_text_file(work / "mine" / "config.yaml") == "# mine\n");
}

TEST_CASE("train: a run folder that is in use or was used is an error") {
  const Workspace work;
  const std::string config = rich_config(work);
  Program first(train(config, work / "run", {"--set", "train.max_steps=1000000"}));
  REQUIRE(first.wait_for("\"event\":\"step\""));
  for (const Arguments& more : {Arguments{}, {"--resume"}, {"--overwrite"}}) {
    const Result second = run(train(config, work / "run", more));
    CHECK(second.code == 2);
    CHECK(second.err.find(std::to_string(first.pid())) != std::string::npos);
  }
  first.signal(SIGTERM);
  CHECK(first.wait().code == 75);
  const Result used = run(train(config, work / "run"));
  CHECK(used.code == 2);
  CHECK(used.err.find("--resume") != std::string::npos);
  CHECK(used.err.find("--overwrite") != std::string::npos);
  CHECK(run(train(config, work / "run", {"--overwrite", "--set", "train.max_steps=3"})).code == 0);
}

}  // namespace trainer::e2e::resume_test
