
#include "data/samples/stage_times.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>

namespace trainer::data {

TEST_CASE("stage times are the times of this thread by stage while it is watched") {
  using std::chrono::milliseconds;
  const auto work = [](ReadStage stage) {
    const StageTimer timer(stage);
    // The time of the work is what is measured.
    std::this_thread::sleep_for(milliseconds(1));
  };
  work(ReadStage::kDecode);  // nobody watches
  const StageWatch watch;
  CHECK(watch.seconds() == 0);
  work(ReadStage::kDecode);
  work(ReadStage::kDecode);
  work(ReadStage::kResize);
  std::thread(work, ReadStage::kRead).join();  // of another thread
  CHECK(watch.seconds(ReadStage::kDecode) >= 0.002);
  CHECK(watch.seconds(ReadStage::kResize) >= 0.001);
  CHECK(watch.seconds(ReadStage::kRead) == 0);
  CHECK(watch.seconds(ReadStage::kAugment) == 0);
  CHECK(watch.seconds() ==
        doctest::Approx(watch.seconds(ReadStage::kDecode) + watch.seconds(ReadStage::kResize)));
  CHECK_THROWS_AS(StageWatch(), std::logic_error);
}

}  // namespace trainer::data
