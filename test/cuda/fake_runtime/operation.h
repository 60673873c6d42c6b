// What streams and graphs are made of.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fake_runtime/fiber.h"
#include "cuda/fake_runtime/tsan.h"

namespace fake {

// What an operation does. prepare, ready, missing and complete are called under the lock by a host
// thread; run without it, as the fiber of the stream.
struct Work {
  std::string name;
  double seconds = 0;                    // how long it takes a device: see Operation::ends
  std::function<double()> not_before;    // besides what it comes after; of the device's time
  int device = 0;                        // whose memory `run` may touch
  int other_device = -1;                 // the second one of a copy between devices
  std::function<bool()> ready;           // besides what the operation comes after
  std::function<std::string()> missing;  // for the report of a deadlock: what `ready` waits for
  std::function<void()> prepare;
  std::function<void()> run;
  std::function<void()> complete;
  // Lives as long as a graph, a launch or a capture holds the work.
  std::shared_ptr<void> held;
};

struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

// One execution of a Work.
struct Operation {
  std::shared_ptr<const Work> work;
  std::shared_ptr<Fiber> fiber;
  cudaStream_t stream = nullptr;         // null: a node of a graph that was launched
  std::vector<OperationPtr> before;      // what it comes after, done or not
  std::vector<OperationPtr> dependents;  // what waits for it
  std::size_t missing = 0;               // those of `before` that are not done yet
  bool done = false;
  SyncPoint submitted, finished;
  std::atomic<bool> failed = false;  // `run` has thrown an exception
  std::string failure;               // its text, which is read after finished.acquire()
  // The device's time in seconds, by a model that neither the machine nor the seed changes: an
  // operation begins when the host had submitted it and all that it comes after had ended.
  double submitted_at = 0, ends = 0;
};

// A sequence of calls that becomes a graph. Streams that wait for an event of the capture join it.
struct Capture {
  struct Node {
    std::shared_ptr<const Work> work;
    std::set<std::size_t> after;  // nodes
    cudaStream_t lane = nullptr;  // nodes of one stream follow each other; an id, maybe destroyed
  };
  std::vector<Node> nodes;
  cudaStream_t origin = nullptr;
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalid = false;
  bool ended = false;
};

}  // namespace fake

struct CUstream_st {
  int device = 0;
  unsigned number = 0;       // for messages
  bool is_legacy = false;    // the stream 0 of its device
  bool is_blocking = false;  // ordered with the stream 0
  std::shared_ptr<fake::Fiber> fiber = std::make_shared<fake::Fiber>();
  std::deque<fake::OperationPtr> pending;
  fake::OperationPtr last;
  std::shared_ptr<fake::Capture> capture;
  std::set<std::size_t> frontier;  // nodes of the capture that the next one comes after
};

struct CUevent_st {
  int device = 0;
  bool has_timing = false;
  fake::OperationPtr record;               // null before the first record
  std::shared_ptr<fake::Capture> capture;  // recorded in a capture, with its frontier there
  std::set<std::size_t> frontier;
};

struct CUgraph_st {
  std::vector<fake::Capture::Node> nodes;
};

struct CUgraphExec_st {
  std::vector<fake::Capture::Node> nodes;
  std::vector<std::shared_ptr<fake::Fiber>> fibers;  // one per node; nodes of one lane share it
  fake::OperationPtr last;                           // the end of its last upload or launch
  fake::OperationPtr upload;                         // the last one; null: never uploaded
  bool was_launched = false;                         // which uploads it, unless it was
};
