// One rank of the all-reduce benchmark: this project's sums, or Gloo's as they are.
//
//   all_reduce METHOD SECONDS BYTES...    METHOD: ring, bcube, halving_doubling, or gloo;
//                                         halving_doubling_tcp shares no memory
//
// Who it is comes from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Rank 0 prints {"event":
// "measured", "bytes": ..., "seconds": ...}, the median of a call, a line a size.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <limits>

#include "base/error.h"
#include "base/spelling.h"
#include "cluster/collective/gloo_communicator.h"

namespace trainer::cluster {
namespace {

using Clock = std::chrono::steady_clock;

class SharedStore : public gloo::rendezvous::Store {
 public:
  explicit SharedStore(Rendezvous& rendezvous) : rendezvous_(rendezvous) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    rendezvous_.set(key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string text = rendezvous_.get(key);
    return {text.begin(), text.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) rendezvous_.get(key);
  }

 private:
  Rendezvous& rendezvous_;
};

using AllReduce = std::function<void(std::vector<float>&)>;

AllReduce plain_gloo(Rendezvous& rendezvous) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = rendezvous.self().address;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rendezvous.rank(), rendezvous.size());
  SharedStore store(rendezvous);
  context->connectFullMesh(store, device);
  return [context](std::vector<float>& values) {
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
}

AllReduce ours(const std::shared_ptr<Rendezvous>& rendezvous, const std::string& method) {
  for (const Algorithm algorithm : candidates(rendezvous->size())) {
    if (method != spell(algorithm)) continue;
    const AlgorithmTable table{{std::numeric_limits<std::size_t>::max(), algorithm}};
    const std::shared_ptr<Communicator> group = open_gloo(rendezvous, table);
    return [group](std::vector<float>& values) { group->all_reduce(std::span<float>(values)); };
  }
  throw ConfigError({}, "unknown method " + method);
}

double seconds_of(Communicator& group, const AllReduce& all_reduce, std::size_t bytes,
                  double limit) {
  std::vector<float> values(std::max<std::size_t>(bytes / sizeof(float), 1), 1.0f);
  std::vector<double> times;
  std::int64_t more = 1;
  const auto end = Clock::now() + std::chrono::duration<double>(limit);
  all_reduce(values);
  while (more > 0) {
    group.barrier();
    const auto start = Clock::now();
    all_reduce(values);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    more = group.rank() == 0 && (Clock::now() < end || times.size() < 5) ? 1 : 0;
    group.all_reduce(std::span<std::int64_t>(&more, 1));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

void run(int argc, char** argv) {
  config::Environment environment;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  std::string method = argv[1];
  RendezvousOptions options;
  options.shared_memory = !method.ends_with("_tcp");
  method = method.substr(0, method.find("_tcp"));
  const auto rendezvous = std::make_shared<Rendezvous>(identify({}, environment), options);
  const auto group = open_gloo(rendezvous, AlgorithmTable{{0, Algorithm::kRing}});
  const AllReduce all_reduce =
      method == "gloo" ? plain_gloo(*rendezvous) : ours(rendezvous, method);
  for (int i = 3; i < argc; ++i) {
    const std::size_t bytes = std::stoul(argv[i]);
    const double seconds = seconds_of(*group, all_reduce, bytes, std::stod(argv[2]));
    if (rendezvous->rank() == 0) {
      std::cout << R"({"event": "measured", "bytes": )" << bytes << R"(, "seconds": )" << seconds
                << "}" << std::endl;
    }
  }
  group->barrier();
}

}  // namespace
}  // namespace trainer::cluster

int main(int argc, char** argv) {
  try {
    trainer::cluster::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
