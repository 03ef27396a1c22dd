// What is shown is text, always: nodes are made, HTML never is. Callers choose
// their keys and paths, and may put into them what turns, hides or ends text, so
// such characters are shown as what they are.

// el makes an element: el("td", {class: "n"}, "12").
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// Control characters, invisible ones, and those that change direction.
const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]/gu;

// shown is a caller's text with nothing hidden in it, and an end.
export function shown(text, most = 200) {
  const all = Array.from(String(text));
  const kept = all.length > most ? all.slice(0, most).join("") + "…" : String(text);
  return kept.replace(hidden, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

// code is an element for a caller's text.
export function code(text) {
  return el("code", { dir: "ltr" }, shown(text));
}

// put sets a node's text, if it is another.
export function put(node, text) {
  text = String(text);
  if (node.textContent !== text) node.textContent = text;
}

export const id = (name) => document.getElementById(name);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (n) => whole.format(n);
export const rate = (n) => (n >= 100 ? whole : tenths).format(n);

// micros spells a time in microseconds.
export function micros(us) {
  if (us >= 1e6) return tenths.format(us / 1e6) + " s";
  if (us >= 1e3) return tenths.format(us / 1e3) + " ms";
  return whole.format(us) + " µs";
}

export function bytes(n) {
  for (const unit of ["B", "kB", "MB"]) {
    if (n < 1000) return tenths.format(n) + " " + unit;
    n /= 1000;
  }
  return tenths.format(n) + " GB";
}

// lines reads "name<mark>value" lines into an object of what add makes of them.
export function lines(text, mark, add) {
  const all = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf(mark);
    if (at < 1) throw new Error(`"${line}" is not NAME${mark}VALUE`);
    add(all, line.slice(0, at).trim(), line.slice(at + mark.length).trim());
  }
  return all;
}
