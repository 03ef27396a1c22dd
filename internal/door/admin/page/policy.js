// The policy in force, and the switch of each rule to shadow.
import { get, post } from "./ask.js";
import { code, el, id, put, shown } from "./text.js";

export async function open() {
  try {
    const policy = await get("/v1/policy");
    show(policy);
  } catch (error) {
    put(id("policy-note"), shown(error.message));
  }
}

function show(policy) {
  put(id("policy-note"), policy.rules.length ? "" : "No rules are in force. Takes are answered by the limits they name.");
  id("policy").tBodies[0].replaceChildren(...policy.rules.map(row));
  const choice = id("act").elements.rule;
  const chosen = choice.value;
  choice.replaceChildren(...policy.rules.map((rule) => el("option", { value: rule.name }, shown(rule.name))));
  if (policy.rules.some((rule) => rule.name === chosen)) choice.value = chosen;
}

function row(rule) {
  const shadow = rule.mode === "shadow";
  const button = el("button", { type: "button", role: "switch", "aria-checked": String(shadow), "aria-label": `shadow mode of ${shown(rule.name)}` }, shadow ? "Enforce again" : "To shadow");
  button.addEventListener("click", () => turn(rule, shadow ? "enforce" : "shadow", button));
  const until = rule.mode_until_ms ? ` until ${new Date(rule.mode_until_ms).toLocaleTimeString()}` : "";
  return el("tr", {}, el("th", { scope: "row" }, code(rule.name)), el("td", {}, code(rule.limit)), el("td", {}, code(rule.key.join(" "))),
    el("td", {}, code(rule.match || "everything")), el("td", {}, rule.mode + until), el("td", {}, button));
}

async function turn(rule, mode, button) {
  button.disabled = true;
  try {
    await post("/v1/mode", { rule: rule.name, mode, for: id("mode-for").value });
    await open();
    put(id("policy-note"), `${shown(rule.name)} is in ${mode} mode; it goes back by itself.`);
  } catch (error) {
    put(id("policy-note"), shown(error.message));
  }
  button.disabled = false;
}
