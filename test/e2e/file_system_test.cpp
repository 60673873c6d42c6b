// Training on file systems that lack an operation.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "program.h"
#include "support/contains.h"
#include "support/fail_system_calls.h"

namespace trainer::e2e::file_system_test {
namespace {

using test::contains;

Arguments train(const std::string& config, const Path& dir, const Arguments& more = {}) {
  Arguments arguments{"train", config, "--json", "--run-dir", dir, "--set", "train.max_steps=4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Result run_without(long call, int error, const Arguments& arguments,
                   const Environment& environment = {}) {
  Program program(arguments, environment, [call, error] {
    if (!test::fail_system_call(call, error)) ::_exit(126);
  });
  return program.wait();
}

}  // namespace

TEST_CASE("train: a file system without locks causes a warning, and the run resumes") {
  const Workspace work;
  const std::string config = rich_config(work);
  for (const Arguments& more :
       {Arguments{}, {"--resume", "--set", "train.max_steps=6"}, {"--overwrite"}}) {
    const Result result = run_without(SYS_flock, ENOLCK, train(config, work / "run", more));
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK(contains(result.err, "this file system has no file locks (No locks available)"));
    CHECK(contains(result.err, "choose a folder on another file system with --run-dir"));
  }
}

TEST_CASE("train: the error of a run folder in use names the scheduler, also without locks") {
  const Workspace work;
  const std::string config = rich_config(work);
  const Environment slurm{{"SLURM_NTASKS", "2"}};
  for (const int error : {ENOLCK, 0}) {  // 0: every lock is granted
    CAPTURE(error);
    const Path dir = work / concat("run", error);
    Program first(train(config, dir, {"--set", "train.max_steps=100000000"}), slurm);
    REQUIRE(first.wait_for("\"step\""));
    const Result second = run_without(SYS_flock, error, train(config, dir, {"--resume"}), slurm);
    INFO(second.err);
    CHECK(second.code == 2);
    CHECK(contains(second.err, "the run folder is in use by process "));
    CHECK(contains(second.err.substr(second.err.find("is in use")), "SLURM_NTASKS is 2"));
  }
}

TEST_CASE("train: a file system that cannot sync causes a warning and changes no parameters") {
  const Workspace work;
  const std::string config = rich_config(work);
  const Result synced = run(train(config, work / "synced"));
  const Result result = run_without(SYS_fsync, EINVAL, train(config, work / "run"));
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(contains(result.err, "this file system cannot sync folders"));
  CHECK(contains(result.err, "choose a folder on another file system with --run-dir"));
  CHECK_FALSE(contains(synced.err, "cannot sync"));
  CHECK(result.event("finished").at("parameters_sha256") ==
        synced.event("finished").at("parameters_sha256"));
}

TEST_CASE("train: a run folder that cannot be made ends with exit code 3 and the reason") {
  const Workspace work;
  const std::string config = rich_config(work);
  for (const int error : {ENOSPC, EDQUOT, EIO, EACCES, EROFS}) {
    const Result result = run_without(SYS_mkdir, error, train(config, work / "run"));
    INFO(result.err);
    CHECK(result.code == kExitData);
    CHECK(contains(result.err, std::strerror(error)));
    CHECK(contains(result.err, "choose another folder with --run-dir"));
  }
}

}  // namespace trainer::e2e::file_system_test
