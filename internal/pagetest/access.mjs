import assert from "node:assert/strict";
import axe from "axe-core";
import { settings, until } from "./world.mjs";

const views = ["now", "policy", "explain", "act", "sim?preset=skew"];

// settled waits until a view shows what it has.
async function settled(page, view) {
  await until(`${view} shows what it has`, () =>
    page.evaluate((v) => {
      const rows = { now: "#rules", policy: "#policy", sim: "#sim-figures" }[v.split("?")[0]];
      return !rows || document.querySelector(rows + " tbody tr") !== null;
    }, view));
}

async function check(page, where) {
  await page.evaluate(axe.source);
  const result = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const serious = result.violations.filter((v) => ["serious", "critical"].includes(v.impact));
  assert.deepEqual(serious.map((v) => `${where}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html)}`), []);
  return result.violations.map((v) => v.id);
}

export default [
  ["access: nothing serious for axe, light, dark and at 360 px", async (world) => {
    const minor = new Set();
    for (const look of [{}, { dark: true }, { width: 360, height: 740 }]) {
      const page = await world.open("now", look);
      const name = look.dark ? "dark" : look.width ? "narrow" : "light";
      for (const view of views) {
        await page.evaluate((v) => (location.hash = v), view);
        await settled(page, view);
        for (const id of await check(page, `${view}, ${name}`)) minor.add(id);
        const [has, wide] = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
        assert.ok(has <= wide, `${view}, ${name}: ${has} px wide, of which ${wide} are seen`);
        await world.shot(page, `${view.split("?")[0]}-${name}`);
      }
    }
    const login = await world.open("", { base: settings.guarded, allowed: /401/ });
    for (const id of await check(login, "login")) minor.add(id);
    return `minor findings: ${[...minor].join(" ") || "none"}`;
  }],

  ["access: by keyboard alone", async (world) => {
    const page = await world.open("now");
    await settled(page, "now");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate("document.activeElement.textContent"), "Skip to the content");
    const met = [];
    for (let i = 0; i < 5; i++) {
      await page.keyboard.press("Tab");
      met.push(await page.evaluate("document.activeElement.hash"));
    }
    assert.deepEqual(met, ["#now", "#policy", "#explain", "#act", "#sim"]);
    const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
    assert.equal(outline, "solid", "what has the focus is seen to have it");
    await page.keyboard.press("Enter");
    await settled(page, "sim");
    assert.equal(await page.evaluate("document.activeElement.id"), "main", "the focus goes where the view is");
    assert.equal(await page.locator("nav a[aria-current=page]").textContent(), "Simulator");
    assert.match(await page.title(), /^Simulator/);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate("document.activeElement.name"), "preset");
  }],

  ["access: every control has a name", async (world) => {
    const page = await world.open("now");
    for (const view of views) {
      await page.evaluate((v) => (location.hash = v), view);
      await settled(page, view);
      const tree = await page.locator("main").ariaSnapshot();
      assert.doesNotMatch(tree, /- (button|textbox|combobox|slider|spinbutton|switch|radio)( \[[^\]]*\])*:?$/m, `${view}: a control without a name`);
    }
  }],
];
