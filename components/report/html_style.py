"""The stylesheet of report.html: one column of sections, light or dark as the reader's system is, light on paper."""

_LIGHT = (
    "--page:#fff;--raised:#f6f7f9;--text:#1a1e24;--muted:#5c6672;--hair:#e2e6eb;--accent:#2459d6;--second:#b06a00;"
    "--ok:#0f7a56;--ok-tint:#e3f4ec;--warn:#925400;--warn-tint:#fdf1dc;--bad:#b8262b;--bad-tint:#fdeaea;"
    "--calm:#5c6672;--calm-tint:#eceff3;"
)
_DARK = (
    "--page:#0f1318;--raised:#171c23;--text:#e5e9ef;--muted:#98a3b1;--hair:#2a313b;--accent:#7aa5ff;--second:#e3a64b;"
    "--ok:#4cc796;--ok-tint:#12301f;--warn:#e3a64b;--warn-tint:#33260d;--bad:#ff8585;--bad-tint:#3a1719;"
    "--calm:#98a3b1;--calm-tint:#222932;"
)

STYLE = (
    f":root{{color-scheme:light dark;{_LIGHT}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1080px;margin:0 auto;padding:40px 28px 64px}
h1{font-size:28px;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:18px;margin:44px 0 12px;letter-spacing:-.005em}
h3{font-size:14px;margin:0 0 6px;font-weight:600}
p{margin:0 0 8px;max-width:76ch;overflow-wrap:anywhere}
code,pre,.id{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.88em}
code{background:var(--calm-tint);border-radius:4px;padding:1px 5px}
pre{margin:8px 0 0;padding:12px 14px;background:var(--raised);border:1px solid var(--hair);border-radius:8px;
overflow-x:auto;line-height:1.45;white-space:pre-wrap;overflow-wrap:anywhere}
header{border-bottom:1px solid var(--hair);padding-bottom:20px}
.over{color:var(--muted);font-size:13px;margin-bottom:4px}
.title{display:flex;flex-wrap:wrap;align-items:center;gap:12px}
.facts{display:flex;flex-wrap:wrap;gap:4px 22px;margin:12px 0 0;color:var(--muted);font-size:14px}
.facts b{color:var(--text);font-weight:500}
.badge{display:inline-block;border-radius:999px;padding:2px 11px;font-size:13px;font-weight:600;white-space:nowrap}
.ok{color:var(--ok);background:var(--ok-tint)}.warn{color:var(--warn);background:var(--warn-tint)}
.bad{color:var(--bad);background:var(--bad-tint)}.calm{color:var(--calm);background:var(--calm-tint)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:12px;margin:24px 0 0}
.card{background:var(--raised);border:1px solid var(--hair);border-radius:10px;padding:12px 14px}
.card .name{color:var(--muted);font-size:13px}
.card .value{font-size:22px;font-weight:600;line-height:1.3;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.card .note{color:var(--muted);font-size:13px}
.verdict{border-left:4px solid var(--hair);padding:2px 0 2px 16px;margin:24px 0 0}
.verdict.is-ok{border-color:var(--ok)}.verdict.is-bad{border-color:var(--bad)}.verdict.is-calm{border-color:var(--calm)}
.verdict .cause{font-size:16px;font-weight:500}
.verdict .next{margin:2px 0 0}.verdict .next span{color:var(--muted)}
.verdict dl{display:grid;grid-template-columns:max-content 1fr;gap:1px 16px;margin:12px 0 0;font-size:14px}
.verdict dt{color:var(--muted)}.verdict dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:20px}
figure{margin:0;border:1px solid var(--hair);border-radius:10px;padding:14px 14px 8px}
.figure{display:block;width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12.5px;color:var(--muted);margin:2px 0 4px}
.legend i{display:inline-block;width:16px;height:0;border-top:2px solid;vertical-align:middle;margin-right:6px}
.legend i.abandoned{border-top-style:dashed}
.legend i.diamond{width:8px;height:8px;border:1px solid;transform:rotate(45deg)}
.grid{stroke:var(--hair)}.axis{stroke:var(--muted);stroke-opacity:.5}
.tick{fill:var(--muted);font:11px system-ui,sans-serif;font-variant-numeric:tabular-nums}
[class^=line-]{fill:none;stroke-width:1.8;stroke-linejoin:round}
[class^=dot-]{fill:transparent}[class^=dot-]:hover{fill:currentColor}
.line-main{stroke:var(--accent)}.dot-main{color:var(--accent)}.line-second{stroke:var(--second)}
.dot-second{color:var(--second)}.line-abandoned{stroke:var(--muted);stroke-dasharray:3 3;stroke-width:1.3}
.dot-abandoned{color:var(--muted)}.mark-restart{stroke:var(--bad);stroke-dasharray:2 3}
.mark-verified{fill:var(--ok)}.mark-committed{fill:var(--warn)}.mark-quarantined{fill:var(--bad)}
.mark-retired{fill:var(--page);stroke:var(--muted)}.beyond{fill:var(--muted)}
.timeline{display:grid;grid-template-columns:minmax(110px,max-content) 1fr max-content;gap:0 14px;align-items:center;
font-size:14px}
.timeline>*{padding:3px 0}
.timeline .sub{padding-left:18px;color:var(--muted);font-size:13px}
.timeline .took{text-align:right;font-variant-numeric:tabular-nums;color:var(--muted)}
.track{position:relative;height:22px;background:linear-gradient(var(--hair),var(--hair)) center/100% 1px no-repeat}
.bar{position:absolute;top:4px;bottom:4px;min-width:3px;border-radius:4px;background:var(--accent)}
.bar.b-ok{background:var(--ok)}.bar.b-bad{background:var(--bad)}.bar.b-calm{background:var(--calm)}
.bar.b-part{opacity:.55}.bar.b-thin{top:7px;bottom:7px}
.scale{position:relative;height:20px;color:var(--muted);font-size:12px;font-variant-numeric:tabular-nums}
.scale span{position:absolute;transform:translateX(-50%)}.scale span:first-child{transform:none}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;min-width:680px;font-size:14px}
th{text-align:left;font-weight:600;color:var(--muted);font-size:12.5px;white-space:nowrap}
th,td{padding:7px 14px 7px 0;border-bottom:1px solid var(--hair);vertical-align:top}
td{overflow-wrap:anywhere}th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.group td{font-weight:600;padding-top:16px}
td .more{color:var(--muted);font-size:13px}
.nowrap{white-space:nowrap}
details{margin-top:8px}summary{cursor:pointer;color:var(--accent)}
.none{color:var(--muted)}
footer{margin-top:48px;padding-top:14px;border-top:1px solid var(--hair);color:var(--muted);font-size:13px}
@media (max-width:560px){main{padding:24px 16px 40px}h1{font-size:23px}}
@media print{.figures{grid-template-columns:1fr 1fr}body{font-size:11.5px}main{max-width:none;padding:0}
figure,.card,.verdict,tr{break-inside:avoid}
h2{break-after:avoid;margin-top:26px}.wide{overflow:visible}table{min-width:0}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""
)
