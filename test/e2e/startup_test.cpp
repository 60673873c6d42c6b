// What happens before the first step: signals, and what is checked and printed there.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "base/process/memory.h"
#include "pictures.h"
#include "support/contains.h"
#include "support/process_events.h"

namespace trainer::e2e::startup_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

}  // namespace

TEST_CASE("train: SIGTERM while the config is read ends with exit code 75") {
  const Workspace work;
  const std::string config = work / "config.yaml";
  REQUIRE(mkfifo(config.c_str(), 0600) == 0);
  Program program({"train", config});
  // It can be opened for writing once the program reads it.
  int writer = -1;
  REQUIRE(test::poll_until([&] {
    writer = ::open(config.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return writer >= 0;
  }));
  program.signal(SIGTERM);
  CHECK(program.wait().code == 75);
  ::close(writer);
}

TEST_CASE("plan: the warning of a batch that does not fit into memory has the largest that does") {
  const Workspace work;
  const std::string config = work.config(
      "model: {layers: [conv: {filters: 64, padding: same}, global_average_pool, dense: 10]}\n"
      "data: {format: synthetic, synthetic: {shape: [64, 64, 3], train_samples: 100000000}}\n"
      "optimizer: {sgd: {learning_rate: 0.1}}\ntrain: {max_steps: 1, batch_size: 8}\n");
  // The images of one batch fit, and those of the batches that are read ahead do not.
  const std::string batch = std::to_string(available_memory() / (64 * 64 * 3) / 2);
  const Result large = run({"plan", config, "--batch-size", batch});
  CHECK(contains(large.err, concat("train.batch_size: ", batch, " needs ")));
  CHECK(contains(large.err, "The largest batch_size that fits is "));
  CHECK_FALSE(contains(run({"plan", config}).err, "of memory, but only"));
}

TEST_CASE("plan prints the order of the classes of folders") {
  const Workspace work;
  write_images(work / "train", 2, 1);
  fs::rename(work / "train" / "left", work / "train" / "10");
  fs::rename(work / "train" / "right", work / "train" / "9");
  const auto plan = [&](const std::string& more) {
    const std::string config = work.config(concat(
        "model: {layers: [flatten, dense: 2]}\ndata: {format: image_folder, channels: 1, resize: "
        "[28, 28], train: {path: ",
        (work / "train").string(), "}", more,
        "}\noptimizer: {sgd: {learning_rate: 0.02}}\ntrain: {max_steps: 1, batch_size: 2}\n"));
    return run({"plan", config}).out;
  };
  CHECK(contains(plan(""), "classes in the order text: 10, 9"));
  CHECK(contains(plan(", class_order: number"), "classes in the order number: 9, 10"));
}

TEST_CASE("train: the error of two ranks of which one has another image of equal size names it") {
  const Pictures pictures;
  const Path other = pictures.work / "other";
  fs::create_directories(other);
  fs::copy(pictures.work / "train", other / "train", fs::copy_options::recursive);
  fs::copy_file(other / "train" / "left" / "0.ppm", other / "train" / "left" / "1.ppm",
                fs::copy_options::overwrite_existing);
  write_file_atomic(pictures.work / "secret", std::string_view("a secret of all ranks\n"));
  const std::string port = std::to_string(draw_port());
  // Both name the folder in the same way.
  const auto rank = [&](int number, const Path& folder) {
    return std::make_unique<Program>(
        Arguments{"train", pictures.config, "--quiet", "--run-dir", pictures.work / "run", "--rank",
                  std::to_string(number), "--world-size", "2", "--master", "127.0.0.1:" + port,
                  "--secret-file", pictures.work / "secret", "--set", "parallel.lr_scaling=none",
                  "--set", "data.train.path=train"},
        Environment{}, [folder] {
          if (::chdir(folder.c_str()) != 0) ::_exit(1);
        });
  };
  const auto first = rank(0, pictures.work / ""), second = rank(1, other);
  const Result one = first->wait(), two = second->wait();
  CHECK(one.code != 0);
  CHECK(two.code != 0);
  INFO(one.err, two.err);
  CHECK(contains(one.err + two.err, "1.ppm"));
}

}  // namespace trainer::e2e::startup_test
