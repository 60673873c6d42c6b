#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "hooks/progress_support.h"

namespace trainer::hooks {
namespace {

using namespace test;

// Returns the closing lines that a quiet run prints.
std::string results() { return without(kClosing, "wall time: 12.346 seconds\n"); }

}  // namespace

TEST_CASE(
    "progress in a log: lines have averages since the last line, evaluations and closing lines") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, steps(4));
  hook->on_start(run_info("runs/digits"));
  for (std::int64_t n = 1; n <= 9; ++n) hook->on_step(after_step(n));
  Evaluation e = evaluation(Split::kValidation, 8, 0.0412);
  e.metrics.top_k = 5;
  e.metrics.top_k_accuracy = 0.99;
  hook->on_evaluation(e);
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(out.str() ==
        std::string("digits: 20 steps of 64 samples, 8 per epoch, run folder runs/digits\n"
                    "epoch 1/3  step 4/20  loss 0.2500  accuracy 0.5000  lr 0.001  3,200 images/s  "
                    "50 steps/s  wait 25%  eta 0:01\n"
                    "epoch 1/3  step 8/20  loss 0.6500  accuracy 0.5000  lr 0.001  3,200 images/s  "
                    "50 steps/s  wait 25%  eta 0:01\n"
                    "validation: loss 0.0412  accuracy 0.7500 (95 % interval 0.3006-0.9544)  "
                    "top 5 0.9900  step 8  epoch 1  1.2 s\n") +
            kClosing + next("runs/digits"));
}

TEST_CASE("progress: the first lines show resume, replicas and other properties of the run") {
  const auto opening = [](const std::function<void(RunInfo&)>& change) {
    std::ostringstream out;
    RunInfo info = run_info("r");
    change(info);
    make_progress_hook(out, false, false, steps(1))->on_start(info);
    const std::string text = out.str(), first = "digits: 20 steps of 64 samples, 8 per epoch, ";
    REQUIRE(text.starts_with(first + "run folder r\n"));
    return text.substr(first.size() + 13);
  };
  CHECK(opening([](RunInfo&) {}) == "");
  CHECK(opening([](RunInfo& i) { i.replicas = 2; }) == "2 replicas\n");
  CHECK(opening([](RunInfo& i) {
          i.replicas = 2;
          i.scaled_rate = "times 2";
        }) == "2 replicas, the optimizer's learning rate times 2\n");
  CHECK(opening([](RunInfo& i) { i.scaled_rate = "times 2"; }) == "");
  CHECK(opening([](RunInfo& i) {
          i.replicas = 3;
          i.servers = "3 workers, 1 parameter server, asynchronous";
        }) == "3 workers, 1 parameter server, asynchronous\n");
  CHECK(opening([](RunInfo& i) { i.passes_per_epoch = 2; }) ==
        "each goes through all samples in an order of its own: an epoch is 2 times the training "
        "split\n");
  CHECK(opening([](RunInfo& i) {
          i.weights = "of imagenet";
          i.first_step = 1;
        }) == "weights of imagenet\nresumed after step 1\n");
}

TEST_CASE("progress: the closing lines show servers, devices, energy and the best checkpoint") {
  const auto closing = [](int replicas, const std::function<void(Finish&)>& change) {
    std::ostringstream out;
    const auto hook = make_progress_hook(out, false, true, steps(1));
    RunInfo info = run_info("r");
    info.replicas = replicas;
    if (replicas > 1) info.servers = "2 workers, 1 parameter server, asynchronous";
    hook->on_start(info);
    Finish end = finish(FinishReason::kDone);
    change(end);
    hook->on_finish(end);
    return out.str();
  };
  CHECK(closing(1, [](Finish&) {}) == results());
  CHECK(closing(2,
                [](Finish& f) {
                  f.staleness = results::Staleness{1.5, 3, 2};
                }) ==
        "staleness of gradients: mean 1.50, most 3, 2 rejected\n"
        "total time with 2 workers: 10.500 seconds\n"
        "21345.7 images/second with 2 workers\n");
  CHECK(closing(1, [](Finish& f) { f.gap_seconds = 0.0000125; }) ==
        "gap between steps on a device: 0.013 ms\n" + results());
  CHECK(closing(1, [](Finish& f) { f.energy_joules = 1234.4; }) == "energy: 1234 J\n" + results());
  CHECK(closing(1, [](Finish& f) {
          f.energy_joules = 1234.4;
          f.joules_per_image = 0.5;
        }) == "energy: 1234 J, 0.5 J/image\n" + results());
  CHECK(closing(1,
                [](Finish& f) {
                  f.best = results::BestCheckpoint{"test/loss", 0.25, 2, 16, "best", true};
                }) ==
        "best test/loss 0.2500 after epoch 2 (step 16), whose parameters are restored, in "
        "best\n" +
            results());
}

TEST_CASE("progress: the closing lines count the cores that a device needs which waits for data") {
  const auto closing = [](double waiting, double read_seconds, bool has_clock = true) {
    std::ostringstream out;
    const auto hook = make_progress_hook(out, false, false, steps(1));
    hook->on_start(run_info("r"));
    Finish end = finish(FinishReason::kDone);
    engine::RankTimes rank;
    rank[engine::StepPhase::kDataWait] = waiting;
    rank[engine::StepPhase::kForward] = 0.05 - waiting;
    end.times.add(std::vector{rank}, 2);
    end.step_seconds = 0.1;
    if (has_clock) end.gap_seconds = 0.03;
    end.read_seconds = read_seconds;
    out.str("");
    hook->on_finish(end);
    return out.str();
  };
  // A step of 50 ms has 20 ms of work for the device.
  CHECK(
      closing(0.025, 350.01)
          .find("50.00 % of a step is spent waiting for images; reading them as fast as the device "
                "computes takes about 17501 cores, and this process may use ") !=
      std::string::npos);
  CHECK(closing(0.025, 0.01).find("takes about 1 core, and") != std::string::npos);
  CHECK(closing(0.004, 350).find("cores") == std::string::npos);
  CHECK(closing(0.025, 0).find("cores") == std::string::npos);
  CHECK(closing(0.025, 350, false).find("cores") == std::string::npos);
}

TEST_CASE("progress: skipped updates are counted in the closing lines") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, steps(1));
  hook->on_start(run_info("r"));
  out.str("");
  Finish end = finish(FinishReason::kDone);
  end.skipped_updates = 3;
  hook->on_finish(end);
  CHECK(out.str() == std::string("3 updates left out: a float16 gradient overflowed, and the loss "
                                 "scale was halved\n") +
                         kClosing + next("r"));
}

TEST_CASE("progress: the closing lines have the phase times of a step and the straggler") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, steps(1));
  RunInfo info = run_info("r");
  info.ranks = {"rank 0 (worker 0 on host a)", "rank 1 (worker 1 on host b)"};
  hook->on_start(info);
  out.str("");
  Finish end = finish(FinishReason::kDone);
  end.input = "1 thread, 2 batches ahead";
  engine::RankTimes fast, slow;
  fast[engine::StepPhase::kForward] = 0.0125;
  fast[engine::StepPhase::kAllReduce] = 0.0375;
  slow[engine::StepPhase::kForward] = 0.05;
  const engine::RankTimes ranks[] = {fast, slow};
  end.times.add(ranks);
  hook->on_finish(end);
  CHECK(
      out.str() ==
      std::string("training data: 1 thread, 2 batches ahead\n"
                  "time of a step: forward 31.25 (12.50-50.00), all-reduce 18.75 (0.00-37.50) ms\n"
                  "straggler: rank 1 (worker 1 on host b) takes 50.00 ms per step of its own, the "
                  "others 12.50; it loses most in forward\n") +
          kClosing + next("r"));
}

TEST_CASE(
    "progress: cached features have a speed of their own in the remaining time and closing lines") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, steps(1));
  hook->on_start(run_info("r"));  // 20 steps, 8 per epoch
  const auto line = [&](std::int64_t number, StepInput input, double seconds) {
    out.str("");
    StepRecord p = after_step(number);
    p.input = input;
    p.step_seconds = seconds;
    hook->on_step(p);
    return out.str();
  };
  for (std::int64_t n = 1; n < 6; ++n) line(n, StepInput::kNewFeatures, 2);
  CHECK(line(6, StepInput::kNewFeatures, 2).ends_with("  epoch eta 0:04\n"));
  line(7, StepInput::kNewFeatures, 2);
  line(8, StepInput::kNewFeatures, 2);
  // 64 images of 0.5 s: none of the slow epoch's time is in it.
  CHECK(line(9, StepInput::kCachedFeatures, 0.5).ends_with("  eta 0:06\n"));
  CHECK(line(10, StepInput::kCachedFeatures, 0.5).ends_with("  eta 0:05\n"));
  out.str("");
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(out.str() == std::string("images/second: 32.0 while features were computed, 128.0 with "
                                 "cached features\n") +
                         without(kClosing, "\n21345.7 images/second with 2 CPU threads\n") +
                         "\n21345.7 images/second with 2 CPU threads (mean of both)\n" + next("r"));

  // The last epoch is the only one.
  const auto only = make_progress_hook(out, false, false, steps(1));
  only->on_start(run_info("r", 0, 8));
  out.str("");
  StepRecord p = after_step(6);
  p.input = StepInput::kNewFeatures;
  p.step_seconds = 2;
  only->on_step(p);
  CHECK(out.str().ends_with("  eta 0:04\n"));
  only->on_finish(finish(FinishReason::kDone));
  CHECK(out.str().ends_with(kClosing + next("r")));
}

TEST_CASE("progress in a log: steps within the minimum time between lines count in the next line") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, steps(2),
                                       {{}, {}, {}, "cpu; trainer 1 on host", "", 1});
  hook->on_start(run_info("r"));
  CHECK(out.str().ends_with("run folder r\ncpu; trainer 1 on host\n"));
  out.str("");
  for (std::int64_t n = 1; n <= 12; ++n) {
    StepRecord p = after_step(n);
    p.elapsed = 0.25 * static_cast<double>(n);
    hook->on_step(p);
  }
  const std::vector<std::string> lines = split_into_lines(out.str());
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("epoch 1/3  step 2/20  loss 0.1500  "));
  CHECK(lines[1].starts_with("epoch 1/3  step 6/20  loss 0.4500  "));   // steps 3 to 6
  CHECK(lines[2].starts_with("epoch 2/3  step 10/20  loss 0.8500  "));  // steps 7 to 10
}

TEST_CASE("json: cached features have a separate speed at the end") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(1));
  hook->on_start(run_info("r"));
  for (const auto& [number, input, seconds] :
       {std::tuple{1, StepInput::kNewFeatures, 2.0}, {2, StepInput::kCachedFeatures, 0.5}}) {
    StepRecord p = after_step(number);
    p.input = input;
    p.step_seconds = seconds;
    hook->on_step(p);
  }
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(out.str().find(R"("images_per_second_computing_features":32.0,)"
                       R"("images_per_second_cached_features":128.0)") != std::string::npos);
}

TEST_CASE("json: a run with cached features only has their speed without that of computing them") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(1));
  hook->on_start(run_info("r"));
  StepRecord p = after_step(1);
  p.input = StepInput::kCachedFeatures;
  p.step_seconds = 0.5;
  hook->on_step(p);
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(out.str().find(R"("images_per_second_cached_features":128.0)") != std::string::npos);
  CHECK(out.str().find("computing_features") == std::string::npos);
}

TEST_CASE("progress in a log: lines begin with the time, those of a terminal do not") {
  const auto time = [] {
    return std::chrono::system_clock::time_point{std::chrono::seconds{1'700'000'000}};
  };
  const std::string stamp = local_time(time()) + "  ";
  CHECK(stamp.size() == std::string("2023-11-14 22:13:20 +0000  ").size());
  CHECK(stamp.starts_with("2023-11-1"));
  const char sign = stamp[20];
  CHECK((sign == '+' || sign == '-'));
  for (const bool terminal : {false, true}) {
    std::ostringstream out;
    const auto hook = make_progress_hook(out, terminal, false, steps(1), {{}, time, {}});
    hook->on_start(run_info("r"));
    hook->on_step(after_step(1));
    hook->on_evaluation(evaluation(Split::kTest, 1, 1));
    const std::string text = out.str();
    CHECK((text.find(stamp + "epoch 1/3") == std::string::npos) == terminal);
    CHECK((text.find(stamp + "test: loss") == std::string::npos) == terminal);
  }
}

TEST_CASE("progress: the closing lines name the best checkpoint") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, steps(1));
  hook->on_start(run_info("r"));
  out.str("");
  Finish end = finish(FinishReason::kDone);
  end.best = results::BestCheckpoint{"validation/accuracy", 0.98765, 2, 16,
                                     "r/checkpoints/best.safetensors"};
  hook->on_finish(end);
  CHECK(out.str() == std::string("best validation/accuracy 0.9877 after epoch 2 (step 16), in "
                                 "r/checkpoints/best.safetensors\n") +
                         kClosing + next("r"));
}

TEST_CASE("progress and json: a closed output is reported once") {
  std::ostringstream out;
  int closed = 0;
  const auto count = [&] { ++closed; };
  const auto text = make_progress_hook(out, false, false, steps(1), {{}, {}, count});
  const auto json = make_json_hook(out, steps(1), {}, count);
  for (Hook* hook : {text.get(), json.get()}) {
    out.clear();
    closed = 0;
    hook->on_start(run_info("r"));
    hook->on_step(after_step(1));
    CHECK(closed == 0);
    out.setstate(std::ios::badbit);
    errno = ENOSPC;  // a full disk may have room again
    hook->on_step(after_step(2));
    CHECK(closed == 0);
    errno = EPIPE;
    hook->on_step(after_step(2));
    hook->on_step(after_step(3));
    CHECK(closed == 1);
  }
}

TEST_CASE("progress: an evaluation of samples without classes has a loss and no accuracy") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, steps(1));
  hook->on_start(run_info("r"));
  Evaluation e = evaluation(Split::kTest, 8, 0.25);
  e.metrics.classes = 0;
  hook->on_evaluation(e);
  CHECK(out.str().find("test: loss 0.2500  step 8") != std::string::npos);
}

TEST_CASE("progress in a log: there are no escape sequences and no carriage returns") {
  std::ostringstream log;
  const auto hook = make_progress_hook(log, false, false, steps(1));
  hook->on_start(run_info("r"));
  hook->on_step(after_step(1));
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(log.str().find('\x1b') == std::string::npos);
  CHECK(log.str().find('\r') == std::string::npos);
}

TEST_CASE(
    "progress: the remaining time has hours, minutes and seconds, without the slow first step") {
  for (const auto& [seconds, left] : {std::pair{0.5, "0:59"}, {36.0, "1:10:48"}, {1.0, "1:58"}}) {
    std::ostringstream out;
    const auto hook = make_progress_hook(out, false, false, steps(2));
    hook->on_start(run_info("r", 0, 120));
    for (std::int64_t n = 1; n <= 2; ++n) {
      StepRecord p = after_step(n);
      p.step_seconds = n == 1 ? 1000 * seconds : seconds;
      hook->on_step(p);
    }
    CAPTURE(out.str());
    CHECK(out.str().ends_with(concat("  eta ", left, "\n")));
  }
}

TEST_CASE("progress: a resumed and an interrupted run are reported, quiet prints results only") {
  std::ostringstream out;
  auto hook = make_progress_hook(out, false, false, steps(100));
  hook->on_start(run_info("r", 12));
  CHECK(out.str().ends_with("resumed after step 12\n"));
  out.str("");
  hook->on_finish(finish(FinishReason::kInterrupted, 15));
  CHECK(out.str() ==
        std::string("interrupted after step 15; a checkpoint was saved: give the same command with "
                    "--resume to go on\n") +
            kClosing);

  for (const bool terminal : {false, true}) {
    std::ostringstream quiet;
    hook = make_progress_hook(quiet, terminal, true, steps(1));
    hook->on_start(run_info("r"));
    for (std::int64_t n = 1; n <= 20; ++n) hook->on_step(after_step(n));
    hook->on_evaluation(evaluation(Split::kValidation, 10, 2));
    hook->on_evaluation(evaluation(Split::kTest, 20, 1));
    CHECK(quiet.str().empty());
    Finish end = finish(FinishReason::kDone);
    end.evaluations = {evaluation(Split::kTest, 20, 1)};
    hook->on_finish(end);
    const std::string told = quiet.str();
    CHECK(told.starts_with("test: loss 1.0000"));
    CHECK(told.substr(told.find('\n') + 1) == results());
  }
}

TEST_CASE(
    "progress and json print the tensors that were loaded from a file of weights at the start") {
  RunInfo info = run_info("r");
  info.weights = "w.h5: 26 tensors loaded";
  std::ostringstream out, quiet, json;
  make_progress_hook(out, false, false, steps(1))->on_start(info);
  CHECK(out.str().ends_with("\nweights w.h5: 26 tensors loaded\n"));
  make_progress_hook(quiet, false, true, steps(1))->on_start(info);
  CHECK(quiet.str().empty());
  make_json_hook(json, steps(1))->on_start(info);
  CHECK(json.str().ends_with(R"(,"weights":"w.h5: 26 tensors loaded"})"
                             "\n"));
}

TEST_CASE("progress: the closing lines count devices, or the workers beside servers") {
  for (const char* servers : {"", "4 workers, 1 parameter server, asynchronous"}) {
    std::ostringstream out;
    const auto hook = make_progress_hook(out, false, true, steps(1));
    RunInfo info = run_info("r");
    info.replicas = 4;
    info.devices = "4 GPUs";
    info.servers = servers;
    hook->on_start(info);
    hook->on_finish(finish(FinishReason::kDone));
    const std::string with = *servers == '\0' ? " with 4 GPUs" : " with 4 workers";
    CHECK(without(out.str(), with) == without(results(), " with 2 CPU threads"));
  }
}

TEST_CASE("progress: control characters in name and folder of a run are escaped") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, test::steps(1));
  RunInfo info = test::run_info("runs/a\n\x1b[2J");
  info.name = "b\rc";
  hook->on_start(info);
  hook->on_finish(test::finish(FinishReason::kDone));
  CHECK(out.str().find("b\\x0dc: 20 steps") != std::string::npos);
  CHECK(out.str().find("run folder runs/a\\x0a\\x1b[2J\n") != std::string::npos);
  CHECK(out.str().find('\x1b') == std::string::npos);
}

}  // namespace trainer::hooks
