// A result as people read it, built once: as text for terminals and as an HTML page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/formats/table.h"
#include "base/notice.h"
#include "results/page/picture.h"
#include "results/page/svg.h"

namespace trainer::results {

// All texts of a document are plain text: the renderings escape them.

struct Heading {
  enum class Level { kSection, kPart };
  std::string text;
  Level level = Level::kSection;
};

struct Paragraph {
  enum class Kind {
    kPlain,
    kHeadline,  // the result in one sentence, in bold
    kSubtitle,  // below the headline
    kFinding,   // marked at its left
  };
  std::string text;  // one line
  Kind kind = Kind::kPlain;
};

// A blank line of a text; HTML has the distances of its style instead.
struct BlankLine {};

// Lines that keep their line ends and blanks.
struct Preformatted {
  std::string caption;
  std::vector<std::string> lines;
};

struct ConfusionMatrix {
  std::vector<std::string> classes;
  std::vector<std::int64_t> counts;  // [true class, predicted class]
  std::string corner = "true \\ predicted";
};

// Horizontal bars that are divided into parts. Whoever adds them adds a table of the numbers, too,
// for texts and screen readers.
struct StackedBars {
  struct Bar {
    std::string name;
    std::vector<double> values;  // per part, at least 0
  };
  std::string unit;
  std::vector<std::string> parts;
  std::vector<Bar> bars;
};

struct Block;

// Blocks that a page hides until the reader opens them.
struct Folded {
  std::string summary;
  std::vector<Block> blocks;
};

// Charts lie side by side, and so do samples.
using Charts = std::vector<Chart>;
using Samples = std::vector<SampleTile>;

struct Block {
  std::variant<Heading, Paragraph, BlankLine, Notice, Table, Preformatted, ConfusionMatrix, Charts,
               StackedBars, Samples, Folded>
      content;
};

// Returns a table of names and values.
Table make_list(std::string caption, const std::vector<std::pair<std::string, std::string>>& list);

struct Document {
  std::string title = {};  // HTML shows it, text does not
  std::vector<Block> blocks = {};
  // A browser loads the page again so often; 0: never.
  int refresh_seconds = 0;

  void add(auto block) { blocks.push_back({std::move(block)}); }
  void append(Document part);
};

// Returns the charts of a document outside of folded blocks.
Charts list_charts(const Document& document);

// Returns what is text: headings, paragraphs, notices, tables and matrices, line by line. Folded
// blocks are open, without their summaries. Pictures, bars and charts are left out. Tables break
// their cells to fit into `columns`, the width of a terminal.
std::string render_text(const Document& document, std::optional<int> columns = {});

// Returns a page in one file, without further files or network. It is well-formed XML too, so that
// any tool can read it.
std::string render_html(const Document& document);

}  // namespace trainer::results
