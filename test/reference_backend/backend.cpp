#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "reference_backend/collective.h"
#include "reference_backend/executable.h"
#include "reference_backend/reference_backend.h"

namespace trainer::test {
namespace {

class ReferenceBackend final : public backend::Backend {
 public:
  std::string describe() const override { return "reference, interpreted"; }
  bool prefers_bfloat16() const override { return false; }
  bool supports(DType activations) const override {
    return activations == DType::kFloat32 || activations == DType::kBFloat16;
  }

  backend::Buffer allocate(std::size_t bytes) override {
    auto memory = std::make_shared<std::vector<std::byte>>(bytes, std::byte{0xff});
    const backend::Span span{memory->data(), bytes};
    return {span, [memory](std::byte*) mutable { memory.reset(); }};
  }
  HostBuffer allocate_host(std::size_t bytes) override {
    HostBuffer buffer = trainer::allocate_host(bytes);
    std::memset(buffer.data(), 0xff, bytes);
    return buffer;
  }
  bool reads_host_memory() const override { return false; }
  std::unique_ptr<backend::Stream> make_stream() override {
    auto stream = std::make_unique<ReferenceStream>();
    streams_->push_back(stream->progress());
    return stream;
  }
  std::unique_ptr<backend::Event> make_event() override {
    return std::make_unique<ReferenceEvent>();
  }
  int launches_in_flight() const override { return 2; }

  std::unique_ptr<backend::Variables> allocate(const graph::Graph& graph) override {
    return std::make_unique<ReferenceVariables>(graph, [streams = streams_] {
      for (const auto& stream : *streams) stream->wait_all();
    });
  }
  std::unique_ptr<backend::Executable> compile(const graph::Graph& graph,
                                               backend::Variables& variables,
                                               const backend::CompileOptions& options) override {
    return std::make_unique<ReferenceExecutable>(
        graph, dynamic_cast<ReferenceVariables&>(variables), options);
  }
  std::unique_ptr<backend::Collective> make_collective(cluster::Communicator& ranks) override {
    return std::make_unique<ReferenceCollective>(ranks);
  }

 private:
  using Streams = std::vector<std::shared_ptr<StreamProgress>>;
  std::shared_ptr<Streams> streams_ = std::make_shared<Streams>();
};

}  // namespace

std::unique_ptr<backend::Backend> open_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace trainer::test
