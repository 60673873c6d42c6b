#include <sstream>

#include "base/text.h"
#include "results/document/document.h"

namespace trainer::results {
namespace {

class TextWriter {
 public:
  explicit TextWriter(std::optional<int> columns) : columns_(columns) {}

  void write(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) std::visit(*this, block.content);
  }
  std::string text() const { return out_.str(); }

  void operator()(const Heading& heading) { out_ << '\n' << printable(heading.text) << '\n'; }
  void operator()(const Paragraph& paragraph) { out_ << printable(paragraph.text) << '\n'; }
  void operator()(const BlankLine&) { out_ << '\n'; }
  void operator()(const Notice& notice) {
    if (notice.text.empty()) return;
    const bool is_note = notice.kind == Notice::Kind::kNote;
    out_ << (is_note ? "note: " : "warning: ") << printable(notice.text) << '\n';
  }
  void operator()(const Table& table) { table.print(out_, "", columns_); }
  void operator()(const Preformatted& lines) {
    for (const std::string& line : lines.lines) out_ << printable(line) << '\n';
  }
  void operator()(const ConfusionMatrix& matrix) {
    std::vector<std::string> header{matrix.corner};
    header.insert(header.end(), matrix.classes.begin(), matrix.classes.end());
    Table table(std::move(header), NumbersFrom{1});
    auto count = matrix.counts.begin();
    for (const std::string& name : matrix.classes) {
      std::vector<std::string> row{name};
      for (std::size_t c = 0; c < matrix.classes.size(); ++c) {
        row.push_back(std::to_string(*count++));
      }
      table.add(std::move(row));
    }
    (*this)(table);
  }
  void operator()(const Folded& folded) { write(folded.blocks); }
  void operator()(const Charts&) {}
  void operator()(const StackedBars&) {}
  void operator()(const Samples&) {}

 private:
  std::optional<int> columns_;
  std::ostringstream out_;
};

}  // namespace

std::string render_text(const Document& document, std::optional<int> columns) {
  TextWriter writer(columns);
  writer.write(document.blocks);
  return writer.text();
}

}  // namespace trainer::results
