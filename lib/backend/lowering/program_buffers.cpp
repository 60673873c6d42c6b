#include "backend/lowering/program_buffers.h"

#include <algorithm>
#include <map>

#include "backend/arena.h"

namespace trainer::backend {

std::vector<std::byte*> make_pointers(std::span<const BufferSource> sources, std::byte* arena,
                                      std::span<std::byte* const> inputs, float* gradients) {
  std::vector<std::byte*> pointers;
  pointers.reserve(sources.size());
  for (const BufferSource& source : sources) {
    const std::size_t input = source.offset;
    switch (source.kind) {
      case BufferSource::Kind::kArena:
        pointers.push_back(arena + source.offset);
        break;
      case BufferSource::Kind::kFixed:
        pointers.push_back(source.address);
        break;
      case BufferSource::Kind::kGradient:
        pointers.push_back(reinterpret_cast<std::byte*>(gradients + source.offset));
        break;
      case BufferSource::Kind::kInput:
        pointers.push_back(input < inputs.size() ? inputs[input] : nullptr);
        break;
    }
  }
  return pointers;
}

BufferId ProgramBuffers::add(const BufferSource& source) {
  infos_.push_back({source, 0, -1, -1, -1});
  return static_cast<BufferId>(infos_.size()) - 1;
}

BufferId ProgramBuffers::add_fixed(const void* address) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(address));
  return add({BufferSource::Kind::kFixed, 0, bytes});
}

BufferId ProgramBuffers::add_arena(std::int64_t bytes) {
  const BufferId buffer = add({BufferSource::Kind::kArena, 0, nullptr});
  const std::int64_t units = (std::max<std::int64_t>(bytes, 1) + size_unit_ - 1) / size_unit_;
  info(buffer).bytes = units * size_unit_;
  return buffer;
}

BufferId ProgramBuffers::add_gradient(const BufferSource& source, std::int64_t offset) {
  const BufferId buffer = add(source);
  info(buffer).gradient = offset;
  return buffer;
}

BufferId ProgramBuffers::scratch(std::int64_t bytes) {
  const BufferId buffer = add_arena(bytes);
  use(buffer);
  pending_.scratch_bytes += bytes;
  return buffer;
}

ProgramBuffers::InstructionMemory ProgramBuffers::end_instruction() {
  std::map<BufferId, std::int64_t> moved;
  for (const auto& [buffer, bytes] : pending_.uses) {
    Info& used = info(buffer);
    if (used.first_use < 0) used.first_use = instructions_;
    used.last_use = instructions_;
    moved[buffer] = std::max(moved[buffer], bytes);
  }
  ++instructions_;
  const Pending ended = set_aside();
  InstructionMemory memory{ended.scratch_bytes, ended.traffic_bytes};
  for (const auto& [buffer, bytes] : moved) memory.traffic_bytes += bytes;
  return memory;
}

ProgramBuffers::Plan ProgramBuffers::plan() const {
  Plan plan;
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> in_arena;
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    const Info& info = infos_[i];
    const bool arena = info.source.kind == BufferSource::Kind::kArena;
    plan.sources.push_back(arena && info.first_use < 0 ? BufferSource{} : info.source);
    if (!arena || info.first_use < 0) continue;
    lifetimes.push_back({info.bytes, info.first_use, info.last_use});
    in_arena.push_back(i);
  }
  const ArenaPlan arena = plan_arena(lifetimes, alignment_);
  for (std::size_t i = 0; i < in_arena.size(); ++i) {
    plan.sources[in_arena[i]].offset = arena.offsets[i];
  }
  plan.arena_bytes = arena.bytes;
  return plan;
}

std::vector<std::pair<int, std::int64_t>> ProgramBuffers::gradient_writers() const {
  std::vector<std::pair<int, std::int64_t>> writers;
  for (const Info& info : infos_) {
    if (info.gradient >= 0 && info.last_use >= 0) {
      writers.emplace_back(info.last_use, info.gradient);
    }
  }
  std::ranges::sort(writers);
  return writers;
}

}  // namespace trainer::backend
