import assert from "node:assert/strict";
import { number, settings, until } from "./world.mjs";

const text = (page, selector) => page.locator(selector).textContent();

// row reads a rule's row: [admitted/s, refused/s, admitted, refused, in shadow].
const row = (page, rule) => page.locator(`#rules tr[data-rule="${rule}"]`).evaluate((r) => [...r.cells].slice(1).map((c) => c.textContent));

// metrics reads /metrics: {rule: {admitted, refused}}.
async function metrics() {
  const counted = {};
  for (const line of (await (await fetch(settings.admin + "/metrics")).text()).split("\n")) {
    const m = /^weir_decisions_total\{(.*)\} (\S+)$/.exec(line);
    if (!m) continue;
    const labels = Object.fromEntries([...m[1].matchAll(/(\w+)="([^"]*)"/g)].map((l) => [l[1], l[2]]));
    const rule = (counted[labels.rule] ||= { admitted: 0, refused: 0 });
    rule[["admitted", "failed_open"].includes(labels.outcome) ? "admitted" : "refused"] += Number(m[2]);
  }
  return counted;
}

export default [
  ["now: numbers move with the traffic, and are those of /metrics", async (world) => {
    const page = await world.open("now");
    await until("the stream runs", async () => (await text(page, "#health")) === "at work");
    await world.control("traffic/200");
    await until("something is admitted", async () => number(await text(page, "#rate-admitted")) > 50);
    await until("the search rule moves", async () => number((await row(page, "search"))[0]) > 50);
    await until("the shadow rule is counted", async () => /of/.test((await row(page, "everyone"))[4]));
    await until("the chart is drawn", async () => ((await page.locator("#chart-admitted").getAttribute("d")).match(/L/g) || []).length > 3);
    const before = number((await row(page, "search"))[2]);
    await until("the count grows", async () => number((await row(page, "search"))[2]) > before);
    assert.match(await text(page, "#decision-p50"), /[µm]s$/);
    await until("calls of the store are timed", async () => /median/.test(await text(page, "#store-calls")));
    assert.equal(await text(page, "#instances"), "1");
    await until("logins are refused", async () => number((await row(page, "login"))[3]) > 0);
    await world.shot(page, "now-light");
    await world.control("traffic/0");
    const counted = await metrics();
    assert.ok(counted.search.admitted > 100);
    for (const rule of Object.keys(counted)) {
      const { admitted, refused } = counted[rule];
      await until(`the page says ${admitted} and ${refused} of ${rule}`, async () => {
        const [, , a, r] = await row(page, rule);
        return number(a) === admitted && number(r) === refused;
      });
    }
    return `admitted and refused equal /metrics for ${Object.keys(counted).join(", ")}`;
  }],

  ["now: top keys, whatever they are made of", async (world) => {
    await world.control("traffic/300");
    const page = await world.open("now");
    const keys = () => page.locator("#hottest tbody tr").evaluateAll((rows) => rows.map((r) => r.cells[1].textContent).join("\n"));
    await until("a hostile key is among those asked for most", async () => /<img|<script|gnp\.exe|red|width/.test(await keys()));
    await until("who is refused most is known", async () => (await page.locator("#refusals tbody tr").first().textContent()).startsWith("login"));
    assert.equal(await page.locator("#hottest img, #hottest script, #refusals img, #refusals script").count(), 0);
    assert.ok(!/[\u202e\u001b\u200b]/.test(await keys()), "characters that turn or hide text are not shown as they are");
    await world.shot(page, "now-top");
    await world.control("traffic/0");
  }],

  ["now: the store goes away and comes back", async (world) => {
    const page = await world.open("now");
    await until("the stream runs", async () => (await text(page, "#health")) === "at work");
    await world.control("traffic/50");
    await world.control("redis/kill");
    await until("the page says that the store is away", async () => (await text(page, "#store-state")) === "away" && /the store is away/.test(await text(page, "#health")));
    await until("what was not decided is counted", async () => /unreachable: \d/.test(await text(page, "#store-errors")));
    await world.shot(page, "now-away");
    await world.control("redis/restart");
    await until("the page says that it is back", async () => (await text(page, "#store-state")) === "there" && (await text(page, "#health")) === "at work");
    await world.control("traffic/0");
  }],
];
