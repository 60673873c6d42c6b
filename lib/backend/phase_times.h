// The time of a call by phase, as a device measures it.
#pragma once

namespace trainer::backend {

// The seconds of one rank's calls. Their sum without all_reduce_hidden is the time of the calls. A
// backend that cannot measure them leaves `measured` false and all times 0.
struct PhaseTimes {
  bool measured = false;
  double copy = 0;     // copies of inputs that the device waits for
  double forward = 0;  // packing of weights included
  // Lasts until all threads of the device are done with backward and their gradients are summed.
  double backward = 0;
  double all_reduce = 0;         // sums over ranks, waiting for the ranks included
  double all_reduce_hidden = 0;  // the same, while backward went on
  double update = 0;

  PhaseTimes& operator+=(const PhaseTimes& other) {
    measured = measured || other.measured;
    copy += other.copy;
    forward += other.forward;
    backward += other.backward;
    all_reduce += other.all_reduce;
    all_reduce_hidden += other.all_reduce_hidden;
    update += other.update;
    return *this;
  }
};

}  // namespace trainer::backend
