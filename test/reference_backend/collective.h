// Sums over the ranks of a communicator on the reference backend.
#pragma once

#include <string>

#include "backend/host_collective.h"
#include "reference_backend/stream.h"

namespace trainer::test {

// Sums are made when the stream gets there.
class ReferenceCollective final : public backend::Collective {
 public:
  explicit ReferenceCollective(cluster::Communicator& ranks) : sums_(ranks) {}
  int rank() const override { return sums_.rank(); }
  int size() const override { return sums_.size(); }
  void all_reduce(backend::Span values, std::int64_t count, backend::Stream& stream) override {
    auto& own = dynamic_cast<ReferenceStream&>(stream);
    own.enqueue([this, values, count, &stream] { sums_.all_reduce(values, count, stream); });
  }
  void abort(const std::string& reason) noexcept override { sums_.abort(reason); }
  // For sums in the middle of a stream's work, on its thread.
  cluster::Communicator* host_ranks() override { return sums_.host_ranks(); }

 private:
  backend::HostCollective sums_;
};

}  // namespace trainer::test
