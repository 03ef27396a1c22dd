// The simulator. What is set stands in the address: #sim?preset=edge&limit=100&period=min&burst=20&algorithm=token_bucket
import { get } from "./ask.js";
import { count, el, id, put, shown } from "./text.js";

const periods = ["s", "10s", "30s", "min", "5min", "15min", "h", "day"];
const most = 5000;
let presets = null;
let running = null; // what can be given up

const form = () => id("sim").elements;

export async function open(query) {
  if (!presets) {
    id("sim").addEventListener("input", changed);
    id("sim").addEventListener("submit", (event) => event.preventDefault());
    form().share.addEventListener("click", share);
    form()["reset-sim"].addEventListener("click", () => {
      own(chosen());
      changed();
    });
    presets = (await get("/v1/sim/presets")).presets;
    form().preset.append(...presets.map((p) => el("option", { value: p.name }, p.name)));
  }
  restore(new URLSearchParams(query));
  await draw();
}

const chosen = () => presets.find((p) => p.name === form().preset.value) || presets[0];

// A slider of amounts is by their logarithm: 10 is as far from 100 as 100 from
// 1,000.
const amount = (position) => Math.round(most ** (position / 1000));
const position = (n) => Math.round((1000 * Math.log(n)) / Math.log(most));

// own sets the limit that a preset is made for.
function own(p) {
  const [, n, period, burst] = /^(\d+)\/(\S+)(?: burst=(\d+))?$/.exec(p.limit);
  setLimit(Number(n));
  setPeriod(period);
  form().burst.value = burst ? position(Number(burst)) : 0;
}

function setLimit(n) {
  n = Math.min(most, Math.max(1, Math.round(n) || 1));
  form()["limit-exact"].value = n;
  form().limit.value = position(n);
}

function setPeriod(text) {
  const i = periods.indexOf(text);
  form().period.value = i < 0 ? periods.indexOf("min") : i;
}

function restore(query) {
  const name = query.get("preset");
  form().preset.value = presets.some((p) => p.name === name) ? name : "burst";
  own(chosen());
  if (/^\d+$/.test(query.get("limit"))) setLimit(Number(query.get("limit")));
  if (periods.includes(query.get("period"))) setPeriod(query.get("period"));
  if (/^\d+$/.test(query.get("burst"))) form().burst.value = position(Number(query.get("burst"))) || 0;
  form().algorithm.value = query.get("algorithm") || "";
  if (form().algorithm.selectedIndex < 0) form().algorithm.value = "";
  say();
}

// A burst slider at its left end has none: each algorithm takes its own.
const burst = () => (Number(form().burst.value) > 0 ? amount(form().burst.value) : 0);

function say() {
  const period = periods[form().period.value];
  put(form()["limit-text"], form()["limit-exact"].value);
  put(form()["period-text"], period);
  put(form()["burst-text"], burst() || "the algorithm's own");
  form().limit.setAttribute("aria-valuetext", form()["limit-exact"].value);
  form().period.setAttribute("aria-valuetext", period);
  form().burst.setAttribute("aria-valuetext", burst() || "the algorithm's own");
}

function changed(event) {
  const name = event?.target.name;
  if (name === "preset") own(chosen());
  if (name === "limit") setLimit(amount(form().limit.value));
  if (name === "limit-exact") form().limit.value = position(Math.min(most, Math.max(1, Number(form()["limit-exact"].value) || 1)));
  say();
  history.replaceState(null, "", "#sim?" + address());
  draw();
}

function address() {
  const q = new URLSearchParams({ preset: form().preset.value, limit: form()["limit-exact"].value, period: periods[form().period.value] });
  if (burst()) q.set("burst", burst());
  if (form().algorithm.value) q.set("algorithm", form().algorithm.value);
  return q.toString();
}

async function share() {
  history.replaceState(null, "", "#sim?" + address());
  try {
    await navigator.clipboard.writeText(location.href);
    status("Copied.", false);
  } catch {
    status("The browser does not let this page copy; the address above is the one.", false);
  }
}

function status(text, bad) {
  put(id("sim-status"), text);
  id("sim-status").className = bad ? "problem" : "quiet-text";
}

async function draw() {
  running?.abort();
  const mine = (running = new AbortController());
  const limit = `${form()["limit-exact"].value}/${periods[form().period.value]}` + (burst() ? ` burst=${burst()}` : "");
  const preset = chosen();
  try {
    const report = await get("/v1/sim?" + new URLSearchParams({ preset: preset.name, limit }), mine.signal);
    if (mine !== running) return;
    put(id("sim-about"), `${preset.about} Against ${limit}:`);
    put(id("sim-shows"), preset.shows);
    status("", true);
    pictures(preset, [...report.algorithms, ...(report.beside || [])]);
  } catch (error) {
    if (mine === running && error.name !== "AbortError") status(shown(error.message), true);
  }
}

const times = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

const nameOf = (row) => (row.case ? `${row.case} (${row.algorithm})` : row.algorithm);

function pictures(preset, rows) {
  const algorithm = form().algorithm.value;
  const high = Math.max(1, ...rows.map((row) => Math.max(...row.timeline.map((p) => p.offered))));
  id("sim-figures").tBodies[0].replaceChildren(
    ...rows.map((row) =>
      el("tr", { class: row.algorithm === algorithm && !row.case ? "chosen" : null }, el("th", { scope: "row" }, nameOf(row)),
        ...[row.offered, row.admitted, row.worst_2s, row.worst_window].map((n) => el("td", { class: "n" }, count(n))),
        el("td", { class: "n" }, times.format(row.worst_window / Number(form()["limit-exact"].value)) + "×")),
    ),
  );
  const shownRows = algorithm ? rows.filter((row) => row.algorithm === algorithm && !row.case) : rows;
  id("sim-pictures").replaceChildren(
    ...shownRows.map((row) =>
      el("figure", {},
        el("figcaption", {}, el("span", {}, nameOf(row)), el("span", { class: "quiet-text" }, `${count(row.admitted)} of ${count(row.offered)} admitted`)),
        strip(row, high, Boolean(algorithm))),
    ),
    el("p", { class: "axis", "aria-hidden": "true" }, ...[0, 1, 2, 3, 4].map((i) => el("span", {}, instant((preset.length_ms * i) / 4)))),
  );
}

function instant(ms) {
  return `${Math.floor(ms / 60000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;
}

const svg = "http://www.w3.org/2000/svg";

function strip(row, high, large) {
  const picture = document.createElementNS(svg, "svg");
  const width = 600 / row.timeline.length;
  picture.setAttribute("viewBox", "0 0 600 48");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("class", large ? "strip large" : "strip");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `${nameOf(row)}: ${row.admitted} of ${row.offered} admitted, at most ${row.worst_window} in a period`);
  for (const [what, mark] of [["offered", "o"], ["admitted", "a"]]) {
    const bars = row.timeline.flatMap((p, i) => {
      if (!p[what]) return [];
      const tall = Math.max(1, (p[what] / high) * 46);
      return [`M${(i * width).toFixed(1)} 48v-${tall.toFixed(1)}h${Math.max(width - 0.4, 0.8).toFixed(1)}v${tall.toFixed(1)}z`];
    });
    const path = document.createElementNS(svg, "path");
    path.setAttribute("class", mark);
    path.setAttribute("d", bars.join(""));
    picture.append(path);
  }
  return picture;
}
