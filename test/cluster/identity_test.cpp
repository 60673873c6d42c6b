#include "cluster/identity.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "base/process/process.h"

namespace trainer::cluster {
namespace {

using config::Environment;

std::string catch_message(const Environment& environment, const IdentityFlags& flags = {}) {
  try {
    identify(flags, environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

Environment tf_config(const std::string& cluster, const std::string& task) {
  return {{"TF_CONFIG", R"({"cluster": )" + cluster + R"(, "task": )" + task + "}"}};
}

const std::string kArticle = R"({"worker": ["localhost:12345", "localhost:23456"]})";

}  // namespace

TEST_CASE("identify: no flags and no variables mean one rank alone") {
  const Identity identity = identify({}, {{"HOME", "/root"}});
  CHECK(identity.size == 1);
  CHECK(identity.rank == 0);
  CHECK(identity.role == Role::kChief);
}

TEST_CASE("identify: --rank, --world-size and --master give the rank, or an error with the flag") {
  const Identity identity = identify({2, 4, "node1:29500"}, {});
  CHECK(identity.rank == 2);
  CHECK(identity.size == 4);
  CHECK(identity.master == Address{"node1", 29500});
  CHECK(identity.role == Role::kWorker);
  CHECK(identity.source == "--rank");
  CHECK(catch_message({}, {4, 4, "a:1"}) ==
        "--rank: error: rank 4 of 4 is out of range, ranks count from 0 to 3");
  CHECK(catch_message({}, {0, {}, "a:1"}) == "--rank: error: needs --world-size beside it");
  CHECK(catch_message({}, {0, 2, "a"}) ==
        "--master: error: expected host:port with a port from 1 to 65535, found 'a'");
  CHECK(catch_message({}, {0, 2, ""}).find("give --master host:port") != std::string::npos);
  CHECK(identify({0, 2, "[::1]:77"}, {}).master == Address{"::1", 77});
  CHECK(to_string(Address{"::1", 77}) == "[::1]:77");
}

TEST_CASE("TF_CONFIG: the first worker is chief in a cluster without a chief") {
  const Identity first = identify({}, tf_config(kArticle, R"({"type": "worker", "index": 0})"));
  CHECK(first.rank == 0);
  CHECK(first.size == 2);
  CHECK(first.role == Role::kChief);
  const Identity second = identify({}, tf_config(kArticle, R"({"type": "worker", "index": "1"})"));
  CHECK(second.rank == 1);
  CHECK(second.master == Address{"localhost", 12345});
  CHECK(rank_name(second, 1) == "worker:1 at localhost:23456");
}

TEST_CASE("TF_CONFIG: chief, ps, workers and evaluator have their role and rank") {
  const std::string cluster = R"({"master": ["a:1"], "ps": ["b:1"], "worker": ["c:1", "d:1"]})";
  CHECK(identify({}, tf_config(cluster, R"({"type": "chief", "index": 0})")).rank == 0);
  const Identity worker = identify({}, tf_config(cluster, R"({"type": "worker", "index": 1})"));
  CHECK(worker.rank == 2);
  CHECK(worker.size == 3);
  const Identity ps = identify({}, tf_config(cluster, R"({"type": "ps", "index": 0})"));
  CHECK(ps.rank == -1);
  CHECK(ps.role == Role::kParameterServer);
  CHECK(ps.master == Address{"a", 1});
  // Kubeflow does not list the evaluator.
  CHECK(identify({}, tf_config(cluster, R"({"type": "evaluator", "index": 0})")).role ==
        Role::kEvaluator);
}

TEST_CASE("TF_CONFIG: no cluster means a single process as in TensorFlow") {
  for (const char* text :
       {"{}", R"({"cluster": {}})", R"({"task": {"type": "worker", "index": 0}})",
        R"({"cluster": {}, "task": {"type": "worker", "index": 0}})"}) {
    CAPTURE(text);
    const Identity who = identify({}, {{"TF_CONFIG", text}});
    CHECK(who.size == 1);
    CHECK(who.rank == 0);
    CHECK(who.source != "TF_CONFIG");
  }
}

TEST_CASE("TF_CONFIG: the error of wrong values has the reason") {
  const std::string task = R"({"type": "worker", "index": 0})";
  const auto catch_error = [](const std::string& cluster, const std::string& who) {
    return catch_message(tf_config(cluster, who));
  };
  CHECK(catch_message({{"TF_CONFIG", "{\"cluster\": {},\n \"task\": x}"}})
            .find("TF_CONFIG:2:10: error: not JSON: ") == 0);
  CHECK(catch_message({{"TF_CONFIG", "[]"}}) == "TF_CONFIG: error: is not a JSON object");
  CHECK(catch_message({{"TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}})"}}) ==
        "TF_CONFIG: error: has no \"task\"");
  CHECK(catch_error(kArticle, R"({"index": 0})").find("task.type is missing") != std::string::npos);
  CHECK(catch_error(kArticle, R"({"type": "worker"})") ==
        "TF_CONFIG: error: task.index is missing");
  CHECK(catch_error(kArticle, R"({"type": "worker", "index": 2})") ==
        "TF_CONFIG: error: task.index 2 is out of range: cluster.worker has 2 tasks");
  CHECK(catch_error(kArticle, R"({"type": "worker", "index": -1})")
            .find("expected a number from 0, found '-1'") != std::string::npos);
  CHECK(catch_error(kArticle, R"({"type": "boss", "index": 0})").find("found 'boss'") !=
        std::string::npos);
  CHECK(catch_error(R"({"workers": []})", task).find("unknown task type 'workers'") !=
        std::string::npos);
  CHECK(
      catch_error(R"({"worker": ["a"]})", task).find("cluster.worker[0]: expected \"host:port\"") !=
      std::string::npos);
  CHECK(catch_error(R"({"worker": ["a:1", "a:1"]})", task) ==
        "TF_CONFIG: error: worker:0 and worker:1 have the same address a:1");
  CHECK(catch_error(R"({"worker": ["localhost:1", "b:1"]})", task)
            .find("worker:0 is at localhost:1, which other hosts "
                  "cannot reach") != std::string::npos);
  CHECK(catch_error(R"({"ps": ["a:1"]})", task).find("neither a chief nor a worker") !=
        std::string::npos);
  CHECK(catch_error(R"({"chief": ["a:1", "b:1"]})", task).find("has 2 tasks, expected one") !=
        std::string::npos);
}

TEST_CASE("identify: torchrun's variables give the rank and job") {
  const Environment environment{{"RANK", "3"},
                                {"WORLD_SIZE", "4"},
                                {"LOCAL_RANK", "1"},
                                {"MASTER_ADDR", "10.0.0.1"},
                                {"MASTER_PORT", "29500"},
                                {"TORCHELASTIC_RUN_ID", "job7"}};
  const Identity identity = identify({}, environment);
  CHECK(identity.rank == 3);
  CHECK(identity.local_rank == 1);
  CHECK(identity.master == Address{"10.0.0.1", 29500});
  CHECK(identity.job == "job7");
  CHECK(catch_message({{"RANK", "3"}}) ==
        "RANK: error: is set, but WORLD_SIZE is not; set both or none");
  CHECK(catch_message({{"RANK", "x"}, {"WORLD_SIZE", "4"}}) ==
        "RANK: error: expected a number from 0, found 'x'");
}

TEST_CASE("identify: variables of Open MPI, PMI and Slurm give the rank and master") {
  const Environment mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "123"}};
  const Identity on_one_host = identify({}, mpi);
  CHECK(on_one_host.source == "Open MPI");
  CHECK(on_one_host.master.host == "127.0.0.1");
  CHECK(on_one_host.master.port >= 20000);
  CHECK(on_one_host.master.port < 30000);
  Environment pmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  CHECK(catch_message(pmi).find("the address of rank 0 is missing") != std::string::npos);
  pmi.insert({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}});
  CHECK(identify({}, pmi).master == Address{"h", 5});
  Environment slurm{{"SLURM_PROCID", "2"},  {"SLURM_STEP_NUM_TASKS", "3"},
                    {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "n[07-09]"},
                    {"SLURM_JOB_ID", "11"}, {"SLURM_STEP_ID", "0"}};
  const Identity step = identify({}, slurm);
  CHECK(step.rank == 2);
  CHECK(step.master.host == "n07");
  CHECK(step.job == "11.0");
  slurm.erase("SLURM_STEP_NUM_TASKS");  // a batch script is not a rank
  CHECK(identify({}, slurm).size == 1);
}

TEST_CASE("identify counts the ranks on this host and finds this one's place") {
  const auto local = [](const Environment& environment, const IdentityFlags& flags = {}) {
    const Identity identity = identify(flags, environment);
    return std::pair(identity.local_rank, identity.local_size);
  };
  const auto is = [](int rank, int size) {
    return std::pair(std::optional(rank), std::optional(size));
  };
  CHECK(local({}) == is(0, 1));
  CHECK(local({}, {1, 2, "127.0.0.1:77"}) == is(1, 2));
  CHECK(local({}, {1, 2, "node1:77"}).second == std::nullopt);
  const std::string hosts = R"({"chief": ["a:1"], "worker": ["b:1", "a:2", "b:2"], "ps": ["b:3"]})";
  CHECK(local(tf_config(hosts, R"({"type": "chief", "index": 0})")) == is(0, 2));
  CHECK(local(tf_config(hosts, R"({"type": "worker", "index": 1})")) == is(1, 2));
  CHECK(local(tf_config(hosts, R"({"type": "worker", "index": 2})")) == is(1, 2));
  CHECK(local(tf_config(hosts, R"({"type": "ps", "index": 0})")).second == std::nullopt);
  Environment torchrun{{"RANK", "5"},        {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},
                       {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"LOCAL_WORLD_SIZE", "4"}};
  CHECK(local(torchrun) == is(1, 4));
  torchrun["LOCAL_WORLD_SIZE"] = "1";  // which cannot be
  CHECK(local(torchrun).second == std::nullopt);
  CHECK(local({{"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "2"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
               {"PMIX_NAMESPACE", "123"}}) == is(1, 2));
  Environment slurm{{"SLURM_PROCID", "4"},  {"SLURM_STEP_NUM_TASKS", "8"},
                    {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "n[1-3]"},
                    {"SLURM_JOB_ID", "11"}, {"SLURM_STEP_ID", "0"},
                    {"SLURM_NODEID", "1"},  {"SLURM_STEP_TASKS_PER_NODE", "4,2(x2)"}};
  CHECK(local(slurm) == is(0, 2));
  slurm["SLURM_NODEID"] = "0";
  CHECK(local(slurm) == is(0, 4));
  for (const char* wrong : {"", "4", "x", "4,", "2(x", "2(x0)", "2(3)", "0,2(x2)", "4(x2)7"}) {
    slurm["SLURM_NODEID"] = "2";
    slurm["SLURM_STEP_TASKS_PER_NODE"] = wrong;
    CHECK_MESSAGE(local(slurm).second == std::nullopt, wrong);
  }
}

TEST_CASE("identify rejects sources that disagree unless one launcher runs inside another's job") {
  Environment both = tf_config(kArticle, R"({"type": "worker", "index": 0})");
  both.insert({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  CHECK(identify({}, both).source == "TF_CONFIG");
  both["RANK"] = "1";
  CHECK(
      catch_message(both) ==
      "TF_CONFIG: error: gives rank 0 of 2, but RANK gives rank 1 of 2; take one of the two away");
  Environment nested{{"RANK", "1"},
                     {"WORLD_SIZE", "4"},
                     {"MASTER_ADDR", "a"},
                     {"MASTER_PORT", "1"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NODELIST", "n1"}};
  CHECK(catch_message(nested).find("but Slurm gives rank 0 of 2") != std::string::npos);
  nested["TORCHELASTIC_RUN_ID"] = "none";
  CHECK(identify({}, nested).size == 4);
}

TEST_CASE("identify: the variables of Flux, PMIx and nodes of Kubernetes give rank and address") {
  const struct {
    const char* source;
    Environment environment;
    Address master;
  } cases[] = {
      {"Flux",
       {{"FLUX_TASK_RANK", "1"},
        {"FLUX_JOB_SIZE", "4"},
        {"MASTER_ADDR", "a"},
        {"MASTER_PORT", "7"},
        {"PMI_RANK", "1"},
        {"PMI_SIZE", "4"}},
       {"a", 7}},
      {"PMIx",
       {{"PMIX_RANK", "1"}, {"SLURM_NTASKS", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "7"}},
       {"a", 7}},
      {"JAX_PROCESS_ID",
       {{"JAX_PROCESS_ID", "1"}, {"JAX_NUM_PROCESSES", "4"}, {"JAX_COORDINATOR_ADDRESS", "a:7"}},
       {"a", 7}},
      {"PET_NODE_RANK",
       {{"PET_NODE_RANK", "1"},
        {"PET_NNODES", "4"},
        {"PET_MASTER_ADDR", "a"},
        {"PET_MASTER_PORT", "7"},
        {"PET_NPROC_PER_NODE", "8"}},
       {"a", 7}},
  };
  for (const auto& [source, environment, master] : cases) {
    CAPTURE(std::string(source));
    const Identity identity = identify({}, environment);
    CHECK(identity.source == source);
    CHECK(identity.rank == 1);
    CHECK(identity.size == 4);
    CHECK(identity.master == master);
  }
  CHECK(identify({.world_size = 2}, cases[1].environment).size == 2);
  const Identity node = identify({}, cases[3].environment);
  CHECK(node.local_rank == 0);
  CHECK(node.local_size == 1);
  Environment pod = cases[3].environment;
  pod.erase("PET_MASTER_PORT");
  CHECK(identify({}, pod).master == Address{"a", 29500});
  pod["JOB_COMPLETION_INDEX"] = "2";
  CHECK(identify({.hosts = {"b,c,d"}}, pod).source == "PET_NODE_RANK");
  pod.insert({{"JAX_PROCESS_ID", "2"}, {"JAX_NUM_PROCESSES", "3"}});
  pod["JAX_COORDINATOR_ADDRESS"] = "c:8";
  CHECK(identify({.hosts = {"b,c,d"}}, pod).source == "JAX_PROCESS_ID");
  const Environment range{{"PET_NNODES", "1:4"}, {"PET_NODE_RANK", "0"}};
  CHECK(catch_message(range) ==
        "PET_NNODES: error: the number of nodes must be fixed, such as 4; found the range 1:4");
  CHECK(catch_message({{"JAX_PROCESS_ID", "0"}}) ==
        "JAX_PROCESS_ID: error: is set, but JAX_NUM_PROCESSES is not; set both or none");
}

TEST_CASE(
    "identify: ranks that a launcher starts on nodes of Kubernetes may differ from the nodes") {
  Environment pod{{"PET_NODE_RANK", "1"},       {"PET_NNODES", "2"},  {"RANK", "5"},
                  {"WORLD_SIZE", "8"},          {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"},
                  {"JOB_COMPLETION_INDEX", "1"}};
  const Identity identity = identify({.hosts = {"a,b"}}, pod);
  CHECK(identity.source == "RANK");
  CHECK(identity.rank == 5);
  CHECK(identity.size == 8);
  pod["PMIX_RANK"] = "5";
  CHECK(identify({}, pod).rank == 5);
  pod["PMIX_RANK"] = "4";
  pod["SLURM_NTASKS"] = "8";
  CHECK(catch_message(pod).find("but PMIx gives rank 4 of 8") != std::string::npos);
}

TEST_CASE(
    "identify: hosts with a completion index or the name of this host give rank and address") {
  const Environment second{{"JOB_COMPLETION_INDEX", "1"}};
  const auto hosts = [](std::vector<std::string> entries) {
    return IdentityFlags{.hosts = std::move(entries)};
  };
  const Identity pod = identify(hosts({"digits-{0..3}.digits"}), second);
  CHECK(pod.source == "JOB_COMPLETION_INDEX");
  CHECK(pod.rank == 1);
  CHECK(pod.size == 4);
  CHECK(pod.master == Address{"digits-0.digits", 29500});
  CHECK(pod.local_size == 1);
  CHECK(identify(hosts({"a:77", "b"}), {{"JOB_COMPLETION_INDEX", "1"}, {"MASTER_PORT", "5"}})
            .master == Address{"a", 77});
  CHECK(identify(hosts({"a,b"}), {{"JOB_COMPLETION_INDEX", "1"}, {"MASTER_PORT", "5"}}).master ==
        Address{"a", 5});
  CHECK(identify(hosts({"[::1]:77", "b"}), second).master == Address{"::1", 77});
  const Identity named = identify(hosts({"other.example", host_name() + ".example"}), {});
  CHECK(named.source == "parallel.hosts");
  CHECK(named.rank == 1);
  CHECK(catch_message({{"JOB_COMPLETION_INDEX", "4"}}, hosts({"digits-{0..3}"}))
            .find("rank 4 of 4 is out of range") != std::string::npos);
  CHECK(catch_message({}, hosts({"a", "b"})).find("is not among the 2 of the list") !=
        std::string::npos);
  CHECK(catch_message(second, hosts({"a b"})).find("expected a host or host:port") !=
        std::string::npos);
  CHECK(catch_message(second, hosts({"a{0-3}"})).find("a range such as {0..3}") !=
        std::string::npos);
}

TEST_CASE("gpus_per_node is the number or gpu of PET_NPROC_PER_NODE where NUM_GPUS is not set") {
  const auto gpus = [](const char* processes, const Environment& more = {}) {
    Environment pod{{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", processes}};
    pod.insert(more.begin(), more.end());
    return gpus_per_node(pod);
  };
  CHECK(gpus("4") == "4");
  CHECK(gpus("gpu") == "all");
  for (const char* other : {"auto", "cpu", "0", ""}) CHECK(gpus(other) == "");
  CHECK(gpus("4", {{"NUM_GPUS", "2"}}) == "");
  CHECK(gpus("4", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == "");  // torchrun has one per GPU
  CHECK(gpus_per_node({{"PET_NPROC_PER_NODE", "4"}}) == "");
}

TEST_CASE("launch_notice names the variable of a launcher whose processes would each train alone") {
  const auto notice = [](const Environment& environment) {
    return launch_notice(identify({}, environment), environment);
  };
  for (const char* variable : {"SLURM_NTASKS", "PMIX_RANK", "GROUP_RANK", "MASTER_ADDR"}) {
    CAPTURE(std::string(variable));
    const Notice found = notice({{variable, "2"}});
    CHECK(found.kind == Notice::Kind::kWarning);
    CHECK(found.text.find(concat(variable, " is 2, but this process trains alone")) == 0);
  }
  for (const char* variable : {"JOB_COMPLETION_INDEX", "RAY_ADDRESS"}) {
    CAPTURE(std::string(variable));
    const Notice found = notice({{variable, "2"}});
    CHECK(found.kind == Notice::Kind::kNote);
    CHECK(found.text.find(concat(variable, " is 2; this process trains alone")) == 0);
  }
  CHECK(notice({{"SLURM_NTASKS", "1"}}).text.empty());
  CHECK(notice({{"MASTER_ADDR", "1"}}).kind == Notice::Kind::kWarning);
  CHECK_FALSE(notice({{"PMIX_RANK", "1"}}).text.empty());
  CHECK(notice({{"HOME", "/root"}}).text.empty());
  const Environment ranks{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"SLURM_NTASKS", "2"}};
  CHECK(notice(ranks).text.empty());
  const Environment pod{{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "8"}};
  CHECK(notice(pod).kind == Notice::Kind::kNote);
  CHECK(notice(pod).text.find("PET_NPROC_PER_NODE is 8: a node is one rank here") == 0);
}

TEST_CASE("expand_nodelist: host lists of Slurm give the names, or an error") {
  using Names = std::vector<std::string>;
  CHECK(expand_nodelist("n1") == Names{"n1"});
  CHECK(expand_nodelist("n[1-3,7]") == Names{"n1", "n2", "n3", "n7"});
  CHECK(expand_nodelist("a,b[09-11],c-1") == Names{"a", "b09", "b10", "b11", "c-1"});
  CHECK(expand_nodelist("r[1-2]n[1-2].x") == Names{"r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"});
  CHECK_THROWS_AS(expand_nodelist("n[1-"), ConfigError);
  CHECK_THROWS_AS(expand_nodelist("n[3-1]"), ConfigError);
  CHECK_THROWS_AS(expand_nodelist("n[a]"), ConfigError);
  CHECK_THROWS_AS(expand_nodelist("a,,b"), ConfigError);
}

TEST_CASE("TF_CONFIG: numbers out of range are an error that names TF_CONFIG") {
  for (const char* index : {"1e999", "-1e999"}) {
    CAPTURE(index);
    const std::string message =
        catch_message(tf_config(kArticle, concat(R"({"type": "worker", "index": )", index, "}")));
    CHECK(message.find("TF_CONFIG: error: number overflow") != std::string::npos);
  }
}

TEST_CASE("identify: a secret in a file takes precedence over TRAINER_SECRET") {
  const TemporaryFolder folder;
  IdentityFlags flags{0, 2, "127.0.0.1:1"};
  CHECK(identify(flags, {}).secret.empty());
  const std::string variable(32, 'v'), content(32, 'f');
  CHECK(identify(flags, {{"TRAINER_SECRET", variable}}).secret == variable);
  flags.secret_file = folder.path() / "secret";
  write_file_atomic(flags.secret_file, content + "\n");
  CHECK(identify(flags, {{"TRAINER_SECRET", variable}}).secret == content);
  write_file_atomic(flags.secret_file, std::string("short\n"));
  CHECK(catch_message({}, flags).find("the secret has 5 characters, expected at least 16") !=
        std::string::npos);
  flags.secret_file = folder.path() / "missing";
  CHECK(catch_message({}, flags).find("--secret-file: error: ") == 0);
}

TEST_CASE(
    "accepts_unauthenticated_peers is true if a process without a secret listens beyond its host") {
  const Environment secret{{"TRAINER_SECRET", std::string(32, 's')}};
  CHECK_FALSE(accepts_unauthenticated_peers(identify({}, {})));
  CHECK_FALSE(accepts_unauthenticated_peers(identify({0, 2, "127.0.0.1:1"}, {})));
  CHECK(accepts_unauthenticated_peers(identify({0, 2, "node1:1"}, {})));
  CHECK_FALSE(accepts_unauthenticated_peers(identify({0, 2, "node1:1"}, secret)));
  const std::string cluster = R"({"chief": ["a:1"], "ps": ["b:2"]})";
  CHECK(accepts_unauthenticated_peers(
      identify({}, tf_config(cluster, R"({"type": "ps", "index": 0})"))));
}

}  // namespace trainer::cluster
