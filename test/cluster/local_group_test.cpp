#include "cluster/local_group.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/numbers/sum_tree.h"
#include "base/threads/thread_team.h"

using namespace trainer;
using cluster::Communicator;
using cluster::make_local_group;

namespace {

// Runs work(communicator) on a thread for each rank.
void on_all(std::vector<std::unique_ptr<Communicator>>& group,
            const std::function<void(Communicator&)>& work) {
  ThreadTeam team(static_cast<int>(group.size()));
  team.run([&](int rank) { work(*group[static_cast<std::size_t>(rank)]); },
           [&](int rank) { group[static_cast<std::size_t>(rank)]->abort(handled_message()); });
}

// Numbers whose sum depends on the order of the additions.
float number(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(rank) * 131 + 1)) *
         std::pow(10.0f,
                  static_cast<float>(static_cast<int>(i + static_cast<std::size_t>(rank)) % 7));
}

float in_tree(int first, int count, std::size_t i) {
  if (count == 1) return number(first, i);
  return in_tree(first, count / 2, i) + in_tree(first + count / 2, count - count / 2, i);
}

// Stands for a link to another process: counts what goes through it, and doubles every sum.
class Link final : public Communicator {
 public:
  Link(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(std::span<float> values) override { twice(values); }
  void all_reduce(std::span<double> values) override { twice(values); }
  void all_reduce(std::span<std::int64_t> values) override { twice(values); }
  void all_reduce_tree(std::int64_t, std::span<float* const> roots, std::size_t count) override {
    roots_given = roots.size();
    twice(std::span(roots[0], count));
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    if (root != rank_) std::fill(bytes.begin(), bytes.end(), std::byte{42});
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = mine[i % mine.size()];
  }
  void barrier() override { ++calls; }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<Link>(rank_, size_);
  }
  void abort(const std::string& reason) noexcept override { aborted = reason; }

  int calls = 0;
  std::size_t roots_given = 0;
  std::string aborted;

 private:
  template <class T>
  void twice(std::span<T> values) {
    ++calls;
    for (T& value : values) value += value;
  }
  int rank_, size_;
};

}  // namespace

TEST_CASE("make_local_group: all_reduce gives the same bits on all of any number of ranks") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    auto group = make_local_group(ranks);
    for (const std::size_t size : {0, 1, 15, 16, 17, 1000, 5000}) {
      std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
      on_all(group, [&](Communicator& mine) {
        std::vector<float>& values = results[static_cast<std::size_t>(mine.rank())];
        for (std::size_t i = 0; i < size; ++i) values.push_back(number(mine.rank(), i));
        mine.all_reduce(std::span(values));
      });
      for (const std::vector<float>& result : results) CHECK(result == results[0]);
      int wrong = 0;
      for (std::size_t i = 0; i < size; ++i) {
        wrong += results[0][i] != in_tree(0, ranks, i);
      }
      CHECK_MESSAGE(wrong == 0, ranks, " ranks, ", size, " elements");
    }
  }
}

TEST_CASE("all_reduce_tree equals the tree bit by bit for any number of ranks") {
  for (const std::int64_t leaves : {8, 32}) {
    for (const int ranks : {1, 2, 3, 5, 6, 7, 8}) {
      auto group = make_local_group(ranks);
      for (const std::size_t size : {1, 17, 3000}) {
        CAPTURE(leaves);
        CAPTURE(ranks);
        CAPTURE(size);
        std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
        on_all(group, [&](Communicator& mine) {
          const Partition own = partition(leaves, ranks, mine.rank());
          std::vector<std::vector<float>> values;
          for (const TreeBlock& root : tree_roots(own.first, own.first + own.count)) {
            values.emplace_back();
            for (std::size_t i = 0; i < size; ++i) {
              values.back().push_back(
                  in_tree(static_cast<int>(root.first), static_cast<int>(root.count), i));
            }
          }
          std::vector<float*> roots;
          for (std::vector<float>& root : values) roots.push_back(root.data());
          mine.all_reduce_tree(leaves, roots, size);
          results[static_cast<std::size_t>(mine.rank())] = values[0];
        });
        std::vector<float> expected;
        for (std::size_t i = 0; i < size; ++i) {
          expected.push_back(in_tree(0, static_cast<int>(leaves), i));
        }
        for (const std::vector<float>& result : results) CHECK(result == expected);
      }
    }
  }
}

TEST_CASE("all_reduce_tree: ranks of several processes hand on the roots that they complete") {
  // There are 16 leaves: rank 0 has the root of 0 and 1, rank 1 those of 2 and 3, and of 4.
  Link link(0, 3);
  auto group = make_local_group(2, &link);
  on_all(group, [&](Communicator& mine) {
    std::vector<float> first(20, mine.rank() == 0 ? 1.0f : 2.0f), second(20, 4.0f);
    std::vector<float*> roots{first.data()};
    if (mine.rank() == 1) roots.push_back(second.data());
    mine.all_reduce_tree(16, roots, 20);
    CHECK(first == std::vector<float>(20, 6.0f));  // the link doubles the root of 0 to 3
  });
  CHECK(link.roots_given == 2);
}

TEST_CASE("all_reduce_tree: a rank with another number of roots is an error") {
  auto group = make_local_group(2);
  CHECK_THROWS_AS(on_all(group,
                         [](Communicator& mine) {
                           std::vector<float> values(5);
                           const std::vector<float*> roots(mine.rank() == 0 ? 1 : 2, values.data());
                           mine.all_reduce_tree(8, roots, 5);
                         }),
                  std::logic_error);
}

TEST_CASE("make_local_group: broadcast, all_gather and duplicate return doubles and integers") {
  auto group = make_local_group(3);
  on_all(group, [&](Communicator& mine) {
    const int rank = mine.rank();
    REQUIRE(mine.size() == 3);
    std::vector<double> numbers(100, rank + 0.5);
    mine.all_reduce(std::span(numbers));
    CHECK(numbers == std::vector<double>(100, 4.5));
    std::vector<std::int64_t> counts(3, std::int64_t{1} << 40);
    mine.all_reduce(std::span(counts));
    CHECK(counts == std::vector<std::int64_t>(3, std::int64_t{3} << 40));

    int word = rank;
    mine.broadcast(std::as_writable_bytes(std::span(&word, 1)), 2);
    mine.broadcast({}, 1);
    mine.all_gather({}, {});
    CHECK(word == 2);
    std::vector<int> all(3);
    mine.all_gather(std::as_bytes(std::span(&rank, 1)), std::as_writable_bytes(std::span(all)));
    CHECK(all == std::vector<int>{0, 1, 2});
    mine.barrier();

    const auto other = mine.duplicate();
    CHECK(other->rank() == rank);
    CHECK(other->size() == 3);
    std::vector<float> ones(20, 1.0f);
    other->all_reduce(std::span(ones));
    CHECK(ones == std::vector<float>(20, 3.0f));
  });
}

TEST_CASE(
    "make_local_group: many calls from two threads per rank on two groups give correct sums") {
  auto group = make_local_group(3);
  on_all(group, [&](Communicator& mine) {
    const auto other = mine.duplicate();
    const auto many = [](Communicator& communicator) {
      for (int i = 0; i < 300; ++i) {
        std::vector<std::int64_t> values(static_cast<std::size_t>(i % 40), i);
        communicator.all_reduce(std::span(values));
        if (!values.empty() && values.back() != 3 * i) throw CheckError("a wrong sum");
      }
    };
    std::thread beside([&] { many(*other); });
    many(mine);
    beside.join();
  });
}

TEST_CASE("make_local_group: the others wake and name a rank that fails") {
  for (const bool waits_long : {false, true}) {
    auto group = make_local_group(3);
    std::vector<std::string> messages(3);
    on_all(group, [&](Communicator& mine) {
      try {
        if (mine.rank() == 1) {
          // A slow rank: the others sleep in the barrier by now, rather than spin.
          if (waits_long) std::this_thread::sleep_for(std::chrono::milliseconds(30));
          mine.abort("no memory");
          return;
        }
        mine.barrier();
      } catch (const PeerError& error) {
        messages[static_cast<std::size_t>(mine.rank())] = error.what();
      }
    });
    CHECK(messages[0].find("replica 1 of this process has failed: no memory") != std::string::npos);
    CHECK(messages[2] == messages[0]);
    // And whoever comes later.
    CHECK_THROWS_AS(group[0]->barrier(), PeerError);
  }
}

TEST_CASE("make_local_group: calls of different sizes throw std::logic_error") {
  auto group = make_local_group(2);
  CHECK_THROWS_AS(on_all(group,
                         [](Communicator& mine) {
                           std::vector<float> values(mine.rank() == 0 ? 5 : 6);
                           mine.all_reduce(std::span(values));
                         }),
                  std::logic_error);
}

TEST_CASE(
    "make_local_group: ranks of several processes sum in memory before one call between them") {
  Link link(1, 2);
  auto group = make_local_group(2, &link);
  on_all(group, [&](Communicator& mine) {
    CHECK(mine.size() == 4);
    std::vector<float> values(50, static_cast<float>(mine.rank()));  // 2 and 3
    mine.all_reduce(std::span(values));
    CHECK(values == std::vector<float>(50, 10.0f));
    for (const int root : {0, 3}) {
      char letter = static_cast<char>('a' + mine.rank());
      mine.broadcast(std::as_writable_bytes(std::span(&letter, 1)), root);
      CHECK(letter == (root == 3 ? 'd' : 42));
    }
    std::vector<char> all(4);
    const char letter = static_cast<char>('a' + mine.rank());
    mine.all_gather(std::as_bytes(std::span(&letter, 1)), std::as_writable_bytes(std::span(all)));
    CHECK(all == std::vector<char>{'c', 'd', 'c', 'd'});
    mine.barrier();
    const auto other = mine.duplicate();
    CHECK(other->rank() == mine.rank());
  });
  CHECK(link.calls == 2);
  group[1]->abort("no memory");
  CHECK(link.aborted == "no memory");
}

TEST_CASE("ThreadTeam: the error of a member that throws is rethrown, and the others wake") {
  ThreadTeam team(3);
  for (int run = 0; run < 50; ++run) {
    auto group = make_local_group(3);
    CHECK_THROWS_AS(team.run(
                        [&](int member) {
                          if (member == run % 3) throw DataError("file", "is damaged");
                          group[static_cast<std::size_t>(member)]->barrier();
                        },
                        [&](int member) {
                          CHECK(member == run % 3);
                          group[static_cast<std::size_t>(member)]->abort(handled_message());
                        }),
                    DataError);
    std::vector<int> done(3);
    team.run([&](int member) { done[static_cast<std::size_t>(member)] = 1; });
    CHECK(done == std::vector<int>(3, 1));
  }
}
