// A file has a pickle, in which a tensor is a call of torch._utils._rebuild_tensor_v2 with a
// storage, an offset, sizes and strides, and the bytes of the storages. The layout of the zip
// archive and the older one are those of torch/serialization.py:
// https://github.com/pytorch/pytorch/blob/main/torch/serialization.py
#include "checkpoint/pytorch.h"

#include <libdeflate.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/formats/zip.h"
#include "base/text.h"
#include "checkpoint/elements.h"
#include "checkpoint/pickle.h"

namespace trainer::checkpoint {
namespace {

using namespace std::string_view_literals;
using Kind = PickleValue::Kind;

constexpr std::string_view kOldMagic = "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."sv;
constexpr std::size_t kMaxListed = 8;

// The elements that tensors are views of.
struct Storage {
  std::string type_name;  // "FloatStorage"
  std::uint64_t elements = 0;
  // The place of the bytes in the file, and their checksum where the file has one.
  std::optional<std::uint64_t> begin;
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> crc;
};

// A tensor of a state dict, before its elements are read.
struct View {
  std::string name;
  std::string storage;
  std::uint64_t offset = 0;  // of the first element, in elements
  Shape shape;
  std::vector<std::uint64_t> strides;
};

std::uint64_t count_elements(const View& view) {
  return static_cast<std::uint64_t>(view.shape.elements());
}

bool is_contiguous(const View& view) {
  std::uint64_t stride = 1;
  for (std::size_t i = view.shape.rank(); i-- > 0;) {
    const auto dim = static_cast<std::uint64_t>(view.shape[i]);
    if (dim != 1 && view.strides[i] != stride) return false;
    stride *= dim;
  }
  return true;
}

// Returns the elements of a view in row-major order.
std::vector<float> gather(const View& view, const std::vector<float>& storage) {
  std::vector<float> values(count_elements(view));
  std::vector<std::int64_t> index(view.shape.rank());
  std::uint64_t at = view.offset;
  for (float& value : values) {
    value = storage[at];
    for (std::size_t i = index.size(); i-- > 0;) {
      at += view.strides[i];
      if (++index[i] < view.shape[i]) break;
      at -= view.strides[i] * static_cast<std::uint64_t>(view.shape[i]);
      index[i] = 0;
    }
  }
  return values;
}

// Returns whether the member is the pickle of the object that was saved.
bool is_object(const ZipMember& member) { return member.name.ends_with("/data.pkl"); }

std::string describe(const PickleValue& value) {
  switch (value.kind) {
    case Kind::kObject:
    case Kind::kGlobal:
      return "an object of " + printable(value.text);
    case Kind::kDict:
      return "a dict";
    case Kind::kList:
    case Kind::kTuple:
      return "a list";
    default:
      return "a single value";
  }
}

// Reads a file in one of the two layouts.
class PyTorchReader {
 public:
  PyTorchReader(const Path& path, const std::string& entry)
      : path_(path.string()), entry_(entry), file_(path) {}

  PyTorchFile read(bool is_old, Content content) {
    if (is_old) {
      read_old_layout();
    } else {
      read_archive();
    }
    read_state_dict(find_state_dict());
    check_sizes();
    remove_prefixes();
    std::set<std::string> names;
    for (const View& view : views_) {
      if (!names.insert(view.name).second) fail(concat("names the tensor ", view.name, " twice"));
      const bool is_integer = find_type(view)->is_integer;
      result_.tensors.push_back({view.name, view.shape, {}, is_integer});
    }
    if (content == Content::kAll) read_values();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(path_, what); }

  void read_archive() {
    const std::vector<ZipMember> members = zip_members(file_, path_);
    const auto pickle = std::ranges::find_if(members, is_object);
    const std::string root = pickle->name.substr(0, pickle->name.size() - "data.pkl"sv.size());
    std::map<std::string, const ZipMember*> by_name;
    for (const ZipMember& member : members) by_name[member.name] = &member;
    if (by_name.contains(root + "constants.pkl")) {
      fail("is a TorchScript program; save the state_dict() of its module with torch.save()");
    }
    for (const ZipMember& member : members) {
      if (member.method == kZipStored) continue;
      fail("is a compressed archive, and torch.save() does not compress; save the file again");
    }
    pickle_ = read_pickle(file_, pickle->data, pickle->data + pickle->packed, path_);
    read_storages();
    if (const auto order = by_name.find(root + "byteorder"); order != by_name.end()) {
      Bytes text(std::min<std::uint64_t>(order->second->packed, 3));
      file_.read(order->second->data, text);
      is_big_endian_ = std::ranges::equal(text, "big"sv);
    }
    for (auto& [key, storage] : storages_) {
      const auto found = by_name.find(concat(root, "data/", key));
      if (found == by_name.end()) continue;
      storage.begin = found->second->data;
      storage.bytes = found->second->packed;
      storage.crc = found->second->crc;
    }
  }

  // The pickles are a magic number, a version, facts about the machine, the object, and the keys
  // of the storages, which follow in this order with their number of elements before each.
  void read_old_layout() {
    auto next = [&, at = std::uint64_t{kOldMagic.size()}]() mutable {
      Pickle pickle = read_pickle(file_, at, file_.size(), path_);
      at = pickle.end;
      return pickle;
    };
    const Pickle version = next(), machine = next();
    if (version[version.root].integer != 1001) fail("has an unknown version of PyTorch's layout");
    const PickleValue* little = machine.find(machine[machine.root], "little_endian");
    is_big_endian_ = little != nullptr && little->integer == 0;
    pickle_ = next();
    read_storages();
    const Pickle keys = next();
    std::uint64_t at = keys.end;
    for (const std::uint32_t key : keys[keys.root].items) {
      const auto found = storages_.find(keys[key].text);
      if (found == storages_.end()) fail("lists a storage that no tensor has: the file is damaged");
      Storage& storage = found->second;
      const ElementType* type = find_type(storage);
      if (type == nullptr) fail_type(storage);
      Bytes count(8);
      file_.read(at, count);
      if (is_big_endian_) swap_bytes(count, 8);
      std::uint64_t elements = 0;
      for (int i = 0; i < 8; ++i) elements |= std::uint64_t{count[i]} << (8 * i);
      if (elements != storage.elements || elements > file_.size() / type->bytes) {
        fail(concat("storage ", found->first, " has ", elements, " elements where the pickle has ",
                    storage.elements, ": the file is damaged"));
      }
      storage.begin = at + 8;
      storage.bytes = elements * type->bytes;
      at = *storage.begin + storage.bytes;
    }
  }

  // Finds the storages that the pickle refers to.
  void read_storages() {
    for (const PickleValue& value : pickle_.values) {
      if (value.kind != Kind::kPersistent) continue;
      const PickleValue& id = pickle_[value.items.front()];
      const auto item = [&](std::size_t i) -> const PickleValue& { return pickle_[id.items[i]]; };
      if (id.kind != Kind::kTuple || id.items.size() < 5 || item(0).text != "storage" ||
          item(1).kind != Kind::kGlobal || item(2).kind != Kind::kText ||
          item(4).kind != Kind::kInteger || item(4).integer < 0) {
        fail("refers to something other than a storage: the file is damaged");
      }
      if (id.items.size() > 5 && item(5).kind != Kind::kNone) {
        fail(
            "has storages that share memory, which PyTorch before 0.4 wrote; load and save the "
            "file with a newer PyTorch");
      }
      Storage storage;
      storage.type_name = item(1).text.substr(item(1).text.rfind('.') + 1);
      storage.elements = static_cast<std::uint64_t>(item(4).integer);
      const auto [found, is_new] = storages_.emplace(item(2).text, storage);
      if (!is_new && (found->second.type_name != storage.type_name ||
                      found->second.elements != storage.elements)) {
        fail(concat("storage ", printable(item(2).text), " has two types or sizes: the file is ",
                    "damaged"));
      }
    }
  }

  // Returns the call that makes a tensor, in a parameter too; null for another value.
  const PickleValue* find_tensor(const PickleValue& value) const {
    if (value.kind != Kind::kObject) return nullptr;
    if (value.text == "torch._utils._rebuild_tensor_v2" ||
        value.text == "torch._utils._rebuild_tensor") {
      return &value;
    }
    const bool is_parameter = value.text.starts_with("torch._utils._rebuild_parameter");
    return is_parameter && !value.items.empty() ? find_tensor(pickle_[value.items[0]]) : nullptr;
  }

  bool holds_tensors(const PickleValue& dict) const {
    if (dict.kind != Kind::kDict) return false;
    for (std::size_t i = 1; i < dict.items.size(); i += 2) {
      if (find_tensor(pickle_[dict.items[i]]) != nullptr) return true;
    }
    return false;
  }

  // Returns the keys of a dict whose values hold tensors.
  std::vector<std::string> list_entries(const PickleValue& dict) const {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      if (holds_tensors(pickle_[dict.items[i + 1]])) {
        keys.push_back(printable(pickle_[dict.items[i]].text));
      }
    }
    return keys;
  }

  const PickleValue& find_state_dict() {
    const PickleValue& root = pickle_[pickle_.root];
    if (root.kind != Kind::kDict) {
      fail(concat("holds ", describe(root),
                  ", expected a state dict; save model.state_dict() with torch.save()"));
    }
    const std::vector<std::string> entries = list_entries(root);
    if (!entry_.empty()) {
      const PickleValue* chosen = pickle_.find(root, entry_);
      if (chosen != nullptr && holds_tensors(*chosen)) return *chosen;
      fail(concat("has no state dict '", entry_, "', which model.weights_entry names; it has ",
                  entries.empty() ? "none by a name" : join_first(entries, kMaxListed)));
    }
    for (const char* name : kStateDictEntries) {
      const PickleValue* found = pickle_.find(root, name);
      if (found == nullptr || !holds_tensors(*found)) continue;
      std::vector<std::string> others = entries;
      std::erase(others, name);
      if (!others.empty()) {
        result_.notes.push_back(concat(
            "of the state dicts in the file, '", name,
            "' is used; model.weights_entry selects another: ", join_first(others, kMaxListed)));
      }
      return *found;
    }
    if (holds_tensors(root)) return root;
    if (entries.empty()) fail("is a PyTorch file without a state dict");
    fail(
        concat("has state dicts by names that do not show which holds the weights; select one "
               "with model.weights_entry: ",
               join_first(entries, kMaxListed)));
  }

  void read_state_dict(const PickleValue& dict) {
    std::vector<std::string> others;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue &key = pickle_[dict.items[i]], &value = pickle_[dict.items[i + 1]];
      if (key.kind != Kind::kText) fail("has a state dict with keys other than names");
      const std::string name = printable(key.text);
      if (const PickleValue* tensor = find_tensor(value)) {
        views_.push_back(read_view(name, *tensor));
      } else if (value.kind == Kind::kObject || value.kind == Kind::kPersistent) {
        fail(concat("tensor ", name, ": is ", describe(value), ", expected a tensor"));
      } else {
        others.push_back(name);
      }
    }
    if (!others.empty()) {
      result_.notes.push_back(
          concat("entries other than tensors are left out: ", join_first(others, kMaxListed)));
    }
  }

  View read_view(const std::string& name, const PickleValue& call) const {
    const auto damaged = [&] { fail(concat("tensor ", name, ": the file is damaged")); };
    if (call.items.size() < 4) damaged();
    const PickleValue &storage = pickle_[call.items[0]], &offset = pickle_[call.items[1]],
                      &sizes = pickle_[call.items[2]], &strides = pickle_[call.items[3]];
    if (storage.kind != Kind::kPersistent || offset.kind != Kind::kInteger || offset.integer < 0 ||
        sizes.items.size() != strides.items.size()) {
      damaged();
    }
    View view{name,
              pickle_[pickle_[storage.items.front()].items[2]].text,
              static_cast<std::uint64_t>(offset.integer),
              {},
              {}};
    std::vector<std::int64_t> dims;
    std::int64_t elements = 1, last = offset.integer;  // the last element in the storage
    for (std::size_t i = 0; i < sizes.items.size(); ++i) {
      const PickleValue &size = pickle_[sizes.items[i]], &stride = pickle_[strides.items[i]];
      std::int64_t reach = 0;
      if (size.kind != Kind::kInteger || stride.kind != Kind::kInteger || size.integer < 0 ||
          stride.integer < 0 || __builtin_mul_overflow(elements, size.integer, &elements) ||
          __builtin_mul_overflow(std::max<std::int64_t>(size.integer - 1, 0), stride.integer,
                                 &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        damaged();
      }
      dims.push_back(size.integer);
      view.strides.push_back(static_cast<std::uint64_t>(stride.integer));
    }
    view.shape = Shape(std::move(dims));
    const auto held = static_cast<std::int64_t>(storages_.at(view.storage).elements);
    if (elements > 0 && (last >= held || elements > held)) {
      fail(concat("tensor ", name, ": ", to_string(view.shape), " needs more than the ", held,
                  " elements of its storage: the file is damaged"));
    }
    return view;
  }

  static const ElementType* find_type(const Storage& storage) {
    return find_element_type(storage.type_name, &ElementType::pytorch);
  }
  const ElementType* find_type(const View& view) const {
    return find_type(storages_.at(view.storage));
  }
  [[noreturn]] void fail_type(const Storage& storage) const {
    fail(concat("holds elements of torch.", printable(storage.type_name),
                ", which are not read; real numbers and integers are"));
  }

  // Many tensors of one storage would make a small file any size in memory.
  void check_sizes() const {
    std::uint64_t bytes = 0;
    for (const View& view : views_) {
      const Storage& storage = storages_.at(view.storage);
      const ElementType* type = find_type(storage);
      if (type == nullptr) fail_type(storage);
      if (count_elements(view) == 0) continue;
      if (!storage.begin || storage.bytes / type->bytes != storage.elements ||
          storage.bytes % type->bytes != 0) {
        fail(concat("tensor ", view.name, ": its storage has ", storage.bytes, " bytes, expected ",
                    storage.elements, " elements of ", type->bytes, ": the file is damaged"));
      }
      bytes += count_elements(view) * type->bytes;
      if (bytes > 2 * file_.size()) {
        fail("has tensors that share storages, of more than twice the size of the file");
      }
    }
  }

  void remove_prefixes() {
    constexpr std::string_view kPrefixes[] = {"module.", "_orig_mod.", "backbone.", "model."};
    const auto is_shared = [&](std::string_view prefix) {
      const auto has_prefix = [&](const View& v) { return v.name.starts_with(prefix); };
      return std::ranges::any_of(views_, has_prefix) &&
             std::ranges::all_of(views_, [&](const View& view) {
               return has_prefix(view) || find_type(view)->is_integer;
             });
    };
    std::string removed;
    for (const auto* prefix = std::begin(kPrefixes); prefix != std::end(kPrefixes);) {
      if (!is_shared(*prefix)) {
        ++prefix;
        continue;
      }
      for (View& view : views_) {
        if (view.name.starts_with(*prefix)) view.name.erase(0, prefix->size());
      }
      removed += *prefix;
      prefix = std::begin(kPrefixes);
    }
    if (!removed.empty()) {
      result_.notes.push_back(concat("the prefix '", removed, "' of its names is removed"));
    }
  }

  void read_values() {
    std::map<std::string, std::vector<std::size_t>> by_storage;  // indices of tensors
    for (std::size_t i = 0; i < views_.size(); ++i) {
      if (count_elements(views_[i]) > 0) by_storage[views_[i].storage].push_back(i);
    }
    for (const auto& [key, users] : by_storage) {
      std::vector<float> all = read_storage(storages_.at(key));
      const View& first = views_[users.front()];
      if (users.size() == 1 && is_contiguous(first) && count_elements(first) == all.size()) {
        result_.tensors[users.front()].values = std::move(all);
        continue;
      }
      for (const std::size_t user : users) {
        result_.tensors[user].values = gather(views_[user], all);
      }
    }
  }

  std::vector<float> read_storage(const Storage& storage) const {
    const ElementType* type = find_type(storage);
    std::vector<float> values(storage.elements);
    if (storage.type_name == "FloatStorage") {  // saves a copy
      read_bytes(storage, {reinterpret_cast<std::uint8_t*>(values.data()), storage.bytes});
      return values;
    }
    Bytes raw(storage.bytes);
    read_bytes(storage, raw);
    type->convert(raw, values);
    return values;
  }

  void read_bytes(const Storage& storage, std::span<std::uint8_t> to) const {
    file_.read(*storage.begin, to);
    if (storage.crc && libdeflate_crc32(0, to.data(), to.size()) != *storage.crc) {
      fail(
          "the checksum of a storage does not match: the file is damaged, or was saved after "
          "torch.serialization.set_crc32_options(False)");
    }
    if (is_big_endian_) swap_bytes(to, find_type(storage)->bytes);
  }

  const std::string path_, entry_;
  RandomAccessFile file_;
  bool is_big_endian_ = false;
  Pickle pickle_;
  std::map<std::string, Storage> storages_;  // by key
  std::vector<View> views_;
  PyTorchFile result_;
};

}  // namespace

bool has_old_pytorch_layout(const Path& path) {
  return std::ranges::equal(
      read_file_start(path, kOldMagic.size()), kOldMagic,
      [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

bool is_pytorch_archive(const Path& path) {
  const std::vector<ZipMember> members = zip_members(RandomAccessFile(path), path.string());
  return std::ranges::any_of(members, is_object);
}

PyTorchFile read_pytorch(const Path& path, const std::string& entry, Content content) {
  return PyTorchReader(path, entry).read(has_old_pytorch_layout(path), content);
}

}  // namespace trainer::checkpoint
