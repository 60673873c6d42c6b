// What messages on several processes advise: each advice is followed to the letter, and all
// processes then succeed.
#include <doctest/doctest.h>
#include <netdb.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/error.h"
#include "cluster/transport/socket.h"
#include "e2e/program.h"
#include "support/contains.h"

namespace trainer::e2e::rank_advice_test {
namespace {

using test::contains;

const Arguments kUnscaled{"--set", "parallel.lr_scaling=none"};

// A process of a job. In its options and variables, PORT stands for a free port and SECRET for a
// file with a secret.
struct Task {
  Arguments options;
  Environment variables = {};
};
using Tasks = std::vector<Task>;

// A config, and the jobs that train it.
class Place {
 public:
  Place() {
    config_ = work_.config(concat("model: {layers: [flatten, dense: 10]}\ndata: {format: digits, ",
                                  "path: ", work_.data(), ", limit: 64}\n",
                                  "optimizer: {sgd: {learning_rate: 0.01}}\n",
                                  "train: {max_steps: 2, batch_size: 4}\n"));
    write_file_atomic(work_ / "secret", std::string_view("a secret of all ranks\n"));
  }

  Arguments train() const { return {"train", config_, "--overwrite", "--run-dir", work_ / "run"}; }
  const std::string& config() const { return config_; }

  // Trains with these processes and returns the results in their order.
  std::vector<Result> run_tasks(const Tasks& tasks, int port = draw_port()) const {
    std::vector<std::unique_ptr<Program>> programs;
    for (const Task& task : tasks) {
      Arguments arguments = train();
      for (const std::string& option : task.options) arguments.push_back(filled(option, port));
      Environment variables;
      for (const auto& [name, value] : task.variables) {
        variables.emplace_back(name, filled(value, port));
      }
      programs.push_back(std::make_unique<Program>(arguments, variables));
    }
    std::vector<Result> results;
    for (const auto& program : programs) results.push_back(program->wait());
    return results;
  }
  void check_success(const Tasks& tasks, int port = draw_port()) const {
    for (const Result& result : run_tasks(tasks, port)) {
      INFO(result.err);
      CHECK(result.code == 0);
    }
  }

  Result launch(const Arguments& options, const Arguments& more) const {
    Arguments arguments{"launch"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.emplace_back("--");
    for (const Arguments& part : {train(), more}) {
      arguments.insert(arguments.end(), part.begin(), part.end());
    }
    return run(arguments);
  }

 private:
  std::string filled(std::string text, int port) const {
    const std::pair<std::string, std::string> values[] = {{"PORT", std::to_string(port)},
                                                          {"SECRET", (work_ / "secret").string()}};
    for (const auto& [word, value] : values) {
      const std::size_t at = text.find(word);
      if (at != std::string::npos) text.replace(at, word.size(), value);
    }
    return text;
  }

  Workspace work_;
  std::string config_;
};

Arguments operator+(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Arguments rank_of(int rank, int size, bool has_master = true) {
  Arguments options{"--rank", std::to_string(rank), "--world-size", std::to_string(size)};
  if (has_master) options = options + Arguments{"--master", "127.0.0.1:PORT"};
  return options + kUnscaled;
}

Environment torchrun(int rank) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "PORT"}};
}

// Both ranks of a job of two, with these variables.
Tasks two(bool has_master = true, const Environment& variables = {}) {
  return {{rank_of(0, 2, has_master), variables}, {rank_of(1, 2, has_master), variables}};
}

struct Advice {
  const char* text;
  Tasks failed;
  std::vector<Tasks> followed;
};

// The first process of a failed job prints the message.
std::vector<Advice> make_advices() {
  const Tasks by_flags = two(), by_variables{{kUnscaled, torchrun(0)}, {kUnscaled, torchrun(1)}};
  return {
      {"--world-size: error: needs --rank beside it", {{{"--world-size", "2"}}}, {by_flags}},
      {"--rank: error: needs --world-size beside it", {{{"--rank", "0"}}}, {by_flags}},
      {"--master: error: needs --rank and --world-size beside it",
       {{{"--master", "127.0.0.1:PORT"}}},
       {by_flags}},
      {"RANK: error: is set, but WORLD_SIZE is not; set both or none",
       {{{}, {{"RANK", "0"}}}},
       {by_variables, {{{}}}}},
      {"WORLD_SIZE: error: is set, but RANK is not; set both or none",
       {{{}, {{"WORLD_SIZE", "2"}}}},
       {by_variables, {{{}}}}},
      {"give --master host:port, or set MASTER_ADDR and MASTER_PORT",
       {{rank_of(0, 2, false)}},
       {by_flags, two(false, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "PORT"}})}},
      {"set MASTER_PORT or give --master host:port",
       {{rank_of(0, 2, false), {{"MASTER_ADDR", "127.0.0.1"}}}},
       {two(false, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "PORT"}}),
        two(true, {{"MASTER_ADDR", "127.0.0.1"}})}},
      {"but RANK gives rank 1 of 2; take one of the two away",
       {{rank_of(0, 2), torchrun(1)}},
       {by_flags, by_variables}},
      {"start all of them with the same size", {{rank_of(0, 2)}, {rank_of(1, 3)}}, {by_flags}},
      {"give all ranks the same TRAINER_SECRET or --secret-file",
       {{rank_of(1, 2), {{"TRAINER_SECRET", "the secret of rank 1"}}},
        {rank_of(0, 2) + Arguments{"--set", "parallel.timeout=3 seconds"},
         {{"TRAINER_SECRET", "the secret of rank 0"}}}},
       {two(true, {{"TRAINER_SECRET", "the secret of rank 0"}}),
        {{rank_of(0, 2) + Arguments{"--secret-file", "SECRET"}},
         {rank_of(1, 2) + Arguments{"--secret-file", "SECRET"}}}}},
  };
}

Environment by_tf_config(const std::array<std::string, 2>& addresses, int index) {
  const Json config{{"cluster", {{"worker", addresses}}},
                    {"task", {{"type", "worker"}, {"index", index}}}};
  return {{"TF_CONFIG", config.dump()}};
}

struct LaunchAdvice {
  const char* text;
  Arguments options, failed;
  std::vector<std::pair<Arguments, Arguments>> followed;  // options and the rest of the command
};

std::vector<LaunchAdvice> make_launch_advices() {
  const auto set = [](const std::string& value) { return Arguments{"--set", value}; };
  const Arguments n2{"-n", "2"}, n4{"-n", "4"}, servers{"-n", "2", "--ps", "1"};
  const Arguments ordered = kUnscaled + set("parallel.reduction=ordered");
  const Arguments asynchronous = kUnscaled + set("parallel.strategy=parameter_server");
  return {
      {"parallel.lr_scaling: must be given with 2 workers, whose batch is as many times as large: "
       "none, linear or sqrt",
       n2,
       {},
       {{n2, kUnscaled},
        {n2, set("parallel.lr_scaling=linear")},
        {n2, set("parallel.lr_scaling=sqrt")}}},
      {"`trainer launch --ps 1` makes one on this machine; or use all_reduce",
       n2,
       asynchronous,
       {{servers, asynchronous}, {n2, kUnscaled + set("parallel.strategy=all_reduce")}}},
      {"set parallel: {strategy: parameter_server}, or leave the ps tasks out",
       servers,
       kUnscaled,
       {{servers, set("parallel={strategy: parameter_server}")}, {n2, kUnscaled}}},
      {"found 2; set a larger power of two",
       n4,
       ordered + set("parallel.micro_batches=2"),
       {{n4, ordered + set("parallel.micro_batches=4")}}},
      {"parallel.collective: reduction: ordered needs auto: ring",
       {"-n", "3"},
       ordered + set("parallel.collective=ring"),
       {{{"-n", "3"}, ordered + set("parallel.collective=auto")}}},
      {"give a number, such as trainer find batch-size suggests",
       n2,
       kUnscaled + Arguments{"--batch-size", "auto"},
       {{n2, kUnscaled + Arguments{"--batch-size", "8"}}}},
  };
}

}  // namespace

TEST_CASE("messages: the ranks that follow each advice on the place of a rank succeed") {
  const Place place;
  for (const Advice& advice : make_advices()) {
    INFO(std::string(advice.text));
    const Result failed = place.run_tasks(advice.failed).front();
    CHECK(failed.code == kExitConfig);
    CHECK_MESSAGE(contains(failed.err, advice.text), failed.err);
    for (const Tasks& tasks : advice.followed) place.check_success(tasks);
  }
}

TEST_CASE("messages: the job that follows each advice on a launched job succeeds") {
  const Place place;
  for (const LaunchAdvice& advice : make_launch_advices()) {
    INFO(std::string(advice.text));
    const Result failed = place.launch(advice.options, advice.failed);
    CHECK(failed.code == kExitConfig);
    CHECK_MESSAGE(contains(failed.err, advice.text), failed.err);
    for (const auto& [options, more] : advice.followed) {
      const Result result = place.launch(options, more);
      INFO(result.err);
      CHECK(result.code == 0);
    }
  }
  const Result alone = run({"launch", "-n", "2", "--", "validate", place.config()});
  CHECK(contains(alone.err, "run it by itself"));
  CHECK(run({"validate", place.config()}).code == 0);
}

TEST_CASE(
    "train: the advised port or the same port later succeeds where the port of rank 0 is in use") {
  const Place place;
  int number = 0;
  {
    const cluster::Socket taken = cluster::listen_on("127.0.0.1", number);
    const Result failed = place.run_tasks({{rank_of(0, 2)}}, number).front();
    CHECK(failed.code == kExitConfig);
    CHECK_MESSAGE(contains(failed.err, concat("port ", number,
                                              " is in use on this host; end the process that "
                                              "listens there (ss -ltnp names it), or choose "
                                              "another port")),
                  failed.err);
    place.check_success(two());
  }
  place.check_success(two(), number);
}

TEST_CASE(
    "train: the advised host name succeeds for a task at a loopback address beside another host") {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.data(), nullptr, nullptr, &found) != 0) return;  // a host without its name
  ::freeaddrinfo(found);
  const Place place;
  const auto at = [](const std::string& name) { return concat(name, ":", draw_port()); };
  const std::string name = host.data();
  const Result failed =
      place.run_tasks({{kUnscaled, by_tf_config({at("127.0.0.1"), at(name)}, 0)}}).front();
  CHECK(failed.code == kExitConfig);
  CHECK_MESSAGE(contains(failed.err, "give a name or address that all hosts know"), failed.err);
  const std::array<std::string, 2> named{at(name), at(name)};
  place.check_success({{kUnscaled, by_tf_config(named, 0)}, {kUnscaled, by_tf_config(named, 1)}});
}

}  // namespace trainer::e2e::rank_advice_test
