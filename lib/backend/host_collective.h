// The group of devices whose memory is the host's: sums of a cluster::Communicator.
#pragma once

#include "backend/collective.h"

namespace trainer::backend {

class HostCollective final : public Collective {
 public:
  explicit HostCollective(cluster::Communicator& ranks) : ranks_(ranks) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  // At once, on the calling thread, which must be past the stream's work.
  void all_reduce(Span values, std::int64_t count, Stream& stream) override;
  void abort(const std::string& reason) noexcept override { ranks_.abort(reason); }
  cluster::Communicator& ranks() { return ranks_; }

 private:
  cluster::Communicator& ranks_;
};

}  // namespace trainer::backend
