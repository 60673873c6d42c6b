#include "fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/error.h"

namespace trainer::fuzz {
namespace {

// Removed when the process ends in peace.
class Scratch {
 public:
  Scratch() : path_((std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp")) {
    path_ /= concat("trainer-fuzz.", ::getpid());
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all{{"images", run_images},
                                       {"jpeg", run_jpeg},
                                       {"idx", run_idx},
                                       {"npy", run_npy},
                                       {"npz", run_npz},
                                       {"csv", run_csv},
                                       {"relabel", run_relabel},
                                       {"zip", run_zip},
                                       {"tar", run_tar},
                                       {"tfrecord", run_tfrecord},
                                       {"cifar", run_cifar},
                                       {"safetensors", run_safetensors},
                                       {"weights", run_weights},
                                       {"checkpoint", run_checkpoint},
                                       {"yaml", run_yaml},
                                       {"set", run_set},
                                       {"environment", run_environment},
                                       {"metrics", run_metrics},
                                       {"rendezvous", run_rendezvous},
                                       {"messages", run_messages},
                                       {"ring", run_ring},
                                       {"servers", run_servers}};
  return all;
}

const std::string& as_file(Bytes bytes, const char* ending) {
  static const Scratch scratch;
  static std::map<std::string, std::string> paths;
  std::string& path = paths[ending];
  if (path.empty()) {
    path = scratch.path() / concat("input", ending);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  }
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool whole =
      file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(file);
  if (!whole) found("the input cannot be written to " + path);
  return path;
}

void expect_errors_only(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
  }
}

void found(const std::string& what) {
  std::cerr << "found: " << what << std::endl;
  std::abort();
}

}  // namespace trainer::fuzz
