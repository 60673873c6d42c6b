// The persistent values of a model on the reference backend: float32, as a checkpoint keeps them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace trainer::test {

class ReferenceVariables final : public backend::Variables {
 public:
  // `synchronize` waits until the backend has done what was launched.
  ReferenceVariables(const graph::Graph& graph, std::function<void()> synchronize);

  const std::vector<graph::Value>& values() const override { return values_; }
  void read(std::string_view name, std::span<float> to) const override;
  void write(std::string_view name, std::span<const float> from) override;
  backend::Flat flat() const override { return flat_; }
  void read_flat(backend::FlatBuffer buffer, std::int64_t first,
                 std::span<float> to) const override;
  void write_flat(backend::FlatBuffer buffer, std::int64_t first,
                  std::span<const float> from) override;

  // The rest does not wait: it is for the backend's own work.
  std::span<float> at(const std::string& name) const { return places_.find(name)->second; }
  const backend::Flat& layout() const { return flat_; }
  // The moving statistics that training changes.
  const std::vector<std::span<float>>& statistics() const { return statistics_; }

 private:
  std::span<float> locate(std::string_view name) const;
  // Statistics as one flat buffer: copy(part of a statistic, offset into the range) for elements
  // [first, first + count).
  template <class Copy>
  void each_statistic(std::int64_t first, std::int64_t count, const Copy& copy) const;
  std::vector<float>& find_buffer(backend::FlatBuffer buffer) const;

  std::function<void()> synchronize_;
  std::vector<graph::Value> values_;
  backend::Flat flat_;
  mutable std::vector<float> parameters_, average_;
  mutable std::vector<std::vector<float>> slots_, rest_;
  std::map<std::string, std::span<float>, std::less<>> places_;
  std::vector<std::span<float>> statistics_;
};

}  // namespace trainer::test
