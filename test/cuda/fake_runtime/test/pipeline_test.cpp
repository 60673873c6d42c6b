// The mistakes of pipeline.cpp: a program that leaves out a piece of synchronisation fails with
// some seed, and the correct one with none.
#include <string>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {
namespace {

Ended run_pipeline(const std::string& mistake, int first_seed, int last_seed,
                   const std::string& environment = "") {
  // Its ranks launch kernels for the first time between collectives: peers_test.cpp.
  return run_command(environment + " TRAINER_FAKE_CUDA_PEER_ACCESS=0 " FAKE_PIPELINE " " + mistake +
                     " " + std::to_string(first_seed) + " " + std::to_string(last_seed));
}

// What the report of a mistake holds, without and with the thread sanitizer.
void check_found(const std::string& mistake, const std::string& report,
                 const std::string& sanitizer_report = "WARNING: ThreadSanitizer: data race") {
  const Ended ended = run_pipeline(mistake, 1, kThreadSanitizer ? 1 : 10);
  CHECK_FALSE(ended.normally);
  INFO(ended.output);
  CHECK(contains(ended.output, kThreadSanitizer ? sanitizer_report : report));
}

}  // namespace

TEST_CASE("fake pipeline: the correct program has the right result with every seed") {
  for (const char* environment : {"", "TRAINER_FAKE_CUDA_EAGER=1"}) {
    const Ended ended = run_pipeline("none", 1, 40, environment);
    INFO(ended.output);
    CHECK(ended.normally);
    CHECK(contains(ended.output, "all seeds gave the right result"));
  }
}

TEST_CASE("fake pipeline: a bucket reduced before it is made is found") {
  check_found("reduce_early", "wrong values");
}
TEST_CASE("fake pipeline: an update before the sum is found") {
  check_found("update_early", "wrong values");
}
TEST_CASE("fake pipeline: a staging buffer refilled too early is found") {
  check_found("refill", "wrong values");
}
TEST_CASE("fake pipeline: a batch overwritten in use is found") {
  check_found("overwrite", "wrong values");
}
TEST_CASE("fake pipeline: a batch used before its upload is found") {
  check_found("use_early", "wrong values");
}
TEST_CASE("fake pipeline: one pinned slot for every step's learning rate is found") {
  check_found("one_rate", "wrong values");
}
TEST_CASE("fake pipeline: a result read before it is there is found") {
  check_found("read_early", "wrong values");
}
TEST_CASE("fake pipeline: a step that one rank does not capture is found") {
  check_found("capture_alone", "captured as its number", "captured as its number");
}
TEST_CASE("fake pipeline: a communicator that is destroyed before its graphs is found") {
  const Ended ended = run_pipeline("graph_outlives", 1, 1, "TRAINER_FAKE_CUDA_DEADLOCK_MS=300");
  CHECK_FALSE(ended.normally);
  INFO(ended.output);
  CHECK(contains(ended.output, "no thread can make progress"));
}
TEST_CASE("fake pipeline: buckets in different orders are found") {
  const std::string report = "calls all-reduce of 992 elements";
  check_found("bucket_order", report, report);
}
TEST_CASE("fake pipeline: a host that reads device memory is found") {
  check_found("host_reads_device", "the host touched device memory", "SEGV");
}

}  // namespace trainer::test
