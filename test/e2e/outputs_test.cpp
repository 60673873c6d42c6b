// Files that the user names for output, and what stands in place of files.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "pictures.h"
#include "support/contains.h"
#include "support/full_device.h"
#include "support/skip.h"

namespace trainer::e2e {
namespace {

namespace fs = std::filesystem;

using test::contains;

struct Small {
  Workspace work;
  std::string config;

  Small() {
    write_images(work / "train", 6, 1);
    config = work.config(concat(R"(
model: {input: [8, 8, 3], layers: [flatten, dense: 2]}
data: {format: image_folder, train: )",
                                (work / "train").string(), R"(}
train: {max_steps: 2, batch_size: 8}
run: {tensorboard: false}
)"));
  }
  Arguments train() const { return {"train", config, "--run-dir", work / "run"}; }
};

// A program that hangs is ended by the alarm, which it inherits.
Result run_briefly(const Arguments& arguments) {
  return Program(arguments, {}, [] { ::alarm(60); }).wait();
}

}  // namespace

TEST_CASE("commands: an output file that exists is an error without --overwrite") {
  const Small small;
  REQUIRE(run(small.train()).code == 0);
  Arguments arguments;
  SUBCASE("plan --plot") { arguments = {"plan", small.config, "--plot"}; }
  SUBCASE("data --sheet") { arguments = {"data", small.config, "--sheet"}; }
  SUBCASE("export --output") {
    arguments = {"export", small.work / "run", "--format", "safetensors", "--output"};
  }
  const Path file = small.work / "precious";
  std::ofstream(file) << "precious";
  arguments.push_back(file);
  const Result refused = run(arguments);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, file.string() + " exists; replace it with --overwrite"));
  CHECK(read_text_file(file) == "precious");
  arguments.push_back("--overwrite");
  const Result replaced = run(arguments);
  INFO(replaced.err);
  CHECK(replaced.code == 0);
  CHECK(read_text_file(file) != "precious");
}

TEST_CASE("export: an output that is a device or a FIFO stays what it is") {
  const Small small;
  REQUIRE(run(small.train()).code == 0);
  const auto exported = [&](const Path& output) {
    return run_briefly({"export", small.work / "run", "--format", "onnx", "--output", output});
  };
  SUBCASE("a full device") {
    const Path device = small.work / "full";
    if (!test::make_full_device(device)) TRAINER_SKIP("no device node may be made here");
    const Result full = exported(device);
    CHECK(full.code == 3);
    CHECK(contains(full.err, "cannot write: No space left on device"));
    CHECK(fs::is_character_file(device));
  }
  SUBCASE("a FIFO") {
    const Path fifo = small.work / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    const Result result = exported(fifo);
    INFO(result.err);
    CHECK(result.code == 0);
    char byte = 0;
    CHECK(::read(reader, &byte, 1) == 1);
    ::close(reader);
    CHECK(fs::is_fifo(fifo));
  }
}

TEST_CASE("commands: a FIFO in place of a file is an error") {
  const Small small;
  REQUIRE(run(small.train()).code == 0);
  const Path fifo = small.work / "fifo.safetensors";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  SUBCASE("a checkpoint") {
    const Result result = run_briefly({"evaluate", fifo});
    CHECK(result.code == 3);
    CHECK(contains(result.err, "is a FIFO, expected a file"));
  }
  SUBCASE("the newest checkpoint of a run") {
    fs::rename(fifo, small.work / "run" / "checkpoints" / "step-00000003.safetensors");
    Arguments resume = small.train();
    resume.push_back("--resume");
    const Result result = run_briefly(resume);
    CHECK(result.code == 0);
    CHECK(contains(result.err, "is a FIFO, expected a file; trying the checkpoint before it"));
  }
  SUBCASE("weights") {
    const Result result = run_briefly({"train", small.config, "--run-dir", small.work / "other",
                                       "--set", "model.weights=" + fifo.string()});
    CHECK(result.code == 3);
    CHECK(contains(result.err, "is a FIFO, expected a file"));
  }
}

TEST_CASE("train: the error of a limit on file sizes names the file") {
  const Small small;
  const Result result = Program(small.train(), {}, [] {
                          const rlimit limit{2048, 2048};
                          ::setrlimit(RLIMIT_FSIZE, &limit);
                        }).wait();
  INFO(result.err);
  CHECK(result.code == 3);
  CHECK(contains(result.err, "config.yaml: cannot write: File too large"));
}

}  // namespace trainer::e2e
