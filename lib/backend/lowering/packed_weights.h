// Copies of persistent values in the types and layouts that kernels read, or folded with batch
// norm. All executables of a model share them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace trainer::backend {

// `Memory` owns the memory of a copy and is what the backend allocates. `Signature` is the type of
// the function that makes a copy, such as void().
template <class Memory, class Signature>
class PackedWeights {
 public:
  using Make = std::function<Signature>;
  struct Entry {
    int order = 0;  // 0: made of persistent values; 1: may be made of entries of order 0
    Memory memory;
    Make make;
    bool changed_by_training = false;  // made of a value that training steps change
    std::uint64_t version = 0;         // version of the values that it was made of; 0: never made
  };

  // Returns the entry of this key, which stays valid as long as this object. Calls `allocate()` and
  // `create(memory)` if the entry is new.
  Entry& get(const std::string& key, int order, const std::function<Memory()>& allocate,
             const std::function<Make(const Memory& memory)>& create) {
    if (const auto found = entries_.find(key); found != entries_.end()) return *found->second;
    auto entry = std::make_unique<Entry>();
    entry->order = order;
    entry->memory = allocate();
    entry->make = create(entry->memory);
    return *entries_.emplace(key, std::move(entry)).first->second;
  }

  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const auto& [key, entry] : entries_) {
      total += static_cast<std::int64_t>(entry->memory.bytes());
    }
    return total;
  }

  // Record that training steps have changed values, or that a caller has written any value. Entries
  // that are made of these values are stale from now on.
  void note_training() { ++version_; }
  void note_write() {
    ++version_;
    ++written_;
  }
  bool is_stale(const Entry& entry) const { return entry.version != current_version(entry); }
  // Records that the entry was made, or will have been made when the work that is already enqueued
  // is done. Different threads may call this for different entries.
  void mark_made(Entry& entry) const { entry.version = current_version(entry); }

 private:
  std::uint64_t current_version(const Entry& entry) const {
    return entry.changed_by_training ? version_ : written_;
  }

  std::map<std::string, std::unique_ptr<Entry>> entries_;
  std::uint64_t version_ = 1;  // the version of all values
  std::uint64_t written_ = 1;  // the version of the values that training does not change
};

}  // namespace trainer::backend
