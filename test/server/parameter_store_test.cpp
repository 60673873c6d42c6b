// What servers keep and how it changes, without the network.
#include "server/parameter_store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "server/layout.h"
#include "support.h"

namespace trainer::server {
namespace {

using backend::FlatBuffer;

constexpr FlatBuffer kParameters{FlatBuffer::Kind::kParameters};

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Kept {
  explicit Kept(std::optional<ParameterStore::First> first = ParameterStore::First{},
                Partition part = {0, 64})
      : store(first), statistics(first ? 3 : 0) {
    store.initialise(small_start(), part, rate_of_tests);
    const std::vector<float> values = numbers(64, 1);
    store.write(kParameters, std::span(values).subspan(static_cast<std::size_t>(part.first),
                                                       static_cast<std::size_t>(part.count)));
    store.start();
  }

  Pushed push(std::int64_t pulled, const std::vector<float>& gradient, std::int64_t update = 0,
              const std::vector<float>& moved = {}) {
    ParameterStore::Push message;
    message.pulled = pulled;
    message.update = update;
    message.gradient.values = gradient;
    message.statistics_before = statistics;
    message.statistics = moved.empty() ? statistics : moved;
    parameters.clear();
    returned.clear();
    return store.push(message, parameters, returned);
  }

  ParameterStore store;
  std::vector<float> statistics;
  std::string parameters, returned;
};

}  // namespace

TEST_CASE("find_shard returns equal shares of whole cache lines that cover all values") {
  for (const std::int64_t count : {0, 16, 64, 1008, 121'936}) {
    for (const std::int64_t servers : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < servers; ++i) {
        const Partition part = find_shard(count, i, servers);
        CHECK(part.first == next);
        CHECK(part.count <= (count + servers - 1) / servers + 15);
        if (part.count > 0 && part.first + part.count < count) CHECK(part.count % 16 == 0);
        next = part.first + part.count;
      }
      CHECK(next == count);
    }
  }
}

TEST_CASE("ParameterStore: the update of several servers equals that of one bit by bit") {
  Kept whole;
  std::vector<std::unique_ptr<Kept>> parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    parts.push_back(std::make_unique<Kept>(
        i == 0 ? std::optional(ParameterStore::First{}) : std::nullopt, find_shard(64, i, 3)));
  }
  for (int step = 0; step < 5; ++step) {
    const std::vector<float> gradient = numbers(64, 10 + step);
    const Pushed pushed = whole.push(step, gradient);
    CHECK(pushed.update == step + 1);
    CHECK(pushed.learning_rate == rate_of_tests(step));
    std::string together;
    for (std::int64_t i = 0; i < 3; ++i) {
      const Partition part = find_shard(64, i, 3);
      const std::vector<float> own(gradient.begin() + part.first,
                                   gradient.begin() + part.first + part.count);
      Kept& server = *parts[static_cast<std::size_t>(i)];
      server.push(step, own, pushed.update);
      together += server.parameters;
    }
    CHECK(together == whole.parameters);
  }
  CHECK(floats(whole.parameters) != numbers(64, 1));
}

TEST_CASE("ParameterStore counts stale gradients and rejects them beyond the limit") {
  Kept kept(ParameterStore::First{1});
  const std::vector<float> gradient = numbers(64, 2);
  CHECK(kept.push(0, gradient).staleness == 0);
  const Pushed second = kept.push(0, gradient);
  CHECK(second.result == Pushed::Result::kApplied);
  CHECK(second.staleness == 1);
  const std::string before = kept.parameters;
  const Pushed third = kept.push(0, gradient);
  CHECK(third.result == Pushed::Result::kStale);
  CHECK(third.staleness == 2);
  CHECK(third.step == 2);
  CHECK(kept.parameters == before);  // the newest, to try with
  CHECK(kept.push(third.step, gradient).result == Pushed::Result::kApplied);
  const Staleness staleness = kept.store.staleness();
  CHECK(staleness.refused == 1);
  CHECK(staleness.max == 1);
  CHECK(staleness.mean == doctest::Approx(1.0 / 3));
}

TEST_CASE("ParameterStore: moving statistics are replaced by one worker and moved by several") {
  Kept kept;
  const std::vector<float> gradient = numbers(64, 2);
  kept.push(0, gradient, 0, {0.1f, 0.2f, 0.3f});
  CHECK(floats(kept.returned) == std::vector<float>{0.1f, 0.2f, 0.3f});
  kept.push(0, gradient, 0, {1, 2, -3});  // pulled before that
  const std::vector<float> moved = floats(kept.returned);
  CHECK(moved[0] == doctest::Approx(1.1));
  CHECK(moved[1] == doctest::Approx(2.2));
  CHECK(moved[2] == doctest::Approx(-2.7));
}

TEST_CASE("ParameterStore::hold: updates wait until release() and none is lost") {
  Kept kept;
  const std::vector<float> gradient = numbers(64, 2);
  CHECK(kept.store.hold() == 0);
  std::atomic<bool> done{false};
  std::thread worker([&] {
    kept.push(0, gradient);
    done = true;
  });
  std::string values;
  kept.store.read(kParameters, 0, std::chrono::milliseconds(20), values);
  CHECK(floats(values) == numbers(64, 1));
  CHECK_FALSE(done);
  kept.store.release();
  worker.join();
  CHECK(kept.store.step() == 1);
}

TEST_CASE("ParameterStore::read waits for a started update up to the timeout") {
  Kept other(std::nullopt, find_shard(64, 1, 2));
  std::string values;
  std::thread worker([&] { other.push(0, numbers(32, 2), 1); });
  other.store.read(kParameters, 1, std::chrono::seconds(60), values);
  worker.join();
  CHECK(floats(values) != numbers(32, 1));
  values.clear();
  other.store.read(kParameters, 2, std::chrono::milliseconds(1), values);  // its worker has died
  CHECK(other.store.step() == 2);
}

TEST_CASE("ParameterStore: no update is applied after the last step") {
  Start start = small_start();
  start.step = 999;
  ParameterStore store(ParameterStore::First{});
  store.initialise(start, {0, 64}, rate_of_tests);
  store.start();
  const std::vector<float> gradient(64), statistics(3);
  std::string parameters, returned;
  const ParameterStore::Push push{999, 0, {gradient, {}}, statistics, statistics};
  CHECK(store.push(push, parameters, returned).update == 1000);
  CHECK(store.push(push, parameters, returned).result == Pushed::Result::kOver);
  CHECK(store.step() == 1000);
}

TEST_CASE("ParameterStore: a push of another size or in a wrong state is rejected") {
  Kept kept;
  CHECK_THROWS_AS(kept.push(0, numbers(63, 1)), std::invalid_argument);
  CHECK_THROWS_AS(kept.push(0, numbers(64, 1), 0, {1}), std::invalid_argument);
  CHECK_THROWS_AS(kept.store.initialise(small_start(), {0, 64}, rate_of_tests),
                  std::invalid_argument);
  ParameterStore empty(ParameterStore::First{});
  std::string text;
  CHECK_THROWS_AS(empty.pull(text, text), std::invalid_argument);
}

}  // namespace trainer::server
