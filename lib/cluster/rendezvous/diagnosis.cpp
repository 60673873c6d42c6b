#include "cluster/rendezvous/diagnosis.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cluster/network.h"
#include "cluster/rendezvous/protocol.h"

namespace trainer::cluster {
namespace {

// Returns the first connection of which `is_broken(receiver's report, sender's report)` is true.
template <class IsBroken>
std::optional<std::pair<int, int>> find_connection(const std::vector<RankReport>& all,
                                                   const IsBroken& is_broken) {
  for (std::size_t to = 0; to < all.size(); ++to) {
    for (std::size_t from = 0; from < all.size(); ++from) {
      const TrafficReport& receiver = all[to].traffic[from];
      if (receiver.receive_waits == 0 || !is_broken(receiver, all[from].traffic[to])) continue;
      return std::pair{static_cast<int>(to), static_cast<int>(from)};
    }
  }
  return {};
}

}  // namespace

std::optional<Blame> find_rank_that_left(const std::vector<RankReport>& all) {
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].state == kLeft) return Blame{static_cast<int>(r), "ended before the others"};
  }
  return {};
}

std::optional<Blame> find_broken_connection(const std::vector<RankReport>& all,
                                            Milliseconds timeout, const DescribeRank& describe) {
  const std::string limit = concat(seconds(timeout), ", the limit of parallel.timeout");
  if (const auto found =
          find_connection(all, [](const TrafficReport& receiver, const TrafficReport& sender) {
            return sender.sent > receiver.received;
          })) {
    return Blame{found->first,
                 concat("has received nothing for ", limit, ", of what ", describe(found->second),
                        " has sent to it; check the network between their hosts")};
  }
  if (const auto found =
          find_connection(all, [](const TrafficReport&, const TrafficReport& sender) {
            return sender.send_waits > 0;
          })) {
    return Blame{found->first, concat("waits for ", describe(found->second),
                                      ", whose connection to it has taken no more data for ", limit,
                                      "; check the network between their hosts")};
  }
  return {};
}

std::optional<Blame> find_rank_behind(const std::vector<RankReport>& all, int rank,
                                      std::uint64_t calls, Milliseconds timeout) {
  const auto last = std::ranges::min_element(all, {}, &RankReport::calls);
  const int other = static_cast<int>(last - all.begin());
  if (other == rank || last->calls >= calls) return {};
  return Blame{other, concat("is alive, but has made only ", last->calls, " of ", calls,
                             " calls: it hangs, or needs longer than ", seconds(timeout),
                             ", the limit of parallel.timeout")};
}

std::string describe_silence(Clock::duration time, const std::string& receiver) {
  constexpr Milliseconds kTenth{100};
  return concat("has been silent for ", seconds(time / kTenth * kTenth), " towards ", receiver,
                ": it is stopped, or the network between their hosts has failed; the limit is half "
                "of parallel.timeout");
}

std::string describe_crash(const std::string& other) {
  return concat("was killed or has crashed: its connection to ", other,
                " has closed; if it still runs, check the network between their hosts");
}

}  // namespace trainer::cluster
