import assert from "node:assert/strict";
import { ask, settings, until } from "./world.mjs";

export default [
  ["policy: rules as they are in force", async (world) => {
    const page = await world.open("policy");
    await page.locator("#policy tbody tr").first().waitFor();
    const rows = await page.locator("#policy tbody tr").evaluateAll((rows) => rows.map((r) => [...r.cells].slice(0, 5).map((c) => c.textContent)));
    assert.deepEqual(rows.map((r) => [r[0], r[1], r[2], r[4]]), [
      ["login", "5/min", "ip", "enforce"], ["search", "50/s burst=100", "header:X-User", "enforce"], ["everyone", "100000/s", "all", "shadow"]]);
    await world.shot(page, "policy");
  }],

  ["policy: a rule is switched to shadow for a time, and back", async (world) => {
    const explain = async () => (await ask(settings.admin + "/v1/explain", { method: "POST", path: "/login", ip: "203.0.113.5" })).body.matched.find((m) => m.rule === "login");
    const page = await world.open("policy");
    await page.getByLabel("A switched rule goes back").selectOption("5m");
    const button = page.getByRole("switch", { name: "shadow mode of login" });
    assert.equal(await button.getAttribute("aria-checked"), "false");
    await button.press("Enter");
    await until("the switch is on", async () => (await button.getAttribute("aria-checked")) === "true");
    assert.match(await page.locator("#policy tbody tr").first().locator("td").nth(3).textContent(), /^shadow until /);
    await until("the rule does not decide", async () => (await explain()).shadow === true);
    await button.press(" ");
    await until("the switch is off", async () => (await button.getAttribute("aria-checked")) === "false");
    await until("the rule decides", async () => !(await explain()).shadow);
  }],
];
