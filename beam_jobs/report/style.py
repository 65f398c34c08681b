"""The style sheet of the report: dense, light and dark, from a phone to a wide screen."""

STYLE = """
:root{color-scheme:light dark;--page:#fcfcfa;--raised:#f2f2ee;--line:#dcdcd5;--text:#1d2023;
  --quiet:#5a5f66;--link:#1f5c99;--warning:#a3341c;--s0:#3b6ea5;--s1:#c07a2c;--s2:#4c8c66;
  --s3:#8a5fa8; --s4:#5f7d8c;--s5:#a8566d;--left:#88887f;--refused:#b5523b;--total:#4a5058}
@media (prefers-color-scheme:dark){:root{--page:#15171a;--raised:#1f2226;--line:#34383e;
  --text:#e7e6e2;--quiet:#a6abb2;--link:#83b7ea;--warning:#f0957f;--s0:#6f9fd2;--s1:#d69a55;
  --s2:#72b38c;--s3:#b08fcb;--s4:#8aa6b4;--s5:#cb8296;--left:#77797a;--refused:#d17a64;
  --total:#98a0a8}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0 auto;max-width:1120px;padding:20px 16px 40px;background:var(--page);
  color:var(--text);
  font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;
  font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
h1{margin:0;font-size:28px;line-height:1.2;font-weight:650;letter-spacing:-.01em}
h2{margin:0 0 10px;font-size:19px;line-height:1.3;font-weight:650}
h3{margin:0 0 6px;font-size:15px;line-height:1.3;font-weight:600}
p{margin:0 0 10px}
small{font-size:13px;color:var(--quiet);font-weight:400}
a{color:var(--link)}
code{font:13px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--link);
  outline-offset:2px}
nav ul{display:flex;flex-wrap:wrap;gap:2px 16px;margin:8px 0 0;padding:0;list-style:none}
nav a{display:inline-block;padding:3px 0;font-size:14px;text-decoration:none}
nav a:hover{text-decoration:underline}
section{margin-top:28px;padding-top:16px;border-top:1px solid var(--line)}
.note,figcaption,footer,caption{color:var(--quiet);font-size:14px}
footer{margin-top:32px;padding-top:12px;border-top:1px solid var(--line)}
footer p{margin:0}
.numbers{display:flex;flex-wrap:wrap;gap:10px 28px;margin:0 0 14px;padding:0;list-style:none}
.numbers li{display:flex;flex-direction:column}
.numbers strong{font-size:23px;line-height:1.25;font-weight:600}
.hash{color:var(--quiet)}
.scroll{overflow-x:auto;margin:0 0 12px}
table{border-collapse:collapse;min-width:min(100%,420px);font-size:14px}
caption{text-align:left;padding:0 0 6px}
th,td{padding:4px 0 4px 20px;text-align:right;font-weight:400;vertical-align:top;
  white-space:nowrap}
th:first-child{padding-left:0;text-align:left;white-space:normal;min-width:70px}
@media (max-width:520px){th,td{padding-left:9px}.flow .label{font-size:13px}}
thead th{color:var(--quiet);font-size:13px;border-bottom:1px solid var(--line);
  white-space:nowrap}
tbody tr+tr>*{border-top:1px solid color-mix(in srgb,var(--line) 55%,transparent)}
.words td,.words th{text-align:left;white-space:normal}
.words th:first-child{color:var(--quiet)}
.inner{display:block;padding-left:14px;color:var(--quiet)}
details{margin:0 0 6px}
summary{cursor:pointer;padding:4px 0;color:var(--link);font-size:14px}
.flow-and-table{display:grid;gap:18px 36px;grid-template-columns:minmax(0,1fr)}
@media (min-width:820px){.flow-and-table{grid-template-columns:minmax(0,1fr) auto}}
.flow{position:relative;margin-bottom:12px}
svg{display:block;width:100%;overflow:visible}
.flow svg{position:absolute;inset:0}
.label{position:absolute;transform:translateY(-50%);padding-left:6px;font-size:14px;
  line-height:1.2;white-space:nowrap;
  text-shadow:0 0 3px var(--page),0 0 3px var(--page),0 0 3px var(--page)}
.label strong{font-weight:600}
.label.last{right:0;padding:0 calc(1.2% + 6px) 0 0}
.label.first{padding-left:0}
.band{opacity:.32}
.s0{fill:var(--s0);background:var(--s0)}
.s1{fill:var(--s1);background:var(--s1)}
.s2{fill:var(--s2);background:var(--s2)}
.s3{fill:var(--s3);background:var(--s3)}
.s4{fill:var(--s4);background:var(--s4)}
.s5{fill:var(--s5);background:var(--s5)}
svg.s0{background:none}
.kept{fill:var(--s2)}
.left{fill:var(--left)}
.refused{fill:var(--refused)}
.total{fill:var(--total)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}
.mark{display:inline-block;width:11px;height:11px;margin-right:6px;border-radius:2px}
.classes table,.channels table{width:100%}
.classes th:first-child{width:60%;min-width:120px}
.channels th:first-child{width:40%;min-width:120px}
.bar{display:flex;height:5px;margin:3px 0 4px}
.track{display:block;position:relative;height:8px;margin-top:5px;background:var(--raised)}
.band.red,.band.green,.band.blue{position:absolute;height:100%;opacity:.75}
.red{background:#c9584c}
.green{background:#4f9a5c}
.blue{background:#4d7fc4}
.needle{position:absolute;top:-2px;width:2px;height:12px;margin-left:-1px;
  background:var(--text)}
figure{margin:0}
.charts{display:grid;gap:24px 32px;
  grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr))}
.histogram svg{height:96px;border-bottom:1px solid var(--left)}
.histogram figcaption{margin-bottom:6px}
.histogram strong{color:var(--text);font-weight:600}
.histogram.wide{max-width:720px}
.most{font-size:13px;color:var(--quiet);line-height:1.2;margin-bottom:3px}
.axis{position:relative;height:19px;font-size:13px;color:var(--quiet)}
.axis span{position:absolute;top:2px;white-space:nowrap}
.axis .tick{transform:translateX(-50%)}
.axis .end{transform:translateX(-100%)}
.single{display:flex;align-items:end;height:96px;margin-top:18px;padding-bottom:6px;
  font-size:23px; font-weight:600;border-bottom:1px solid var(--left)}
.tiles{display:flex;flex-wrap:wrap;gap:10px}
.frame{display:flex;align-items:center;justify-content:center;width:96px;height:96px;
  overflow:hidden; flex:none;background:var(--raised);border-radius:3px}
.frame img{display:block;width:100%;height:100%;object-fit:contain}
.tile{width:96px}
.tile figcaption{margin-top:4px;font-size:13px;line-height:1.3;color:var(--text)}
.tile small,.tile bdi{display:block}
.none{font-size:13px;color:var(--quiet)}
.strips{display:grid;gap:16px 28px;
  grid-template-columns:repeat(auto-fill,minmax(min(100%,520px),1fr))}
.strip .tiles{gap:4px}
.strip .frame{width:calc((100% - 20px)/6);height:auto;aspect-ratio:1}
.clusters{display:grid;gap:16px 28px;
  grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr))}
.cluster{padding-left:10px;border-left:2px solid var(--line)}
.contradictory{border-left-color:var(--warning)}
.warning small{color:var(--warning);font-weight:600}
.warning bdi{display:inline}
.tile.kept .frame{outline:2px solid var(--s2);outline-offset:-2px}
.examples{display:grid;gap:16px 28px;margin:0;padding:0;list-style:none;
  grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr))}
.examples li{display:flex;gap:12px}
.examples p{margin:0 0 3px;font-size:14px}
.examples .source{color:var(--quiet)}
.blank{flex-direction:column;align-items:flex-start;justify-content:flex-start;padding:6px;
  font-size:13px;line-height:1.25;color:var(--quiet)}
.blank code{font-size:12px;line-height:1.3;margin-top:3px;overflow-wrap:anywhere}
.pair{display:grid;gap:18px 36px;
  grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr))}
.documents,.clusters.texts,.examples.texts{display:block;columns:2 420px;column-gap:28px}
.documents>*,.texts>*{break-inside:avoid;padding-bottom:8px;margin-bottom:10px}
.document{margin:0 0 10px}
.document .note{margin:2px 0 0;font-size:13px}
.document figcaption{display:flex;flex-wrap:wrap;gap:0 12px;margin-bottom:2px;font-size:13px;
  color:var(--text)}
.excerpt{padding:6px 10px;overflow:hidden;background:var(--raised);border-radius:3px;
  font-size:14px}
.excerpt p{margin:0 0 2px}
.excerpt .none{margin:0}
.document.kept .excerpt{border-inline-start:3px solid var(--s2)}
.texts .tiles{display:block}
.examples.texts li{display:block}
.examples.texts .excerpt{margin-top:5px}
.examples.texts .none{margin:0}
.annotated.strips{grid-template-columns:minmax(0,1fr)}
.annotated .strip .tiles{display:grid;gap:12px 14px;
  grid-template-columns:repeat(auto-fill,minmax(min(100%,160px),1fr))}
.annotated .strip .frame{width:96px;height:96px}
.kept-values{margin:4px 0 0;font-size:13px;line-height:1.35}
.kept-values dt{display:inline;margin-right:6px;color:var(--quiet)}
.kept-values dd{display:inline;margin:0}
.kept-columns td{white-space:normal;min-width:90px;text-align:left}
.kept-columns th{text-align:left}
.kept-columns th:first-child{min-width:110px}
.kept-columns .values{min-width:200px;margin:0;padding:0;list-style:none}
@media print{nav,summary{display:none}section{break-inside:avoid-page}}
"""
