// Files that torch.save() wrote, by make_pytorch_files.py, and pickles that no PyTorch writes.
#include "checkpoint/pytorch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/files/files.h"
#include "checkpoint/pickle.h"
#include "checkpoint/weights.h"
#include "support/skip.h"
#include "support/source_files.h"

namespace trainer::checkpoint::pytorch_test {
namespace {

using namespace std::string_literals;

Path file(const std::string& name) { return test::source_file("test/checkpoint/pytorch/") + name; }

std::map<std::string, Tensor> read_by_name(const std::string& name, const std::string& entry = "") {
  std::map<std::string, Tensor> tensors;
  for (Tensor& tensor : read_weights(file(name), {entry}).tensors) {
    std::string key = tensor.name;
    tensors[key] = std::move(tensor);
  }
  return tensors;
}

// Returns what make_pytorch_files.py stores in tensor k.
std::vector<float> make_values(int k, std::size_t count, float step = 0.125f) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(k) + static_cast<float>(i) * step;
  }
  return values;
}

void check_types(const std::string& name) {
  CAPTURE(name);
  const std::map<std::string, Tensor> tensors = read_by_name(name);
  const auto check = [&](const char* tensor, const Shape& shape, const std::vector<float>& values) {
    CAPTURE(tensor);
    REQUIRE(tensors.contains(tensor));
    CHECK(tensors.at(tensor).shape == shape);
    CHECK(tensors.at(tensor).values == values);
  };
  const std::vector<float> shared = make_values(7, 24);
  std::vector<float> columns;
  for (std::size_t i = 0; i < 24; ++i) columns.push_back(shared[i % 4 * 6 + i / 4]);
  check("float32", {2, 3}, make_values(0, 6));
  check("float64", {2, 3}, make_values(1, 6));
  check("float16", {2, 3}, make_values(2, 6));
  check("bfloat16", {2, 3}, make_values(3, 6));
  check("int64", {2, 3}, make_values(4, 6, 1));
  check("uint8", {2, 3}, make_values(5, 6, 1));
  check("scalar", {}, {6});
  check("rows", {2, 6}, {shared.begin() + 6, shared.begin() + 18});
  check("columns", {6, 4}, columns);
  check("channels_last", {2, 3, 2, 2}, make_values(8, 24));
  check("parameter", {3}, make_values(9, 3));
  check("empty", {0, 3}, {});
  CHECK(tensors.size() == 12);
  CHECK(tensors.at("int64").is_integer);
  CHECK_FALSE(tensors.at("float16").is_integer);
}

// A pickle of protocol 2 in a file of its own.
class PickleFile {
 public:
  explicit PickleFile(const std::string& opcodes) {
    write_file_atomic(path_, "\x80\2" + opcodes + ".");
  }
  Pickle read() const {
    const RandomAccessFile file(path_);
    return read_pickle(file, 0, file.size(), "a.pkl");
  }

 private:
  TemporaryFolder folder_;
  Path path_ = folder_.path() / "a.pkl";
};

}  // namespace

TEST_CASE("read_weights reads every type and layout of tensors of PyTorch") {
  check_types("types.pth");
  check_types("types_old.pth");
}

TEST_CASE("read_weights gives the shapes of a PyTorch file without its values") {
  for (const char* name : {"types.pth", "types_old.pth"}) {
    const WeightFile shapes = read_weights(file(name), {"", Content::kShapes});
    const WeightFile all = read_weights(file(name));
    REQUIRE(shapes.tensors.size() == all.tensors.size());
    for (std::size_t i = 0; i < all.tensors.size(); ++i) {
      CHECK(shapes.tensors[i].name == all.tensors[i].name);
      CHECK(shapes.tensors[i].shape == all.tensors[i].shape);
      CHECK(shapes.tensors[i].values.empty());
    }
  }
}

TEST_CASE("read_weights chooses a state dict of a training checkpoint and removes the prefix") {
  const WeightFile average = read_weights(file("training.pth"));
  REQUIRE(average.tensors.size() == 3);
  CHECK(average.tensors[0].name == "n_averaged");
  CHECK(average.tensors[1].name == "a.weight");
  CHECK(average.tensors[1].values == make_values(10, 2));
  CHECK(average.notes ==
        std::vector{"of the state dicts in the file, 'model_ema' is used; model.weights_entry "
                    "selects another: state_dict"s,
                    "the prefix 'module.' of its names is removed"s});
  CHECK(read_by_name("training.pth", "state_dict").at("a.weight").values == make_values(0, 2));
  CHECK(read_by_name("nets.pth", "teacher").at("a.bias").values == make_values(11, 2));
}

TEST_CASE("read_weights rejects files of PyTorch that hold something other than a state dict") {
  for (const auto& [name, entry, reason] :
       {std::tuple{"module.pth", "", "holds an object of torch.nn.modules.linear.Linear"},
        std::tuple{"object.pth", "", "tensor args: is an object of argparse.Namespace"},
        std::tuple{"command.pth", "", "names posix.system, with which a pickle runs commands"},
        std::tuple{"complex.pth", "", "holds elements of torch.ComplexFloatStorage"},
        std::tuple{"number.pth", "", "holds a single value, expected a state dict"},
        std::tuple{"program.pth", "", "is a TorchScript program"},
        std::tuple{"nets.pth", "", "select one with model.weights_entry: student, teacher"},
        std::tuple{"training.pth", "ema",
                   "has no state dict 'ema', which model.weights_entry "
                   "names; it has state_dict, model_ema"}}) {
    CAPTURE(std::string(name));
    CHECK_THROWS_WITH_AS(read_weights(file(name), {entry}), doctest::Contains(reason), DataError);
  }
  const TemporaryFolder folder;
  const Path text = folder.path() / "a.npy";
  write_file_atomic(text, "\x93NUMPY"s);
  CHECK_THROWS_WITH_AS(read_weights(text, {"model"}),
                       doctest::Contains("model.weights_entry is for files of PyTorch"), DataError);
}

TEST_CASE("read_weights rejects or reads a changed PyTorch file, with no value changed silently") {
  for (const char* name : {"linear.pth", "types_old.pth"}) {
    const Bytes sound = read_file(file(name));
    const TemporaryFolder folder;
    const Path path = folder.path() / "changed.pth";
    int rejected = 0;
    for (std::size_t i = 0; i < sound.size(); ++i) {
      Bytes changed = sound;
      changed[i] ^= 1u << i % 8;
      write_file_atomic(path, std::string(changed.begin(), changed.end()));
      try {
        for (const Tensor& tensor : read_weights(path).tensors) {
          CHECK(tensor.shape.elements() == static_cast<std::int64_t>(tensor.values.size()));
        }
      } catch (const DataError&) {
        ++rejected;
      }
    }
    CHECK(rejected > static_cast<int>(sound.size()) / 4);
  }
  // The archive has a checksum of each storage.
  Bytes changed = read_file(file("linear.pth"));
  const float value = read_by_name("linear.pth").at("bias").values[0];
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  const auto place = std::search(changed.begin(), changed.end(), bytes, bytes + sizeof value);
  REQUIRE(place != changed.end());
  *place ^= 1;
  const TemporaryFolder folder;
  const Path path = folder.path() / "w.pth";
  write_file_atomic(path, std::string(changed.begin(), changed.end()));
  CHECK_THROWS_WITH_AS(read_weights(path),
                       doctest::Contains("the checksum of a storage does not match"), DataError);
}

TEST_CASE("read_pickle gives the values of a pickle") {
  // {"a": [1, -2, 3.5], "b": (None, True), "n": 2**40}
  const Pickle pickle =
      PickleFile(
          "}q\0(X\1\0\0\0a](K\1J\xfe\xff\xff\xffG\x40\x0c\0\0\0\0\0\0eX\1\0\0\0bN\x88\x86"
          "X\1\0\0\0n\x8a\6\0\0\0\0\0\1u"s)
          .read();
  const PickleValue& root = pickle[pickle.root];
  const PickleValue* list = pickle.find(root, "a");
  REQUIRE(list != nullptr);
  REQUIRE(list->items.size() == 3);
  CHECK(pickle[list->items[0]].integer == 1);
  CHECK(pickle[list->items[1]].integer == -2);
  CHECK(pickle[list->items[2]].real == 3.5);
  CHECK(pickle.find(root, "b")->items.size() == 2);
  CHECK(pickle.find(root, "n")->integer == std::int64_t{1} << 40);
  CHECK(pickle.find(root, "c") == nullptr);
}

TEST_CASE("read_pickle rejects pickles that no program writes, and names the reason") {
  std::string nested = ")";
  for (int i = 0; i < 1'000'000; ++i) nested += '\x85';
  for (const auto& [opcodes, reason] :
       {std::pair{"cos\nsystem\n(U\2idtR"s, "names os.system, with which a pickle runs commands"},
        std::pair{"c__builtin__\neval\n(U\1"
                  "1tR"s,
                  "names __builtin__.eval"},
        std::pair{"X\x08\0\0\0builtinsX\4\0\0\0exec\x93"s, "names builtins.exec"},
        std::pair{"csubprocess\nPopen\n"s, "names subprocess.Popen"},
        std::pair{nested, "values are nested more than 64 deep"},
        std::pair{"]q\0h\0a"s, "a value contains itself"},
        std::pair{"}q\0X\1\0\0\0ah\0s"s, "a value contains itself"},
        std::pair{"h\5"s, "value 5 is used before it is stored"},
        std::pair{"X\xff\xff\xff\xff"
                  "abc"s,
                  "ends early"},
        std::pair{"(K\1d"s, "a key without a value"},
        std::pair{"K\1K\2a"s, "items are added to another value"},
        std::pair{"K\1)R"s, "something other than a class or function is called"},
        std::pair{"t"s, "a mark is missing"}, std::pair{""s, "the stack is empty"},
        std::pair{"I1\n"s, "opcode I is not one of those that are read"}}) {
    CAPTURE(reason);
    CHECK_THROWS_WITH_AS(PickleFile(opcodes).read(), doctest::Contains(reason), DataError);
  }
}

TEST_CASE("read_weights reads the published ResNets of CIFAR-10") {
  const char* shared = std::getenv("TRAINER_SHARED_DATA");
  const Path folder = shared == nullptr ? Path() : Path(shared) / "weights";
  for (const auto& [name, parameters] :
       {std::pair{"cifar10_resnet20.th", 269'722}, std::pair{"cifar10_resnet56.th", 853'018}}) {
    if (!std::filesystem::exists(folder / name)) {
      TRAINER_SKIP("TRAINER_SHARED_DATA names no folder with weights");
    }
    const WeightFile weights = read_weights(folder / name);
    std::int64_t count = 0;
    for (const Tensor& tensor : weights.tensors) {
      const bool is_statistic = tensor.name.find("running_") != std::string::npos;
      if (!is_statistic && !tensor.is_integer) count += tensor.shape.elements();
    }
    CHECK(count == parameters);
    CHECK(weights.tensors.front().name == "conv1.weight");
    CHECK(weights.tensors.front().shape == Shape{16, 3, 3, 3});
  }
}

}  // namespace trainer::checkpoint::pytorch_test
