// Reads YAML text to a Node. Only this file uses yaml-cpp, and only its event interface: events
// have the position of an alias itself and both of two equal keys, which loaded nodes do not.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "base/text.h"
#include "config/hints.h"
#include "config/yaml/tree.h"

namespace trainer::config {
namespace {

// Each value takes some hundred bytes, and aliases of aliases multiply them. Real configs are far
// below these bounds.
constexpr std::size_t kMaxNodes = 200'000;
constexpr std::size_t kMaxCopiedNodes = 100'000;
constexpr std::size_t kMaxCopiedBytes = 64 << 20;

// Counts the nodes and bytes of a tree.
struct Extent {
  std::size_t nodes = 0, bytes = 0;

  Extent& operator+=(const Extent& other) {
    nodes += other.nodes;
    bytes += other.bytes;
    return *this;
  }
};

Extent measure_extent(const Node& node) {
  Extent extent{1, sizeof node + node.text.size() + node.note.size() + node.loc.file.size()};
  for (const Node& item : node.items) extent += measure_extent(item);
  for (const Entry& entry : node.entries) {
    extent += measure_extent(entry.value);
    extent.bytes += sizeof entry - sizeof node + entry.key.size() + entry.loc.file.size();
  }
  return extent;
}

// Sets the location of the copy to that of the alias, and adds a note with that of its content.
void relocate(Node& node, const SourceLoc& use) {
  if (node.note.empty()) node.note = " (aliased content of " + to_string(node.loc) + ")";
  node.loc = use;
  for (Node& item : node.items) relocate(item, use);
  for (Entry& entry : node.entries) {
    entry.loc = use;
    relocate(entry.value, use);
  }
}

class Builder : public YAML::EventHandler {
 public:
  Builder(const std::string& text, const std::string& file, std::vector<Diagnostic>& diagnostics)
      : text_(text), file_(file), diagnostics_(diagnostics) {}

  Node take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp does not consume a token that begins no value, such as a comma, and continues at it.
    if (documents_ > 0 && mark.pos == document_start_) {
      throw YAML::ParserException(mark, "expected a value here");
    }
    document_start_ = mark.pos;
    if (documents_++ == 1) {
      report(place(mark),
             "a second YAML document starts here: a config is one document; remove '---'");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.loc = place(mark);
    // yaml-cpp reports a missing value at the next token, which is often on another line.
    const std::size_t at = mark.pos;
    const bool written =
        at < text_.size() && (text_[at] == '~' || text_[at] == 'n' || text_[at] == 'N');
    if (!written && !open_.empty()) {
      const Frame& frame = open_.back();
      node.loc = frame.has_key ? frame.key_loc : frame.node.loc;
    }
    add(std::move(node), anchor, mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      node.loc = place(mark);
      report(node.loc, "an alias inside its own anchor");
    } else {
      count_copy(found->second, aliased_, mark, "aliases multiply to too many values");
      node = found->second;
      relocate(node, place(mark));
    }
    add(std::move(node), 0, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    Node node = scalar_node(value, tag == "!");
    node.loc = place(mark);
    // The system would read the path up to the NUL byte only.
    if (value.find('\0') != std::string::npos) {
      report(node.loc, "the text '" + escaped(value) + "' holds a NUL byte; remove it");
    }
    add(std::move(node), anchor, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override {
    merge(open_.back());
    close();
  }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // the key of a map entry was read, and its value is next
    bool bad_key = false;
    std::string key;
    bool is_key_quoted = false;
    SourceLoc key_loc;
    std::optional<Entry> merge;                       // the entry of the merge key
    std::unordered_map<std::string, SourceLoc> keys;  // of node.entries
    YAML::Mark mark;
  };

  SourceLoc place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }
  void report(const SourceLoc& loc, std::string message) {
    // The content after the first document was already reported as a whole.
    if (documents_ <= 2) diagnostics_.push_back({loc, std::move(message)});
    if (documents_ == 2) documents_ = 3;
  }

  // Adds the nodes and bytes of a copy of `node` to `copied`. Throws if they exceed the bounds.
  void count_copy(const Node& node, Extent& copied, const YAML::Mark& mark,
                  const std::string& message) {
    copied += measure_extent(node);
    if (copied.nodes <= kMaxCopiedNodes && copied.bytes <= kMaxCopiedBytes) return;
    report(place(mark), message);
    throw YAML::ParserException(mark, message);
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    report(place(mark), "YAML tags such as '" + tag + "' are not used in a config; remove it");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    check_tag(mark, tag);
    Frame frame;
    frame.node.kind = kind;
    frame.node.loc = place(mark);
    frame.anchor = anchor;
    frame.mark = mark;
    open_.push_back(std::move(frame));
  }
  void close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    add(std::move(frame.node), frame.anchor, frame.mark);
  }

  void add(Node node, YAML::anchor_t anchor, const YAML::Mark& mark) {
    if (++nodes_ > kMaxNodes) {
      const std::string message =
          concat("holds more than ", kMaxNodes, " values; no config needs so many");
      report(place(mark), message);
      throw YAML::ParserException(mark, message);
    }
    if (anchor != 0) {
      count_copy(node, anchored_, mark,
                 "aliases within anchors expand to too many values; use fewer of them");
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      if (documents_ == 1) root_ = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.kind == Node::Kind::kList) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.has_key) {
      if (node.kind != Node::Kind::kScalar) {
        report(node.loc, "a key must be a word, found " + describe(node));
        frame.bad_key = true;
      }
      frame.has_key = true;
      frame.key = node.text;
      frame.is_key_quoted = node.quoted;
      frame.key_loc = node.loc;
    } else {
      frame.has_key = false;
      if (frame.bad_key) {
        frame.bad_key = false;
      } else if (const SourceLoc* first = find_key(frame)) {
        report(frame.key_loc, "duplicate key '" + frame.key + "', first given at " +
                                  to_string(*first) + "; remove one of them");
      } else if (is_merge_key(frame)) {
        frame.merge = Entry{frame.key, frame.key_loc, std::move(node)};
      } else {
        frame.keys.emplace(frame.key, frame.key_loc);
        frame.node.entries.push_back({frame.key, frame.key_loc, std::move(node)});
      }
    }
  }

  // In quotes `<<` is a key like any other.
  static bool is_merge_key(const Frame& frame) { return frame.key == "<<" && !frame.is_key_quoted; }
  // Returns the location of an earlier entry with the current key, or null.
  static const SourceLoc* find_key(const Frame& frame) {
    if (is_merge_key(frame)) return frame.merge ? &frame.merge->loc : nullptr;
    const auto found = frame.keys.find(frame.key);
    return found == frame.keys.end() ? nullptr : &found->second;
  }

  // `<<: *base` copies the entries of base that the map does not have itself.
  void merge(Frame& frame) {
    if (!frame.merge) return;
    Node& map = frame.node;
    const Entry source = std::move(*frame.merge);
    const bool many = source.value.kind == Node::Kind::kList;
    const std::vector<Node> maps = many ? source.value.items : std::vector<Node>{source.value};
    for (const Node& base : maps) {
      if (base.kind != Node::Kind::kMap) {
        report(source.loc,
               "the merge key '<<' expects a map or a list of maps, such as '<<: *base', found " +
                   describe(base));
        continue;
      }
      for (const Entry& entry : base.entries) {
        if (frame.keys.emplace(entry.key, entry.loc).second) map.entries.push_back(entry);
      }
    }
  }

  const std::string& text_;
  const std::string& file_;
  std::vector<Diagnostic>& diagnostics_;
  int documents_ = 0;
  int document_start_ = 0;  // of the last document, in characters
  Node root_;
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0;  // nodes from the parser so far
  Extent aliased_, anchored_;
};

}  // namespace

Node read_yaml(const std::string& text, const std::string& file,
               std::vector<Diagnostic>& diagnostics) {
  const std::size_t before = diagnostics.size();
  Builder builder(text, file, diagnostics);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (diagnostics.size() == before) {
      diagnostics.push_back(
          {{file, error.mark.line + 1, error.mark.column + 1},
           concat("not valid YAML: ", error.msg, syntax_hint(text, error.mark.line))});
    }
    return {};
  }
  Node root = builder.take_root();
  if (!root.loc.known()) root.loc = {file, 1, 1};
  return root;
}

}  // namespace trainer::config
