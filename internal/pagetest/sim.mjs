import assert from "node:assert/strict";
import { until } from "./world.mjs";

// figures reads the table: {algorithm: [offered, admitted, most in 2 s, most in a period]}.
const figures = (page) =>
  page.locator("#sim-figures tbody tr").evaluateAll((rows) =>
    Object.fromEntries(rows.map((row) => [row.cells[0].textContent, [...row.cells].slice(1, 5).map((c) => Number(c.textContent.replaceAll(",", "")))])));

const drawn = (page, text) => until(`the simulator draws against ${text}`, async () => (await page.locator("#sim-about").textContent()).includes(`Against ${text}:`));

export default [
  ["simulator: a burst passes a fixed window twice", async (world) => {
    const page = await world.open("sim");
    await drawn(page, "100/min");
    assert.deepEqual((await figures(page)).fixed_window, [200, 200, 200, 200]);
    assert.equal(await page.locator("#sim-pictures svg[role=img]").count(), 5);
    assert.match(await page.locator("#sim-pictures svg").nth(1).getAttribute("aria-label"), /^fixed_window: 200 of 200 admitted/);
    await world.shot(page, "sim-light");
  }],

  ["simulator: the worst windows are the contract's", async (world) => {
    const page = await world.open("sim?preset=edge&limit=100&period=min");
    await drawn(page, "100/min");
    const worst = Object.fromEntries(Object.entries(await figures(page)).map(([name, row]) => [name, row[3]]));
    assert.deepEqual(worst, { token_bucket: 199, fixed_window: 200, sliding_log: 100, sliding_window: 198, leaky_bucket: 100 });
  }],

  ["simulator: every control, by keyboard", async (world) => {
    const page = await world.open("sim");
    await drawn(page, "100/min");
    await page.getByLabel("Traffic").selectOption("edge");
    await until("the traffic is the edge's", async () => (await page.locator("#sim-about").textContent()).startsWith("100 requests at 0:59, then"));
    await page.getByLabel("Limit, exactly").fill("40");
    await drawn(page, "40/min");
    await page.getByLabel("Period", { exact: true }).press("ArrowRight");
    await drawn(page, "40/5min");
    await page.getByLabel("Period", { exact: true }).press("ArrowLeft");
    await page.locator("#sim").getByLabel("Limit", { exact: true }).press("ArrowRight");
    await until("the limit has moved a little", async () => Number(await page.getByLabel("Limit, exactly").inputValue()) >= 40);
    await page.locator("#sim").getByLabel("Limit", { exact: true }).press("End");
    await drawn(page, "5000/min");
    await page.locator("#sim").getByLabel("Limit", { exact: true }).press("Home");
    await drawn(page, "1/min");
    await page.getByLabel("Burst").press("End");
    await drawn(page, "1/min burst=5000");
    assert.equal((await figures(page)).token_bucket[1], 2519, "a burst of 5,000 admits all");
    await page.getByLabel("Burst").press("Home");
    await drawn(page, "1/min");
    await page.getByLabel("Algorithm", { exact: true }).selectOption("sliding_log");
    await until("one picture is left", async () => (await page.locator("#sim-pictures svg").count()) === 1);
    assert.equal(await page.locator("tr.chosen th").textContent(), "sliding_log");
    await page.getByRole("button", { name: "The preset's own limit" }).click();
    await drawn(page, "100/min");
  }],

  ["simulator: an address is shared", async (world) => {
    const page = await world.open("sim");
    await drawn(page, "100/min");
    await page.getByLabel("Traffic").selectOption("ramp");
    await page.getByLabel("Limit, exactly").fill("70");
    await page.getByLabel("Burst").press("End");
    await page.getByLabel("Algorithm", { exact: true }).selectOption("leaky_bucket");
    await drawn(page, "70/min burst=5000");
    await page.getByRole("button", { name: "Copy the address" }).click();
    await until("it says what became of it", async () => (await page.locator("#sim-status").textContent()) !== "");
    const address = new URL(page.url());
    const other = await world.open(address.hash.slice(1));
    await drawn(other, "70/min burst=5000");
    assert.equal(await other.getByLabel("Algorithm", { exact: true }).inputValue(), "leaky_bucket");
    assert.deepEqual(await figures(other), await figures(page));
    assert.equal(new URL(other.url()).hash, address.hash);
  }],

  ["simulator: an address that is wrong", async (world) => {
    const page = await world.open("sim?preset=%3Cscript%3E&limit=1e9&period=fortnight&burst=-1&algorithm=x");
    await drawn(page, "100/min");
    assert.equal(await page.getByLabel("Traffic").inputValue(), "burst");
  }],

  ["simulator: what is compared", async (world) => {
    const page = await world.open("sim?preset=outage");
    await drawn(page, "100/min");
    const rows = await figures(page);
    assert.ok(rows["closed (token_bucket)"][1] < rows["share (token_bucket)"][1] && rows["share (token_bucket)"][1] < rows["local (token_bucket)"][1]);
    const skew = await world.open("sim?preset=skew");
    await drawn(skew, "100/min");
    assert.deepEqual((await figures(skew))["a script on clients' clocks (token_bucket)"].slice(0, 2), [5400, 5400]);
  }],
];
