// Runs the tests of the page and prints a line of JSON for each:
// {"test": "...", "error": "..." or nothing, "note": "..." or nothing}.
import { chromium } from "playwright-core";
import { settings, World } from "./world.mjs";
import access from "./access.mjs";
import act from "./act.mjs";
import login from "./login.mjs";
import now from "./now.mjs";
import policy from "./policy.mjs";
import sim from "./sim.mjs";
import smooth from "./smooth.mjs";

const only = process.argv[2] ? new RegExp(process.argv[2]) : /./;
const browser = await chromium.launch({ executablePath: settings.browser, args: settings.asRoot ? ["--no-sandbox"] : [] });
try {
  for (const [name, test] of [...sim, ...login, ...act, ...policy, ...now, ...access, ...smooth]) {
    if (!only.test(name)) continue;
    const world = new World(browser);
    const line = { test: name };
    try {
      line.note = (await test(world)) || undefined;
      await world.nothingWentWrong();
    } catch (error) {
      line.error = String(error.stack || error).slice(0, 2000);
    }
    await world.close();
    console.log(JSON.stringify(line));
  }
} finally {
  await browser.close();
}
