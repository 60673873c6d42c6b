// Reads pickles, in which PyTorch stores Python objects, without running code: a call of a Python
// function becomes a value that names the function and holds its arguments. The opcodes are those
// of https://github.com/python/cpython/blob/main/Lib/pickletools.py that protocols 2 to 5 write.
// Reasons: lib/decisions/checkpoint.md#calls-in-a-pickle-are-values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/random_access_file.h"

namespace trainer::checkpoint {

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,
    kInteger,  // has at most 64 bits
    kReal,
    kText,
    kBytes,
    kTuple,
    kList,
    kSet,
    kDict,        // `items` are key, value, key, value and so on
    kGlobal,      // a class or function: `text` is "module.name"
    kObject,      // the result of a call: `text` is its class or function, `items` its arguments
    kPersistent,  // an object outside of the pickle; the only item is its identifier
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // the value of kInteger and kBool
  double real = 0;
  std::string text{};  // the bytes of kText and kBytes, a name in kGlobal and kObject
  std::vector<std::uint32_t> items{};  // indices into Pickle::values
};

// The values of a pickle. They refer to one another by index, without cycles and at most
// Pickle::kMaxDepth deep.
struct Pickle {
  static constexpr std::size_t kMaxDepth = 64;

  std::vector<PickleValue> values;
  std::uint32_t root = 0;
  std::uint64_t end = 0;  // the place in the file after the pickle

  const PickleValue& operator[](std::uint32_t index) const { return values[index]; }
  // Returns the value of a key of a dict; null if there is none.
  const PickleValue* find(const PickleValue& dict, const std::string& key) const;
};

// Reads the pickle at `begin` of a file, which ends before `end`. `source` names the file in
// messages. Throws DataError for a damaged pickle, one with more than four million values, and one
// that names a function with which pickles run commands, such as os.system.
Pickle read_pickle(const RandomAccessFile& file, std::uint64_t begin, std::uint64_t end,
                   const std::string& source);

}  // namespace trainer::checkpoint
