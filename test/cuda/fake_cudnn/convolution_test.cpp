// The convolutions of lib/backend/cuda on the fake cuDNN against plain loops.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "backend/backend.h"
#include "base/error.h"
#include "cuda/fake_cudnn/convolution_cases.h"
#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_cudnn/support.h"

namespace trainer::test {
namespace {

using backend::cuda::ConvolutionPlanner;
using backend::cuda::ConvolutionProblem;
using Pass = ConvolutionProblem::Pass;

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
// The result is rounded once, to half a unit; float32 also sums in another order.
constexpr double kRounding = 1.0;

TEST_CASE("convolution: every pass, kernel, stride, dilation, group, padding and type is correct") {
  const auto planner = std::make_unique<ConvolutionPlanner>();
  for (auto& [name, problem] : convolution_table()) {
    for (const DType type : kTypes) {
      for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
        problem.type = type;
        problem.pass = pass;
        CAPTURE(name);
        CAPTURE(to_string(type));
        CAPTURE(static_cast<int>(pass));
        CHECK(convolution_error(*planner, problem) <= kRounding);
      }
    }
  }
}

TEST_CASE("convolution: bias and relu are applied in the engine and as kernels after it") {
  const fake::KeepSettings keep;
  const auto planner = std::make_unique<ConvolutionPlanner>();
  for (const bool fuses : {true, false}) {
    fake::settings().fuses = fuses;
    fake::settings().workspace_bytes = fuses ? 4096 : 0;  // then the kernels alone need one
    for (const DType type : kTypes) {
      for (const auto& [bias, relu] : {std::pair{true, false}, {true, true}, {false, true}}) {
        ConvolutionProblem problem = convolution_table()[5].problem;
        problem.type = type;
        problem.bias = bias;
        problem.relu = relu;
        CAPTURE(fuses);
        CAPTURE(to_string(type));
        CAPTURE(bias);
        CAPTURE(relu);
        // Kernels of their own round to the type each time.
        CHECK(convolution_error(*planner, problem) <= (fuses ? kRounding : 3 * kRounding));
        const std::string text = planner->plan(problem)->describe();
        const bool own_bias = bias && !fuses, own_relu = relu && !(fuses && bias);
        CHECK((text.find("then bias") != std::string::npos) == own_bias);
        CHECK((text.find("then relu") != std::string::npos) == own_relu);
      }
    }
  }
}

TEST_CASE("convolution: a NaN goes through bias and relu, in the engine and as kernels after it") {
  const fake::KeepSettings keep;
  const auto planner = std::make_unique<ConvolutionPlanner>();
  ConvolutionProblem problem;
  problem.n = problem.h = problem.c = problem.out = 1;
  problem.w = 3;
  problem.bias = problem.relu = true;
  for (const bool fuses : {true, false}) {
    fake::settings().fuses = fuses;
    for (const DType type : kTypes) {
      CAPTURE(fuses);
      CAPTURE(to_string(type));
      problem.type = type;
      DeviceArray x(type, 3), kernel(type, 1), bias(type, 1), y(type, 3);
      const double values[3] = {-2, std::nan(""), 2};
      for (std::int64_t i = 0; i < 3; ++i) x.set(i, values[i]);
      kernel.set(0, 1);
      bias.set(0, 1);
      const auto plan = planner->plan(problem);
      Workspace workspace(plan->workspace_bytes());
      plan->run(x.data(), kernel.data(), y.data(), bias.data(), workspace.data(), nullptr);
      CHECK(y[0] == 0);
      CHECK(std::isnan(y[1]));
      CHECK(y[2] == 3);
    }
  }
}

// One whose channels are enough for tensor cores.
ConvolutionProblem wide_problem() {
  ConvolutionProblem problem = convolution_table()[3].problem;
  problem.c = problem.out = 16;
  return problem;
}

TEST_CASE("convolution: tensor cores are used where they are allowed and worth it") {
  const auto planner = std::make_unique<ConvolutionPlanner>();
  const std::string plain = "cudnn engine 28, 1 KiB",
                    cores = "cudnn engine 41, tensor cores, 4 KiB";
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
    ConvolutionProblem problem = wide_problem();
    problem.pass = pass;
    CHECK(planner->plan(problem)->describe() == plain);
    CHECK(convolution_error(*planner, problem) <= kRounding);
    problem.tf32 = true;
    CHECK(planner->plan(problem)->describe() == cores);
    CHECK(convolution_error(*planner, problem) <= kRounding);  // of numbers rounded to TF32
    problem.tf32 = false;
    problem.type = DType::kFloat16;
    CHECK(planner->plan(problem)->describe() == cores);
    problem.out = 15;
    CHECK(planner->plan(problem)->describe() == plain);
  }
}

TEST_CASE(
    "convolution: the engine with the least workspace is chosen if none is within the limit") {
  ConvolutionProblem problem = wide_problem();
  problem.type = DType::kBFloat16;
  backend::cuda::PlannerOptions options;
  options.workspace_limit = 4096;
  CHECK(std::make_unique<ConvolutionPlanner>(options)->plan(problem)->workspace_bytes() == 4096);
  options.workspace_limit = 4095;
  CHECK(std::make_unique<ConvolutionPlanner>(options)->plan(problem)->workspace_bytes() == 1024);
  options.workspace_limit = 100;
  const auto planner = std::make_unique<ConvolutionPlanner>(options);
  CHECK(planner->plan(problem)->describe() == "cudnn engine 28, 1 KiB");
  CHECK(convolution_error(*planner, problem) <= kRounding);
}

TEST_CASE("convolution: extents that do not fit together are an error") {
  const auto planner = std::make_unique<ConvolutionPlanner>();
  const auto refused = [&](const char* why, const auto& change) {
    ConvolutionProblem problem = convolution_table()[3].problem;
    change(problem);
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(planner->plan(problem), doctest::Contains(why), DeviceError);
  };
  refused("an extent is not positive", [](auto& p) { p.n = 0; });
  refused("the groups do not divide the channels", [](auto& p) { p.groups = 3; });
  refused("the groups do not divide the channels", [](auto& p) { p.groups = 2; });
  refused("a padding is negative", [](auto& p) { p.window.pad_after[1] = -1; });
  refused("a size, stride or dilation is not positive", [](auto& p) { p.window.stride[0] = 0; });
  refused("the kernel is larger than the padded image", [](auto& p) { p.window.size[0] = 9; });
  refused("not a floating-point type", [](auto& p) { p.type = DType::kInt32; });
  refused("only forward has a bias or relu", [](auto& p) {
    p.pass = Pass::kBackwardData;
    p.bias = true;
  });
}

TEST_CASE("convolution: a tensor of 2^31 elements is an error that names the largest batch") {
  ConvolutionProblem problem;
  problem.h = problem.w = 224;
  backend::cuda::PlannerOptions options;
  options.large_tensors = true;
  const auto planner = std::make_unique<ConvolutionPlanner>();
  const auto lifted = std::make_unique<ConvolutionPlanner>(options);
  for (const bool result_is_larger : {true, false}) {
    CAPTURE(result_is_larger);
    problem.c = result_is_larger ? 3 : 64;
    problem.out = result_is_larger ? 64 : 3;
    problem.n = 668;
    CHECK_NOTHROW(planner->plan(problem));
    problem.n = 669;
    CHECK_THROWS_WITH_AS(
        planner->plan(problem),
        doctest::Contains("669 samples has a tensor of 2148335616 elements, and cuDNN takes at "
                          "most 2147483647, which are 668 samples; TRAINER_CUDA_LARGE_TENSORS=1"),
        backend::DoesNotFit);
    CHECK_NOTHROW(lifted->plan(problem));
  }
}

TEST_CASE("convolution: the error of no engine has the reason for each that was left out") {
  const fake::KeepSettings keep;
  const auto planner = std::make_unique<ConvolutionPlanner>();
  fake::settings().before_finalize = [](fake::OpenDescriptor& d) {
    if (d.type() == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
      throw std::runtime_error("no plans today");
    }
  };
  const ConvolutionProblem problem = convolution_table()[3].problem;
  CHECK_THROWS_WITH_AS(planner->plan(problem),
                       doctest::Contains("no engine for the convolution forward float32 x 2x6x7x3 "
                                         "kernel 3x3 to 4"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(planner->plan(problem), doctest::Contains("engine 17: compiled at run time"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(planner->plan(problem), doctest::Contains("engine 2: not deterministic"),
                       DeviceError);
  CHECK_THROWS_WITH_AS(planner->plan(problem), doctest::Contains("engine 41: TF32"), DeviceError);
  CHECK_THROWS_WITH_AS(planner->plan(problem), doctest::Contains("no plans today"), DeviceError);
}

TEST_CASE("convolution: a plan for a GPU model cannot run without the GPU") {
  backend::cuda::PlannerOptions options;
  options.device_properties = R"({"deviceName":"none"})";
  const auto planner = std::make_unique<ConvolutionPlanner>(options);
  const ConvolutionProblem problem = convolution_table()[3].problem;
  CHECK(planner->plan(problem)->describe() == "cudnn engine 28, 1 KiB");
  CHECK_THROWS_AS(convolution_error(*planner, problem), DeviceError);
}

TEST_CASE("convolution: no objects of cuDNN are left after planners and plans are destroyed") {
  const std::size_t before = fake::live_objects();
  {
    const auto planner = std::make_unique<ConvolutionPlanner>();
    const auto plan = planner->plan(convolution_table()[3].problem);
    CHECK(planner->version() == "cuDNN 9.19.0");
    CHECK(fake::live_objects() > before);
  }
  CHECK(fake::live_objects() == before);
}

// ---- Plans on disk ------------------------------------------------------------------------------

TEST_CASE("plan cache: a second request for a plan is read from the cache") {
  const TemporaryFolder folder;
  backend::cuda::PlannerOptions options;
  options.cache = folder.path();
  std::vector<ConvolutionProblem> problems;
  for (const DType type : kTypes) {
    ConvolutionProblem problem = convolution_table()[6].problem;
    problem.type = type;
    problem.relu = true;
    problems.push_back(problem);
    problem.bias = true;
    problems.push_back(problem);
    problem.bias = problem.relu = false;
    problem.pass = Pass::kBackwardWeights;
    problems.push_back(problem);
  }
  const auto run_all = [&] {
    const std::size_t before = fake::chosen_plans();
    const auto planner = std::make_unique<ConvolutionPlanner>(options);
    std::vector<std::string> texts;
    for (const ConvolutionProblem& problem : problems) {
      texts.push_back(planner->plan(problem)->describe());
      CHECK(convolution_error(*planner, problem) <= 3 * kRounding);
    }
    return std::pair{fake::chosen_plans() - before, texts};
  };
  const auto [first, first_texts] = run_all();
  CHECK(first == problems.size());
  const auto [second, second_texts] = run_all();
  CHECK(second == 0);
  CHECK(second_texts == first_texts);

  const fake::KeepSettings keep;
  fake::settings().cudnn_version = 92800;
  CHECK(run_all().first == problems.size());
}

TEST_CASE("plan cache: another limit, device or problem has another plan") {
  const TemporaryFolder folder;
  const auto chosen = [&](const ConvolutionProblem& problem, const auto& change) {
    backend::cuda::PlannerOptions options;
    options.cache = folder.path();
    change(options);
    const std::size_t before = fake::chosen_plans();
    std::make_unique<ConvolutionPlanner>(options)->plan(problem);
    return fake::chosen_plans() - before;
  };
  const auto same = [](auto&) {};
  const ConvolutionProblem problem = convolution_table()[6].problem;
  CHECK(chosen(problem, same) == 1);
  CHECK(chosen(problem, same) == 0);
  CHECK(chosen(problem, [](auto& o) { o.workspace_limit = 5000; }) == 1);
  CHECK(chosen(problem, [](auto& o) { o.device_properties = R"({"deviceName":"other"})"; }) == 1);
  // Another GPU of the same kind.
  const char* const ids = R"({"cudaDeviceId": 3, "deviceName": "other", "pciDeviceId": 7})";
  CHECK(chosen(problem, [&](auto& o) { o.device_properties = ids; }) == 0);
  const std::vector<std::function<void(ConvolutionProblem&)>> changes{
      [](auto& p) { p.pass = Pass::kBackwardData; },
      [](auto& p) { p.type = DType::kFloat16; },
      [](auto& p) { p.tf32 = true; },
      [](auto& p) { p.n = 3; },
      [](auto& p) { p.h = 7; },
      [](auto& p) { p.w = 8; },
      [](auto& p) { p.c = 4; },
      [](auto& p) { p.out = 3; },
      [](auto& p) { p.c = p.groups = 2; },
      [](auto& p) {
        p.window.size = {2, 3};
      },
      [](auto& p) {
        p.window.stride = {2, 1};
      },
      [](auto& p) {
        p.window.dilation = {1, 2};
      },
      [](auto& p) {
        p.window.pad_before = {1, 2};
      },
      [](auto& p) {
        p.window.pad_after = {2, 0};
      },
      [](auto& p) { p.bias = true; },
      [](auto& p) { p.relu = true; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    ConvolutionProblem other = problem;
    changes[i](other);
    CHECK(chosen(other, same) == 1);
    CHECK(chosen(other, same) == 0);
  }
}

TEST_CASE("plan cache: a damaged file is replaced") {
  const TemporaryFolder folder;
  backend::cuda::PlannerOptions options;
  options.cache = folder.path();
  const auto planner = std::make_unique<ConvolutionPlanner>(options);
  const ConvolutionProblem problem = convolution_table()[6].problem;
  planner->plan(problem);
  const Path file = std::filesystem::directory_iterator(folder.path())->path();
  const std::string content = read_text_file(file);
  for (const std::string& damaged :
       {std::string(), content.substr(0, content.size() - 1), content + "0",
        "something else\n" + content, content.substr(0, 30)}) {
    write_file_atomic(file, damaged);
    const std::size_t before = fake::chosen_plans();
    CHECK(convolution_error(*planner, problem) <= kRounding);
    CHECK(fake::chosen_plans() == before + 1);
    CHECK(read_text_file(file) == content);
  }
}

}  // namespace
}  // namespace trainer::test
