// One rank of a job that only sums, for tests with real processes: who it is comes from the flags
// and the environment as in `trainer train`. Prints "joined", "step N" and "done" on standard
// output.
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/numbers/random.h"
#include "base/numbers/sum_tree.h"
#include "base/process/process.h"
#include "base/threads/thread_team.h"
#include "cluster/collective/peer_communicator.h"
#include "cluster/local_group.h"
#include "commands/launch/launch.h"

namespace trainer::cluster {
namespace {

using Options = std::map<std::string, std::string>;  // --name value

int number(const Options& options, const std::string& name, int otherwise) {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : std::stoi(found->second);
}

Identity who_am_i(const Options& options) {
  IdentityFlags flags;
  if (options.count("rank") > 0) flags.rank = number(options, "rank", 0);
  if (options.count("world-size") > 0) flags.world_size = number(options, "world-size", 0);
  if (options.count("master") > 0) flags.master = options.at("master");
  return identify(flags, environment_variables());
}

Algorithm find_algorithm(const Options& options) {
  const std::string name = options.count("algorithm") > 0 ? options.at("algorithm") : "ring";
  if (const auto algorithm = parse_enum<Algorithm>(name)) return *algorithm;
  throw ConfigError({}, "--algorithm " + name);
}

void expect(bool condition, const char* what) {
  if (!condition) throw CheckError(std::string(what) + " is wrong");
}

template <class T>
void check_sum(Communicator& group, std::size_t count, int step) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>((group.rank() + 1) * (static_cast<int>(i % 13) + step % 5));
  }
  group.all_reduce(std::span<T>(values));
  const int ranks = group.size() * (group.size() + 1) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    expect(values[i] == static_cast<T>(ranks * (static_cast<int>(i % 13) + step % 5)), "a sum");
  }
}

void check_all(Communicator& group, int step) {
  for (const std::size_t count : {1, 2, 5, 1023, 1025, 70'001, 1'100'003})
    check_sum<float>(group, count, step);
  for (const std::size_t count : {3, 3001, 600'001}) {
    check_sum<double>(group, count, step);
    check_sum<std::int64_t>(group, count, step);
  }
  std::vector<int> message(1000, group.rank() == step % group.size() ? step : -1);
  group.broadcast(std::as_writable_bytes(std::span(message)), step % group.size());
  expect(message == std::vector<int>(1000, step), "a broadcast");
  for (const std::size_t count : {3, 300'001}) {
    const std::vector<int> mine(count, group.rank());
    std::vector<int> all(count * static_cast<std::size_t>(group.size()), -1);
    group.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    for (std::size_t i = 0; i < all.size(); ++i)
      expect(all[i] == static_cast<int>(i / count), "a gathered value");
  }
  group.barrier();
}

// Every call, on two groups at once.
void run_sums(Communicator& group, int steps) {
  const auto other = group.duplicate();
  std::thread beside([&] {
    for (int step = 0; step < steps; ++step) check_all(*other, step + 1);
  });
  for (int step = 0; step < steps; ++step) check_all(group, step);
  beside.join();
}

float compute_value(int rank, std::size_t i) {
  return Random(7, Stream::kSynthetic, static_cast<std::uint64_t>(rank), i).normal();
}

float sum_in_tree(int first, int count, std::size_t i) {
  if (count == 1) return compute_value(first, i);
  return sum_in_tree(first, count / 2, i) + sum_in_tree(first + count / 2, count - count / 2, i);
}

// Sums numbers whose sum depends on the order, and compares them with the tree.
void run_bits(Communicator& group) {
  for (const std::size_t count : {1, 3, 1000, 1031, 60'003}) {
    std::vector<float> values(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = compute_value(group.rank(), i);
      expected[i] = sum_in_tree(0, group.size(), i);
    }
    group.all_reduce(std::span<float>(values));
    expect(std::memcmp(values.data(), expected.data(), count * sizeof(float)) == 0,
           "the order of a sum");
  }
}

float block_value(const TreeBlock& block, std::size_t i) {
  if (block.count == 1) return compute_value(static_cast<int>(block.first), i);
  const std::int64_t half = block.count / 2;
  return block_value({block.first, half}, i) + block_value({block.first + half, half}, i);
}

// Returns `count` values of a block. They repeat, because drawing them takes longer than summing
// them.
std::vector<float> block_values(const TreeBlock& block, std::size_t count) {
  constexpr std::size_t kPeriod = 997;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = i < kPeriod ? block_value(block, i) : values[i - kPeriod];
  }
  return values;
}

// Takes part in an ordered sum and compares it with the tree evaluated directly.
void check_tree(Communicator& group, std::int64_t leaves, std::size_t count) {
  const Partition own = partition(leaves, group.size(), group.rank());
  std::vector<std::vector<float>> values;
  for (const TreeBlock& block : tree_roots(own.first, own.first + own.count)) {
    values.push_back(block_values(block, count));
  }
  std::vector<float*> roots;
  for (std::vector<float>& root : values) roots.push_back(root.data());
  group.all_reduce_tree(leaves, roots, count);
  const std::vector<float> expected = block_values({0, leaves}, count);
  expect(std::memcmp(values[0].data(), expected.data(), count * sizeof(float)) == 0,
         "an ordered sum");
}

// Checks ordered sums between processes, and between two replicas of each process.
void run_tree(Communicator& group) {
  for (const std::int64_t leaves : {16, 64}) {
    for (const std::size_t count : {1, 5, 1031, 300'007}) check_tree(group, leaves, count);
  }
  auto replicas = make_local_group(2, &group);
  ThreadTeam team(2);
  team.run(
      [&](int replica) { check_tree(*replicas[static_cast<std::size_t>(replica)], 32, 5003); },
      [&](int replica) { replicas[static_cast<std::size_t>(replica)]->abort(handled_message()); });
}

void run_loop(Rendezvous& rendezvous, Communicator& group, const Options& options) {
  std::vector<float> values(static_cast<std::size_t>(number(options, "count", 100'000)));
  for (int step = 0;; ++step) {
    rendezvous.set_phase(concat("training, step ", step));
    if (options.count("start") > 0 && step == number(options, "end-at", -1)) return;
    const bool chosen = rendezvous.rank() == number(options, "which", rendezvous.rank());
    if (chosen && step == number(options, "hang-at", -1)) ::pause();
    if (chosen && step == number(options, "stop-at", -1)) ::raise(SIGSTOP);
    if (chosen && step == number(options, "leave-at", -1)) return;
    if (chosen && step == number(options, "kill-at", -1)) ::raise(SIGKILL);
    if (chosen && step == number(options, "fail-at", -1))
      throw DataError("images/7.jpg", "is damaged");
    if (chosen && step == number(options, "abort-at", -1)) {
      const std::string reason =
          options.count("reason") > 0 ? options.at("reason") : "no memory for lane 1";
      group.abort(reason);
      throw DeviceError(reason);
    }
    group.all_reduce(std::span<float>(values));
    std::cout << "step " << step << std::endl;
  }
}

// One that no signal but SIGKILL ends, beside one that fails once the other is so far.
void ignore_signals(Rendezvous& rendezvous) {
  if (rendezvous.rank() == 0) {
    rendezvous.get("deaf");
    throw DataError("images/7.jpg", "is damaged");
  }
  std::signal(SIGTERM, SIG_IGN);
  std::cout << "deaf" << std::endl;
  rendezvous.set("deaf", "");
  while (true) ::pause();
}

// Ends as after a signal: rank 0 saves for longer than the launcher is patient.
[[noreturn]] void stop_by_signal(Rendezvous& rendezvous) {
  if (rendezvous.rank() == 0) {
    rendezvous.set("saving", "");
    // The length of the pause is what the test is about.
    std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    std::cout << "saved" << std::endl;
  } else {
    rendezvous.get("saving");
  }
  throw Error(kExitInterrupted, "interrupted");
}

void run(const Options& options) {
  const Identity identity = who_am_i(options);
  const std::string version = options.count("version") > 0 ? options.at("version") : "1";
  const auto rendezvous = std::make_shared<Rendezvous>(
      identity, RendezvousOptions{std::chrono::milliseconds(number(options, "timeout", 30'000)),
                                  version, number(options, "shared-memory", 1) != 0});
  cpu_set_t cores;
  ::sched_getaffinity(0, sizeof cores, &cores);
  std::cout << "process " << ::getpid() << "\ncores " << CPU_COUNT(&cores) << std::endl;
  try {
    std::cout << "joined as rank " << rendezvous->rank() << " of " << rendezvous->size() << " by "
              << identity.source << " at " << rendezvous->self().address << " local "
              << rendezvous->self().local_rank << std::endl;
    if (options.count("agree") > 0) rendezvous->agree("config", options.at("agree"));
    const auto group = open_group(rendezvous, find_algorithm(options));
    const std::string mode = options.count("mode") > 0 ? options.at("mode") : "sums";
    if (mode == "sums") run_sums(*group, number(options, "steps", 3));
    if (mode == "bits") run_bits(*group);
    if (mode == "tree") run_tree(*group);
    if (mode == "ignore") ignore_signals(*rendezvous);
    if (mode == "stop") stop_by_signal(*rendezvous);
    if (mode == "loop") run_loop(*rendezvous, *group, options);
  } catch (const PeerError&) {
    throw;
  } catch (const Error& error) {
    rendezvous->fail(std::string("has failed: ") + error.what());
    throw;
  }
  std::cout << "done" << std::endl;
}

}  // namespace
}  // namespace trainer::cluster

// `cluster_rank launch N ...` starts N of itself with the remaining arguments; `launch N --restarts
// K ...` up to K times more, with `--start again` behind them.
int launch_ranks(int argc, char** argv) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe")};
  trainer::commands::LaunchOptions options;
  const bool restarts = argc > 4 && std::string(argv[3]) == "--restarts";
  if (restarts) options.restarts = std::stoi(argv[4]);
  command.insert(command.end(), argv + (restarts ? 5 : 3), argv + argc);
  options.workers = std::stoi(argv[2]);
  options.command = command;
  options.restart_command = std::move(command);
  options.restart_command.insert(options.restart_command.end(), {"--start", "again"});
  options.first_wait = std::chrono::milliseconds(20);
  options.patience = std::chrono::milliseconds(4000);
  options.after_term = std::chrono::milliseconds(200);
  return trainer::commands::launch(options);
}

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "launch") return launch_ranks(argc, argv);
  trainer::cluster::Options options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i] + 2] = argv[i + 1];
  try {
    trainer::cluster::run(options);
  } catch (const trainer::Error& error) {
    std::cerr << error.what() << std::endl;
    return error.code();
  }
  return 0;
}
