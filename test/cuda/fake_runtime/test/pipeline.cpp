// A training loop's skeleton on two devices, a thread each: pinned double-buffered uploads on their
// own stream, a step captured as a graph whose two buckets are all-reduced on a third stream, an
// update. One piece of its synchronisation can be left out, which the fake must find.
//
//   fake_pipeline MISTAKE FIRST_SEED LAST_SEED
//
// Exit code 0: all seeds gave the right result; 1: a seed did not.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fake_runtime/fake.h"

namespace {

constexpr std::size_t kValues = 2000, kBucket = kValues / 2;
constexpr int kSteps = 6, kRanks = 2;

enum class Mistake {
  kNone,
  kReduceEarly,      // the second bucket is reduced before the backward pass has made it
  kUpdateEarly,      // the update does not wait for the sums
  kRefill,           // the host refills a staging buffer that is still being uploaded
  kOverwrite,        // an upload overwrites a batch in use
  kUseEarly,         // the step does not wait for its batch
  kOneRate,          // one pinned slot for the learning rates of all steps
  kReadEarly,        // the host reads the result before its copy has ended
  kBucketOrder,      // ranks reduce buckets in different orders
  kHostReadsDevice,  // the host reads device memory
  kCaptureAlone,     // one rank does not capture its step
  kGraphOutlives,    // a communicator is destroyed before the graph that holds its calls
};
constexpr const char* kNames[] = {
    "none",         "reduce_early",      "update_early",  "refill",
    "overwrite",    "use_early",         "one_rate",      "read_early",
    "bucket_order", "host_reads_device", "capture_alone", "graph_outlives"};

void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(e));
}
void check(ncclResult_t e, const char* what) {
  if (e != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(e));
}
#define CHECKED(call) check(call, #call)

float* device_values(std::size_t count) {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, count * sizeof(float)));
  return static_cast<float*>(memory);
}
float* pinned_values(std::size_t count) {
  void* memory = nullptr;
  CHECKED(cudaHostAlloc(&memory, count * sizeof(float), cudaHostAllocDefault));
  return static_cast<float*>(memory);
}
cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  CHECKED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

float input(std::size_t i, int step, int rank) {
  return static_cast<float>((i + static_cast<std::size_t>(step + rank)) % 5);
}
float rate(int step) { return .1f / static_cast<float>(step + 1); }

// Lives on the thread whose current device is the rank's.
class Rank {
 public:
  Rank(int rank, const ncclUniqueId& id, Mistake mistake) : rank_(rank), mistake_(mistake) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CHECKED(ncclCommInitRankConfig(&comm_, kRanks, id, rank, &config));
    CHECKED(cudaMemsetAsync(weights_, 0, kValues * sizeof(float), compute_));
    CHECKED(cudaMemsetAsync(velocity_, 0, kValues * sizeof(float), compute_));
  }

  std::vector<float> train() {
    capture();
    for (int s = 0; s < kSteps; ++s) step(s);
    std::vector<float> result = read();
    release();
    return result;
  }

 private:
  bool has(Mistake mistake) const { return mistake_ == mistake; }

  void backward(std::size_t bucket) {
    const float* x = batch_ + bucket * kBucket;
    float* g = gradient_ + bucket * kBucket;
    CHECKED(fake::enqueue(compute_, "backward", [x, g] { std::copy(x, x + kBucket, g); }));
  }

  void all_reduce(std::size_t bucket) {
    std::size_t count = kBucket;
    if (has(Mistake::kBucketOrder)) {
      if (rank_ == 1) bucket = 1 - bucket;
      if (bucket == 0) count -= 8;
    }
    float* g = gradient_ + bucket * kBucket;
    CHECKED(ncclAllReduce(g, g, count, ncclFloat32, ncclSum, comm_, reduce_));
  }

  void update() {
    float *w = weights_, *v = velocity_;
    const float *g = gradient_, *learning_rate = rate_;
    CHECKED(fake::enqueue(compute_, "update", [w, v, g, learning_rate] {
      for (std::size_t i = 0; i < kValues; ++i) {
        v[i] = .5f * v[i] - *learning_rate * g[i];
        w[i] += v[i];
      }
    }));
  }

  void capture() {
    CHECKED(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal));
    work();
    CHECKED(cudaStreamEndCapture(compute_, &graph_));
    CHECKED(cudaGraphInstantiate(&step_, graph_, 0));
  }

  void work() {
    for (std::size_t b = 0; b < 2; ++b) {
      backward(b);
      CHECKED(cudaEventRecord(made_[b], compute_));
      if (b == 0 || !has(Mistake::kReduceEarly)) {
        CHECKED(cudaStreamWaitEvent(reduce_, made_[b], 0));
      }
      all_reduce(b);
    }
    CHECKED(cudaEventRecord(reduced_, reduce_));
    if (has(Mistake::kUpdateEarly)) update();
    CHECKED(cudaStreamWaitEvent(compute_, reduced_, 0));
    if (!has(Mistake::kUpdateEarly)) update();
  }

  void step(int s) {
    const auto b = static_cast<std::size_t>(s % 2);
    if (s >= 2 && !has(Mistake::kRefill)) CHECKED(cudaEventSynchronize(uploaded_[b]));
    for (std::size_t i = 0; i < kValues; ++i) staging_[b][i] = input(i, s, rank_);
    if (s >= 2 && !has(Mistake::kOverwrite)) CHECKED(cudaStreamWaitEvent(upload_, used_[b], 0));
    constexpr std::size_t kBytes = kValues * sizeof(float);
    CHECKED(cudaMemcpyAsync(uploads_[b], staging_[b], kBytes, cudaMemcpyHostToDevice, upload_));
    CHECKED(cudaEventRecord(uploaded_[b], upload_));
    if (!has(Mistake::kUseEarly)) CHECKED(cudaStreamWaitEvent(compute_, uploaded_[b], 0));
    CHECKED(cudaMemcpyAsync(batch_, uploads_[b], kBytes, cudaMemcpyDeviceToDevice, compute_));
    CHECKED(cudaEventRecord(used_[b], compute_));
    float* slot = rates_ + (has(Mistake::kOneRate) ? 0 : s);
    *slot = rate(s);
    CHECKED(cudaMemcpyAsync(rate_, slot, sizeof(float), cudaMemcpyHostToDevice, compute_));
    if (has(Mistake::kCaptureAlone) && rank_ == 1) return work();
    CHECKED(cudaGraphLaunch(step_, compute_));
  }

  std::vector<float> read() {
    CHECKED(cudaMemcpyAsync(result_, weights_, kValues * sizeof(float), cudaMemcpyDeviceToHost,
                            compute_));
    if (!has(Mistake::kReadEarly)) CHECKED(cudaStreamSynchronize(compute_));
    std::vector<float> result(result_, result_ + kValues);
    CHECKED(cudaStreamSynchronize(compute_));
    if (has(Mistake::kHostReadsDevice)) result[0] = weights_[0];
    return result;
  }

  void release() {
    for (const cudaStream_t s : {upload_, compute_, reduce_}) {
      CHECKED(cudaStreamSynchronize(s));
      CHECKED(cudaStreamDestroy(s));
    }
    for (const cudaEvent_t e :
         {uploaded_[0], uploaded_[1], used_[0], used_[1], made_[0], made_[1], reduced_}) {
      CHECKED(cudaEventDestroy(e));
    }
    if (has(Mistake::kGraphOutlives)) CHECKED(ncclCommDestroy(comm_));
    CHECKED(cudaGraphExecDestroy(step_));
    CHECKED(cudaGraphDestroy(graph_));
    if (!has(Mistake::kGraphOutlives)) CHECKED(ncclCommDestroy(comm_));
    for (float* p : {weights_, velocity_, gradient_, batch_, rate_, uploads_[0], uploads_[1]}) {
      CHECKED(cudaFree(p));
    }
    for (float* p : {staging_[0], staging_[1], rates_, result_}) CHECKED(cudaFreeHost(p));
  }

  int rank_;
  Mistake mistake_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t upload_ = make_stream(), compute_ = make_stream(), reduce_ = make_stream();
  std::array<cudaEvent_t, 2> uploaded_{make_event(), make_event()};
  std::array<cudaEvent_t, 2> used_{make_event(), make_event()};
  std::array<cudaEvent_t, 2> made_{make_event(), make_event()};
  cudaEvent_t reduced_ = make_event();
  float* weights_ = device_values(kValues);
  float* velocity_ = device_values(kValues);
  float* gradient_ = device_values(kValues);
  float* batch_ = device_values(kValues);
  float* rate_ = device_values(1);
  std::array<float*, 2> uploads_{device_values(kValues), device_values(kValues)};
  std::array<float*, 2> staging_{pinned_values(kValues), pinned_values(kValues)};
  float* rates_ = pinned_values(kSteps);
  float* result_ = pinned_values(kValues);
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t step_ = nullptr;
};

float expected(std::size_t i) {
  float w = 0, v = 0;
  for (int s = 0; s < kSteps; ++s) {
    float g = 0;
    for (int r = 0; r < kRanks; ++r) g += input(i, s, r);
    v = .5f * v - rate(s) * g;
    w += v;
  }
  return w;
}

// Returns what went wrong; empty: nothing.
std::string run(Mistake mistake) {
  ncclUniqueId id;
  CHECKED(ncclGetUniqueId(&id));
  std::array<std::vector<float>, kRanks> results;
  std::array<std::string, kRanks> errors;
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      try {
        CHECKED(cudaSetDevice(r));
        results[static_cast<std::size_t>(r)] = Rank(r, id, mistake).train();
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& e : errors) {
    if (!e.empty()) return e;
  }
  std::size_t wrong = 0;
  for (const std::vector<float>& result : results) {
    for (std::size_t i = 0; i < kValues; ++i) wrong += !(std::abs(result[i] - expected(i)) < 1e-5f);
  }
  if (wrong > 0) return std::to_string(wrong) + " wrong values";
  return fake::left_over() == 0 ? "" : "not freed:\n" + fake::left_over_text();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto name = std::find(std::begin(kNames), std::end(kNames), std::string(argv[1]));
  if (name == std::end(kNames)) return 2;
  for (int seed = std::stoi(argv[2]); seed <= std::stoi(argv[3]); ++seed) {
    fake::reset();
    fake::seed(static_cast<unsigned>(seed));
    const std::string problem = run(static_cast<Mistake>(name - std::begin(kNames)));
    if (problem.empty()) continue;
    std::printf("seed %d: %s\n", seed, problem.c_str());
    return 1;
  }
  std::puts("all seeds gave the right result");
  return 0;
}
