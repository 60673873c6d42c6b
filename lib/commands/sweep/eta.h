// Predicts the end of a sweep.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace trainer::commands {

// Predicts from the points that were trained and from the speed of the present one. The first
// point that is trained may compute features that the others read from their cache, so that it
// counts with the speed of its newer half. Times are in seconds on one clock.
class Eta {
 public:
  explicit Eta(std::size_t points) : left_(points) {}

  void start(double now);                  // a point begins to train
  void advance(double share, double now);  // `share` of the point is done
  void end(bool is_trained, double now);   // a point is over
  // Returns the seconds that are left between two points; nothing before one was trained.
  std::optional<double> between() const;
  // Returns the seconds that are left within a point; nothing before its second step.
  std::optional<double> within() const;

 private:
  struct Mark {
    double share, seconds;  // since the start of the point
  };
  std::optional<double> newer_speed() const;
  std::optional<double> predict_next() const;

  std::size_t left_;  // points, the present one among them
  double sum_ = 0, count_ = 0;
  double start_ = 0;
  std::vector<Mark> marks_;  // the steps of the present point that were reported
};

}  // namespace trainer::commands
