// The one World: its settings, its end, and what is left in it.
#include "cuda/fake_runtime/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "cuda/fake_runtime/fake.h"

namespace fake {
namespace {

std::size_t number(const char* name, std::size_t otherwise, std::size_t most) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  std::size_t used = 0;
  const unsigned long long value = std::stoull(text, &used);
  if (text[used] != 0 || value > most) {
    throw std::invalid_argument(std::string(name) + " is '" + text + "', expected a number up to " +
                                std::to_string(most));
  }
  return value;
}

void read_capabilities(Settings& s) {
  s.capabilities.fill({9, 0});
  const char* text = std::getenv("TRAINER_FAKE_CUDA_CAPABILITIES");
  std::istringstream list(text ? text : "");
  char mark = 0;
  for (auto& [major, minor] : s.capabilities) {
    if (!(list >> major >> mark >> minor)) return;
    list >> mark;
  }
}

void read_settings(World& w) {
  Settings s;
  read_capabilities(s);
  s.seed = static_cast<unsigned>(number("TRAINER_FAKE_CUDA_SEED", s.seed, ~0u));
  s.eager = number("TRAINER_FAKE_CUDA_EAGER", 0, 1) == 1;
  s.peer_access = number("TRAINER_FAKE_CUDA_PEER_ACCESS", 1, 1) == 1;
  s.devices = static_cast<int>(number("TRAINER_FAKE_CUDA_DEVICES", 2, kMaxDevices));
  s.memory_bytes = number("TRAINER_FAKE_CUDA_MEMORY", s.memory_bytes, std::size_t{1} << 46);
  s.kernel_bytes = number("TRAINER_FAKE_CUDA_KERNEL_MEMORY", 0, s.memory_bytes);
  s.connection_bytes = number("TRAINER_FAKE_CUDA_CONNECTION_MEMORY", 0, s.memory_bytes);
  s.queue = std::max<std::size_t>(1, number("TRAINER_FAKE_CUDA_QUEUE", s.queue, 1u << 30));
  s.connects = number("TRAINER_FAKE_NCCL_CONNECT", 0, 1) == 1;
  s.deadlock = std::chrono::milliseconds(number("TRAINER_FAKE_CUDA_DEADLOCK_MS", 20000, 1u << 30));
  w.settings = s;
  w.random.seed(s.seed);
  w.failures.clear();
  const char* failures = std::getenv("TRAINER_FAKE_CUDA_FAIL");
  std::istringstream list(failures ? failures : "");
  for (std::string item; std::getline(list, item, ',');) w.failures.push_back(parse_failure(item));
}

// TRAINER_FAKE_CUDA_COUNT and TRAINER_FAKE_CUDA_CHECK, when the program ends or the library is
// closed.
struct CheckAtExit {
  ~CheckAtExit() {
    if (number("TRAINER_FAKE_CUDA_COUNT", 0, 1) == 1) {
      print("memory calls: " + std::to_string(count_memory_calls()));
      std::string contexts;
      for (const int device : devices_with_context()) contexts += " " + std::to_string(device);
      print("contexts:" + contexts);
      const World::GraphCounts& largest = world().largest_graph;
      print("largest graph: " + std::to_string(largest.kernels) + " kernels, " +
            std::to_string(largest.copies) + " copies and fills");
    }
    if (number("TRAINER_FAKE_CUDA_CHECK", 0, 1) == 0 || left_over() == 0) return;
    print("the program ends and has not freed:\n" + left_over_text());
    constexpr int kExitCode = 86;
    _exit(kExitCode);
  }
};

void release_everything(World& w) {
  const Unwatched unwatched;
  drop_all_work(w);
  drop_all_communicators();
  w.events.clear();
  w.graphs.clear();
  w.graph_execs.clear();
  w.captures.clear();
  w.streams.clear();
  w.destroyed_streams.clear();
  for (auto& stream : w.legacy_streams) stream.reset();
  w.stream_count = 0;
  free_all_memory(w);
  w.sticky.fill(cudaSuccess);
  w.calls.clear();
  w.loaded = {};
  w.contexts.clear();
  ++w.generation;
}

}  // namespace

World& world() {
  static World& w = []() -> World& {
    auto* made = new World;
    read_settings(*made);
    static CheckAtExit check;
    return *made;
  }();
  return w;
}

void World::changed() {
  ++changes;
  idle_since.reset();
  something_changed.notify_all();
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

double& host_time() {
  thread_local double seconds = 0;
  return seconds;
}

void wait_until_end(const Operation& op) { host_time() = std::max(host_time(), op.ends); }

void seed(unsigned value) {
  World& w = world();
  const Lock lock(w.mutex);
  w.settings.seed = value;
  w.random.seed(value);
}

void reset() {
  World& w = world();
  const Lock lock(w.mutex);
  release_everything(w);
  current_device() = 0;
  read_settings(w);
}

long count_calls(const std::string& function) {
  World& w = world();
  const Lock lock(w.mutex);
  const auto found = w.calls.find(function);
  return found == w.calls.end() ? 0 : found->second;
}

long count_memory_calls() {
  long calls = 0;
  for (const char* function : {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost",
                               "cudaGraphInstantiate", "cudaGraphUpload"}) {
    calls += count_calls(function);
  }
  return calls;
}

std::set<int> devices_with_context() {
  World& w = world();
  const Lock lock(w.mutex);
  return w.contexts;
}

std::size_t left_over() {
  World& w = world();
  const Lock lock(w.mutex);
  return w.device_memory.size() + w.pinned_memory.size() + w.streams.size() + w.events.size() +
         w.graphs.size() + w.graph_execs.size() + communicators_left();
}

std::string left_over_text() {
  World& w = world();
  const Lock lock(w.mutex);
  std::ostringstream out;
  for (const auto& [address, a] : w.device_memory) {
    out << a.bytes << " bytes of device " << a.device << "\n";
  }
  for (const auto& [address, a] : w.pinned_memory) out << a.bytes << " bytes of pinned memory\n";
  for (const auto& [handle, s] : w.streams) {
    out << "stream " << s->number << " of device " << s->device << "\n";
  }
  for (const auto& [handle, e] : w.events) out << "an event of device " << e->device << "\n";
  for (const auto& [handle, g] : w.graphs) out << "a graph of " << g->nodes.size() << " nodes\n";
  for (const auto& [handle, g] : w.graph_execs) {
    out << "an instantiated graph of " << g->nodes.size() << " nodes\n";
  }
  if (communicators_left() > 0) out << communicators_left() << " communicators of NCCL\n";
  return out.str();
}

}  // namespace fake
