// Which view is shown is what stands behind the # of the address.
import * as act from "./act.js";
import * as live from "./live.js";
import * as policy from "./policy.js";
import * as simulate from "./simulate.js";
import { id } from "./text.js";

const views = ["now", "policy", "explain", "act", "sim"];

function route() {
  if (location.hash === "#main") return; // the skip link
  const [name, query] = location.hash.slice(1).split(/\?(.*)/s);
  const view = views.includes(name) ? name : "now";
  for (const v of views) id("view-" + v).hidden = v !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === "#" + view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${id(view + "-title").textContent} · Weir`;
  if (view === "policy" || view === "act") policy.open();
  if (view === "sim") simulate.open(query || "");
}

addEventListener("hashchange", () => {
  route();
  id("main").focus();
});
act.start();
live.start();
route();
