#include "hooks/formats/confusion_image.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/formats/canvas.h"

namespace trainer::hooks {
namespace {

constexpr int kLegible = 14;        // pixels of a cell beside which a name fits
constexpr int kMaxNameWidth = 120;  // pixels
constexpr int kTextGap = 4;
constexpr int kCard = 350;  // width of a picture in TensorBoard, in pixels

// Returns a colour between white and full colour. The square root makes small shares visible.
Colour shade(double share, bool right) {
  const double depth = std::sqrt(share);
  const auto fade = [&](int full) { return static_cast<std::uint8_t>(255 - depth * (255 - full)); };
  return right ? Colour{fade(20), fade(70), fade(160)} : Colour{fade(190), fade(30), fade(30)};
}

// Returns the size of cells without counts: together at most 480 pixels.
int plain_cell(int n) { return std::clamp(480 / std::max(n, 1), 2, 40); }

// Returns the size of cells with counts, which the counts must fit into. For few classes, the
// picture is not wider than TensorBoard shows it, because letters lose lines when it shrinks a
// picture.
int cell_with_counts(const engine::Metrics& metrics, int n, int margin) {
  std::int64_t max_count = 0;
  for (const engine::ConfusionCell& cell : metrics.confusion.cells()) {
    max_count = std::max(max_count, cell.count);
  }
  const int needed = std::max(Canvas::text_width(std::to_string(max_count)) + kTextGap, kLegible);
  return std::max(needed, std::min(plain_cell(n), (kCard - margin) / n));
}

class Drawing {
 public:
  Drawing(const engine::Metrics& metrics, const std::vector<std::string>& classes)
      : n_(static_cast<int>(metrics.classes)),
        names_(plain_cell(n_) >= kLegible ? make_names(classes) : std::vector<std::string>{}),
        margin_(compute_margin(names_)),
        cell_(names_.empty() ? plain_cell(n_) : cell_with_counts(metrics, n_, margin_)),
        canvas_(margin_ + n_ * cell_, margin_ + n_ * cell_),
        counts_(metrics.classes * metrics.classes) {
    for (const engine::ConfusionCell& cell : metrics.confusion.cells()) {
      counts_[cell.actual * n_ + cell.predicted] = cell.count;
    }
  }

  Picture draw() {
    for (int row = 0; row < n_; ++row) draw_row(row);
    if (!names_.empty()) draw_names();
    return {canvas_.width(), canvas_.height(), margin_, margin_, cell_, canvas_.png()};
  }

 private:
  std::vector<std::string> make_names(const std::vector<std::string>& classes) const {
    if (static_cast<int>(classes.size()) == n_) return classes;
    std::vector<std::string> names;
    for (int c = 0; c < n_; ++c) names.push_back(std::to_string(c));
    return names;
  }

  // Returns the width of the names and of the axis title beside them.
  static int compute_margin(const std::vector<std::string>& names) {
    int widest = 0;
    for (const std::string& name : names) widest = std::max(widest, Canvas::text_width(name));
    return names.empty() ? 0 : Canvas::kTextHeight + std::min(widest, kMaxNameWidth) + 3 * kTextGap;
  }

  void draw_row(int row) {
    const auto* counts = counts_.data() + row * n_;
    const std::int64_t total = std::accumulate(counts, counts + n_, std::int64_t{0});
    for (int column = 0; column < n_; ++column) {
      const double share =
          total > 0 ? static_cast<double>(counts[column]) / static_cast<double>(total) : 0;
      const int x = margin_ + column * cell_, y = margin_ + row * cell_;
      canvas_.fill(x, y, cell_, cell_, shade(share, row == column));
      if (names_.empty() || counts[column] == 0) continue;
      const std::string count = std::to_string(counts[column]);
      constexpr double kDark = 0.25;  // share from which black text is hard to read
      canvas_.text(x + (cell_ - Canvas::text_width(count)) / 2,
                   y + (cell_ - Canvas::kTextHeight) / 2 + 2, cell_, count,
                   share > kDark ? kWhite : kBlack);
    }
  }

  void draw_names() {
    const int max_width = margin_ - Canvas::kTextHeight - 2 * kTextGap;
    for (int c = 0; c < n_; ++c) {
      const std::string& name = names_[c];
      const int middle = margin_ + c * cell_ + (cell_ - Canvas::kTextHeight) / 2 + 2;
      const int width = std::min(Canvas::text_width(name), max_width);
      canvas_.text(margin_ - kTextGap - width, middle, max_width, name);
      canvas_.text(middle, margin_ - kTextGap, max_width, name, kBlack, Canvas::Direction::kUp);
    }
    canvas_.text(margin_, kTextGap / 2, n_ * cell_, "predicted");
    canvas_.text(kTextGap / 2, canvas_.height() - kTextGap, n_ * cell_, "true", kBlack,
                 Canvas::Direction::kUp);
  }

  int n_;
  std::vector<std::string> names_;
  int margin_, cell_;
  Canvas canvas_;
  std::vector<std::int64_t> counts_;  // the rows of the matrix
};

}  // namespace

Picture draw_confusion(const engine::Metrics& metrics, const std::vector<std::string>& classes) {
  return Drawing(metrics, classes).draw();
}

}  // namespace trainer::hooks
