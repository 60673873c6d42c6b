// Where the time of a call went, as a device tells.
#pragma once

namespace trainer::backend {

// Seconds of one rank's calls. Their sum is the time of the calls, all_reduce_hidden left aside. A
// backend that cannot tell leaves `measured` false and everything 0.
struct PhaseTimes {
  bool measured = false;
  double copy = 0;     // of inputs to the device, as far as it waits for them
  double forward = 0;  // packing of weights included
  // Until all threads of the device are done with backward, their gradients summed.
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
