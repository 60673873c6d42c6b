// Measures the time of training steps, layer by layer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/work_record.h"
#include "config/config.h"
#include "data/samples/loader.h"
#include "engine/engine.h"
#include "engine/step_times.h"

namespace trainer::commands {

// A layer, or what else a device does in a step. Times are of one step, the mean over the steps,
// the ranks and their threads; FLOPs and bytes are of all ranks.
struct ProfileRow {
  std::string name;
  bool is_layer = true;
  double forward_seconds = 0, backward_seconds = 0;
  double flops = 0;             // the FLOPs of what ran, as by graph::flops(); 0 where none count
  double bytes = 0;             // the bytes of the operands, each of which counts once
  std::string implementations;  // forward, then backward, each once

  double seconds() const { return forward_seconds + backward_seconds; }
};

// The events of the recorded steps, with their times, for a trace.
struct ProfileTimeline {
  using Clock = std::chrono::steady_clock;
  struct Step {
    Clock::time_point start, got_batch, end;
    std::int64_t samples = 0;
  };
  std::vector<Step> steps;
  std::vector<std::vector<backend::WorkRecord>> ranks;  // the layers' names live in `texts`
  std::vector<data::ReadBatch> reads;
};

struct LayerProfile {
  std::string device;        // "cpu, 2 lanes ..."
  std::int64_t samples = 0;  // samples per step
  std::int64_t ranks = 1;
  double step_seconds = 0;  // the mean, measured around the steps, each of which is waited for
  // The mean of a step in the loop that training runs, with several steps in flight and none
  // recorded, and of these the time of waiting for data.
  double loop_seconds = 0, loop_wait_seconds = 0;
  int launches_in_flight = 1;
  bool has_layers = false;       // the device records the times of layers
  std::vector<ProfileRow> rows;  // layers in the order of forward, then the rest
  engine::StepTimes times;
  ProfileTimeline timeline;

  double seconds_of_rows() const;
  double seconds_of_layers() const;
  // Seconds of a step in which a device is at work, where training runs it.
  double device_seconds() const;
};

// Runs `steps` steps of the config after a warm-up. The timeline's texts are of `engine`, which
// must outlive it.
LayerProfile profile_layers(engine::Engine& engine, const data::Dataset& dataset,
                            const config::Config& config, std::int64_t steps);

}  // namespace trainer::commands
