// Runs our own kernels on the threads of a lane, each of which takes a part of the samples, planes
// or elements. The bits of a result do not depend on the number of threads.
#pragma once

#include <algorithm>

#include "backend/cpu/lanes/on_threads.h"
#include "backend/cpu/lowering.h"
#include "base/numbers/partition.h"

namespace trainer::backend::cpu {

// Calls run(first, count, thread) for parts of `total` items, one on each thread of the lane.
template <class Run>
void over_parts(const CallContext& c, std::int64_t total, const Run& run) {
  if (c.threads == 1) return run(std::int64_t{0}, total, 0);
  on_threads(c.threads, [&](int member) {
    const Partition part = partition(total, c.threads, member);
    if (part.count > 0) run(part.first, part.count, member);
  });
}

// A part of blocked planes.
struct PlanePart {
  simd::PlaneShape shape;
  std::int64_t element = 0;  // its first element among those of all planes
  std::int64_t channel = 0;  // its first channel
};

// Calls run(part) for some blocks of some samples: once for whole samples, because they lie side by
// side.
template <class Run>
void over_samples(const simd::PlaneShape& all, Partition samples, Partition blocks,
                  std::int64_t block, const Run& run) {
  const std::int64_t plane = all.pixels * block, sample = all.blocks * plane;
  if (blocks.count == all.blocks) {
    return run(PlanePart{{samples.count, all.blocks, all.pixels}, samples.first * sample, 0});
  }
  for (std::int64_t s = samples.first; s < samples.first + samples.count; ++s) {
    run(PlanePart{
        {1, blocks.count, all.pixels}, s * sample + blocks.first * plane, blocks.first * block});
  }
}

// Calls run(part) for parts of the planes, with at most `groups` groups of samples.
template <class Run>
void over_groups(const CallContext& c, const simd::PlaneShape& all, std::int64_t block,
                 std::int64_t groups, const Run& run) {
  if (c.threads == 1) return run(PlanePart{all, 0, 0});
  const int threads = c.threads;
  const std::int64_t by_samples = std::clamp<std::int64_t>(groups, 1, threads);
  const std::int64_t by_blocks = std::min(all.blocks, threads / by_samples);
  on_threads(threads, [&](int member) {
    const std::int64_t group = member / by_blocks;
    if (group >= by_samples) return;
    const Partition samples = partition(all.n, by_samples, group);
    const Partition blocks = partition(all.blocks, by_blocks, member % by_blocks);
    over_samples(all, samples, blocks, block, run);
  });
}

// Calls run(part) for parts of the planes on the threads of the lane.
template <class Run>
void over_planes(const CallContext& c, const simd::PlaneShape& all, std::int64_t block,
                 const Run& run) {
  over_groups(c, all, block, all.n, run);
}

// Calls run(part) for sums per channel: one thread takes all samples of a channel, in order.
template <class Run>
void over_channels(const CallContext& c, const simd::PlaneShape& all, std::int64_t block,
                   const Run& run) {
  over_groups(c, all, block, 1, run);
}

}  // namespace trainer::backend::cpu
