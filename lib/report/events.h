// JSON events of commands without a run, one object per line.
#pragma once

#include <ostream>
#include <string>

#include "backend/open.h"
#include "base/error.h"
#include "inference/open_model.h"
#include "measure/measured.h"

namespace trainer::report {

// {"event":"validated","config":...,"ok":...,"errors":[{"file":...,"line":...,"column":...,
// "message":...}]}, `error` being null when the config is right. What has no place in a file has a
// message alone.
void print_validated_json(const std::string& config, const Error* error, std::ostream& out);

// {"event":"exported","output":...,"format":...,"run":...,"step":...}
// {"event":"model","parameters":...}: the keys of one training.
void print_model_json(const measure::MeasuredKeys& keys, std::ostream& out);

// {"event":"devices","cpu":...,"gpus":[{"index":...,"name":...,"compute_capability":"9.0",
// "multiprocessors":...,"memory_bytes":...}],"no_gpu":...}, the last being why there is none, or
// null.
void print_devices_json(const std::string& cpu, const backend::GpuList& list, std::ostream& out);
// Prints the devices as text, one per line.
void print_devices(const std::string& cpu, const backend::GpuList& list, std::ostream& out);

void print_exported_json(const inference::OpenedModel& opened, const std::string& format,
                         const std::string& output, std::ostream& out);

}  // namespace trainer::report
