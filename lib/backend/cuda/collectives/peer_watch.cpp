#include "backend/cuda/collectives/peer_watch.h"

#include <chrono>

namespace trainer::backend::cuda {
namespace {

// The pause is short compared with every timeout, and long compared with a look.
constexpr std::chrono::milliseconds kLookPause(10);

}  // namespace

PeerWatch::~PeerWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void PeerWatch::add(Watched& watched) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(&watched);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void PeerWatch::remove(Watched& watched) {
  const std::lock_guard lock(mutex_);
  std::erase(watched_, &watched);
}

void PeerWatch::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookPause, [this] { return is_over_; })) {
    for (Watched* watched : watched_) watched->look();
  }
}

}  // namespace trainer::backend::cuda
