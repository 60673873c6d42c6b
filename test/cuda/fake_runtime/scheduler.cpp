// Which operation runs next, and what happens when none can.
//
// Follows the CUDA Programming Guide, "Asynchronous Concurrent Execution", Streams: operations of a
// stream run in order, those of different streams in any order. Every order is allowed that
// "Implicit Synchronization" (stream.cpp) and events leave open, however unlikely on a device.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "cuda/fake_runtime/world.h"

namespace fake {

thread_local double running_since = 0;

namespace {

using Clock = std::chrono::steady_clock;

bool is_ready(const Operation& op) { return !op.work->ready || op.work->ready(); }

void add_dependency(const OperationPtr& op, const OperationPtr& on) {
  op->before.push_back(on);
  if (on->done) return;
  on->dependents.push_back(op);
  ++op->missing;
}

// Odd seeds draw among all that may run. Even seeds let one fiber run ahead of all others until the
// draw of priorities changes: some mistakes show only then.
std::size_t choose(World& w, const std::vector<std::size_t>& candidates) {
  if (w.settings.seed % 2 == 1) return candidates[w.random() % candidates.size()];
  const auto best =
      std::max_element(candidates.begin(), candidates.end(), [&w](std::size_t a, std::size_t b) {
        return w.runnable[a]->fiber->priority < w.runnable[b]->fiber->priority;
      });
  constexpr unsigned kOperationsPerDraw = 8;
  Fiber& fiber = *w.runnable[*best]->fiber;
  if (fiber.priority == 0 || w.random() % kOperationsPerDraw == 0) {
    fiber.priority = static_cast<unsigned>(w.random());
  }
  return *best;
}

OperationPtr take_runnable(World& w) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < w.runnable.size(); ++i) {
    Fiber& fiber = *w.runnable[i]->fiber;
    if (fiber.priority == 0) fiber.priority = static_cast<unsigned>(w.random());
    if (may_run(w, *w.runnable[i]) && is_ready(*w.runnable[i])) candidates.push_back(i);
  }
  if (candidates.empty()) return nullptr;
  const std::size_t chosen = choose(w, candidates);
  OperationPtr op = w.runnable[chosen];
  w.runnable.erase(w.runnable.begin() + static_cast<std::ptrdiff_t>(chosen));
  return op;
}

double find_begin(const Operation& op) {
  double begins = op.submitted_at;
  for (const OperationPtr& on : op.before) begins = std::max(begins, on->ends);
  if (op.work->not_before) begins = std::max(begins, op.work->not_before());
  return begins;
}

// Without the lock. An exception is kept in the operation: a text on the stack of the host thread
// would race with whatever had been in its place.
void execute(Operation& op, double began) {
  running_since = began;
  op.fiber->run([&op] {
    op.submitted.acquire();
    for (const OperationPtr& on : op.before) on->finished.acquire();
    if (op.work->run) {
      running_operation = op.work->name.c_str();
      try {
        op.work->run();
      } catch (const std::exception& e) {
        op.failure = e.what();
        op.failed.store(true, std::memory_order_relaxed);
      }
      running_operation = nullptr;
    }
    op.finished.release();
  });
}

void finish(World& w, const OperationPtr& op, double began) {
  op->done = true;
  op->ends = began + op->work->seconds;
  for (const OperationPtr& next : op->dependents) {
    if (--next->missing == 0) w.runnable.push_back(next);
  }
  op->dependents.clear();
  op->before.clear();
  op->work.reset();
  if (!op->stream) return;
  op->stream->pending.pop_front();
  std::erase_if(w.destroyed_streams, [](const auto& s) { return s->pending.empty(); });
}

// One operation, if any may run.
bool run_one(Lock& lock, MemoryAccess& memory) {
  World& w = world();
  const OperationPtr op = take_runnable(w);
  if (!op) return false;
  {
    const Unwatched unwatched;
    if (op->work->prepare) op->work->prepare();
  }
  if (!may_run(w, *op)) return true;
  if (op->work->run) memory.open(op->work->device, op->work->other_device);
  ++w.running;
  const double began = find_begin(*op);
  lock.unlock();
  execute(*op, began);
  lock.lock();
  --w.running;
  if (op->failed.load(std::memory_order_relaxed)) {
    op->finished.acquire();  // the text was made by the operation
    make_sticky(w, op->work->device, cudaErrorLaunchFailure,
                "'" + op->work->name + "' failed: " + op->failure);
  }
  const Unwatched unwatched;
  if (op->work->complete) op->work->complete();
  finish(w, op, began);
  w.changed();
  return true;
}

std::string describe(const Operation& op) {
  std::string text = "'" + op.work->name + "'";
  if (!is_ready(op) && op.work->missing) text += ", which waits for " + op.work->missing();
  return text;
}

void describe_stream(std::ostream& out, const CUstream_st& s) {
  if (s.pending.empty()) return;
  out << "\n  device " << s.device << ", stream " << s.number << ": " << s.pending.size()
      << " operations, the first is " << describe(*s.pending.front());
}

void report_deadlock(World& w) {
  std::ostringstream out;
  out << "no thread can make progress for " << w.settings.deadlock.count() << " ms";
  for (const auto& s : w.legacy_streams) {
    if (s) describe_stream(out, *s);
  }
  for (const auto& [handle, s] : w.streams) describe_stream(out, *s);
  for (const auto& s : w.destroyed_streams) describe_stream(out, *s);
  for (const OperationPtr& op : w.runnable) {
    if (!op->stream) out << "\n  device " << op->work->device << ", a graph: " << describe(*op);
  }
  for (const auto& call : w.waiting_calls) out << "\n  a host thread: " << call.text;
  make_sticky(w, kAllDevices, cudaErrorLaunchTimeout, out.str());
}

// Waits for another thread to do something, at most until `until`. Nothing happened for as long as
// a deadlock takes: reports it.
void wait_for_change(Lock& lock, Clock::duration at_most) {
  World& w = world();
  if (!w.idle_since) w.idle_since = Clock::now();
  const Clock::time_point deadlock = *w.idle_since + w.settings.deadlock;
  const std::uint64_t seen = w.changes;
  // What another process does wakes nobody here.
  if (std::getenv("TRAINER_FAKE_NCCL_FOLDER") != nullptr) {
    at_most = std::min<Clock::duration>(at_most, std::chrono::milliseconds(1));
  }
  w.something_changed.wait_until(lock, std::min(deadlock, Clock::now() + at_most),
                                 [&w, seen] { return w.changes != seen; });
  if (w.changes != seen || Clock::now() < deadlock) return;
  if (w.running > 0) {
    w.idle_since.reset();
  } else {
    report_deadlock(w);
  }
}

}  // namespace

void enter(World& w, const OperationPtr& op, const std::vector<OperationPtr>& before) {
  for (const OperationPtr& on : before) add_dependency(op, on);
  op->submitted_at = host_time();
  op->submitted.release();
  if (op->missing == 0) w.runnable.push_back(op);
  w.changed();
}

bool may_run(const World& w, const Operation& op) {
  const int other = op.work->other_device;
  return sticky_error(w, op.work->device) == cudaSuccess &&
         (other < 0 || sticky_error(w, other) == cudaSuccess);
}

cudaError_t run_until(Lock& lock, int device, const std::function<bool()>& condition) {
  World& w = world();
  MemoryAccess memory(w);
  while (sticky_error(w, device) == cudaSuccess && !condition()) {
    if (run_one(lock, memory)) continue;
    memory.close();
    wait_for_change(lock, w.settings.deadlock);
  }
  return sticky_error(w, device);
}

void run_patiently(Lock& lock, int device, const std::function<bool()>& condition) {
  World& w = world();
  MemoryAccess memory(w);
  while (sticky_error(w, device) == cudaSuccess && !condition()) {
    if (run_one(lock, memory)) continue;
    memory.close();
    w.something_changed.wait_for(lock, std::chrono::milliseconds(1));
  }
}

cudaError_t run_some(Lock& lock, int device, const std::function<bool()>& condition) {
  World& w = world();
  MemoryAccess memory(w);
  // Few as a rule. Now and then many: a host that asks again and again would wait for long
  // otherwise.
  const bool many = w.random() % 4 == 0;
  for (auto left = w.random() % (many ? 64 : 3);
       left > 0 && !condition() && sticky_error(w, device) == cudaSuccess; --left) {
    if (run_one(lock, memory)) continue;
    memory.close();
    wait_for_change(lock, std::chrono::microseconds(200));
  }
  return sticky_error(w, device);
}

void run_eagerly(Lock& lock) {
  World& w = world();
  if (!w.settings.eager) return;
  MemoryAccess memory(w);
  while (run_one(lock, memory)) {
  }
}

bool is_idle(const World& w, int device) {
  const auto busy = [device](const auto& s) {
    return s && s->device == device && !s->pending.empty();
  };
  return std::none_of(w.legacy_streams.begin(), w.legacy_streams.end(), busy) &&
         std::none_of(w.destroyed_streams.begin(), w.destroyed_streams.end(), busy) &&
         std::none_of(w.streams.begin(), w.streams.end(),
                      [&busy](const auto& entry) { return busy(entry.second); });
}

bool flip(World& w) { return w.random() % 2 == 0; }

void drop_all_work(World& w) {
  // A chain of a thousand operations that hold each other would end each other recursively.
  std::vector<OperationPtr> all(w.runnable.begin(), w.runnable.end());
  w.runnable.clear();
  const auto drop = [&all](CUstream_st& s) {
    all.insert(all.end(), s.pending.begin(), s.pending.end());
    s.pending.clear();
    s.last.reset();
  };
  for (auto& s : w.legacy_streams) {
    if (s) drop(*s);
  }
  for (auto& [handle, s] : w.streams) drop(*s);
  for (auto& s : w.destroyed_streams) drop(*s);
  while (!all.empty()) {
    const OperationPtr op = std::move(all.back());
    all.pop_back();
    // In both directions: an operation of a graph that an error kept from running is in no queue.
    all.insert(all.end(), op->dependents.begin(), op->dependents.end());
    all.insert(all.end(), op->before.begin(), op->before.end());
    op->dependents.clear();
    op->before.clear();
  }
}

}  // namespace fake
