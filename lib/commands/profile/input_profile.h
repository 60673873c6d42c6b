// Measures the time of reading, stage by stage, and how many devices it can feed.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "config/config.h"
#include "data/dataset.h"
#include "data/samples/stage_times.h"

namespace trainer::commands {

struct InputProfile {
  double list_seconds = 0;  // once: finding and checking the samples
  bool in_memory = false;
  std::int64_t samples = 0;                        // the samples that the stages were measured on
  std::array<double, data::kReadStages> stages{};  // seconds per sample on one thread
  double batch_seconds = 0;                        // seconds per sample to put it into its batch
  double images_per_second = 0;                    // the loader's rate with its chosen threads
  std::string loader;                              // "2 threads, 4 batches ahead"
  double devices_fed = 0;                          // number of devices whose steps it can supply
  std::int64_t suggested_threads = 0;              // the number that this config's devices need
  std::int64_t cores = 0;

  double seconds_per_sample() const;  // the time on one thread
};

// Reads the training data for about `seconds`: on one thread, then as the loader does.
// `device_rate` is the number of images per second that one device of `devices` uses.
InputProfile profile_input(const data::Dataset& dataset, const config::Config& config,
                           double seconds, double device_rate, std::int64_t devices);

}  // namespace trainer::commands
