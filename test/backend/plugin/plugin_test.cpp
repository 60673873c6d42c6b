// The CUDA backend as a library that is opened on demand: what is reported when it cannot be, and
// what passes between it and the program. The libraries are real ones, crafted for each case.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/cuda_plugin.h"
#include "backend/open.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "support/contains.h"
#include "support/skip.h"

namespace trainer::backend {
namespace {

namespace fs = std::filesystem;
using Kind = DeviceKind;

std::string crafted(const std::string& name) { return concat(CRAFTED_PLUGINS "/", name, ".so"); }

using test::contains;

// The platform of a test case.
Platform platform;

// The CUDA backend in `file`, which finds what CRAFTED names.
class Plugin {
 public:
  explicit Plugin(const std::string& file, const std::string& finds = "0 13020 0") {
    ::setenv("CRAFTED", finds.c_str(), 1);
    platform.cuda_plugin = file;
  }
  ~Plugin() {
    ::unsetenv("CRAFTED");
    platform = {};
  }
};

DeviceOptions build_options(Kind kind, std::int64_t replicas = 1, std::vector<int> gpus = {}) {
  DeviceOptions options;
  options.platform = platform;
  options.kind = kind;
  options.replicas = replicas;
  options.gpus = std::move(gpus);
  options.cpu.threads = replicas;
  return options;
}

std::string catch_error(const DeviceOptions& options) {
  try {
    open_backends(options);
  } catch (const DeviceError& error) {
    CHECK(error.code() == kExitDevice);
    return error.what();
  }
  return "";
}

// The reason of device: cuda, and a check that auto then trains on the CPU: with a warning when
// something that is there does not work.
std::string reason(bool broken) {
  const GpuList list = list_gpus(platform);
  CHECK(list.gpus.empty());
  CHECK(list.broken == broken);
  CHECK(list.reason.find('\n') == std::string::npos);
  const std::string error = catch_error(build_options(Kind::kCuda));
  CHECK(error == "parallel.device: cuda: " + list.reason + "; or use device: cpu or auto");
  CHECK(open_backends(build_options(Kind::kAuto)).front()->describe().starts_with("cpu"));
  const std::string warning = device_warning(build_options(Kind::kAuto));
  CHECK(warning == (broken ? "parallel.device: auto uses the CPU: " + list.reason : ""));
  CHECK(device_warning(build_options(Kind::kCpu)).empty());
  return list.reason;
}

bool driver_here() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

// The file of NVIDIA's kernel module: README of the driver, "The /proc interface".
constexpr char kLoadedDriver[] =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Fri Jan 24 01:23:45 UTC 2025\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";

std::string file_with(const TemporaryFolder& folder, const std::string& name,
                      const std::string& text) {
  const std::string path = (folder.path() / name).string();
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("list_gpus: the reason in a build without a CUDA backend names the places searched") {
  if (driver_here()) TRAINER_SKIP("this machine has an NVIDIA driver");
  const Plugin none("");
  const TemporaryFolder no_driver;
  platform.driver_folder = no_driver.path();
  const std::string folder = fs::read_symlink("/proc/self/exe").parent_path().string();
  if (fs::exists(folder + "/libtrainer_cuda.so")) TRAINER_SKIP("a CUDA backend is built here");
  const std::string said = reason(false);
  CHECK(said.starts_with("this program has no CUDA backend: "));
  CHECK(contains(said, "no libtrainer_cuda.so in " + folder + ", "));
  CHECK(contains(said, "/lib/trainer or "));
  CHECK(contains(said, "/imagetrainer_cuda; install the CUDA Toolkit, cuDNN and NCCL"));
  CHECK(contains(said, "cmake --build --preset release --target trainer_cuda`"));
  CHECK(contains(said, "TRAINER_CUDA_PLUGIN"));
}

TEST_CASE("device_warning: a driver without a CUDA backend is a warning unless device is cpu") {
  const Plugin none("");
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "libtrainer_cuda.so";
  if (fs::exists(beside)) TRAINER_SKIP("a CUDA backend is built here");
  const TemporaryFolder driver;
  platform.driver_folder = driver.path();
  file_with(driver, "version", kLoadedDriver);
  CHECK(reason(true).starts_with(
      "this machine has an NVIDIA driver, but this program has no CUDA backend: "));
}

TEST_CASE("list_gpus: the reason for a missing part of CUDA has the command that installs it") {
  if (driver_here()) TRAINER_SKIP("this machine has an NVIDIA driver");
  const TemporaryFolder folder;
  const fs::path program = folder.path() / "imagetrainer" / "program";
  fs::create_directories(program.parent_path());
  fs::copy_file(fs::read_symlink("/proc/self/exe"), program);
  file_with(folder, "version", kLoadedDriver);
  const std::string print_reason = "DRIVER_FOLDER=" + folder.path().string() + " " +
                                   program.string() +
                                   " -tc='list_gpus prints the reason of this program' -ns | grep ";
  const std::string wheel = print_reason + "-q '; install its wheel by `pip install '";
  CHECK(std::system(wheel.c_str()) == 0);
  fs::copy_file(crafted("crafted_plugin"), program.parent_path() / "libtrainer_cuda.so");
  const std::string container =
      print_reason + "'the NVIDIA driver 570.86.15 is loaded, but' | grep -q 'docker run --gpus'";
  CHECK(std::system(container.c_str()) == 0);
}

TEST_CASE("list_gpus prints the reason of this program" * doctest::skip()) {
  if (const char* driver = std::getenv("DRIVER_FOLDER")) platform.driver_folder = driver;
  std::puts(list_gpus(platform).reason.c_str());
}

TEST_CASE("list_gpus finds a CUDA backend beside the program or in its lib folder") {
  const Plugin none("");
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "libtrainer_cuda.so";
  if (fs::exists(beside)) TRAINER_SKIP("a CUDA backend is built here");
  // The name's owner goes before another process of this program can see it.
  const TemporaryFolder folder;
  const fs::path program = folder.path() / "bin" / "program";
  const fs::path library = folder.path() / "lib" / "trainer" / "libtrainer_cuda.so";
  fs::create_directories(program.parent_path());
  fs::create_directories(library.parent_path());
  fs::copy_file(fs::read_symlink("/proc/self/exe"), program);
  const std::string list_without_driver =
      "CRAFTED='0 13020 2' " + program.string() +
      " -tc='list_gpus prints names for another test' -ns | grep -q 'Crafted 1'";
  // Any library of the driver's name will do.
  const fs::path driver = folder.path() / "driver" / "libcuda.so.1";
  fs::create_directories(driver.parent_path());
  fs::copy_file(crafted("crafted_plugin"), driver);
  const std::string list =
      "LD_LIBRARY_PATH=" + driver.parent_path().string() + " " + list_without_driver;
  CHECK(std::system(list.c_str()) != 0);
  fs::copy_file(crafted("crafted_plugin"), library);
  CHECK(std::system(list.c_str()) == 0);
  // Without a driver the backend is not even opened.
  CHECK(std::system(list_without_driver.c_str()) != 0);
  fs::rename(library, program.parent_path() / "libtrainer_cuda.so");
  CHECK(std::system(list.c_str()) == 0);
  // Wheels are installed as the folders imagetrainer and imagetrainer_cuda beside each other.
  const fs::path wheel = folder.path() / "imagetrainer_cuda";
  fs::create_directories(wheel);
  fs::rename(program.parent_path() / "libtrainer_cuda.so", wheel / "libtrainer_cuda.so");
  CHECK(std::system(list.c_str()) == 0);
}

TEST_CASE("list_gpus prints names for another test" * doctest::skip()) {
  for (const Gpu& gpu : list_gpus(platform).gpus) std::puts(gpu.name.c_str());
}

TEST_CASE("list_gpus gives the reason for a library that is missing, damaged or incomplete") {
  const TemporaryFolder folder;
  const std::string gone = (folder.path() / "gone.so").string();
  {
    const Plugin plugin(gone);
    CHECK(contains(reason(true), "the CUDA backend " + gone + " cannot be opened: "));
  }
  {
    const Plugin plugin(file_with(folder, "text.so", "not a library, but some text\n"));
    CHECK(contains(reason(true), "cannot be opened: "));
  }
  {
    const Plugin plugin(crafted("crafted_needs"));
    const std::string said = reason(true);
    CHECK(contains(said, "libcrafted_needed.so: cannot open shared object file"));
    CHECK(contains(said, "LD_LIBRARY_PATH"));
  }
  {
    const Plugin plugin(crafted("crafted_undefined"));
    CHECK(contains(reason(true), "undefined symbol: _Z14crafted_neededv"));
  }
  {
    const Plugin plugin(crafted("crafted_without_open"));
    const std::string said = reason(true);
    CHECK(contains(said, "no function trainer_cuda_open ("));
    CHECK(contains(said, "undefined symbol: trainer_cuda_open"));
  }
}

TEST_CASE("list_gpus names both versions for a library with another version of the interface") {
  const Plugin plugin(crafted("crafted_interface"), "0 13020 2");
  const std::string said = reason(true);
  CHECK(contains(said, "has version 1000 of the interface, this program has version "));
  CHECK(contains(said, "that was built with the program"));
}

TEST_CASE("list_gpus: each state of the driver has a reason of its own") {
  struct State {
    const char* finds;
    bool broken;
    const char* says;
  };
  const TemporaryFolder driver;
  file_with(driver, "version", kLoadedDriver);
  for (const State& state : {
           State{"35 0 0", false, "no NVIDIA driver"},
           State{"34 0 0", true, "the CUDA Toolkit's stub"},
           State{"35 11040 0", true,
                 "570.86.15 is too old: it supports CUDA 11.4, and the CUDA backend was built with "
                 "CUDA 13.2; update the driver to 580 or newer, or, with data-centre GPUs only, "
                 "install cuda-compat-13-2 if https://docs.nvidia.com/"},
           State{"100 13000 0", false, "finds no GPU"},
           State{"0 13020 0", false, "finds no GPU"},
           State{"999 13020 0", true, "cudaErrorCrafted: error 999"},
           State{"-1 13020 0", true, "does not answer"},
       }) {
    CAPTURE(state.finds);
    const Plugin plugin(crafted("crafted_plugin"), state.finds);
    platform.driver_folder = driver.path();
    if (std::string(state.finds).starts_with("-1")) {  // the plugin's own error
      const GpuList list = list_gpus(platform);
      CHECK(list.broken);
      CHECK(contains(list.reason, state.says));
      CHECK(contains(catch_error(build_options(Kind::kAuto)), state.says));
    } else {
      CHECK(contains(reason(state.broken), state.says));
    }
  }
}

TEST_CASE("open_backends: each replica gets the GPU that it asks for by number") {
  const Plugin plugin(crafted("crafted_plugin"), "0 13020 4");
  const GpuList list = list_gpus(platform);
  REQUIRE(list.gpus.size() == 4);
  CHECK(list.reason.empty());
  CHECK(list.gpus[1].name == "Crafted 1");
  CHECK(list.gpus[1].minor == 1);
  const auto names = [](const DeviceOptions& options) {
    std::vector<std::string> all;
    for (const auto& backend : open_backends(options)) all.push_back(backend->describe());
    return all;
  };
  using Names = std::vector<std::string>;
  CHECK(names(build_options(Kind::kAuto)) == Names{"crafted GPU 0"});
  CHECK(names(build_options(Kind::kCuda, 2)) == Names{"crafted GPU 0", "crafted GPU 1"});
  CHECK(names(build_options(Kind::kCuda, 2, {2, 0})) == Names{"crafted GPU 2", "crafted GPU 0"});
  CHECK(names(build_options(Kind::kCuda, 2, {1, 1})) == Names{"crafted GPU 1", "crafted GPU 1"});
  CHECK(names(build_options(Kind::kCpu, 2)).size() == 2);
  CHECK(names(build_options(Kind::kCpu)).front().starts_with("cpu"));
  CHECK(device_warning(build_options(Kind::kAuto)).empty());
}

TEST_CASE(
    "open_backends: processes of one machine get equal shares of the GPUs, or the first if too "
    "few") {
  const Plugin plugin(crafted("crafted_plugin"), "0 13020 6");
  const auto taken = [](std::int64_t replicas, int local_rank, int local_size,
                        const std::vector<int>& listed = {}) {
    DeviceOptions options = build_options(Kind::kCuda, replicas, listed);
    options.local_rank = local_rank;
    options.local_size = local_size;
    std::string all;
    for (const auto& backend : open_backends(options)) all += backend->describe().back();
    return all;
  };
  CHECK(taken(1, 0, 6) == "0");
  CHECK(taken(1, 5, 6) == "5");
  CHECK(taken(2, 0, 3) == "01");
  CHECK(taken(2, 2, 3) == "45");
  CHECK(taken(1, 2, 3) == "2");
  // Not enough for all: a launcher that gave each process GPUs of its own.
  CHECK(taken(3, 1, 3) == "012");
  CHECK(taken(2, 1, 4) == "01");
  CHECK(taken(2, 1, 2, {0, 0}) == "00");  // as it was asked for
}

TEST_CASE("open_backends: the error of GPUs that do not exist has their number for cuda and auto") {
  const Plugin plugin(crafted("crafted_plugin"), "0 13020 1");
  for (const Kind kind : {Kind::kAuto, Kind::kCuda}) {
    CHECK(contains(catch_error(build_options(kind, 2)),
                   "2 replicas need a GPU each, and this machine has 1 GPU;"));
    CHECK(contains(catch_error(build_options(kind, 2, {0, 1})),
                   "there is no GPU 1 to use; this machine has 1 GPU,"));
    CHECK(contains(catch_error(build_options(kind, 2, {0, -1})), "there is no GPU -1"));
    CHECK(contains(catch_error(build_options(kind, 2, {0})), "1 GPUs are listed for 2 replicas"));
  }
}

TEST_CASE("open_backends leaves out GPUs without kernels, and the others keep their numbers") {
  const Plugin plugin(crafted("crafted_plugin"), "0 13020 5 35 90 75 70 100");
  const GpuList list = list_gpus(platform);
  REQUIRE(list.gpus.size() == 2);
  CHECK(list.gpus[0].number == 1);
  CHECK(list.gpus[1].number == 4);
  const std::string old =
      "GPU 0 (Crafted 0) is not used: it has compute capability 3.5, and the CUDA backend was "
      "built for 8.0, 9.0, 10.0 and newer";
  REQUIRE(list.left_out.size() == 3);
  CHECK(list.left_out[0] == old);
  CHECK(
      list.left_out[1].starts_with("GPU 2 (Crafted 2) is not used: it has compute capability 7.5"));
  const auto opened = [](DeviceOptions options, int local_rank = 0, int local_size = 1) {
    options.local_rank = local_rank;
    options.local_size = local_size;
    std::string all;
    for (const auto& backend : open_backends(options)) all += backend->describe().back();
    return all;
  };
  for (const Kind kind : {Kind::kAuto, Kind::kCuda}) {
    CHECK(opened(build_options(kind)) == "1");
    CHECK(opened(build_options(kind, 2)) == "14");
    CHECK(opened(build_options(kind), 1, 2) == "4");
    CHECK(opened(build_options(kind, 2, {4, 4})) == "44");
    CHECK(device_warning(build_options(kind)) == join(list.left_out, "; "));
    CHECK(device_warning(build_options(kind, 1, {4})).empty());
    CHECK(contains(catch_error(build_options(kind, 3)),
                   "3 replicas need a GPU each, and this machine has 2 GPUs that can be used (" +
                       old + "; GPU 2"));
    CHECK(contains(catch_error(build_options(kind, 1, {0})),
                   "there is no GPU 0 to use; this machine has 2 GPUs that can be used (" + old));
  }
}

TEST_CASE("list_gpus gives the reason for a machine whose GPUs all lack kernels") {
  const Plugin plugin(crafted("crafted_plugin"), "0 13020 2 70 75");
  const std::string said = reason(true);
  CHECK(contains(said, "GPU 0 (Crafted 0) is not used: it has compute capability 7.0, and"));
  CHECK(contains(said, "; GPU 1 (Crafted 1) is not used: it has compute capability 7.5, and"));
}

TEST_CASE("list_gpus: code runs on newer GPUs of its generation, and PTX on all newer GPUs") {
  const auto usable = [](const char* architectures, int capability) {
    ::setenv("CRAFTED_ARCHITECTURES", architectures, 1);
    const Plugin plugin(crafted("crafted_plugin"), concat("0 13020 1 ", capability));
    const bool found = !list_gpus(platform).gpus.empty();
    ::unsetenv("CRAFTED_ARCHITECTURES");
    return found;
  };
  CHECK(usable("80-real", 80));
  CHECK(usable("80-real", 89));
  CHECK_FALSE(usable("80-real", 75));
  CHECK_FALSE(usable("80-real", 90));
  CHECK_FALSE(usable("86-real", 80));
  CHECK(usable("80-virtual", 90));
  CHECK(usable("80-virtual", 120));
  CHECK_FALSE(usable("90-virtual", 89));
  CHECK(usable("80", 120));
  CHECK(usable("75-real,100-real", 103));
  CHECK_FALSE(usable("75-real,100-real", 90));
}

TEST_CASE(
    "open_backends: errors of the CUDA library are types of the program that outlive the backend") {
  const Plugin plugin(crafted("crafted_plugin"), "0 13020 4");
  CHECK(catch_error(build_options(Kind::kCuda, 1, {3})) == "crafted GPU 3 is lost");
  std::exception_ptr kept;
  {
    const auto backends = open_backends(build_options(Kind::kCuda, 1, {2}));
    try {
      backends.front()->make_stream();
    } catch (const std::runtime_error&) {
      kept = std::current_exception();
    }
  }
  REQUIRE(kept);
  CHECK_THROWS_WITH_AS(std::rethrow_exception(kept), "crafted GPU 2 is full", DeviceError);
}

TEST_CASE("trainer_plugin: a built library exports only its entry points") {
  void* library = ::dlopen(crafted("crafted_plugin").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  CHECK(::dlsym(library, "trainer_cuda_open") != nullptr);
  CHECK(::dlsym(library, "_ZN7trainer9to_stringERKNS_9SourceLocE") == nullptr);
  CHECK(::dlsym(library, "_ZTIN7trainer11DeviceErrorE") == nullptr);
  ::dlclose(library);
}

#ifdef CRAFTED_REAL
TEST_CASE("list_gpus gives the reason for the CUDA runtime without a driver") {
  if (driver_here()) TRAINER_SKIP("this machine has an NVIDIA driver");
  const Plugin plugin(CRAFTED_REAL);
  CHECK(contains(reason(false), "this machine has no NVIDIA driver"));
}

TEST_CASE("list_gpus gives the reason for the CUDA runtime with the toolkit's stub of the driver") {
  if (driver_here()) TRAINER_SKIP("this machine has an NVIDIA driver");
  const std::string stub = CUDA_STUBS "/libcuda.so";
  if (!fs::exists(stub)) TRAINER_SKIP("the CUDA Toolkit has no stub of the driver here");
  const TemporaryFolder folder;
  fs::create_symlink(stub, folder.path() / "libcuda.so.1");
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  CHECK(std::system(concat("LD_LIBRARY_PATH=", folder.path().string(), " ", self,
                           " -tc='list_gpus prints the reason for another test' -ns | "
                           "grep -q \"the CUDA Toolkit's stub\"")
                        .c_str()) == 0);
}

TEST_CASE("list_gpus prints the reason for another test" * doctest::skip()) {
  const Plugin plugin(CRAFTED_REAL);
  std::puts(list_gpus(platform).reason.c_str());
}
#endif

}  // namespace trainer::backend
