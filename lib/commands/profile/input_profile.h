// Where the time of reading goes, stage by stage, and how many devices it can feed.
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
  std::int64_t samples = 0;                        // that the stages were measured on
  std::array<double, data::kReadStages> stages{};  // seconds of a sample on one thread
  double batch_seconds = 0;                        // the same, of putting it into its batch
  double images_per_second = 0;                    // of the loader with the threads it has chosen
  std::string loader;                              // "2 threads, 4 batches ahead"
  double devices_fed = 0;                          // whose steps it can keep supplied
  std::int64_t suggested_threads = 0;              // for this config's devices
  std::int64_t cores = 0;

  double seconds_per_sample() const;  // on one thread
};

// Reads the training data for about `seconds`: on one thread, then as the loader does.
// `device_rate` is the number of images per second that one device of `devices` uses.
InputProfile profile_input(const data::Dataset& dataset, const config::Config& config,
                           double seconds, double device_rate, std::int64_t devices);

}  // namespace trainer::commands
