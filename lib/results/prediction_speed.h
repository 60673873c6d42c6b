// The speed of predictions: without reading, of one image at a time and by the size of a batch, and
// of reading and predicting side by side.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "results/field.h"

namespace trainer::results {

struct BatchSpeed {
  std::int64_t batch_size = 1;
  double images_per_second = 0;  // median over rounds
};
void fields(FieldVisitor& v, BatchSpeed& speed);

// The time of a call with one image: the smallest one that so many percent of the calls do not
// exceed.
struct Latency {
  double p50_ms = 0, p90_ms = 0, p99_ms = 0;
  std::int64_t calls = 0;
};
// `seconds` are the times of the calls; it must not be empty.
Latency make_latency(std::vector<double> seconds);
void fields(FieldVisitor& v, Latency& latency);

struct PredictionSpeed {
  Latency latency;
  std::vector<BatchSpeed> by_batch;
};
void fields(FieldVisitor& v, PredictionSpeed& speed);
void print(const PredictionSpeed& speed, std::ostream& out);

// The times that the images of a command took. Threads read images ahead while others are
// predicted.
struct PredictionRates {
  std::int64_t images = 0;
  double seconds = 0;          // from the first image to the last
  double read_seconds = 0;     // the sum over all threads that read
  double predict_seconds = 0;  // in the model
  double wait_seconds = 0;     // without a batch to predict

  // Returns "24 images in 0.31 s: 77.4 images/second; ...".
  std::string text() const;
};
void fields(FieldVisitor& v, PredictionRates& rates);

}  // namespace trainer::results
