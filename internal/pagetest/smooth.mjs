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
    const read = async () => Number((await page.locator("#rate-admitted").textContent()).replaceAll(",", "")) + Number((await page.locator("#rate-refused").textContent()).replaceAll(",", ""));
    const seconds = settings.long ? 60 : 5;
    let most = 0;
    for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
      most = Math.max(most, await read());
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    await world.control("traffic/0");
    const tasks = await page.evaluate("window.tasks");
    assert.deepEqual(tasks.filter((ms) => ms > 200), []);
    if (settings.long) assert.ok(most > 900, `${most} decisions a second are not 1,000`);
    return `${seconds} s, up to ${Math.round(most)} decisions a second, ${tasks.length} tasks over 50 ms, the longest ${Math.max(0, ...tasks)} ms`;
  }],
];
