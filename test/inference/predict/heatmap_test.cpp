// Heatmaps of a task whose answer lies in one place of each image, and their files.
#include "inference/predict/heatmap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/numbers/random.h"
#include "data/decode/image_file.h"
#include "inference/predict/heatmap_files.h"
#include "inference/predict/sample_pixels.h"
#include "model/build_model.h"

namespace trainer::inference {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32, kSquare = 9;

// A dark image with a bright square, red for class 0 and green for class 1.
struct SquareImage {
  int left = 0, top = 0, label = 0;
  std::vector<std::uint8_t> pixels;
};

SquareImage draw_square(std::uint64_t seed) {
  Random random(seed, Stream::kSynthetic);
  SquareImage image;
  image.label = static_cast<int>(seed % 2);
  image.left = static_cast<int>(random.below(kSide - kSquare + 1));
  image.top = static_cast<int>(random.below(kSide - kSquare + 1));
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const bool inside =
          x >= image.left && x < image.left + kSquare && y >= image.top && y < image.top + kSquare;
      for (int c = 0; c < 3; ++c) {
        const auto noise = static_cast<std::uint8_t>(random.below(40));
        const int bright = inside && c == image.label ? 200 : 10;
        image.pixels.push_back(static_cast<std::uint8_t>(bright + noise));
      }
    }
  }
  return image;
}

void write_square(const fs::path& path, const SquareImage& image) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << "P6 " << kSide << ' ' << kSide << " 255\n";
  file.write(reinterpret_cast<const char*>(image.pixels.data()),
             static_cast<std::streamsize>(image.pixels.size()));
}

std::vector<PredictionInput> open_files(const OpenedModel& trained,
                                        const std::vector<std::string>& files) {
  return open_prediction_inputs(trained, files, Split::kTest, false);
}

// A network that was trained on such images, and eight new ones.
struct Squares {
  TemporaryFolder folder;
  OpenedModel trained;
  std::vector<SquareImage> images;

  explicit Squares(const std::string& layers =
                       "conv: {filters: 8, activation: relu}, max_pool, conv: {filters: 16, "
                       "activation: relu}, global_average_pool, dense: 2",
                   int steps = 120) {
    trained.config =
        config::parse_config("model: {layers: [" + layers +
                                 "]}\ndata: {format: image_folder, path: nowhere, resize: [32, 32]}"
                                 "\noptimizer: adam\ntrain: {epochs: 1, batch_size: 32}\n",
                             "squares.yaml", {}, {})
            .config;
    trained.path = "memory";
    trained.classes = {"red", "green"};
    trained.image_shape = Shape{kSide, kSide, 3};
    trained.image_type = DType::kUInt8;
    trained.warn = [](const Notice& notice) { FAIL(notice.text); };
    train(steps);
    for (std::uint64_t i = 0; i < 8; ++i) {
      images.push_back(draw_square(100'000 + i));
      write_square(folder.path() / concat("new/", i, ".ppm"), images.back());
    }
  }

  void train(int steps) {
    const config::Config& config = trained.config;
    engine::Engine engine(
        model::build_model(config.model, config.data, sample_spec(trained), config.seed), config,
        engine::open_backends(config, {}), engine::Use::kTrain);
    engine.initialise(1);
    for (int step = 0; step < steps; ++step) {
      std::vector<std::uint8_t> pixels;
      std::vector<std::int32_t> labels;
      for (int i = 0; i < 32; ++i) {
        const SquareImage image = draw_square(static_cast<std::uint64_t>(step * 32 + i));
        pixels.insert(pixels.end(), image.pixels.begin(), image.pixels.end());
        labels.push_back(image.label);
      }
      backend::Scalars scalars;
      scalars.learning_rate = 5e-3f;
      scalars.update = static_cast<std::uint64_t>(step) + 1;
      scalars.loss_scale = 1.0 / 32;
      engine.step({32, pixels.data(), false, labels.data()}, scalars);
    }
    trained.file.tensors = engine.replica().tensors();
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
};

// Returns whether a pixel lies on the square or so near that a position of the features sees it.
bool near_square(const SquareImage& image, int x, int y) {
  constexpr int kNear = 3;
  return x >= image.left - kNear && x < image.left + kSquare + kNear && y >= image.top - kNear &&
         y < image.top + kSquare + kNear;
}

}  // namespace

TEST_CASE("heatmap: the map of a class that a bright square decides is largest on the square") {
  const Squares squares;
  const auto inputs = open_files(squares.trained, {squares.path("new")});
  const auto engine = make_engine(squares.trained, inputs);
  std::int64_t right = 0;
  predict(*engine, inputs[0], {}, [&](const results::Prediction& prediction) {
    right += prediction.predicted == prediction.index % 2 ? 1 : 0;
  });
  REQUIRE(right == 8);
  for (const HeatmapMethod method : {HeatmapMethod::kGradCam, HeatmapMethod::kOcclusion}) {
    CAPTURE(static_cast<int>(method));
    HeatmapMaker maker(squares.trained, inputs, method, "");
    for (std::int64_t i = 0; i < 8; ++i) {
      CAPTURE(i);
      const SquareImage& image = squares.images[static_cast<std::size_t>(i)];
      const engine::PositionMap map =
          maker.compute(read_image(inputs[0].dataset(), i), image.label);
      REQUIRE(map.height == kSide);
      REQUIRE(map.width == kSide);
      REQUIRE(map.values.size() == kSide * kSide);
      const auto top = std::max_element(map.values.begin(), map.values.end());
      const int at = static_cast<int>(top - map.values.begin());
      CHECK(*top == 1);
      CHECK(*std::min_element(map.values.begin(), map.values.end()) >= 0);
      CHECK(near_square(image, at % kSide, at / kSide));
      double near = 0, far = 0;
      int near_count = 0, far_count = 0;
      for (int p = 0; p < kSide * kSide; ++p) {
        const bool is_near = near_square(image, p % kSide, p / kSide);
        (is_near ? near : far) += static_cast<double>(map.values[static_cast<std::size_t>(p)]);
        ++(is_near ? near_count : far_count);
      }
      CHECK(near / near_count > 4 * far / far_count);
    }
  }
}

TEST_CASE("heatmap: grad_cam needs positions, and occlusion does not") {
  const Squares squares("flatten, dense: 2", 40);
  const auto inputs = open_files(squares.trained, {squares.path("new/1.ppm")});
  CHECK_THROWS_WITH_AS(HeatmapMaker(squares.trained, inputs, HeatmapMethod::kGradCam, ""),
                       doctest::Contains("use --heatmap-method occlusion"), ConfigError);
  HeatmapMaker maker(squares.trained, inputs, HeatmapMethod::kOcclusion, "");
  const engine::PositionMap map = maker.compute(read_image(inputs[0].dataset(), 0), 1);
  CHECK(*std::max_element(map.values.begin(), map.values.end()) == 1);
}

TEST_CASE("enlarge is bilinear, as in PyTorch with align_corners=False") {
  const engine::PositionMap map{2, 2, {0, 1, 2, 3}};
  // torch.nn.functional.interpolate(map, (4, 4), mode="bilinear", align_corners=False)
  const std::vector<float> expected{0,    0.25f, 0.75f, 1,    0.5f, 0.75f, 1.25f, 1.5f,
                                    1.5f, 1.75f, 2.25f, 2.5f, 2,    2.25f, 2.75f, 3};
  CHECK(enlarge(map, 4, 4).values == expected);
  CHECK(enlarge(map, 2, 2).values == map.values);
  CHECK(enlarge({1, 1, {7}}, 2, 3).values == std::vector<float>(6, 7.0f));
}

TEST_CASE("lay_over paints 0 blue and 1 red, over grey for images without three channels") {
  const engine::PositionMap map{1, 3, {0, 0.5f, 1}};
  const HeatmapPicture colour = lay_over({200, 100, 50, 200, 100, 50, 200, 100, 50}, 3, map);
  CHECK(colour.height == 1);
  CHECK(colour.width == 3);
  CHECK(colour.pixels == std::vector<std::uint8_t>{120, 60, 81, 171, 162, 81, 171, 60, 30});
  const HeatmapPicture grey = lay_over({200, 9, 100, 9, 0, 9}, 2, map);
  CHECK(grey.pixels == std::vector<std::uint8_t>{120, 120, 171, 111, 162, 111, 51, 0, 0});
}

TEST_CASE("heatmap files: equal names in different folders have different files") {
  const Squares squares("conv: {filters: 2}, flatten, dense: 2", 1);
  for (const char* name : {"a/cat/1.ppm", "a/dog/1.ppm", "a/dog_1.ppm", "b/cat/1.ppm"}) {
    write_square(squares.folder.path() / name, squares.images[0]);
  }
  const auto names = [&](const std::vector<std::string>& files) {
    std::vector<std::string> paths;
    for (const std::string& file : files) paths.push_back(squares.path(file));
    return name_heatmaps(open_files(squares.trained, paths), {}).at(0);
  };
  using Names = std::vector<std::string>;
  CHECK(names({"a/cat/1.ppm"}) == Names{"1.png"});
  CHECK(names({"a/cat/1.ppm", "b/cat/1.ppm"}) == Names{"a_cat_1.png", "b_cat_1.png"});
  CHECK(names({"a"}) == Names{"cat_1.png", "dog_1.png", "dog_1-2.png"});
  CHECK(names({"a/cat/1.ppm", "a/cat/1.ppm"}) == Names{"1.png", "1-2.png"});
  // A relative and an absolute path: the root is not a part of a name.
  const std::string absolute = squares.path("a/cat/1.ppm");
  const std::string relative = std::filesystem::relative(squares.path("b/cat/1.ppm")).string();
  const Names mixed = name_heatmaps(open_files(squares.trained, {relative, absolute}), {}).at(0);
  REQUIRE(mixed.size() == 2);
  for (const std::string& name : mixed) CHECK(name.find('/') == std::string::npos);
  CHECK(mixed[0] != mixed[1]);
  CHECK(mixed[1].ends_with("a_cat_1.png"));
}

TEST_CASE(
    "heatmap files: each is a PNG of the input of the model, and an existing file is not "
    "replaced") {
  const Squares squares;
  const auto inputs = open_files(squares.trained, {squares.path("new/0.ppm")});
  HeatmapMaker maker(squares.trained, inputs, HeatmapMethod::kGradCam, "");
  const HeatmapPicture picture = maker.draw(inputs[0].dataset(), 0, 0);
  const Path folder = squares.folder.path() / "maps" / "deep";
  const auto names = name_heatmaps(inputs, {});
  const HeatmapFolder maps(folder, names, false);
  maps.write(0, 0, picture);
  CHECK(maps.path(0, 0) == (folder / "0.png").string());
  const Bytes bytes = read_file(folder / "0.png");
  data::ImageFile file(bytes, "0.png", {});
  data::Pixels pixels;
  CHECK(file.decode(3, 1, pixels).empty());
  CHECK(file.info().width == kSide);
  CHECK(file.info().height == kSide);
  CHECK(std::equal(picture.pixels.begin(), picture.pixels.end(), pixels.data()));

  CHECK_THROWS_WITH_AS(HeatmapFolder(folder, names, false),
                       doctest::Contains("exists; replace it with --overwrite"), ConfigError);
  CHECK_NOTHROW(HeatmapFolder(folder, names, true));
  CHECK_THROWS_WITH_AS(HeatmapFolder(folder / "0.png", names, true),
                       doctest::Contains("is not a folder"), ConfigError);
}

}  // namespace trainer::inference
