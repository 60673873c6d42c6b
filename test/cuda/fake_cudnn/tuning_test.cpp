// What is chosen by time, with a timer that gives each candidate the time that a test wants.
#include "backend/cuda/plans/tuning.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <memory>

#include "backend/cuda/plans/convolution.h"
#include "backend/cuda/plans/matmul.h"
#include "base/error.h"
#include "base/files/files.h"
#include "cuda/fake_cudnn/convolution_cases.h"
#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_cudnn/matmul_cases.h"
#include "cuda/fake_cudnn/support.h"
#include "support/contains.h"

namespace trainer::test {
namespace {

using backend::cuda::Candidate;
using backend::cuda::CandidateTimer;
using backend::cuda::ConvolutionPlanner;
using backend::cuda::ConvolutionProblem;
using backend::cuda::fastest;
using backend::cuda::MatmulProblem;
using backend::cuda::SharedPlans;
using Pass = ConvolutionProblem::Pass;

using test::contains;

// Runs each candidate once, on memory of just the bytes that it asked for.
class NamedTimer final : public CandidateTimer {
 public:
  double seconds(const Candidate& candidate) override {
    names.push_back(candidate.name);
    std::vector<Workspace> blocks;
    for (const auto& wanted : candidate.memory) blocks.emplace_back(wanted.bytes);
    std::vector<void*> memory;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      memory.push_back(candidate.memory[i].bytes == 0 ? nullptr : blocks[i].data());
    }
    candidate.run(memory, nullptr);
    for (Workspace& block : blocks) CHECK(block.is_kept_to());
    if (!fails.empty() && contains(candidate.name, fails)) throw DeviceError("does not run");
    return !fast.empty() && contains(candidate.name, fast) ? 1e-3 : 2e-3;
  }

  std::string fast, fails;  // parts of names
  std::vector<std::string> names;
};

struct Tuned {
  TemporaryFolder folder;
  std::shared_ptr<NamedTimer> timer = std::make_shared<NamedTimer>();
  std::vector<std::string> warnings;

  std::string convolution(const ConvolutionProblem& problem) {
    backend::cuda::PlannerOptions options;
    options.cache = folder.path();
    options.timer = timer;
    options.warn = [this](const std::string& text) { warnings.push_back(text); };
    const auto planner = std::make_unique<ConvolutionPlanner>(options);
    // Engines with tensor cores round float32 to TF32; the table of convolutions looks at that.
    if (!problem.tf32) CHECK(convolution_error(*planner, problem) <= 4);
    return planner->plan(problem)->describe();
  }
  std::string product(const MatmulProblem& problem, const std::string& device = "GPU A") {
    backend::cuda::MatmulOptions options;
    options.cache = folder.path();
    options.timer = timer;
    options.device = device;
    options.warn = [this](const std::string& text) { warnings.push_back(text); };
    const auto planner = make_matmul_planner(options);
    CHECK(matmul_error(*planner, problem) <= 3);
    return planner->plan(problem)->describe();
  }
  // How many candidates `work` lets be timed.
  template <class Work>
  std::size_t timed(const Work& work) {
    const std::size_t before = timer->names.size();
    work();
    return timer->names.size() - before;
  }
};

// In float16, where engines with and without tensor cores may be used.
ConvolutionProblem usual_convolution() {
  ConvolutionProblem problem = convolution_table()[6].problem;
  problem.type = DType::kFloat16;
  return problem;
}

MatmulProblem usual_product() {
  MatmulProblem problem;
  problem.m = 4;
  problem.n = 6;
  problem.k = 5;
  return problem;
}

Candidate candidate(const std::string& name) {
  return {name, {}, [](const std::vector<void*>&, cudaStream_t) {}};
}

TEST_CASE("tuning: the fastest candidate is chosen, the first of equals, and none that fails") {
  NamedTimer timer;
  const std::vector<Candidate> three{candidate("a"), candidate("b"), candidate("c")};
  CHECK(fastest(three, timer) == 0);
  timer.fast = "c";
  CHECK(fastest(three, timer) == 2);
  timer.fails = "c";
  CHECK(fastest(three, timer) == 0);
  timer.fails = "a";
  timer.fast = "b";
  CHECK(fastest(three, timer) == 1);
  timer.fast = "";
  CHECK(fastest(three, timer) == 1);
  CHECK(fastest({candidate("a")}, timer) == 0);
}

TEST_CASE("tuning: only engines of a convolution that may be used are timed") {
  for (const char* engine : {"engine 28,", "engine 41,", "engine 0,"}) {
    CAPTURE(engine);
    Tuned tuned;
    tuned.timer->fast = engine;
    const std::string chosen = tuned.convolution(usual_convolution());
    CHECK(contains(chosen, engine));
    CHECK(contains(chosen, ", timed, "));
    CHECK(contains(chosen, "tensor cores") == contains(chosen, "engine 41,"));
    for (const std::string& name : tuned.timer->names) {
      for (const char* forbidden :
           {"engine 17,", "engine 2,", "engine 3,", "engine 4,", "engine 5,"}) {
        CHECK(!contains(name, forbidden));
      }
    }
  }
  Tuned tuned;
  ConvolutionProblem strict = usual_convolution();
  strict.type = DType::kFloat32;
  tuned.timer->fast = "engine 41,";
  CHECK(!contains(tuned.convolution(strict), "engine 41,"));
  strict.tf32 = true;
  CHECK(contains(tuned.convolution(strict), "engine 41,"));
}

TEST_CASE("tuning: without a faster candidate the heuristics' choice stays") {
  for (const auto& entry : convolution_table()) {
    CAPTURE(entry.name);
    const std::string usual =
        std::make_unique<backend::cuda::ConvolutionPlanner>()->plan(entry.problem)->describe();
    Tuned tuned;
    std::string chosen = tuned.convolution(entry.problem);
    const std::size_t mark = chosen.find(", timed");
    REQUIRE(mark != std::string::npos);
    CHECK(chosen.erase(mark, 7) == usual);
  }
  Tuned tuned;
  CHECK(tuned.product(usual_product()) == "cublasLt, timed, 4 KiB");
}

TEST_CASE("tuning: the time of bias and relu counts in the engine or as kernels after it") {
  ConvolutionProblem problem = usual_convolution();
  problem.bias = problem.relu = true;
  for (const bool fused : {true, false}) {
    Tuned tuned;
    tuned.timer->fast = fused ? "engine 28, 1 KiB" : ", then bias, then relu";
    tuned.convolution(problem);
    std::size_t with_kernels = 0;
    for (const std::string& name : tuned.timer->names)
      with_kernels += contains(name, ", then bias");
    CHECK(with_kernels > 0);
    CHECK(with_kernels < tuned.timer->names.size());
    CHECK(contains(tuned.convolution(problem), ", then bias") == !fused);
  }
  MatmulProblem product = usual_product();
  product.bias = product.relu = true;
  Tuned tuned;
  tuned.timer->fast = ", then bias";
  CHECK(tuned.product(product) == "cublasLt, timed, 4 KiB, then bias, then relu");
}

TEST_CASE("tuning: an algorithm of cuBLASLt is chosen by its time") {
  const char* texts[] = {"4 KiB", "2 KiB", "1 KiB"};
  for (const char* text : texts) {
    Tuned tuned;
    tuned.timer->fast = text;
    CHECK(contains(tuned.product(usual_product()), text));
    CHECK(tuned.timer->names.size() == std::size(texts));
  }
}

TEST_CASE("tuning: a choice is kept for its device, version, shape and precision, and no other") {
  Tuned tuned;
  tuned.timer->fast = "engine 0,";
  const ConvolutionProblem problem = usual_convolution();
  const auto convolve = [&](const ConvolutionProblem& p) {
    return tuned.timed([&] { tuned.convolution(p); });
  };
  CHECK(convolve(problem) > 0);
  tuned.timer->fast = "engine 28,";  // nobody asks
  CHECK(convolve(problem) == 0);
  CHECK(contains(tuned.convolution(problem), "engine 0,"));
  for (const auto& change : std::vector<std::function<void(ConvolutionProblem&)>>{
           [](auto& p) { p.n = 3; }, [](auto& p) { p.out = 3; },
           [](auto& p) { p.type = DType::kBFloat16; },
           [](auto& p) { p.pass = Pass::kBackwardData; }, [](auto& p) { p.bias = true; }}) {
    ConvolutionProblem other = problem;
    change(other);
    CHECK(convolve(other) > 0);
    CHECK(convolve(other) == 0);
  }

  tuned.timer->fast = "2 KiB";
  const MatmulProblem product = usual_product();
  const auto multiply = [&](const MatmulProblem& p, const char* device = "GPU A") {
    return tuned.timed([&] { tuned.product(p, device); });
  };
  CHECK(multiply(product) > 0);
  CHECK(multiply(product) == 0);
  CHECK(contains(tuned.product(product), "2 KiB"));
  CHECK(multiply(product, "GPU B") > 0);
  for (const auto& change : std::vector<std::function<void(MatmulProblem&)>>{
           [](auto& p) { p.m = 5; }, [](auto& p) { p.type = p.result = DType::kFloat16; },
           [](auto& p) { p.tf32 = true; }, [](auto& p) { p.transpose_b = true; },
           [](auto& p) { p.relu = true; }}) {
    MatmulProblem other = product;
    change(other);
    CHECK(multiply(other) > 0);
    CHECK(multiply(other) == 0);
  }

  const fake::KeepSettings keep;
  fake::settings().cudnn_version = 92800;
  CHECK(convolve(problem) > 0);
  CHECK(multiply(product) == 0);
  fake::settings().cublas_version = 130200;
  CHECK(multiply(product) > 0);
  CHECK(tuned.warnings.empty());
}

TEST_CASE("tuning: planners of two devices without a folder make one choice") {
  const auto shared = std::make_shared<backend::cuda::SharedPlans>();
  const auto timer = std::make_shared<NamedTimer>();
  const auto convolve = [&](std::shared_ptr<backend::cuda::SharedPlans> plans) {
    backend::cuda::PlannerOptions options;
    options.timer = timer;
    options.shared = std::move(plans);
    return std::make_unique<ConvolutionPlanner>(options)->plan(usual_convolution())->describe();
  };
  const auto multiply = [&](std::shared_ptr<backend::cuda::SharedPlans> plans) {
    backend::cuda::MatmulOptions options;
    options.timer = timer;
    options.shared = std::move(plans);
    return make_matmul_planner(options)->plan(usual_product())->describe();
  };
  timer->fast = "engine 0,";
  const std::string first_engine = convolve(shared);
  timer->fast = "2 KiB";
  const std::string first_algorithm = multiply(shared);
  CHECK(contains(first_engine, "engine 0,"));
  CHECK(contains(first_algorithm, "2 KiB"));
  timer->fast = "engine 28,";
  const std::size_t timed = timer->names.size();
  CHECK(convolve(shared) == first_engine);
  CHECK(multiply(shared) == first_algorithm);
  CHECK(timer->names.size() == timed);
  CHECK(convolve(nullptr) != first_engine);
}

TEST_CASE("tuning: all processes of a job make and store the choice of the first") {
  std::map<std::string, std::string> store;
  const auto agree = [&store](const std::string& key, const std::string& choice) {
    return store.emplace(key, choice).first->second;
  };
  // A process with a cache of its own; `agrees`: as a part of the job.
  struct Process {
    TemporaryFolder folder;
    std::shared_ptr<NamedTimer> timer = std::make_shared<NamedTimer>();
    std::string plan(const char* engine, const char* algorithm, SharedPlans::Agree agrees) {
      backend::cuda::PlannerOptions convolutions;
      backend::cuda::MatmulOptions products;
      convolutions.timer = products.timer = timer;
      convolutions.cache = products.cache = folder.path();
      convolutions.shared = products.shared = std::make_shared<SharedPlans>(std::move(agrees));
      timer->fast = engine;
      const std::string found =
          std::make_unique<ConvolutionPlanner>(convolutions)->plan(usual_convolution())->describe();
      timer->fast = algorithm;
      return found + "; " + make_matmul_planner(products)->plan(usual_product())->describe();
    }
  };
  Process first, second, third;
  const std::string chosen = first.plan("engine 0,", "2 KiB", agree);
  CHECK(contains(chosen, "engine 0,"));
  CHECK(contains(chosen, "2 KiB"));
  CHECK(second.plan("engine 28,", "1 KiB", agree) == chosen);
  // A choice that an earlier job has stored.
  CHECK(third.plan("engine 28,", "1 KiB", {}) != chosen);
  CHECK(third.plan("", "", agree) == chosen);
  for (Process* process : {&first, &second, &third}) {
    const std::size_t timed = process->timer->names.size();
    CHECK(process->plan("engine 28,", "1 KiB", {}) == chosen);
    CHECK(process->timer->names.size() == timed);
  }
}

TEST_CASE("tuning: damaged files and files of something else are named, ignored and replaced") {
  const auto only_file = [](const Tuned& tuned) {
    return std::filesystem::directory_iterator(tuned.folder.path())->path();
  };
  for (const bool convolution : {true, false}) {
    CAPTURE(convolution);
    Tuned tuned;
    const auto plan = [&] {
      return convolution ? tuned.convolution(usual_convolution()) : tuned.product(usual_product());
    };
    const std::string chosen = plan();
    const Path file = only_file(tuned);
    const std::string content = read_text_file(file);
    // A whole file of another version of the library under this file's name.
    Tuned other;
    {
      const fake::KeepSettings keep;
      fake::settings().cudnn_version = 92800;
      fake::settings().cublas_version = 130200;
      convolution ? other.convolution(usual_convolution()) : other.product(usual_product());
    }
    const std::string foreign = read_text_file(only_file(other));
    std::string flipped = content;
    flipped[flipped.size() / 2] ^= 1;
    const std::pair<std::string, const char*> cases[] = {
        {"", "it is not of this version of the program"},
        {"something else\n" + content, "it is not of this version of the program"},
        {content.substr(0, content.size() - 1), "it is damaged"},
        {content + "0", "it is damaged"},
        {flipped, "it is damaged"},
        {foreign, "it is of another device, library version or shape"}};
    for (const auto& [text, why] : cases) {
      CAPTURE(why);
      write_file_atomic(file, text);
      tuned.warnings.clear();
      CHECK(tuned.timed(plan) > 0);
      REQUIRE(tuned.warnings.size() == 1);
      CHECK(tuned.warnings[0] == file.string() + " is ignored and written anew: " + why);
      CHECK(tuned.timed(plan) == 0);
      CHECK(plan() == chosen);
      CHECK(tuned.warnings.size() == 1);
    }
  }
}

TEST_CASE("tuning: choices by a timer and by heuristics are kept apart") {
  Tuned tuned;
  tuned.timer->fast = "engine 0,";
  tuned.convolution(usual_convolution());
  backend::cuda::PlannerOptions usual;
  usual.cache = tuned.folder.path();
  CHECK(
      !contains(std::make_unique<ConvolutionPlanner>(usual)->plan(usual_convolution())->describe(),
                "engine 0,"));
  CHECK(contains(tuned.convolution(usual_convolution()), "engine 0,"));
}

}  // namespace
}  // namespace trainer::test
