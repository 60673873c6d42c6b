// What ranks of other processes have done: files in a folder that all processes of a test know,
// TRAINER_FAKE_NCCL_FOLDER.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fake {

// The mailbox of one communicator.
class Mailbox {
 public:
  // Null without a folder. `id` is the communicator's, the same in all processes.
  static std::unique_ptr<Mailbox> open(const std::string& id);

  void join(int rank) const;
  bool has_joined(int rank) const;
  // What a rank gives to a call, in whole or not at all. `what` distinguishes it from other calls.
  void give(std::size_t call, int rank, const std::string& what,
            const std::vector<char>& values) const;
  struct Gift {
    std::string what;
    std::vector<char> values;
  };
  std::optional<Gift> taken(std::size_t call, int rank) const;

 private:
  explicit Mailbox(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string file(const std::string& name, int rank) const;

  std::string prefix_;
};

}  // namespace fake
