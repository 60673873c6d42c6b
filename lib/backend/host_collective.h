// A collective for devices whose memory is host memory: sums by a cluster::Communicator.
#pragma once

#include <span>

#include "backend/collective.h"

namespace trainer::backend {

class HostCollective final : public Collective {
 public:
  explicit HostCollective(cluster::Communicator& ranks) : ranks_(ranks) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  // Sums at once on the calling thread. The stream must have no work left.
  void all_reduce(Span values, std::int64_t count, Stream&) override {
    ranks_.all_reduce(std::span(reinterpret_cast<float*>(values.address), count));
  }
  void abort(const std::string& reason) noexcept override { ranks_.abort(reason); }
  cluster::Communicator* host_ranks() override { return &ranks_; }

 private:
  cluster::Communicator& ranks_;
};

}  // namespace trainer::backend
