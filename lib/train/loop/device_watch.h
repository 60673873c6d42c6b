// What the devices of a run report of themselves.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/notice.h"
#include "engine/device_sampler.h"
#include "engine/replicas.h"
#include "hooks/hooks.h"

namespace trainer::train {

// Reads utilisation, memory and energy of the engine's devices while they train. Does nothing
// until start(), and where devices cannot be read: that is no reason not to train on them.
class DeviceWatch {
 public:
  // `engine` and `warn` must outlive this object; `warn` may be empty if start() is never called.
  DeviceWatch(engine::Replicas& engine, const std::function<void(const Notice&)>& warn)
      : engine_(engine), warn_(warn) {}

  void start();
  // Warns of devices that no longer answer.
  void warn();
  // Sets what hooks may ask for while the run goes on.
  void describe(hooks::RunInfo& info) const;
  // Ends the reading. Energy is that of the whole session, evaluations included; energy per image
  // is of the images that the devices were trained on, `images` for each replica.
  void finish(hooks::Finish& finish, double images);

 private:
  engine::Replicas& engine_;
  const std::function<void(const Notice&)>& warn_;
  std::optional<engine::DeviceSampler> sampler_;
};

}  // namespace trainer::train
