// Reports the telemetry of the devices of a run.
#pragma once

#include <functional>
#include <optional>

#include "base/notice.h"
#include "engine/device_sampler.h"
#include "engine/engine.h"
#include "hooks/hooks.h"

namespace trainer::train {

// Reads utilisation, memory and energy of the engine's devices while they train. Does nothing
// before start(), and nothing for devices whose telemetry cannot be read, since training does not
// need it.
class DeviceWatch {
 public:
  // `engine` and `warn` must outlive this object; `warn` may be empty if start() is never called.
  DeviceWatch(engine::Engine& engine, const std::function<void(const Notice&)>& warn)
      : engine_(engine), warn_(warn) {}

  void start();
  // Warns of devices that no longer answer.
  void warn();
  // Sets the functions of `info` that read device totals and gaps.
  void describe(hooks::RunInfo& info) const;
  // Ends the reading and sets the results. Energy is that of the whole session, evaluations
  // included; the energy per image divides it by the images trained on, `images` for each replica.
  void finish(hooks::Finish& finish, double images);

 private:
  engine::Engine& engine_;
  const std::function<void(const Notice&)>& warn_;
  std::optional<engine::DeviceSampler> sampler_;
};

}  // namespace trainer::train
