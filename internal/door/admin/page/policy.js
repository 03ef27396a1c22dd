// The policy in force, and the switch of each rule to shadow.
import { get, post } from "./ask.js";
import { code, el, id, put, shown } from "./text.js";

export async function open() {
  try {
    show(await get("/v1/policy"));
  } catch (error) {
    put(id("policy-note"), shown(error.message));
  }
}

function show(policy) {
  if (!policy.rules.length) put(id("policy-note"), "No rules are in force. Takes are answered by the limits they name.");
  id("policy").tBodies[0].replaceChildren(...policy.rules.map(row));
  const choice = id("act").elements.rule;
  const chosen = choice.value;
  choice.replaceChildren(...policy.rules.map((rule) => el("option", { value: rule.name }, shown(rule.name))));
  if (policy.rules.some((rule) => rule.name === chosen)) choice.value = chosen;
}

// words spells conditions as people would.
function words(conditions) {
  if (!conditions) return "";
  const { headers, ...lists } = conditions;
  const parts = Object.values(lists).map((list) => list.join(" "));
  for (const [name, values] of Object.entries(headers || {})) parts.push(values.length ? `${name}: ${values.join("|")}` : name);
  return parts.join(", ");
}

function matches(rule) {
  const not = words(rule.not);
  return (words(rule.match) || "everything") + (not ? `, but not ${not}` : "");
}

function limits(rule) {
  const all = rule.limit ? [rule.limit] : [];
  for (const [plan, limit] of Object.entries(rule.plans || {})) all.push(`${plan}: ${limit}`);
  if (rule.try) all.push(`try: ${rule.try}`);
  return all.flatMap((text, i) => (i ? [el("br"), code(text)] : [code(text)]));
}

function row(rule) {
  const shadow = rule.mode === "shadow";
  const button = el("button", { type: "button", role: "switch", "aria-checked": String(shadow), "aria-label": `shadow mode of ${shown(rule.name)}` },
    shadow ? "Enforce" : "To shadow");
  button.addEventListener("click", () => turn(rule, shadow ? "enforce" : "shadow"));
  const until = rule.until_ms ? ` until ${new Date(rule.until_ms).toLocaleTimeString("en", { hour12: false })}` : "";
  return el("tr", { "data-rule": rule.name }, el("th", { scope: "row" }, code(rule.name)), el("td", {}, ...limits(rule)),
    el("td", {}, code(rule.key.join(" "))), el("td", {}, code(matches(rule))), el("td", {}, rule.mode + until), el("td", {}, button));
}

// turn switches a rule for a time, or ends the switch that stands.
async function turn(rule, mode) {
  const back = rule.file_mode === mode;
  let said;
  try {
    const answer = await post("/v1/mode", { rule: rule.name, mode, for: back ? "0s" : id("mode-for").value, by: "dashboard" });
    said = `${shown(rule.name)} is in ${mode} mode` + (back ? " again." : ", until it goes back by itself.") + (answer.everywhere ? "" : " This holds for this instance alone.");
  } catch (error) {
    said = shown(error.message);
  }
  await open();
  put(id("policy-note"), said);
  // The table is made anew; the focus stays where it was.
  for (const r of id("policy").tBodies[0].rows) if (r.dataset.rule === rule.name) r.querySelector("button").focus();
}
