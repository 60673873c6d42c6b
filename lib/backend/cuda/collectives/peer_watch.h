// The thread that looks for failures of other ranks.
// Reasons: lib/decisions/backend.md#a-thread-per-group-watches-the-peers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace trainer::backend::cuda {

// Host threads that wait for a device block, so another thread has to find that a rank is gone.
// Thread-safe.
class PeerWatch {
 public:
  class Watched {
   public:
    // Looks for a failure of another rank and ends the waits if there is one. Must not wait for a
    // device, and must not call add() or remove(). The thread of the watch calls it every 10 ms.
    virtual void look() noexcept = 0;

   protected:
    ~Watched() = default;
  };

  PeerWatch() = default;
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // The thread exists from the first call on.
  void add(Watched& watched);
  // Waits for a look that is in progress. `watched` is not used after it returns.
  void remove(Watched& watched);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched*> watched_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace trainer::backend::cuda
