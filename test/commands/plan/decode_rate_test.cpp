#include "commands/plan/decode_rate.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/threads/cores.h"
#include "commands/plan/device_plan.h"
#include "support/contains.h"
#include "support/source_files.h"

namespace trainer::commands {
namespace {

// Two classes of two images each.
struct Photos {
  TemporaryFolder folder;

  Photos() {
    for (const char* name : {"cats", "dogs"}) {
      std::filesystem::create_directories(folder.path() / name);
      for (const char* file : {"1.ppm", "2.ppm"}) {
        std::ofstream(folder.path() / name / file, std::ios::binary) << "P6 4 3 255\n"
                                                                     << std::string(4 * 3 * 3, 'a');
      }
    }
  }
  config::Config config(const std::string& data = "") const {
    return config::parse_config(
               concat("model: {input: [3, 4, 3], layers: [flatten, dense: 2]}\n",
                      "train: {epochs: 1}\ndata: {format: image_folder, train: {path: ",
                      folder.path().string(), "}", data, "}\n"),
               "photos.yaml", {}, {})
        .config;
  }
};

}  // namespace

TEST_CASE("measure_decoding returns the rate at which a folder of images is decoded") {
  const Photos photos;
  const std::optional<DecodeRate> rate = measure_decoding(photos.config());
  REQUIRE(rate);
  CHECK(rate->failure == "");
  CHECK(rate->images >= 4);  // four small images take far less than the time of the measurement
  // The measurement lasts half a second and no more than the time of an image longer.
  CHECK(rate->images_per_second < static_cast<double>(rate->images) / 0.5 + 1);
  CHECK(rate->images_per_second > 0);
}

TEST_CASE("measure_decoding returns no rate for data whose epochs decode no file") {
  const Photos photos;
  CHECK_FALSE(measure_decoding(photos.config(", cache: memory")));
  CHECK_FALSE(
      measure_decoding(config::parse_config("model: {layers: [flatten, dense: 10]}\n"
                                            "data: {format: synthetic}\ntrain: {epochs: 1}\n",
                                            "synthetic.yaml", {}, {})
                           .config));
}

TEST_CASE("measure_decoding: the failure of a damaged image has its file") {
  const Photos photos;
  std::ofstream(photos.folder.path() / "cats" / "1.ppm", std::ios::binary) << "P6 4 3 255\nshort";
  const std::optional<DecodeRate> rate = measure_decoding(photos.config());
  REQUIRE(rate);
  CHECK(test::contains(rate->failure, "1.ppm"));
}

TEST_CASE("count_cores returns the number of cores that reach a rate") {
  const DecodeRate rate{100, 64};
  CHECK(count_cores(rate, 250) == 3);
  CHECK(count_cores(rate, 300) == 3);
  CHECK(count_cores(rate, 301) == 4);
  CHECK(count_cores(rate, 1) == 1);
}

TEST_CASE("plan prints the number of cores that decode for a planned GPU and image files") {
  DevicePlan device;
  device.gpu = backend::find_gpu_model("h100");
  device.roofline = Roofline{};
  device.roofline->samples = 64;
  device.roofline->step = {0.1, 0.2};  // 640 to 320 images/second
  std::ostringstream without, text;
  print_gpu(device, without);
  CHECK_FALSE(test::contains(without.str(), "one core"));
  device.decoding = DecodeRate{100, 64};
  print_gpu(device, text);
  CHECK(test::contains(text.str(),
                       "one core of this machine reads and decodes 100 images/second (64 "
                       "measured); such a GPU needs 4 to 7 of them; this process may use " +
                           std::to_string(usable_core_count())));
  device.decoding->failure = "cats/1.ppm: is truncated";
  std::ostringstream failed;
  print_gpu(device, failed);
  CHECK(test::contains(failed.str(), "decoding was not measured: cats/1.ppm: is truncated\n"));
}

}  // namespace trainer::commands
