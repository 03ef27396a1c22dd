import assert from "node:assert/strict";
import { settings, until } from "./world.mjs";

export default [
  ["smooth: no task over 200 ms at 1,000 decisions a second", async (world) => {
    const page = await world.open("now");
    await until("the stream runs", async () => (await page.locator("#health").textContent()) === "at work");
    await page.evaluate(() => {
      window.tasks = [];
      new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask" });
    });
    await world.control("traffic/1000");
    const total = () => page.locator("#rules tbody tr").evaluateAll((rows) => rows.reduce((sum, row) => sum + Number(row.cells[3].textContent.replaceAll(",", "")) + Number(row.cells[4].textContent.replaceAll(",", "")), 0));
    const seconds = settings.long ? 60 : 5;
    const [before, began] = [await total(), Date.now()];
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    const mean = Math.round(((await total()) - before) / ((Date.now() - began) / 1000));
    await world.control("traffic/0");
    const tasks = await page.evaluate("window.tasks");
    assert.deepEqual(tasks.filter((ms) => ms > 200), []);
    if (settings.long) assert.ok(mean > 900, `${mean} decisions a second are not 1,000`);
    return `${seconds} s of ${mean} decisions a second: ${tasks.length} tasks over 50 ms, the longest ${Math.max(0, ...tasks)} ms`;
  }],
];
