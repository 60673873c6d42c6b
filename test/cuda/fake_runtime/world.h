// The state of the fake, and its parts' functions for each other. Whoever holds a Lock may touch
// it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/fake_runtime/operation.h"

namespace fake {

constexpr int kMaxDevices = 16;

struct Settings {
  unsigned seed = 1;
  bool eager = false;
  bool peer_access = true;
  int devices = 2;
  std::array<std::pair<int, int>, kMaxDevices> capabilities;  // major and minor
  std::size_t memory_bytes = std::size_t{2} << 30;
  std::size_t kernel_bytes = 0;      // that a kernel takes on a device once it is loaded
  std::size_t connection_bytes = 0;  // that a connected rank takes on its device
  std::size_t queue = 1024;          // operations that wait in the streams of a device
  bool connects = false;  // a communicator's first call waits for those of the other ranks
  std::chrono::milliseconds deadlock{20000};
};

struct Allocation {
  char* address = nullptr;
  std::size_t bytes = 0;
  char* mapped = nullptr;  // pages, the first and last inaccessible
  std::size_t mapped_bytes = 0;
  int device = 0;
};

struct Failure {
  std::string function;
  long call = 0;  // the call that fails, counted from 1
  int error = 0;
};

struct World {
  std::mutex mutex;
  std::condition_variable something_changed;
  std::uint64_t changes = 0;
  Settings settings;
  unsigned generation = 0;  // the number of calls of reset()

  // errors.cpp
  std::array<cudaError_t, kMaxDevices> sticky{};  // the error that ended a device's context
  std::set<int> contexts;                         // devices on which this process has a context
  std::map<std::string, long> calls;
  std::vector<Failure> failures;

  // memory.cpp
  std::map<const char*, Allocation> device_memory, pinned_memory;
  std::array<int, kMaxDevices> accessors{};  // operations that run on a device

  // scheduler.cpp
  std::mt19937 random;
  std::vector<OperationPtr> runnable;  // their dependencies are done
  int running = 0;
  std::optional<std::chrono::steady_clock::time_point> idle_since;  // nothing can run
  // peers.cpp
  struct WaitingCall {
    std::string text;
    std::set<int> devices;
    std::thread::id thread;
  };
  std::list<WaitingCall> waiting_calls;                   // memory calls that wait for devices
  std::array<std::set<std::string>, kMaxDevices> loaded;  // kernels by device

  std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams;
  std::array<std::unique_ptr<CUstream_st>, kMaxDevices> legacy_streams;
  std::vector<std::unique_ptr<CUstream_st>> destroyed_streams;  // with work left
  unsigned stream_count = 0;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::map<cudaGraph_t, std::unique_ptr<CUgraph_st>> graphs;
  std::map<cudaGraphExec_t, std::unique_ptr<CUgraphExec_st>> graph_execs;
  struct GraphCounts {
    std::size_t kernels = 0, copies = 0;  // copies: and fills
  };
  GraphCounts largest_graph;  // that was instantiated
  std::vector<std::weak_ptr<Capture>> captures;

  // Wakes threads that wait for something to happen.
  void changed();
};

// Never destroyed: threads may outlive main().
World& world();
using Lock = std::unique_lock<std::mutex>;
int& current_device();  // that of the calling thread
// The time of the calling thread in seconds, by the same model as Operation::ends: it passes by
// submitting work and by waiting for it, and in no other way.
double& host_time();
// What a thread that has seen an operation done has waited for.
void wait_until_end(const Operation& op);

// ---- errors.cpp
// What every call begins with: counts it, and returns the failure that was asked for or the sticky
// error of the thread's device.
cudaError_t begin(World& w, const char* function);
// The failure that was asked for of a function that has no sticky errors; 0: none.
int injected_failure(World& w, const char* function);
// What may be asked for of a collective in place of an error: it writes zeros into half of its
// output, and reports no error; it never ends.
constexpr int kWrong = -2, kEndless = -3;
// What every call ends with: an error becomes the thread's last error.
cudaError_t end(cudaError_t error);
// Prints a line that begins with "fake cuda: ".
void print(const std::string& line);
// Ends all work of a device with an error that every later call on it returns.
constexpr int kAllDevices = -1;
void make_sticky(World& w, int device, cudaError_t error, const std::string& why);
cudaError_t sticky_error(const World& w, int device);
Failure parse_failure(const std::string& text);

// ---- memory.cpp
// Device memory that operations may touch at the moment. close() before the lock is given up to
// wait, or returned to the host.
class MemoryAccess {
 public:
  explicit MemoryAccess(World& world) : world_(world) {}
  ~MemoryAccess() { close(); }
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
  void open(int device, int other_device);
  void close();

 private:
  World& world_;
  int device_ = -1, other_ = -1;
};
std::size_t free_bytes(const World& w, int device);
const Allocation* find_device_memory(const World& w, const void* address, std::size_t bytes);
const Allocation* find_pinned_memory(const World& w, const void* address, std::size_t bytes);
void free_all_memory(World& w);

// ---- fault.cpp
// Makes an access to device memory by the host a message before it is the end of the program.
void watch_range(const char* begin, std::size_t bytes);
extern thread_local const char* running_operation;
// When it began, in seconds of the device's time: see Operation::ends.
extern thread_local double running_since;

// ---- scheduler.cpp
// Runs operations until the condition holds; other threads may have to submit what is missing.
// Returns the sticky error of the device that the thread waits for, of a deadlock too.
cudaError_t run_until(Lock& lock, int device, const std::function<bool()>& condition);
// The same for a wait that is not a deadlock however long it takes.
void run_patiently(Lock& lock, int device, const std::function<bool()>& condition);
// What a question ("is it done?") leaves the device time for: a few operations, or none.
cudaError_t run_some(Lock& lock, int device, const std::function<bool()>& condition);
// Lets an operation run once those that it comes after are done.
void enter(World& w, const OperationPtr& op, const std::vector<OperationPtr>& before);
// False if the context of its device has ended, which ends all work that is not done.
bool may_run(const World& w, const Operation& op);
// TRAINER_FAKE_CUDA_EAGER: what a submission ends with.
void run_eagerly(Lock& lock);
bool is_idle(const World& w, int device);
bool flip(World& w);  // what the manuals leave open
// Drops all operations, done or not.
void drop_all_work(World& w);

// ---- stream.cpp
// The stream of a handle, 0 being the legacy stream of the current device; null for a handle that
// is not a stream.
CUstream_st* find_stream(World& w, cudaStream_t stream);
// Appends to a stream's queue, past any capture.
OperationPtr append(World& w, CUstream_st& stream, std::shared_ptr<const Work> work,
                    std::vector<OperationPtr> before = {});
// An operation that does nothing.
std::shared_ptr<const Work> marker(const char* name, int device);
// What a call that puts work into a stream begins with: waits until the queue of the device has
// room. Returns the sticky error.
cudaError_t wait_for_room(Lock& lock, int device);
// What a call that puts work into a stream does: appends it, or captures it.
cudaError_t submit(Lock& lock, CUstream_st& stream, std::shared_ptr<const Work> work);

// ---- capture.cpp
// The error of a call that capturing threads must not make, which ends their captures; else
// success.
cudaError_t check_unsafe_call(World& w);
// The error of using the legacy stream while a stream that is ordered with it is captured.
cudaError_t check_legacy_use(World& w, const CUstream_st& stream);
cudaError_t capture_node(CUstream_st& stream, std::shared_ptr<const Work> work);
cudaError_t capture_record(CUstream_st& stream, CUevent_st& event);
cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event);
void invalidate(Capture& capture);
bool is_captured(const CUstream_st& stream);

// ---- peers.cpp
// A memory call waits until the device and its peers have done what was submitted before it, if the
// device has peers. `device` -1 stands for all devices, since each maps pinned memory. Returns the
// sticky error, of a deadlock too. Gives up the lock while it waits.
cudaError_t wait_for_peers(Lock& lock, const std::string& function, int device);
// What a launch on a device with peers waits for: memory calls of other threads that are in
// progress and, if the device has not run a kernel of the name, the memory call that loads it.
// Empty: no kernel. An error if the device has no memory for the kernel.
cudaError_t begin_launch(Lock& lock, int device, const std::string& kernel);

// ---- nccl
// Devices of this process that share a communicator with this one or, for -1, with any. Empty where
// no communicator has several devices.
std::set<int> peers(int device);
int connected_ranks(int device);  // in all communicators of the process
std::size_t communicators_left();
void drop_all_communicators();

}  // namespace fake
