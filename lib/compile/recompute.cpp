#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "compile/passes.h"

// Keeps activations only where one segment of the forward nodes ends and the next begins. The nodes
// between are repeated just before backward needs their values (Chen et al., "Training Deep Nets
// with Sublinear Memory Cost", 2016). A segment may end wherever later nodes read a single value,
// but not inside of a group that a backend computes at once. The pass tries several numbers of
// segments and takes the one with the smallest peak.
// Reasons: lib/decisions/compile.md#recomputed-segments-are-chosen-by-simulation.
namespace trainer::compile {
namespace {

constexpr int kMaxSegments = 32;

struct Segment {
  std::size_t first = 0, last = 0;  // nodes [first, last)
};

// Returns the bytes of a value for one sample, or 0 if it is not a batched activation.
std::int64_t activation_bytes(const Value& value) {
  if (value.role != Role::kActivation || !value.shape.batched()) return 0;
  return value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
}

// Returns the largest number of bytes per sample that are in use at once while the nodes run. A
// reshaped value shares the memory of its input.
std::int64_t peak_bytes(const Graph& graph) {
  std::vector<ValueId> is(graph.values.size());
  std::vector<std::size_t> last(graph.values.size(), 0);
  std::vector<std::int64_t> bytes(graph.values.size());
  std::iota(is.begin(), is.end(), 0);
  std::ranges::transform(graph.values, bytes.begin(), activation_bytes);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (std::holds_alternative<graph::Reshape>(node.op)) {
      is[node.outputs[0]] = is[node.inputs[0]];
      bytes[node.outputs[0]] = 0;
    }
    for (const ValueId id : node.inputs) last[is[id]] = i;
  }
  for (const ValueId id : graph.outputs) last[is[id]] = graph.nodes.size();
  std::vector<std::vector<ValueId>> ends(graph.nodes.size() + 1);
  std::int64_t now = 0, peak = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].outputs) {
      now += bytes[id];
      ends[std::max(i, last[id])].push_back(id);
    }
    peak = std::max(peak, now);
    for (const ValueId id : ends[i]) now -= bytes[id];
  }
  return peak;
}

// The forward nodes and the uses of their values, before anything is cut.
class Forward {
 public:
  explicit Forward(const Graph& graph) : graph_(graph) {
    const std::size_t none = graph.nodes.size();
    made_at.assign(graph.values.size(), none);
    used_by_forward.assign(graph.values.size(), 0);
    kept.assign(graph.values.size(), false);
    const auto is_forward = [](const Node& node) { return node.phase == Phase::kForward; };
    const auto first = std::ranges::find_if(graph.nodes, is_forward);
    const auto behind = std::find_if_not(first, graph.nodes.end(), is_forward);
    begin = first - graph.nodes.begin();
    end = behind - graph.nodes.begin();
    for (std::size_t i = 0; i < none; ++i) {
      for (const ValueId id : graph.nodes[i].inputs) {
        if (graph.nodes[i].phase == Phase::kForward) used_by_forward[id] = i;
        if (graph.nodes[i].phase == Phase::kUpdate) kept[id] = true;
      }
      for (const ValueId id : graph.nodes[i].outputs) made_at[id] = i;
    }
    for (const ValueId id : graph.outputs) kept[id] = true;
  }

  // Returns the places before which a segment may begin, and the bytes that the nodes before it
  // make.
  std::vector<std::pair<std::size_t, std::int64_t>> cuts() const {
    std::vector<std::pair<std::size_t, std::int64_t>> cuts;
    const std::vector<bool> inside = find_values_inside_groups();
    std::vector<ValueId> open;  // values of earlier nodes that later ones take
    std::int64_t bytes = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (open.empty() || (open.size() == 1 && !inside[open[0]])) cuts.emplace_back(i, bytes);
      std::erase_if(open, [&](ValueId id) { return used_by_forward[id] <= i; });
      for (const ValueId id : graph_.nodes[i].outputs) {
        bytes += activation_bytes(graph_[id]);
        if (used_by_forward[id] > i) open.push_back(id);
      }
    }
    return cuts;
  }

  std::size_t begin = 0, end = 0;            // the forward nodes are [begin, end)
  std::vector<std::size_t> made_at;          // by value: its node
  std::vector<std::size_t> used_by_forward;  // by value: the last forward node that takes it
  std::vector<bool> kept;                    // by value: is an output, or read by the update

 private:
  // Returns for each value whether no segment may end at it: the pooling of the first convolution
  // reads it, a grouped convolution reads or makes it, or so does a norm of such a convolution's
  // output. Backends compute these nodes together, and add in another order otherwise.
  std::vector<bool> find_values_inside_groups() const {
    std::vector<bool> inside(graph_.values.size(), false), convolved(graph_.values.size(), false);
    for (std::size_t i = begin; i < end; ++i) {
      const Node& node = graph_.nodes[i];
      const auto* conv = std::get_if<graph::Conv>(&node.op);
      const bool grouped = conv != nullptr && conv->groups > 1;
      const bool norm = std::holds_alternative<graph::BatchNorm>(node.op);
      if (is_pool_of_first_convolution(graph_, static_cast<int>(i))) inside[node.inputs[0]] = true;
      if (!grouped && !(norm && convolved[node.inputs[0]])) continue;
      inside[node.inputs[0]] = inside[node.outputs[0]] = true;
      convolved[node.outputs[0]] = grouped;
    }
    return inside;
  }

  const Graph& graph_;
};

// Cuts into about `count` segments that make as many bytes each.
std::vector<Segment> cut_into_segments(const Forward& forward, int count) {
  const auto cuts = forward.cuts();
  std::vector<Segment> segments;
  if (cuts.empty()) return segments;
  const double part = static_cast<double>(cuts.back().second) / count;
  if (part <= 0) return segments;
  std::size_t first = forward.begin;
  double wanted = part;
  for (const auto& [at, bytes] : cuts) {
    if (static_cast<double>(bytes) < wanted) continue;
    segments.push_back({first, at});
    first = at;
    while (wanted <= static_cast<double>(bytes)) wanted += part;
  }
  return segments;  // what is left at the end is needed at once when backward begins
}

// Makes backward nodes take copies of what a segment made.
class Recomputed {
 public:
  Recomputed(const Graph& graph, const Forward& forward, const std::vector<Segment>& segments)
      : graph_(graph), forward_(forward), segment_of_(graph.nodes.size() + 1, -1) {
    for (std::size_t s = 0; s < segments.size(); ++s) {
      for (std::size_t i = segments[s].first; i < segments[s].last; ++i) {
        segment_of_[i] = static_cast<int>(s);
      }
    }
    segments_ = segments;
  }

  Graph run() && {
    std::vector<std::vector<Node>> copies(segments_.size());
    std::vector<std::size_t> needed_at(segments_.size(), graph_.nodes.size());
    std::map<ValueId, ValueId> copy_of;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      copies[s] = copy_segment(s, needed_at[s], copy_of);
    }
    std::vector<Node> nodes;
    const std::size_t count = graph_.nodes.size();
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t s = segments_.size(); s-- > 0;) {
        if (needed_at[s] != i) continue;
        std::move(copies[s].begin(), copies[s].end(), std::back_inserter(nodes));
      }
      Node node = std::move(graph_.nodes[i]);
      if (node.phase == Phase::kBackward) take_copies(node, copy_of);
      nodes.push_back(std::move(node));
    }
    graph_.nodes = std::move(nodes);
    return std::move(graph_);
  }

 private:
  // Returns whether the value of this segment is still in memory when backward starts.
  bool stays(ValueId id, const Segment& segment) const {
    return forward_.kept[id] || forward_.used_by_forward[id] >= segment.last;
  }

  static void take_copies(Node& node, const std::map<ValueId, ValueId>& copy_of) {
    for (ValueId& id : node.inputs) {
      const auto found = copy_of.find(id);
      if (found != copy_of.end()) id = found->second;
    }
  }

  // Returns the nodes that compute again the values of the segment that backward takes. They are
  // needed before node `needed_at`.
  std::vector<Node> copy_segment(std::size_t s, std::size_t& needed_at,
                                 std::map<ValueId, ValueId>& copy_of) {
    const Segment& segment = segments_[s];
    std::vector<bool> wanted(forward_.made_at.size(), false);
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      if (graph_.nodes[i].phase != Phase::kBackward) continue;
      for (const ValueId id : graph_.nodes[i].inputs) {
        if (!is_lost(id, s)) continue;
        wanted[id] = true;
        needed_at = i;
      }
    }
    std::vector<std::size_t> again;
    for (std::size_t i = segment.last; i-- > segment.first;) {
      const Node& node = graph_.nodes[i];
      const bool any = std::ranges::any_of(node.outputs, [&](ValueId id) { return wanted[id]; });
      if (!any) continue;
      again.push_back(i);
      for (const ValueId id : node.inputs) {
        if (is_lost(id, s)) wanted[id] = true;
      }
    }
    std::vector<Node> made;
    for (auto i = again.rbegin(); i != again.rend(); ++i) made.push_back(copy_node(*i, copy_of));
    return made;
  }

  // Returns whether the segment makes the value and the value does not stay.
  bool is_lost(ValueId id, std::size_t s) const {
    const bool is_made = segment_of_[forward_.made_at[id]] == static_cast<int>(s);
    return is_made && !stays(id, segments_[s]);
  }

  // Copies a node with new values as outputs. Backward takes the outputs that forward did not keep.
  Node copy_node(std::size_t i, std::map<ValueId, ValueId>& copy_of) {
    Node copy = graph_.nodes[i];
    copy.phase = Phase::kBackward;
    take_copies(copy, copy_of);
    const Segment& segment = segments_[segment_of_[i]];
    for (ValueId& id : copy.outputs) {
      const ValueId original = id;
      Value value = graph_[id];
      id = graph_.add_value(std::move(value));
      if (!stays(original, segment)) copy_of[original] = id;
    }
    return copy;
  }

  Graph graph_;
  const Forward& forward_;
  std::vector<Segment> segments_;
  // The segment of each node, and as the last element that of values that no node makes. -1: none.
  std::vector<int> segment_of_;
};

}  // namespace

Graph recompute(Graph graph, const Options& options) {
  if (!options.recompute) return graph;
  const Forward forward(graph);
  Graph best = graph;
  std::int64_t least = peak_bytes(graph);
  for (int count = 2; count <= kMaxSegments; ++count) {
    const std::vector<Segment> segments = cut_into_segments(forward, count);
    if (segments.empty()) break;
    Graph cut = Recomputed(graph, forward, segments).run();
    const std::int64_t peak = peak_bytes(cut);
    if (peak < least) {
      least = peak;
      best = std::move(cut);
    }
  }
  return best;
}

}  // namespace trainer::compile
