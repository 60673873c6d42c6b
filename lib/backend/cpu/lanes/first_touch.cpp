#include "backend/cpu/lanes/first_touch.h"

#include "backend/cpu/gradients/reduction.h"

namespace trainer::backend::cpu {
namespace {

// Writes the first value of the slice in each page; `values` begins a page.
void touch(float* values, Slice slice) {
  constexpr std::int64_t kPage = 4096 / kFloatBytes;
  for (std::int64_t i = slice.first; i < slice.last; i = (i / kPage + 1) * kPage) {
    volatile float& value = values[i];
    value = value;
  }
}

}  // namespace

void touch_slices(const CpuVariables& variables, LaneThreads& lanes) {
  const Flat flat = variables.flat();
  lanes.run([&](int lane) {
    const Slice slice = lane_slice(variables.flat_count(), lane, lanes.count());
    touch(variables.parameters(), slice);
    for (int slot = 0; slot < flat.slots; ++slot) touch(variables.slot(slot), slice);
    if (flat.average) touch(variables.average(), slice);
  });
}

}  // namespace trainer::backend::cpu
