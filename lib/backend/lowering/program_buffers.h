// The buffers of a program: where each of them lies, and during which instructions it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trainer::backend {

// Index into a program's table of pointers. -1 stands for no buffer.
using BufferId = int;

// The origin of an entry of the table of pointers.
struct BufferSource {
  enum class Kind { kArena, kFixed, kGradient, kInput } kind = Kind::kFixed;
  // kArena: bytes from the start of the arena. kGradient: elements from that of the flat gradient.
  // kInput: index of the input.
  std::int64_t offset = 0;
  std::byte* address = nullptr;  // kFixed
};

// Returns the table of pointers for one run. An input that `inputs` does not contain is null.
// `gradients` is the flat gradient; it may be null if no source is of kind kGradient.
std::vector<std::byte*> make_pointers(std::span<const BufferSource> sources, std::byte* arena,
                                      std::span<std::byte* const> inputs, float* gradients);

// The view of the buffers that an instruction has while it runs.
struct BufferPointers {
  std::byte* const* pointers = nullptr;

  template <class T = void>
  T* at(BufferId buffer) const {
    return reinterpret_cast<T*>(pointers[buffer]);
  }
};

// Collects the buffers of a program while its instructions are made one after another, and then
// plans the arena. A buffer is used from the first instruction that names it in use() to the last
// one.
class ProgramBuffers {
 public:
  // Offsets in the arena are multiples of `alignment` bytes. Sizes are rounded up to multiples of
  // `size_unit` bytes before the largest buffer is looked for.
  ProgramBuffers(std::int64_t alignment, std::int64_t size_unit)
      : alignment_(alignment), size_unit_(size_unit) {}

  BufferId add(const BufferSource& source);
  BufferId add_fixed(const void* address);
  BufferId add_arena(std::int64_t bytes);
  // Adds a gradient that lies at this offset of the flat gradient, in elements.
  BufferId add_gradient(const BufferSource& source, std::int64_t offset);

  // Records that the next instruction uses the buffer, and reads or writes `bytes` of it.
  void use(BufferId buffer, std::int64_t bytes = 0) { pending_.uses.push_back({buffer, bytes}); }
  // Records that the next instruction reads or writes `bytes` more bytes.
  void add_traffic(std::int64_t bytes) { pending_.traffic_bytes += bytes; }
  // Returns memory of the arena that the next instruction uses, and later ones that name it in
  // use().
  BufferId scratch(std::int64_t bytes);
  struct InstructionMemory {
    std::int64_t scratch_bytes = 0;  // scratch that the instruction asked for
    std::int64_t traffic_bytes = 0;  // the instruction's buffers, each once, and add_traffic()
  };
  // Ends an instruction.
  InstructionMemory end_instruction();
  // The buffers that the instruction in progress uses. Another instruction can be made in between:
  // it begins after set_aside() and ends before resume().
  struct Use {
    BufferId buffer = -1;
    std::int64_t bytes = 0;
  };
  struct Pending {
    std::vector<Use> uses;
    std::int64_t scratch_bytes = 0, traffic_bytes = 0;
  };
  Pending set_aside() { return std::exchange(pending_, {}); }
  void resume(Pending pending) { pending_ = std::move(pending); }
  // Records that the buffer is read after the last instruction.
  void use_after_last(BufferId buffer) { info(buffer).last_use = instructions_; }

  // ---- When all instructions are made ----
  struct Plan {
    std::vector<BufferSource> sources;  // one per buffer; those that no instruction uses are null
    std::int64_t arena_bytes = 0;
  };
  Plan plan() const;
  // Sorted pairs (instruction, offset in the flat gradient): the instruction is the last one that
  // writes the gradient at this offset.
  std::vector<std::pair<int, std::int64_t>> gradient_writers() const;

 private:
  struct Info {
    BufferSource source;
    std::int64_t bytes = 0;      // bytes in the arena
    std::int64_t gradient = -1;  // offset in the flat gradient; -1 if it does not lie there
    int first_use = -1, last_use = -1;
  };
  Info& info(BufferId buffer) { return infos_[buffer]; }

  std::int64_t alignment_, size_unit_;
  std::vector<Info> infos_;
  Pending pending_;
  int instructions_ = 0;  // ended so far
};

}  // namespace trainer::backend
