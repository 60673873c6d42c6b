#include "results/document/document.h"

#include <doctest/doctest.h>

#include "support/contains.h"

namespace trainer::results {
namespace document_test {

using test::contains;

Table make_table() {
  Table table({"class", "energy, J"}, NumbersFrom{1}, "Energy of <every> class");
  table.add({"cat & dog", "12"});
  table.add({"a", "3"});
  return table;
}

TEST_CASE("Document renders text line by line, without its pictures, bars and charts") {
  Document document{"not in the text"};
  document.add(Paragraph{"accuracy 98 %", Paragraph::Kind::kHeadline});
  document.add(BlankLine{});
  document.add(make_table());
  document.add(Charts{{"loss", "Loss", "epoch", "loss", {}}});
  document.add(StackedBars{"ms", {"forward"}, {{"rank 0", {1}}}});
  document.add(Samples{SampleTile{}});
  document.add(Heading{"most frequent mistakes"});
  document.add(ConfusionMatrix{{"a", "bb"}, {10, 1, 2, 30}});
  document.add(Folded{"more", {{Preformatted{"names", {"x", "y\x1b"}}}}});
  document.add(Notice("few samples"));
  document.add(Notice::note("no test split"));
  document.add(Notice(""));
  CHECK(render_text(document) ==
        "accuracy 98 %\n"
        "\n"
        "class      energy, J\n"
        "cat & dog         12\n"
        "a                  3\n"
        "\n"
        "most frequent mistakes\n"
        "true \\ predicted   a  bb\n"
        "a                 10   1\n"
        "bb                 2  30\n"
        "x\n"
        "y\\x1b\n"
        "warning: few samples\n"
        "note: no test split\n");
}

TEST_CASE("Document breaks the cells of tables that are wider than the terminal") {
  Document document;
  Table table({"verdict", "time, s"}, {1});
  table.add({"data loading limits the throughput", "1.50"});
  document.add(table);
  CHECK(render_text(document, 30) ==
        "verdict                time, s\n"
        "data loading limits       1.50\n"
        "the throughput\n");
}

TEST_CASE("render_html asks the browser to load a page again only where refresh_seconds is set") {
  Document document{"Run"};
  CHECK_FALSE(contains(render_html(document), "http-equiv"));
  document.refresh_seconds = 5;
  CHECK(contains(render_html(document), "<meta http-equiv=\"refresh\" content=\"5\"/>\n<title>"));
}

TEST_CASE("Document renders each block as HTML with its text escaped") {
  Document document{"Run <1>"};
  const auto shows = [&](const std::string& html) { return contains(render_html(document), html); };
  CHECK(shows("<title>Run &lt;1&gt;</title>"));

  SUBCASE("headings and paragraphs") {
    document.add(Heading{"a & b"});
    document.add(Heading{"part", Heading::Level::kPart});
    document.add(Paragraph{"<i>"});
    document.add(Paragraph{"98 %", Paragraph::Kind::kHeadline});
    document.add(Paragraph{"runs/1", Paragraph::Kind::kSubtitle});
    document.add(Paragraph{"rank 1 is slow", Paragraph::Kind::kFinding});
    CHECK(
        shows("<h2>a &amp; b</h2>\n<h3>part</h3>\n<p>&lt;i&gt;</p>\n<p class=\"lead\"><b>98 %</b>"
              "</p>\n<p class=\"lead\">runs/1</p>\n<p class=\"finding\">rank 1 is slow</p>\n"));
  }
  SUBCASE("tables, whose numbers are aligned to the right") {
    document.add(make_table());
    CHECK(
        shows("aria-label=\"Energy of &lt;every&gt; class\">\n<table>\n<caption>Energy of "
              "&lt;every&gt; class</caption>\n<thead><tr><th scope=\"col\">class</th>"
              "<th scope=\"col\" class=\"n\">energy, J</th></tr></thead>\n<tbody>\n"
              "<tr><th scope=\"row\">cat &amp; dog</th><td class=\"n\">12</td></tr>\n"));
  }
  SUBCASE("matrices, with the share of each cell in its row") {
    document.add(ConfusionMatrix{{"a", "b"}, {3, 1, 0, 0}});
    CHECK(shows("\">3 <small>75 %</small></td>"));
    CHECK(shows("\">1 <small>25 %</small></td>"));
    CHECK(shows("\">0 <small>0 %</small></td>"));
  }
  SUBCASE("charts, with a table of their points") {
    document.add(Charts{{"loss", "Loss", "epoch", "loss", {{"train", {{1, 0.5}, {2, 0.25}}}}}});
    CHECK(shows("<svg class=\"chart\" id=\"loss\""));
    CHECK(shows("<summary>Numbers: Loss</summary>"));
    CHECK(shows("<tr><th scope=\"row\" class=\"n\">2</th><td class=\"n\">0.25</td></tr>"));
  }
  SUBCASE("bars, whose lengths are shares of the longest one") {
    document.add(
        StackedBars{"ms", {"wait", "copy", "forward"}, {{"r", {1, 0, 3}}, {"s", {2, 0, 0}}}});
    CHECK(shows("aria-label=\"r: 4.00 ms\"><span class=\"part0\" style=\"width:25.000%\""));
    CHECK(
        shows("<span class=\"part0\" style=\"width:50.000%\" title=\"wait: 2.00 ms, 100.00 %\">"));
    CHECK(shows("<span class=\"swatch part2\"></span>forward</li>"));
    CHECK_FALSE(shows(">copy</li>"));
  }
  SUBCASE("folded blocks, notices and lines that keep their blanks") {
    document.add(Folded{"3 <more>", {{Notice("few")}, {Preformatted{"Files", {"a  b", "<c>"}}}}});
    CHECK(
        shows("<details><summary>3 &lt;more&gt;</summary>\n<p><b>Warning:</b> few</p>\n"
              "<pre tabindex=\"0\" aria-label=\"Files\">a  b\n&lt;c&gt;\n</pre>\n</details>"));
  }
}

TEST_CASE("Document::append adds the blocks of another document after its own") {
  Document document;
  document.add(Paragraph{"first"});
  Document part{"a title that is not used"};
  part.add(Paragraph{"second"});
  document.append(part);
  CHECK(render_text(document) == "first\nsecond\n");
}

TEST_CASE("list_charts returns all charts of a document but those of folded blocks") {
  const auto charts = [](const char* id) { return Charts{{id, "title", "x", "y", {}}}; };
  Document document;
  document.add(charts("loss"));
  document.add(Paragraph{"text"});
  document.add(charts("accuracy"));
  document.add(Folded{"more", {{charts("hidden")}}});
  const Charts all = list_charts(document);
  REQUIRE(all.size() == 2);
  CHECK(all[0].id == "loss");
  CHECK(all[1].id == "accuracy");
}

}  // namespace document_test
}  // namespace trainer::results
