import assert from "node:assert/strict";
import { settings, until } from "./world.mjs";

// The form is sent with status 401, which the console calls an error.
const there = { base: settings.guarded, allowed: /401/ };

export default [
  ["login: without the token there is a form and nothing else", async (world) => {
    const page = await world.open("now", there);
    assert.equal(await page.locator("nav").count(), 0);
    await page.getByLabel("Token of the admin door").fill("a guess");
    await page.keyboard.press("Enter");
    await page.getByText("That is not the token.").waitFor();
    await world.shot(page, "login");
  }],

  ["login: with it the page works, on a cookie that scripts cannot read", async (world) => {
    const page = await world.open("now", there);
    await page.getByLabel("Token of the admin door").fill(settings.token);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { name: "Now" }).waitFor();
    await until("the stream runs", async () => (await page.locator("#health").textContent()) === "at work");
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
    assert.ok(!cookie.value.includes(settings.token));
    assert.equal(await page.evaluate("document.cookie"), "");
    await page.getByRole("link", { name: "Simulator" }).click();
    await page.locator("#sim-figures tbody tr").first().waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token of the admin door").waitFor();
    assert.deepEqual(await page.context().cookies(), []);
  }],

  ["login: who is logged out elsewhere comes to the form", async (world) => {
    const page = await world.open("now", there);
    await page.getByLabel("Token of the admin door").fill(settings.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Now" }).waitFor();
    await page.context().clearCookies();
    await page.getByRole("link", { name: "Simulator" }).click();
    await page.getByLabel("Token of the admin door").waitFor();
  }],
];
