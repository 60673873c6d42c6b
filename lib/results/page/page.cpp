#include "results/page/page.h"

#include "base/error.h"
#include "results/page/svg.h"

namespace trainer::results {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#ffffff;--line:#d0d7de;--band:#f3f5f7;--link:#0b62c4}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#a6b0bb;--paper:#0f1318;--line:#343b44;--band:#181d24;--link:#6cb2ff}}
body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.25rem 0 .5rem}
p.lead{color:var(--soft);margin:0 0 1rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
figure{margin:0;min-width:0}
.scroll{overflow-x:auto;max-width:100%}.scroll+.scroll{margin-top:1rem}
.scroll:focus-visible,summary:focus-visible{outline:3px solid var(--link);outline-offset:2px}
svg.chart{width:100%;min-width:28rem;max-width:44rem;height:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.25rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th.n,td.n{text-align:right}td.n{white-space:nowrap}td.n small{display:block}
thead th{background:var(--band)}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--link)}
pre{overflow-x:auto;background:var(--band);padding:.5rem}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.5rem 0;padding:0}
.swatch{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
.bars{margin:.5rem 0}.bars .name{display:block;color:var(--soft);font-size:.9rem}
.bar{display:flex;height:1.5rem;background:var(--band);border-radius:3px;overflow:hidden}
.bar span{display:block;min-width:1px}
.part0{background:#d55e00}.part1{background:#cc79a7}.part2{background:#56b4e9}
.part3{background:#0072b2}
.part4{background:#e69f00}.part5{background:#009e73}.part6{background:#8c959f}
ul.samples{list-style:none;margin:0;padding:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:1rem}
ul.samples li{min-width:0;overflow-wrap:anywhere;font-size:.875rem;line-height:1.35}
ul.samples img{display:block;max-width:100%;height:auto;margin-bottom:.35rem;border:1px solid var(--line)}
ul.samples.pairs{grid-template-columns:repeat(auto-fill,minmax(15rem,1fr))}
ul.samples div{display:flex;gap:.25rem}ul.samples div img{min-width:0;max-width:50%}
ul.samples img.pixels{image-rendering:pixelated}ul.samples small{color:var(--soft)}
ul.samples li.wrong{border-left:4px solid #d55e00;padding-left:.5rem}
p.finding{border-left:4px solid #d55e00;padding-left:.75rem}
@page{margin:1.5cm}
@media print{
body{max-width:none;padding:0;font-size:11pt}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
.scroll,pre{overflow:visible}pre{white-space:pre-wrap;overflow-wrap:anywhere}
table{max-width:100%;font-size:8pt}th,td{padding:.1rem .3rem;overflow-wrap:anywhere}
thead th{overflow-wrap:break-word}table.wide{font-size:6.5pt}
.charts{grid-template-columns:1fr 1fr}svg.chart{min-width:0}
figure,tr,li,.bars,p.finding{break-inside:avoid}
h1,h2,h3,caption,thead,thead tr{break-after:avoid}thead{display:table-header-group}
figure details{display:none}
ul.samples,ul.samples.pairs{grid-template-columns:repeat(auto-fill,minmax(10rem,1fr));gap:.5rem}
ul.samples li{font-size:8pt}
}
)";

}  // namespace

std::string page(const std::string& title, const std::string& body) {
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>",
      escape_markup(title), "</title>\n<link rel=\"icon\" href=\"data:,\"/>\n<style>", kStyle,
      "</style>\n</head>\n<body>\n<main>\n<h1>", escape_markup(title), "</h1>\n", body,
      "</main>\n</body>\n</html>\n");
}

}  // namespace trainer::results
