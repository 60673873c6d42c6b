// Checks the relations between values of a config; there is one file per part of it.
#pragma once

#include <string>
#include <vector>

#include "config/decode.h"

namespace trainer::config {

class Checks {
 public:
  // Both must outlive this.
  Checks(const Decoded& decoded, std::vector<Diagnostic>& diagnostics)
      : decoded_(decoded), diagnostics_(diagnostics) {}

  const Config& config() const { return decoded_.config; }
  // Returns whether the limit of reported errors is reached.
  bool full() const { return diagnostics_.size() >= kMaxDiagnostics; }
  // Returns whether the file, an override or the environment gives `path` or a key below it.
  bool given(const std::string& path) const { return decoded_.origins.contains(path); }
  // Returns whether the value of `path` could not be read.
  bool broken(const std::string& path) const { return decoded_.broken.contains(path); }
  // Adds an error at the value of `path`, or at the nearest key above it that the file gives. Does
  // nothing if the value of `path` could not be read.
  void report(const std::string& path, const std::string& message);

 private:
  const Decoded& decoded_;
  std::vector<Diagnostic>& diagnostics_;
};

void check_model(Checks& checks);
void check_data(Checks& checks);
void check_training(Checks& checks);  // schedule, train, parallel, run

void check_devices(Checks& checks);  // parallel.gpus against parallel.replicas and device
void check_collective(Checks& checks);
void check_precision(Checks& checks);  // train.precision against train.loss_scale

// Sets the replicas to one per GPU. If `gpus` and `replicas` differ, an override takes precedence
// over the file.
void take_replicas_from_gpus(Decoded& decoded);

}  // namespace trainer::config
