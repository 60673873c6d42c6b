// A machine with a stack of values, marks on it, and a memo of values by number.
#include "checkpoint/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"

namespace trainer::checkpoint {
namespace {

using Kind = PickleValue::Kind;
using Index = std::uint32_t;

// Ten times as many as the largest known model has.
constexpr std::size_t kMaxValues = 4'000'000;

// Reads a range of a file from its start to its end.
class ByteReader {
 public:
  ByteReader(const RandomAccessFile& file, std::uint64_t begin, std::uint64_t end,
             const std::string& source)
      : file_(file), at_(begin), end_(end), source_(source) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(source_, "is a damaged pickle at byte ", at_, ": ", what);
  }

  std::uint64_t position() const { return at_; }

  std::string read(std::uint64_t size) {
    if (size > end_ - at_) fail("ends early");
    std::string bytes(size, '\0');
    if (size > kBlock) {
      file_.read(at_, {reinterpret_cast<std::uint8_t*>(bytes.data()), size});
      at_ += size;
      return bytes;
    }
    for (char& byte : bytes) byte = static_cast<char>(read_byte());
    return bytes;
  }

  std::uint8_t read_byte() {
    if (at_ == end_) fail("ends early");
    if (at_ - block_begin_ >= block_.size()) {
      block_begin_ = at_;
      block_.resize(std::min(kBlock, end_ - at_));
      file_.read(at_, block_);
    }
    return block_[at_++ - block_begin_];
  }

  // Reads a little-endian number of `bytes` bytes.
  std::uint64_t read_number(int bytes) {
    std::uint64_t number = 0;
    for (int i = 0; i < bytes; ++i) number |= std::uint64_t{read_byte()} << (8 * i);
    return number;
  }

  std::string read_line() {
    std::string line;
    for (char c; (c = static_cast<char>(read_byte())) != '\n';) {
      line += c;
      if (line.size() > kMaxName) fail("a name is longer than 1,000 characters");
    }
    return line;
  }

 private:
  static constexpr std::uint64_t kBlock = 1 << 16;
  static constexpr std::size_t kMaxName = 1000;

  const RandomAccessFile& file_;
  std::uint64_t at_, end_;
  const std::string& source_;
  std::vector<std::uint8_t> block_;
  std::uint64_t block_begin_ = 0;
};

// Returns whether a pickle that names this function is made to run commands. Functions of other
// modules are inert here, whatever they do in Python.
bool is_dangerous(std::string_view module, std::string_view name) {
  constexpr std::string_view kModules[] = {"os",        "posix",  "nt",   "subprocess", "sys",
                                           "importlib", "runpy",  "pty",  "shutil",     "socket",
                                           "ctypes",    "pickle", "code", "webbrowser", "commands"};
  constexpr std::string_view kHarmless[] = {
      "set",       "frozenset", "list",    "dict",  "tuple", "int",    "float", "str",    "bytes",
      "bytearray", "bool",      "complex", "slice", "range", "object", "long",  "unicode"};
  const std::string_view top = module.substr(0, module.find('.'));
  if (top == "builtins" || top == "__builtin__") {
    return std::ranges::find(kHarmless, name) == std::end(kHarmless);
  }
  return std::ranges::find(kModules, top) != std::end(kModules);
}

class Unpickler {
 public:
  Unpickler(const RandomAccessFile& file, std::uint64_t begin, std::uint64_t end,
            const std::string& source)
      : in_(file, begin, end, source), source_(source) {}

  Pickle read() && {
    for (;;) {
      const auto opcode = static_cast<char>(in_.read_byte());
      if (opcode == '.') break;
      run(opcode);
    }
    pickle_.root = pop();
    pickle_.end = in_.position();
    check_nesting();
    return std::move(pickle_);
  }

 private:
  void run(char code) {
    using U = Unpickler;
    struct Opcode {
      char code;
      void (*run)(U&);
    };
    static constexpr Opcode kOpcodes[] = {
        // Numbers and texts.
        {'N', [](U& u) { u.push({Kind::kNone}); }},
        {'\x88', [](U& u) { u.push_integer(1, Kind::kBool); }},
        {'\x89', [](U& u) { u.push_integer(0, Kind::kBool); }},
        {'J', [](U& u) { u.push_integer(static_cast<std::int32_t>(u.in_.read_number(4))); }},
        {'K', [](U& u) { u.push_integer(static_cast<std::int64_t>(u.in_.read_number(1))); }},
        {'M', [](U& u) { u.push_integer(static_cast<std::int64_t>(u.in_.read_number(2))); }},
        {'\x8a', [](U& u) { u.push_long(u.in_.read_number(1)); }},
        {'\x8b', [](U& u) { u.push_long(u.in_.read_number(4)); }},
        {'G', [](U& u) { u.push_real(); }},
        {'U', [](U& u) { u.push_string(Kind::kText, 1); }},
        {'\x8c', [](U& u) { u.push_string(Kind::kText, 1); }},
        {'T', [](U& u) { u.push_string(Kind::kText, 4); }},
        {'X', [](U& u) { u.push_string(Kind::kText, 4); }},
        {'\x8d', [](U& u) { u.push_string(Kind::kText, 8); }},
        {'C', [](U& u) { u.push_string(Kind::kBytes, 1); }},
        {'B', [](U& u) { u.push_string(Kind::kBytes, 4); }},
        {'\x8e', [](U& u) { u.push_string(Kind::kBytes, 8); }},
        // Collections.
        {'}', [](U& u) { u.push({Kind::kDict}); }},
        {']', [](U& u) { u.push({Kind::kList}); }},
        {')', [](U& u) { u.push({Kind::kTuple}); }},
        {'\x8f', [](U& u) { u.push({Kind::kSet}); }},
        {'\x85', [](U& u) { u.push_items(Kind::kTuple, u.pop_items(1)); }},
        {'\x86', [](U& u) { u.push_items(Kind::kTuple, u.pop_items(2)); }},
        {'\x87', [](U& u) { u.push_items(Kind::kTuple, u.pop_items(3)); }},
        {'t', [](U& u) { u.push_items(Kind::kTuple, u.pop_marked()); }},
        {'l', [](U& u) { u.push_items(Kind::kList, u.pop_marked()); }},
        {'d', [](U& u) { u.push_items(Kind::kDict, u.pop_marked()); }},
        {'\x91', [](U& u) { u.push_items(Kind::kSet, u.pop_marked()); }},
        {'a', [](U& u) { u.add_items(u.pop_items(1), Kind::kList); }},
        {'s', [](U& u) { u.add_items(u.pop_items(2), Kind::kDict); }},
        {'e', [](U& u) { u.add_items(u.pop_marked(), Kind::kList); }},
        {'u', [](U& u) { u.add_items(u.pop_marked(), Kind::kDict); }},
        {'\x90', [](U& u) { u.add_items(u.pop_marked(), Kind::kSet); }},
        // Names and calls.
        {'c', [](U& u) { u.push_named(); }},
        {'\x93', [](U& u) { u.push_named_by_texts(); }},
        {'R', [](U& u) { u.push_call(u.pop_items(2)); }},
        {'\x81', [](U& u) { u.push_call(u.pop_items(2)); }},
        {'\x92', [](U& u) { u.push_call(u.pop_items(3)); }},
        {'b', [](U& u) { u.set_state(u.pop()); }},
        {'Q', [](U& u) { u.push_items(Kind::kPersistent, u.pop_items(1)); }},
        // The memo and the stack.
        {'q', [](U& u) { u.remember(u.in_.read_number(1)); }},
        {'r', [](U& u) { u.remember(u.in_.read_number(4)); }},
        {'\x94', [](U& u) { u.remember(u.memo_.size()); }},
        {'h', [](U& u) { u.push_remembered(u.in_.read_number(1)); }},
        {'j', [](U& u) { u.push_remembered(u.in_.read_number(4)); }},
        {'\x80', [](U& u) { u.check_protocol(u.in_.read_number(1)); }},
        {'\x95', [](U& u) { u.in_.read_number(8); }},  // the length of a frame
        {'(', [](U& u) { u.marks_.push_back(u.stack_.size()); }},
        {'0', [](U& u) { u.pop(); }},
        {'1', [](U& u) { u.pop_marked(); }},
        {'2', [](U& u) { u.stack_.push_back(u.top()); }},
    };
    const auto* opcode = std::ranges::find(kOpcodes, code, &Opcode::code);
    if (opcode == std::end(kOpcodes)) {
      in_.fail(concat("opcode ", escaped({&code, 1}), " is not one of those that are read"));
    }
    opcode->run(*this);
  }

  void check_protocol(std::uint64_t protocol) const {
    if (protocol > 5) in_.fail(concat("protocol ", protocol, " is newer than 5"));
  }

  PickleValue& value(Index index) { return pickle_.values[index]; }

  void push(PickleValue value) {
    if (pickle_.values.size() == kMaxValues) in_.fail("more than four million values");
    stack_.push_back(static_cast<Index>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }
  void push_integer(std::int64_t integer, Kind kind = Kind::kInteger) {
    PickleValue value{kind};
    value.integer = integer;
    push(std::move(value));
  }
  // A number of more than 64 bits stays bytes.
  void push_long(std::uint64_t size) {
    PickleValue value{size > 8 ? Kind::kBytes : Kind::kInteger};
    std::string bytes = in_.read(size);
    if (size > 8) {
      value.text = std::move(bytes);
    } else if (size > 0) {
      const bool is_negative = (bytes.back() & 0x80) != 0;
      bytes.resize(8, is_negative ? '\xff' : '\0');
      std::memcpy(&value.integer, bytes.data(), 8);
    }
    push(std::move(value));
  }
  void push_real() {
    PickleValue value{Kind::kReal};
    value.real = std::bit_cast<double>(__builtin_bswap64(in_.read_number(8)));
    push(std::move(value));
  }
  void push_string(Kind kind, int length_bytes) {
    PickleValue value{kind};
    value.text = in_.read(in_.read_number(length_bytes));
    push(std::move(value));
  }
  void push_items(Kind kind, std::vector<Index> items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) in_.fail("a key without a value");
    PickleValue value{kind};
    value.items = std::move(items);
    push(std::move(value));
  }
  void remember(std::uint64_t number) { memo_[number] = top(); }
  void push_remembered(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) in_.fail(concat("value ", number, " is used before it is stored"));
    stack_.push_back(found->second);
  }
  void push_named() {
    const std::string module = in_.read_line();
    push_global(module, in_.read_line());
  }
  void push_named_by_texts() {
    const std::vector<Index> names = pop_items(2);
    const PickleValue &module = value(names[0]), &name = value(names[1]);
    if (module.kind != Kind::kText || name.kind != Kind::kText) {
      in_.fail("the name of a class is not text");
    }
    push_global(std::string(module.text), std::string(name.text));
  }
  void push_global(const std::string& module, const std::string& name) {
    if (is_dangerous(module, name)) {
      throw DataError(source_, "is a pickle that names ", module, '.', name,
                      ", with which a pickle runs commands when Python loads it; "
                      "do not open it, and get the weights from another source");
    }
    PickleValue value{Kind::kGlobal};
    value.text = module + '.' + name;
    push(std::move(value));
  }
  // The items are a class or function and its arguments.
  void push_call(std::vector<Index> items) {
    const PickleValue& called = value(items.front());
    if (called.kind != Kind::kGlobal)
      in_.fail("something other than a class or function is called");
    if (called.text == "collections.OrderedDict") {
      push_items(Kind::kDict, read_pairs(items[1]));
      return;
    }
    PickleValue result{Kind::kObject};
    result.text = called.text;
    const PickleValue& arguments = value(items[1]);
    if (arguments.kind != Kind::kTuple) in_.fail("the arguments of a call are not a tuple");
    result.items = arguments.items;
    if (items.size() > 2) result.items.push_back(items[2]);
    push(std::move(result));
  }
  // Returns keys and values from the arguments of OrderedDict: none, or a list of pairs.
  std::vector<Index> read_pairs(Index arguments) {
    std::vector<Index> items;
    for (const Index list : value(arguments).items) {
      for (const Index pair : value(list).items) {
        if (value(pair).items.size() != 2) in_.fail("an OrderedDict is made of something else");
        items.insert(items.end(), value(pair).items.begin(), value(pair).items.end());
      }
    }
    return items;
  }
  // A dict has no use for further state: that of a state dict holds the versions of its modules.
  void set_state(Index state) {
    PickleValue& object = value(top());
    if (object.kind == Kind::kObject) object.items.push_back(state);
  }
  void add_items(const std::vector<Index>& items, Kind kind) {
    PickleValue& to = value(top());
    if (to.kind != kind && to.kind != Kind::kObject) in_.fail("items are added to another value");
    if (kind == Kind::kDict && items.size() % 2 != 0) in_.fail("a key without a value");
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  Index top() const {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) in_.fail("the stack is empty");
    return stack_.back();
  }
  Index pop() {
    const Index index = top();
    stack_.pop_back();
    return index;
  }
  std::vector<Index> pop_items(std::size_t count) {
    std::vector<Index> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  std::vector<Index> pop_marked() {
    if (marks_.empty()) in_.fail("a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  // Throws for values that contain themselves or are nested too deeply.
  void check_nesting() const {
    constexpr std::size_t kOpen = Pickle::kMaxDepth + 1;                 // a value on the path
    std::vector<std::uint8_t> heights(pickle_.values.size());            // 0 before a visit
    std::vector<std::pair<Index, std::size_t>> path{{pickle_.root, 0}};  // and the next item
    heights[pickle_.root] = kOpen;
    while (!path.empty()) {
      auto& [index, next] = path.back();
      const std::vector<Index>& items = pickle_[index].items;
      if (next < items.size()) {
        const Index item = items[next++];
        if (heights[item] == kOpen) in_.fail("a value contains itself");
        if (heights[item] > 0) continue;
        if (path.size() == Pickle::kMaxDepth) fail_nesting();
        heights[item] = kOpen;
        path.emplace_back(item, 0);
        continue;
      }
      std::size_t height = 1;
      for (const Index item : items) height = std::max<std::size_t>(height, heights[item] + 1);
      if (height > Pickle::kMaxDepth) fail_nesting();
      heights[index] = static_cast<std::uint8_t>(height);
      path.pop_back();
    }
  }
  [[noreturn]] void fail_nesting() const {
    in_.fail(concat("values are nested more than ", Pickle::kMaxDepth, " deep"));
  }

  ByteReader in_;
  const std::string& source_;
  Pickle pickle_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Index> memo_;
};

}  // namespace

const PickleValue* Pickle::find(const PickleValue& dict, const std::string& key) const {
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = values[dict.items[i]];
    if (name.kind == Kind::kText && name.text == key) return &values[dict.items[i + 1]];
  }
  return nullptr;
}

Pickle read_pickle(const RandomAccessFile& file, std::uint64_t begin, std::uint64_t end,
                   const std::string& source) {
  return Unpickler(file, begin, end, source).read();
}

}  // namespace trainer::checkpoint
