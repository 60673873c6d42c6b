// The section run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "config/sections/duration.h"

namespace trainer::config {

class FieldVisitor;

struct Run {
  std::string dir;  // runs/<name> when empty
  Duration checkpoint_every{1, Duration::Unit::kEpochs};
  std::int64_t keep = 2;
  std::string best = "validation/accuracy";
  Duration log_every{10, Duration::Unit::kSteps};
  Duration summary_every{10, Duration::Unit::kSteps};  // TensorBoard and metrics files
  Duration evaluate_every{1, Duration::Unit::kEpochs};
  bool tensorboard = true;
  std::string mlflow;                    // the URL of a tracking server; "" for none
  std::string prometheus;                // see parse_prometheus(); "" for none
  bool ledger = true;                    // ledger.csv: a row per step
  std::optional<double> price_per_hour;  // the price of one replica's device
  SourceLoc loc;
};

void fields(FieldVisitor& v, Run& s);

// Where the metrics for Prometheus are: in a file, or behind a port that the process serves.
struct PrometheusTarget {
  std::string file;  // "*.prom"; "" for a server
  std::string host;  // a name or numeric address of this machine
  int port = 0;
};
// Reads "FILE.prom", ":PORT", which is on the loopback device, or "HOST:PORT". Returns nothing for
// another text.
std::optional<PrometheusTarget> parse_prometheus(const std::string& text);

}  // namespace trainer::config
