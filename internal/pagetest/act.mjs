import assert from "node:assert/strict";
import { ask, settings, until } from "./world.mjs";

const login = () => ask(settings.api + "/v1/check", { method: "POST", path: "/login", ip: "198.51.100.7" });

// press presses a button of the form and answers the question that comes.
async function press(page, name, answer) {
  await page.locator("#act").getByRole("button", { name, exact: true }).click();
  await page.getByRole("dialog").waitFor();
  await page.getByRole("button", { name: answer }).click();
}

const said = (page, text) => until(`it says ${text}`, async () => (await page.locator("#acted").textContent()).includes(text));

export default [
  ["explain: a request, its rules and its answer", async (world) => {
    const page = await world.open("explain");
    await page.getByLabel("Method").fill("POST");
    await page.getByLabel("Path").fill("/login?next=%2F");
    await page.getByLabel("Peer's IP").fill("203.0.113.9");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Admitted" }).waitFor();
    assert.deepEqual(await page.locator("#explained tbody tr").evaluateAll((rows) => rows.map((r) => r.cells[0].textContent)), ["login", "everyone"]);
    assert.match(await page.locator("#explained li").first().textContent(), /^search /);
    await world.shot(page, "explain");
  }],

  ["explain: what is wrong is said", async (world) => {
    const page = await world.open("explain", { allowed: /400/ });
    await page.getByLabel("Path").fill("no-slash");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText("path: must begin with /").waitFor();
    await page.getByLabel("Headers, a line each").fill("no colon");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText('"no colon" is not NAME:VALUE').waitFor();
  }],

  ["explain: markup in a key is text", async (world) => {
    const page = await world.open("explain");
    await page.getByLabel("Path").fill("/api/search");
    await page.getByLabel("Headers, a line each").fill('X-User: <img src=x onerror="window.harmed=1">\u202e');
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByRole("heading", { name: "Admitted" }).waitFor();
    const key = await page.locator("#explained tbody tr").first().locator("td").first().textContent();
    assert.ok(key.includes('<img src=x onerror="window.harmed=1">'), key);
    assert.ok(!key.includes("\u202e"), "a character that turns the text is not shown as it is");
    assert.equal(await page.locator("#explained img").count(), 0);
  }],

  ["why: a refusal is looked up by its ID", async (world) => {
    let refused;
    for (let i = 0; i < 6; i++) refused = await fetch(settings.api + "/v1/check", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ method: "POST", path: "/login", ip: "198.51.100.8" }) });
    assert.equal(refused.status, 429);
    const page = await world.open("explain", { allowed: /404/ });
    await page.getByLabel("ID of the decision").fill(refused.headers.get("Weir-Decision"));
    await page.keyboard.press("Enter");
    await until("it is known", async () => /ip=198\.51\.100\.8/.test(await page.locator("#known").textContent()));
    assert.match(await page.locator("#known").textContent(), /login.*limited/);
    await page.getByLabel("ID of the decision").fill("<b>nothing</b>");
    await page.keyboard.press("Enter");
    await page.getByText("does not remember that refusal").waitFor();
  }],

  ["reset: after a question, and only then", async (world) => {
    for (let i = 0; i < 5; i++) await login();
    assert.equal((await login()).status, 429);
    const page = await world.open("act");
    await page.locator("#act").getByLabel("Rule", { exact: true }).selectOption("login");
    await page.locator("#act").getByLabel("Key parts, a line each").fill("ip=198.51.100.7");
    await page.locator("#act").getByRole("button", { name: "Reset" }).click();
    assert.equal(await page.evaluate("document.activeElement.textContent"), "Cancel", "what harms nobody is chosen first");
    await world.shot(page, "confirm");
    await page.keyboard.press("Escape");
    await said(page, "Nothing was done.");
    assert.equal((await login()).status, 429);
    await press(page, "Reset", "Cancel");
    await said(page, "Nothing was done.");
    assert.equal((await login()).status, 429);
    await press(page, "Reset", "Do it");
    await said(page, "Done: reset of rule login, ip=198.51.100.7.");
    assert.equal((await login()).status, 200);
  }],

  ["block and unblock: a rule's", async (world) => {
    const page = await world.open("act");
    await page.locator("#act").getByLabel("Rule", { exact: true }).selectOption("login");
    await page.locator("#act").getByLabel("Key parts, a line each").fill("ip=198.51.100.7");
    await page.locator("#act").getByLabel("Block for").fill("5m");
    await press(page, "Block", "Do it");
    await said(page, "Done: block of");
    const answer = await login();
    assert.deepEqual([answer.status, answer.body.reason], [429, "blocked"]);
    await press(page, "Unblock", "Do it");
    await said(page, "Done: unblock of");
    assert.notEqual((await login()).body.reason, "blocked");
  }],

  ["block: a key's of take", async (world) => {
    const take = () => ask(settings.api + "/v1/take", { key: "somebody", limit: "100/min" });
    const page = await world.open("act", { allowed: /400/ });
    await page.locator("#act").getByLabel("a key's of take").check();
    assert.equal(await page.locator("#act").getByLabel("Key parts, a line each").isVisible(), false);
    await page.locator("#act").getByLabel("Key", { exact: true }).fill("somebody");
    await page.locator("#act").getByLabel("Limit", { exact: true }).fill("100/min");
    await press(page, "Block", "Do it");
    await said(page, "Done: block of key somebody");
    assert.equal((await take()).body.reason, "blocked");
    await press(page, "Unblock", "Do it");
    await said(page, "Done: unblock of key somebody");
    assert.equal((await take()).status, 200);
    await page.locator("#act").getByLabel("Limit", { exact: true }).fill("10r/s");
    await press(page, "Reset", "Do it");
    await said(page, "10/s"); // the right spelling
  }],
];
