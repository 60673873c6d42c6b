#include "cuda/collective/ranks.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/threads/thread_team.h"
#include "cluster/local_group.h"
#include "cuda/fake_runtime/fake.h"

namespace trainer::backend::cuda {

Rank::Rank(cluster::Communicator& ranks, int gpu, std::chrono::milliseconds timeout)
    : device(gpu),
      collective(make_cuda_collective(ranks, gpu, timeout)),
      peers(std::make_shared<DeviceCollectives>()),
      stream(std::make_unique<CudaStream>(gpu, peers)) {
  peers->add(collective.get());
}

float* Rank::upload(const std::vector<float>& values) {
  const Span span =
      memory.emplace_back(allocate_device(device, values.size() * sizeof(float))).span();
  stream->upload(span, values.data(), span.bytes);
  stream->synchronize();
  return pointer_to<float>(span);
}

std::vector<float> Rank::download(float* from, std::size_t count) {
  std::vector<float> values(count);
  const Span span{reinterpret_cast<std::byte*>(from), count * sizeof(float)};
  stream->download(values.data(), span, span.bytes);
  stream->synchronize();
  return values;
}

std::vector<Outcome> run_ranks(const GroupOptions& options,
                               const std::function<void(Rank&)>& work) {
  const auto group = cluster::make_local_group(static_cast<int>(options.devices.size()));
  std::vector<Outcome> outcomes(group.size());
  std::vector<std::unique_ptr<Rank>> ranks(group.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < group.size(); ++r) {
    threads.emplace_back([&, r] {
      Outcome& outcome = outcomes[r];
      try {
        const DeviceGuard guard(options.devices[r]);
        ranks[r] = std::make_unique<Rank>(*group[r], options.devices[r], options.timeout);
        work(*ranks[r]);
        return;
      } catch (const MemberFailed& error) {
        outcome = {Outcome::Kind::kOthersError, error.what()};
      } catch (const DeviceError& error) {
        outcome = {Outcome::Kind::kOwnError, error.what()};
      } catch (const std::exception& error) {
        outcome = {Outcome::Kind::kOtherKind, error.what()};
      }
      group[r]->abort(outcome.error);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

FakeMachine::FakeMachine(int seed) {
  ::setenv("TRAINER_FAKE_CUDA_DEVICES", "4", 1);
  ::setenv("TRAINER_FAKE_CUDA_SEED", std::to_string(seed).c_str(), 1);
  ::setenv("TRAINER_FAKE_NCCL_CONNECT", "1", 1);
  fake::reset();
}

FakeMachine::~FakeMachine() {
  INFO(fake::left_over_text());
  CHECK(fake::left_over() == 0);
}

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

std::vector<int> own_devices(int ranks) {
  std::vector<int> devices(static_cast<std::size_t>(ranks));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::vector<int> one_device(int ranks) {
  return std::vector<int>(static_cast<std::size_t>(ranks), 0);
}

}  // namespace trainer::backend::cuda
