// Sums over ranks that share one device in one process.
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/collectives/rank_group.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "base/numbers/partition.h"
#include "base/threads/barrier.h"
#include "base/threads/thread_team.h"

namespace trainer::backend::cuda {
namespace {

// Slices of a sum begin at multiples of so many values.
constexpr std::int64_t kSliceUnit = 64;

// What the ranks of a group show each other between two meetings.
class Meetings {
 public:
  struct Slot {
    float* values = nullptr;
    std::int64_t count = 0;
    // Points of the rank's stream: its values are there, its slice is summed, it has read the
    // others' values. They live as long as a rank that may wait for them.
    EventHandle ready, summed, read;
  };

  explicit Meetings(std::size_t ranks) : slots_(ranks) {}

  // A rank is in a call while it may enqueue work on the others' values.
  void begin_call() {
    const std::lock_guard lock(mutex_);
    ++calls_;
  }
  void end_call() {
    const std::lock_guard lock(mutex_);
    --calls_;
    changed_.notify_all();
  }
  // Until no rank is in a call. Only in a group that has failed, where all calls end at once.
  void wait_for_calls() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return calls_ == 0; });
  }
  // Creates the points of a rank, which must exist before its first call. Ranks of a group that has
  // failed may still be added.
  void add(int rank) {
    EventHandle ready = create_event(), summed = create_event(), read = create_event();
    const std::lock_guard lock(mutex_);
    Slot& points = slot(rank);
    points.ready = std::move(ready);
    points.summed = std::move(summed);
    points.read = std::move(read);
  }
  // Returns the points `read` of the ranks that were added.
  std::vector<cudaEvent_t> read_points() {
    const std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t> points;
    for (const Slot& slot : slots_) {
      if (slot.read) points.push_back(slot.read.get());
    }
    return points;
  }
  // To be written by its rank before a meeting and read by the others until a later one.
  Slot& slot(int rank) { return slots_[rank]; }

  Barrier barrier{Barrier::Waiting::kSleep};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;  // in progress
  std::vector<Slot> slots_;
};

class SharedDeviceCollective final : public CudaCollective, private GroupMember {
 public:
  SharedDeviceCollective(RankGroup group, std::chrono::milliseconds timeout);
  ~SharedDeviceCollective() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  void all_reduce(float* values, std::int64_t count, cudaStream_t stream) override;
  void all_gather(const float* from, float* to, std::int64_t count, cudaStream_t stream) override;
  void check() override { group_.process->throw_if_failed(group_.rank); }
  // Each call hands events from stream to stream at the time of the call.
  bool capturable() const override { return false; }
  void replay(cudaStream_t, const std::function<void()>&) override {
    throw std::logic_error("a graph holds sums of ranks that share a GPU");
  }
  void abort(const std::string& reason) noexcept override {
    group_.process->fail(group_.rank, reason);
  }

 private:
  // Makes a call. When it fails in the middle, the work that any rank has enqueued on this rank's
  // values, or this rank on theirs, is done before the error goes on, so that all may then be
  // freed.
  template <class Call>
  void run(cudaStream_t stream, const Call& call);
  void sum(float* values, std::int64_t count, cudaStream_t stream);
  void gather(const float* from, float* to, std::int64_t count, cudaStream_t stream);
  using Point = EventHandle Meetings::Slot::*;

  // Shows the others this rank's values once the stream has made them.
  void show(float* values, std::int64_t count, cudaStream_t stream);
  // Sets this rank's point; all later work of the stream starts after all ranks' points.
  void pass(Point point, cudaStream_t stream);
  void meet();
  [[noreturn]] void fail(const std::string& reason);
  Partition slice(std::int64_t count, int rank) const {
    return aligned_partition(count, size(), rank, kSliceUnit);
  }
  void stop() noexcept override { meetings_->barrier.abort("another rank of this GPU has failed"); }

  RankGroup group_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Meetings> meetings_;
};

SharedDeviceCollective::SharedDeviceCollective(RankGroup group, std::chrono::milliseconds timeout)
    : group_(std::move(group)),
      timeout_(timeout),
      meetings_(group_.process->common<Meetings>(group_.size())) {
  meetings_->add(group_.rank);
  group_.process->join(*this);
}

SharedDeviceCollective::~SharedDeviceCollective() {
  leave_waiters();
  group_.process->leave(*this);
}

template <class Call>
void SharedDeviceCollective::run(cudaStream_t stream, const Call& call) {
  meetings_->begin_call();
  try {
    call();
  } catch (const std::exception& error) {
    group_.process->fail(group_.rank, error.what());  // unless it has failed: ends all calls
    cudaStreamSynchronize(stream);
    meetings_->end_call();
    meetings_->wait_for_calls();
    // Those that failed have waited for their streams. Others have set their last point.
    for (const cudaEvent_t point : meetings_->read_points()) cudaEventSynchronize(point);
    throw;
  }
  meetings_->end_call();
}

void SharedDeviceCollective::fail(const std::string& reason) {
  group_.process->fail(group_.rank, reason);
  group_.process->throw_if_failed(group_.rank);
  throw PeerError(reason);  // not reached: the group has failed
}

void SharedDeviceCollective::meet() {
  bool all_here = false;
  try {
    all_here = meetings_->barrier.wait_until(size(), Barrier::Clock::now() + timeout_);
  } catch (const MemberFailed&) {
    check();  // throws what the failed rank has reported
    throw;
  }
  check();
  if (all_here) return;
  fail(concat(group_.own_name(), named_work(), ": a sum has waited for other ranks for ",
              static_cast<double>(timeout_.count()) / 1000, " s, the limit of parallel.timeout; ",
              group_.late_ranks()));
}

void SharedDeviceCollective::pass(Point point, cudaStream_t stream) {
  const Meetings::Slot& points = meetings_->slot(group_.rank);
  cuda::check(cudaEventRecord((points.*point).get(), stream), "cudaEventRecord");
  meet();
  for (int other = 0; other < size(); ++other) {
    if (other == group_.rank) continue;
    cuda::check(cudaStreamWaitEvent(stream, (meetings_->slot(other).*point).get(), 0),
                "cudaStreamWaitEvent");
  }
}

void SharedDeviceCollective::show(float* values, std::int64_t count, cudaStream_t stream) {
  check();
  group_.process->count_call(group_.rank);
  meetings_->slot(group_.rank).values = values;
  meetings_->slot(group_.rank).count = count;
  pass(&Meetings::Slot::ready, stream);
  const std::int64_t expected = meetings_->slot(0).count;
  if (count == expected) return;
  const std::string reason = concat(group_.own_name(), " sums ", count, " values, rank 0 ",
                                    expected, "; internal error, please report it");
  group_.process->fail(group_.rank, reason);
  throw std::logic_error(reason);
}

void SharedDeviceCollective::all_reduce(float* values, std::int64_t count, cudaStream_t stream) {
  if (count == 0 || size() == 1) return;
  run(stream, [&] { sum(values, count, stream); });
}

void SharedDeviceCollective::all_gather(const float* from, float* to, std::int64_t count,
                                        cudaStream_t stream) {
  if (count == 0) return;
  run(stream, [&] { gather(from, to, count, stream); });
}

void SharedDeviceCollective::sum(float* values, std::int64_t count, cudaStream_t stream) {
  show(values, count, stream);
  // Each rank sums its slice of all ranks' values. No other rank reads or writes its slice of its
  // own values.
  const Partition part = slice(count, group_.rank);
  for (int step = 1; step < size() && part.count > 0; ++step) {
    const Meetings::Slot& other = meetings_->slot((group_.rank + step) % size());
    accumulate(other.values + part.first, values + part.first, false, part.count, stream);
  }
  pass(&Meetings::Slot::summed, stream);
  for (int other = 0; other < size(); ++other) {
    const Partition theirs = slice(count, other);
    if (other == group_.rank || theirs.count == 0) continue;
    accumulate(meetings_->slot(other).values + theirs.first, values + theirs.first, true,
               theirs.count, stream);
  }
  pass(&Meetings::Slot::read, stream);
}

void SharedDeviceCollective::gather(const float* from, float* to, std::int64_t count,
                                    cudaStream_t stream) {
  show(const_cast<float*>(from), count, stream);  // which are only read
  for (int other = 0; other < size(); ++other) {
    const float* theirs = meetings_->slot(other).values;
    if (theirs != to + other * count) accumulate(theirs, to + other * count, true, count, stream);
  }
  pass(&Meetings::Slot::read, stream);
}

}  // namespace

std::unique_ptr<CudaCollective> make_shared_device_collective(RankGroup group,
                                                              std::chrono::milliseconds timeout) {
  return std::make_unique<SharedDeviceCollective>(std::move(group), timeout);
}

}  // namespace trainer::backend::cuda
