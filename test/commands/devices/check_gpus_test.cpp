#include "commands/devices/check_gpus.h"

#include <doctest/doctest.h>

#include <set>

namespace trainer::commands {

TEST_CASE("describe_checked differs between GPUs, drivers, libraries and settings of NCCL") {
  const backend::GpuLibraries libraries{"cuDNN 9.19.0", "H100 0a\nH100 0b\n"};
  const CheckedGpus both{"2", 2};
  const std::string same = describe_checked(both, libraries, "580.65", {{"HOME", "/a"}});
  const std::set<std::string> all{
      same,
      describe_checked({"[0, 1]", 2}, libraries, "580.65", {}),
      describe_checked(both, {"cuDNN 9.19.0", "H100 0a\nH100 0c\n"}, "580.65", {}),
      describe_checked(both, {"cuDNN 9.28.0", "H100 0a\nH100 0b\n"}, "580.65", {}),
      describe_checked(both, libraries, "580.95", {}),
      describe_checked(both, libraries, "580.65", {{"NCCL_P2P_DISABLE", "1"}}),
      describe_checked(both, libraries, "580.65", {{"NCCL_P2P_DISABLE", "0"}}),
      describe_checked(both, libraries, "580.65", {{"TRAINER_CUDA_GRAPHS", "0"}})};
  CHECK(all.size() == 8);
  CHECK(describe_checked(both, libraries, "580.65", {{"NCCL_DEBUG", "INFO"}}) == same);
}

}  // namespace trainer::commands
