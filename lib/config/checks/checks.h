// What several values of a config must be to each other, a file a part, inside the folder.
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
  // Whether the file, an override or the environment says something of `path`.
  bool given(const std::string& path) const { return decoded_.origins.contains(path); }
  // Whether the value of `path` could not be taken.
  bool broken(const std::string& path) const { return decoded_.broken.contains(path); }
  // At the value of `path`, or at the nearest key above it that the file gives. What hangs on a
  // value that could not be taken is not known, and not reported.
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

// Each of the GPUs has a replica; of `gpus` and `replicas` an override wins over the file.
void take_replicas_from_gpus(Decoded& decoded);

}  // namespace trainer::config
