// The stage between the compiled graph and a backend's lowering decides which nodes run as one
// group. Each backend has a closed set of groups, and one list of patterns that find them, in its
// own folder `fuse`. This file holds the bookkeeping that the backends share.
#pragma once

#include <map>
#include <numeric>
#include <stdexcept>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace trainer::backend {

// A node that runs alone.
struct SingleNode {
  const graph::Node* node = nullptr;
};

// Records which nodes belong to which group, while patterns look for groups. `Group` is a
// std::variant with SingleNode; the first member of each alternative is `node`, which names the
// group.
template <class Group>
class Grouping {
 public:
  explicit Grouping(const graph::Graph& graph)
      : graph_(graph), taken_(graph.nodes.size(), false), place_(graph.nodes.size()) {
    std::iota(place_.begin(), place_.end(), 0);
  }

  const graph::Graph& graph() const { return graph_; }
  bool is_taken(int node) const { return taken_[node]; }

  // Runs `nodes` as `group` in the place of the node `at`, which is one of them. Throws
  // std::logic_error if one of the nodes is already taken.
  void take(const std::vector<int>& nodes, int at, Group group) {
    for (const int node : nodes) {
      if (is_taken(node)) {
        throw std::logic_error(concat("two fusions take ", graph_.nodes[node].name,
                                      "; internal error, please report it"));
      }
      taken_[node] = true;
      place_[node] = at;
    }
    at_.emplace(at, group);
  }

  // Returns the group of a node that several patterns change. The first call makes the group, a T
  // of this node alone.
  template <class T>
  T& change(int node) {
    if (!is_taken(node)) take({node}, node, T{&graph_.nodes[node]});
    return std::get<T>(at_.at(node));
  }

  // Returns all groups in an order in which they can run. A node that no group has taken is a group
  // of its own. Throws
  // std::logic_error if a group would run before what it reads.
  std::vector<Group> groups() const {
    check_order();
    std::vector<Group> all;
    for (int i = 0; i < std::ssize(graph_.nodes); ++i) {
      if (const auto found = at_.find(i); found != at_.end()) {
        all.push_back(found->second);
      } else if (!is_taken(i)) {
        all.emplace_back(SingleNode{&graph_.nodes[i]});
      }
    }
    return all;
  }

 private:
  // A pattern that moved a node before what it reads would compute from memory that nothing has
  // written.
  void check_order() const {
    std::vector<int> producers(graph_.values.size(), -1);  // indexed by value
    for (int i = 0; i < std::ssize(graph_.nodes); ++i) {
      for (const graph::ValueId id : graph_.nodes[i].outputs) producers[id] = i;
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const graph::ValueId id : graph_.nodes[i].inputs) {
        const int producer = producers[id];
        if (producer < 0 || place_[producer] <= place_[i]) continue;
        throw std::logic_error(concat("the fusion of ", graph_.nodes[i].name, " runs before ",
                                      graph_.nodes[producer].name,
                                      ", whose result it reads; internal error, please report it"));
      }
    }
  }

  const graph::Graph& graph_;
  std::vector<bool> taken_;
  std::vector<int> place_;  // the node in whose place each node runs
  std::map<int, Group> at_;
};

}  // namespace trainer::backend
