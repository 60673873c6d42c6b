// TF_CONFIG as TensorFlow's distribution strategies and Kubeflow's TFJob write it.
// https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/identity/sources.h"

namespace trainer::cluster {
namespace {

using Json = nlohmann::json;
const std::string kName = "TF_CONFIG";

Json parse(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + (std::min(text.size(), error.byte > 0 ? error.byte - 1 : 0));
    const auto line_start = std::find(std::make_reverse_iterator(end), text.rend(), '\n').base();
    const int line = static_cast<int>(std::count(text.begin(), end, '\n')) + 1;
    const int column = static_cast<int>(end - line_start) + 1;
    std::string reason = error.what();
    const auto colon = reason.find("column");
    if (colon != std::string::npos) reason = reason.substr(reason.find(": ", colon) + 2);
    throw ConfigError({kName, line, column}, "not JSON: " + reason);
  } catch (const Json::exception& error) {  // a number that no computer holds
    const std::string reason = error.what();
    const auto colon = reason.find("] ");
    wrong(kName, colon == std::string::npos ? reason : reason.substr(colon + 2));
  }
}

std::vector<Address> addresses(const std::string& type, const Json& list) {
  if (!list.is_array()) {
    wrong(kName, "cluster." + type + ": expected a list of \"host:port\", found " + list.dump());
  }
  std::vector<Address> tasks;
  for (const Json& entry : list) {
    const auto address = entry.is_string() ? parse_address(entry.get<std::string>()) : std::nullopt;
    if (!address) {
      wrong(kName,
            concat("cluster.", type, '[', tasks.size(),
                   "]: expected \"host:port\" with a port from 1 to 65535, found ", entry.dump()));
    }
    tasks.push_back(*address);
  }
  return tasks;
}

Cluster read_cluster(const Json& cluster) {
  if (!cluster.is_object()) wrong(kName, "cluster: expected an object of task lists");
  Cluster result;
  for (const auto& [type, list] : cluster.items()) {
    if (type == "chief" || type == "master") {
      if (!result.chief.empty())
        wrong(kName, "cluster has both a chief and a master; they are the same");
      result.chief = addresses(type, list);
    } else if (type == "worker") {
      result.worker = addresses(type, list);
    } else if (type == "ps") {
      result.ps = addresses(type, list);
    } else if (type == "evaluator") {
      result.evaluator = addresses(type, list);
    } else {
      wrong(kName, "cluster: unknown task type '" + type +
                       "'; expected chief, master, worker, ps or evaluator");
    }
  }
  return result;
}

void check_cluster(const Cluster& cluster) {
  if (cluster.chief.size() > 1) {
    wrong(kName, concat("cluster.chief has ", cluster.chief.size(), " tasks, expected one"));
  }
  if (cluster.chief.empty() && cluster.worker.empty()) {
    wrong(kName, "cluster has neither a chief nor a worker");
  }
  std::vector<std::pair<std::string, Address>> all;
  const auto add = [&](const char* type, const std::vector<Address>& tasks) {
    for (std::size_t i = 0; i < tasks.size(); ++i) all.emplace_back(concat(type, ':', i), tasks[i]);
  };
  add("chief", cluster.chief);
  add("worker", cluster.worker);
  add("ps", cluster.ps);
  add("evaluator", cluster.evaluator);
  const auto remote =
      std::ranges::find_if(all, [](const auto& task) { return !is_loopback(task.second.host); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i].second == all[j].second) {
        wrong(kName, all[j].first + " and " + all[i].first + " have the same address " +
                         to_string(all[i].second));
      }
    }
    if (remote != all.end() && is_loopback(all[i].second.host)) {
      wrong(kName, all[i].first + " is at " + to_string(all[i].second) +
                       ", which other hosts cannot reach, but " + remote->first + " is at " +
                       to_string(remote->second) + "; give a name or address that all hosts know");
    }
  }
}

Role read_role(const Json& task) {
  if (!task.contains("type") || !task["type"].is_string()) {
    wrong(kName, "task.type is missing; expected chief, master, worker, ps or evaluator");
  }
  const std::string type = task["type"];
  if (type == "chief" || type == "master") return Role::kChief;
  if (type == "worker") return Role::kWorker;
  if (type == "ps") return Role::kParameterServer;
  if (type == "evaluator") return Role::kEvaluator;
  wrong(kName, "task.type: expected chief, master, worker, ps or evaluator, found '" + type + "'");
}

int read_index(const Json& task) {
  if (!task.contains("index")) wrong(kName, "task.index is missing");
  const Json& index = task["index"];
  // Some writers make it a string.
  const std::string text = index.is_string() ? index.get<std::string>() : index.dump();
  return *read_number({{"TF_CONFIG: task.index", text}}, "TF_CONFIG: task.index");
}

const std::vector<Address>& find_tasks(const Cluster& cluster, Role role) {
  switch (role) {
    case Role::kChief:
      return cluster.chief;
    case Role::kWorker:
      return cluster.worker;
    case Role::kParameterServer:
      return cluster.ps;
    case Role::kEvaluator:
      return cluster.evaluator;
  }
  return cluster.worker;
}

// Tasks whose addresses name the same host.
void count_local_ranks(Identity& identity) {
  std::vector<Address> all = identity.cluster.chief;
  all.insert(all.end(), identity.cluster.worker.begin(), identity.cluster.worker.end());
  const std::string& host = all[identity.rank].host;
  int before = 0, count = 0;
  for (int rank = 0; rank < identity.size; ++rank) {
    if (all[rank].host != host) continue;
    ++count;
    if (rank < identity.rank) ++before;
  }
  identity.local_rank = before;
  identity.local_size = count;
}

}  // namespace

std::optional<Claim> claim_of_tf_config(const config::Environment& environment) {
  const std::string text = read_variable(environment, kName);
  if (text.empty()) return {};
  const Json json = parse(text);
  if (!json.is_object()) wrong(kName, "is not a JSON object");
  // TensorFlow, too, runs one process alone when the cluster is missing or has no tasks.
  if (!json.contains("cluster") || json["cluster"].empty()) return {};
  if (!json.contains("task") || !json["task"].is_object()) wrong(kName, "has no \"task\"");
  Claim claim;
  Identity& identity = claim.identity;
  identity.source = kName;
  identity.cluster = read_cluster(json["cluster"]);
  check_cluster(identity.cluster);
  identity.role = read_role(json["task"]);
  identity.index = read_index(json["task"]);
  const std::vector<Address>& tasks = find_tasks(identity.cluster, identity.role);
  // Kubeflow leaves the evaluator out of the cluster: nobody talks to it.
  const bool outside = identity.role == Role::kEvaluator && tasks.empty();
  if (!outside && static_cast<std::size_t>(identity.index) >= tasks.size()) {
    wrong(kName, concat("task.index ", identity.index, " is out of range: cluster.",
                        to_string(identity.role), " has ", tasks.size(), " tasks"));
  }
  const Cluster& cluster = identity.cluster;
  const int chiefs = static_cast<int>(cluster.chief.size());
  identity.size = chiefs + static_cast<int>(cluster.worker.size());
  identity.rank = identity.role == Role::kChief    ? 0
                  : identity.role == Role::kWorker ? chiefs + identity.index
                                                   : -1;
  // Without a chief, worker 0 is.
  if (identity.rank == 0) identity.role = Role::kChief;
  identity.master = chiefs > 0 ? cluster.chief[0] : cluster.worker[0];
  if (identity.rank >= 0) count_local_ranks(identity);
  return claim;
}

}  // namespace trainer::cluster
