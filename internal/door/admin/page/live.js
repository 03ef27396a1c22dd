// The view of now: one line of /v1/live a second.
import { get } from "./ask.js";
import { bytes, code, count, el, id, micros, put, rate, shown } from "./text.js";

const kept = 120; // seconds in the chart
const most = 200; // rows in the table
const rows = new Map(); // by rule
const seconds = []; // {admitted, refused}
let last = null; // the line before

export function start() {
  const source = new EventSource("/v1/live");
  source.onmessage = (event) => {
    const line = JSON.parse(event.data);
    show(line);
    last = line;
  };
  source.onerror = () => health("bad", "no connection to the daemon");
  top();
  setInterval(top, 2000);
}

function health(state, text) {
  id("health").className = "health " + state;
  put(id("health"), text);
}

function show(line) {
  const store = line.store;
  if (store.fail_open) health("bad", "limits are open: the store is away and requests are admitted unchecked");
  else if (store.breaker_open) health("bad", "the store is away: limits give their stated answers");
  else if (!line.config.ok) health("bad", "the policy file is wrong: the one before it is in force");
  else health("good", "at work");

  // After a restart counts begin anew, and a rate against the old ones is none.
  const again = last && line.t_ms > last.t_ms && line.latency.count >= last.latency.count;
  const span = again ? (line.t_ms - last.t_ms) / 1000 : 0;
  const before = new Map(again ? last.rules.map((r) => [r.rule, r]) : []);
  const total = { admitted: 0, refused: 0 };
  const now = line.rules.map((rule) => {
    const was = before.get(rule.rule) || (again ? { admitted: 0, refused: 0 } : rule);
    const a = span ? (rule.admitted - was.admitted) / span : 0;
    const r = span ? (rule.refused - was.refused) / span : 0;
    total.admitted += a;
    total.refused += r;
    return { ...rule, a, r };
  });
  put(id("rate-admitted"), rate(total.admitted));
  put(id("rate-refused"), rate(total.refused));
  put(id("decision-p50"), micros(line.latency.p50_us));
  put(id("decision-p99"), micros(line.latency.p99_us));
  put(id("store-state"), store.breaker_open ? "away" : "there");
  id("store-state").className = store.breaker_open ? "bad-text" : "";
  put(id("store-calls"), !store.calls.count ? "in memory" : !store.calls.p50_us ? "not called just now" : `${micros(store.calls.p50_us)} median, ${micros(store.calls.p99_us)} at 99 %`);
  put(id("lease-out"), count(line.leases.out));
  put(id("lease-spent"), count(line.leases.spent));
  put(id("lease-peak"), count(line.leases.peak));
  put(id("deny-hits"), count(store.deny_cache_hits));
  put(id("instances"), count(store.instances));
  put(id("memory-keys"), count(line.memory.keys));
  put(id("memory-bytes"), bytes(line.memory.bytes));
  table(now);
  errors(store);
  if (span) chart(total);
}

function table(rules) {
  // The busiest come first only where there are too many for a table.
  const list = rules.length > most ? [...rules].sort((x, y) => y.a + y.r - x.a - x.r).slice(0, most) : rules;
  const body = id("rules").tBodies[0];
  const there = new Set(list.map((r) => r.rule));
  for (const [name, row] of rows) {
    if (!there.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
  for (const rule of list) {
    let row = rows.get(rule.rule);
    if (!row) {
      row = el("tr", {}, el("th", { scope: "row" }, code(rule.rule)));
      for (let i = 0; i < 5; i++) row.append(el("td", { class: "n" }));
      row.dataset.rule = rule.rule;
      rows.set(rule.rule, row);
      body.append(row);
    }
    const shadow = rule.shadow_admitted + rule.shadow_refused;
    [rate(rule.a), rate(rule.r), count(rule.admitted), count(rule.refused), shadow ? `${count(rule.shadow_refused)} of ${count(shadow)}` : ""]
      .forEach((text, i) => put(row.cells[i + 1], text));
  }
  put(id("rules-more"), rules.length > list.length ? `${count(rules.length - list.length)} more rules, less busy.` : "");
}

function errors(store) {
  const said = Object.entries(store.errors).map(([kind, n]) => `${kind}: ${count(n)}`);
  if (store.unknown) said.push(`may have been charged all the same: ${count(store.unknown)}`);
  const list = id("store-errors");
  const text = said.join("\n");
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...(said.length ? said : ["nothing"]).map((t) => el("li", {}, t)));
}

function chart(total) {
  seconds.push(total);
  if (seconds.length > kept) seconds.shift();
  const high = Math.max(1, ...seconds.map((s) => Math.max(s.admitted, s.refused)));
  put(id("chart-top"), rate(high) + " a second");
  for (const what of ["admitted", "refused"]) {
    const points = seconds.map((s, i) => `${(((kept - seconds.length + i) / (kept - 1)) * 600).toFixed(1)} ${(118 - (s[what] / high) * 114).toFixed(1)}`);
    id("chart-" + what).setAttribute("d", "M" + points.join("L"));
  }
}

// top asks who asks most and who is refused most.
async function top() {
  if (id("view-now").hidden || document.hidden) return;
  try {
    const answer = await get("/v1/top?n=10");
    ranking("hottest", answer.hottest);
    ranking("refusals", answer.refusals);
    put(id("top-note"), `Of ${count(answer.asked)} requests, ${count(answer.refused)} of them refused, in the last ${count(answer.seconds)} seconds on this instance.`);
  } catch (error) {
    put(id("top-note"), shown(error.message));
  }
}

// ranking fills a table anew where it has changed, so that text stays selected.
function ranking(name, list) {
  const text = JSON.stringify(list);
  if (id(name).dataset.text === text) return;
  id(name).dataset.text = text;
  // A count is known to lie between two.
  const known = (k) => (k.at_least === k.at_most ? count(k.at_most) : `${count(k.at_least)} to ${count(k.at_most)}`);
  id(name).tBodies[0].replaceChildren(
    ...list.map((k) => el("tr", {}, el("td", {}, code(k.rule)), el("td", {}, code(k.key)), el("td", { class: "n" }, known(k)))));
}
