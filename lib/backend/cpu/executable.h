// A graph on the CPU: one lowered program a lane and micro-batch size, run side by side.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "backend/cpu/program.h"
#include "backend/cpu/update.h"

namespace trainer::backend::cpu {

// Memory for activations, one arena a lane, shared by all executables of a backend: only one of
// them runs at a time.
class Arenas {
 public:
  explicit Arenas(int lanes) : memory_(static_cast<std::size_t>(lanes)) {}
  // At least `bytes` for this lane. Arenas handed out before stay valid.
  char* get(int lane, std::int64_t bytes);
  std::int64_t bytes() const;

 private:
  std::vector<std::vector<Memory>> memory_;
};

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const graph::Graph& graph, CpuVariables& variables, Lanes& lanes, Arenas& arenas,
                const Machine& machine, const CompileOptions& options);

  void run(std::int64_t samples, std::span<const void* const> inputs,
           std::span<float* const> outputs, const Scalars& scalars) override;
  MemoryReport memory() const override;
  void print(std::ostream& out) const override;

 private:
  // A lane's share of a call: samples [first, first + count) in pieces of nearly equal size.
  struct Share {
    std::int64_t first = 0, count = 0, pieces = 0;
    std::int64_t piece_first(std::int64_t i) const { return first + count * i / pieces; }
    std::int64_t piece_count(std::int64_t i) const { return piece_first(i + 1) - piece_first(i); }
  };
  struct LaneState {
    Memory gradients;            // of one micro-batch
    Memory sum;                  // of all of them, when there are several
    std::vector<Memory> inputs;  // of a fixed piece that is not full
    std::map<std::int64_t, std::unique_ptr<Lowered>> programs;
  };
  struct Call {
    std::int64_t samples;
    std::span<const void* const> inputs;
    std::span<float* const> outputs;
    const Scalars& scalars;
  };

  std::vector<Share> split(std::int64_t samples) const;
  Lowered& program(int lane, std::int64_t samples);
  // The samples of the program that computes a piece of so many.
  std::int64_t program_samples(std::int64_t count) const {
    return fixed_samples_ > 0 ? fixed_samples_ : count;
  }
  void fix_samples(std::int64_t most);
  const char* input_of_piece(LaneState& state, std::size_t input, const char* host,
                             std::int64_t count, std::int64_t bytes_a_sample) const;
  void find_stale(const std::vector<Share>& shares);
  void make_derived(int lane, int lanes);
  void run_lane(int lane, const Call& call, const std::vector<Share>& shares, int active);
  void run_piece(int lane, const Call& call, const Share& share, std::int64_t piece, int active);

  void update_statistics(const Share& share);

  graph::Graph graph_;
  CpuVariables& variables_;
  Lanes& lanes_;
  Arenas& arenas_;
  const Machine& machine_;
  CompileOptions options_;
  std::int64_t micro_batch_;        // most samples a program takes
  std::int64_t fixed_samples_ = 0;  // all programs are for so many, when a sample's bits need that
  std::vector<LaneState> states_;
  UpdatePhase update_;
  bool updates_ = false;            // has an update phase
  std::atomic<bool> finite_{true};  // of this call's guarded output
  Barrier barrier_, active_barrier_;
  std::vector<void*> exchange_;
  std::vector<DerivedStore::Entry*> stale_[2];  // by level
};

}  // namespace trainer::backend::cpu
