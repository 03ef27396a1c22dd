// Explain, and what changes something: always after a question.
import { get, post } from "./ask.js";
import { code, count, el, id, lines, put, shown } from "./text.js";

export function start() {
  id("explain").addEventListener("submit", explain);
  id("why").addEventListener("submit", why);
  id("act").addEventListener("submit", act);
  id("act").addEventListener("change", chooseTarget);
  chooseTarget();
}

async function explain(event) {
  event.preventDefault();
  const form = event.target.elements;
  const out = id("explained");
  try {
    const body = { method: form.method.value.trim() || "GET", path: form.path.value };
    for (const name of ["ip", "host"]) if (form[name].value.trim()) body[name] = form[name].value.trim();
    if (form.cost.value !== "") body.cost = Number(form.cost.value);
    if (form.headers.value.trim()) body.headers = lines(form.headers.value, ":", (all, name, value) => (all[name] ||= []).push(value));
    if (form.attrs.value.trim()) body.attrs = lines(form.attrs.value, "=", (all, name, value) => (all[name] = value));
    out.replaceChildren(...answer(await post("/v1/explain", body)));
  } catch (error) {
    out.replaceChildren(el("p", { class: "problem" }, shown(error.message)));
  }
}

function answer(e) {
  const caller = Object.entries(e.caller).filter(([, value]) => value !== "");
  const parts = [
    el("h3", {}, e.allowed ? "Admitted" : "Refused"),
    el("p", {}, e.exempt ? "The request is exempt: no rule applies." : `Reason: ${e.reason}.`),
    el("p", {}, "Caller: ", ...(caller.length ? caller.flatMap(([name, value]) => [name + " ", code(value), " "]) : ["unknown"])),
  ];
  if (e.matched.length) {
    const head = ["Rule", "Key", "Cost", "Limit", "Remaining", "Answer"].map((t) => el("th", { scope: "col" }, t));
    const rows = e.matched.map((m) =>
      el("tr", {}, el("th", { scope: "row" }, code(m.rule)), el("td", {}, code(m.key)), el("td", {}, count(m.cost)), el("td", {}, code(m.limit)),
        el("td", {}, m.remaining === null ? "unlimited" : count(m.remaining)),
        el("td", {}, (m.allowed ? "admits" : m.retry_after_ms < 0 ? "refuses, always" : `refuses for ${count(m.retry_after_ms)} ms`) + (m.try ? ", on trial" : m.shadow ? ", in shadow" : ""))));
    parts.push(el("div", { class: "scroll", role: "region", "aria-label": "Rules that match", tabindex: "0" },
      el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows))));
  }
  if (e.skipped.length) {
    parts.push(el("h3", {}, "Rules that do not apply"), el("ul", {}, ...e.skipped.map((s) => el("li", {}, code(s.rule), " " + shown(s.why)))));
  }
  return parts;
}

async function why(event) {
  event.preventDefault();
  const out = id("known");
  try {
    const known = await get("/v1/why?" + new URLSearchParams({ id: event.target.elements.id.value.trim() }));
    const rows = Object.entries(known).map(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, code(typeof value === "object" ? standing(value) : value))]);
    out.replaceChildren(el("dl", { class: "facts" }, ...rows.flat()));
  } catch (error) {
    out.replaceChildren(el("p", { class: "problem" }, shown(error.message)));
  }
}

const standing = (b) => `${b.allowed ? "would be admitted" : "refused"}, ${count(b.remaining)} left` + (b.clears_at ? `, clears at ${b.clears_at}` : "");

function chooseTarget() {
  const by = id("act").elements.by.value;
  for (const part of id("act").querySelectorAll("[data-by]")) part.hidden = part.dataset.by !== by;
}

const questions = {
  reset: (who) => ["Reset?", `Forget the balance of ${who}. A block on it goes too.`],
  block: (who, time) => ["Block?", `Refuse everything of ${who} for ${time}.`],
  unblock: (who) => ["Unblock?", `Lift a block on ${who}.`],
};

async function act(event) {
  event.preventDefault();
  const form = event.target.elements;
  const what = event.submitter.value;
  const out = id("acted");
  try {
    const body = { by: "dashboard" };
    let who;
    if (form.by.value === "rule") {
      body.rule = form.rule.value;
      body.parts = lines(form.parts.value, "=", (all, name, value) => (all[name] = value));
      who = `rule ${shown(body.rule)}, ${shown(Object.entries(body.parts).map((p) => p.join("=")).join(" ")) || "everybody"}`;
    } else {
      body.key = form.key.value;
      body.limit = form.limit.value.trim();
      who = `key ${shown(body.key)}`;
    }
    if (what === "block") body.for = form.for.value.trim();
    if (!(await confirmed(...questions[what](who, shown(body.for || ""))))) {
      put(out, "Nothing was done.");
      return;
    }
    await post("/v1/" + what, body);
    put(out, `Done: ${what} of ${who}.`);
    out.className = "";
  } catch (error) {
    put(out, shown(error.message));
    out.className = "problem";
  }
}

// confirmed asks, and returns whether the answer was yes.
export function confirmed(title, text) {
  const dialog = id("confirm");
  put(id("confirm-title"), title);
  put(id("confirm-text"), text);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}
