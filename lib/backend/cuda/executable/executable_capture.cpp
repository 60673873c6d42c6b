// Calls that are captured once as a CUDA graph and then replayed.
#include "backend/cuda/executable/executable.h"
#include "backend/cuda/telemetry/ranges.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

// Limits the captured graphs of an executable. All are dropped when another one is needed.
constexpr std::size_t kMaxGraphs = 64;

// While it lives, a collective's calls are captured.
class CaptureOfRanks {
 public:
  explicit CaptureOfRanks(CudaCollective& ranks) : ranks_(ranks) { ranks_.begin_capture(); }
  ~CaptureOfRanks() { ranks_.end_capture(); }
  CaptureOfRanks(const CaptureOfRanks&) = delete;
  CaptureOfRanks& operator=(const CaptureOfRanks&) = delete;

 private:
  CudaCollective& ranks_;
};

}  // namespace

CudaExecutable::Key CudaExecutable::make_key(const Call& call) {
  std::vector<std::int64_t> parts;
  for (const Part& part : call.parts) parts.insert(parts.end(), {part.first, part.count});
  std::vector<std::byte*> pointers;
  for (const Span& span : call.inputs) pointers.push_back(span.address);
  for (const Span& span : call.outputs) pointers.push_back(span.address);
  return {std::move(parts), std::move(pointers), call.accumulate, call.apply, call.idle};
}

CudaExecutable::CapturedCall& CudaExecutable::find_captured(Key key) {
  if (captured_.size() >= kMaxGraphs && !captured_.contains(key)) captured_.clear();
  return captured_[std::move(key)];
}

// The first call of a kind runs as it is enqueued, so that libraries and pools allocate what they
// need; the second is captured.
void CudaExecutable::replay(const Call& call) {
  if (!machine_.debugging.capture) return enqueue(call);
  CapturedCall& captured = find_captured(make_key(call));
  if (captured.calls++ == 0) return enqueue(call);
  if (!captured.graph) {
    captured.graph = std::make_unique<CallGraph>(call.stream, [&] { enqueue(call); });
  }
  const Range range("launch of the captured call");
  captured.graph->launch(call.stream);
}

bool CudaExecutable::captures_ranks() const {
  return machine_.debugging.capture && ranks_ != nullptr && ranks_->capturable();
}

// Either all ranks capture a call or none does, and their graphs are those of the same capture:
// which call this is follows from numbers that all ranks have, and from no address or share.
void CudaExecutable::replay_with_ranks(const Call& call, std::int64_t all_samples) {
  if (!captures_ranks() || all_samples == 0) return enqueue(call);
  std::vector<std::int64_t> known{all_samples};
  for (const Span& output : call.outputs) known.push_back(output ? 1 : 0);
  CapturedCall& captured = find_captured({known, {}, call.accumulate, call.apply, false});
  if (captured.calls++ == 0) {
    captured.parts = call.parts;
    return enqueue(call);
  }
  if (captured.parts != call.parts) {
    throw std::logic_error(concat("rank ", ranks_->rank(), " has another share of ", all_samples,
                                  " samples than before; internal error, please report it"));
  }
  const Program& any = programs_.begin()->second;
  Call fixed = call;
  fixed.inputs = fixed_io_.inputs(call.inputs, any.inputs, options_.max_samples);
  fixed.outputs = fixed_io_.outputs(call.outputs, any.outputs, options_.max_samples);
  copy_samples(call.inputs, fixed.inputs, any.inputs, call.samples, call.stream);
  lap(ClockPhase::kCopy, call);
  if (!captured.graph) {
    captured.graph = std::make_unique<CallGraph>(call.stream, [&] {
      const CaptureOfRanks scope(*ranks_);
      enqueue(fixed);
    });
  }
  ranks_->replay(call.stream, [&] { captured.graph->launch(call.stream); });
  copy_samples(fixed.outputs, call.outputs, any.outputs, call.samples, call.stream);
}

}  // namespace trainer::backend::cuda
