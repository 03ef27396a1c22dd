// What a test has: pages in a browser, and a hand on what surrounds the daemon.
import assert from "node:assert/strict";
import path from "node:path";

export const settings = JSON.parse(process.env.WEIR_PAGETEST);

// patience is for what takes no time, on a busy machine too.
const patience = 20_000;

export class World {
  constructor(browser) {
    this.browser = browser;
    this.contexts = [];
    this.wrong = [];
  }

  // open opens a view of the page: "now", "sim?preset=edge".
  async open(view, { dark = false, width = 1200, height = 900, base = settings.admin, allowed = /$^/ } = {}) {
    const context = await this.browser.newContext({ colorScheme: dark ? "dark" : "light", viewport: { width, height } });
    this.contexts.push(context);
    context.setDefaultTimeout(patience);
    const page = await context.newPage();
    const note = (text) => allowed.test(text) || this.wrong.push(text);
    page.on("pageerror", (error) => note(`an error: ${error}`));
    page.on("console", (message) => message.type() === "error" && note(`the console: ${message.text()} (${message.location().url})`));
    await page.goto(`${base}/#${view}`);
    return page;
  }

  // nothingWentWrong holds what holds for every test: no script failed, nothing
  // was kept back by the content policy (the console tells), no caller's text ran.
  async nothingWentWrong() {
    for (const context of this.contexts) {
      for (const page of context.pages()) assert.equal(await page.evaluate("window.harmed"), undefined, "a caller's text ran as a script");
    }
    assert.deepEqual(this.wrong, []);
  }

  async close() {
    for (const context of this.contexts) await context.close();
  }

  async control(what) {
    const answer = await fetch(`${settings.control}/${what}`, { method: "POST" });
    assert.equal(answer.status, 200, await answer.text());
  }

  async shot(page, name) {
    if (settings.shots) await page.screenshot({ path: path.join(settings.shots, name + ".png"), fullPage: true });
  }
}

// until waits for check to hold, and returns what it returned.
export async function until(what, check) {
  const end = Date.now() + patience;
  for (;;) {
    const got = await check();
    if (got) return got;
    if (Date.now() > end) throw new Error(`it never came to be that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// number reads a number that the page shows.
export const number = (text) => Number(text.replaceAll(",", ""));

// ask asks a JSON endpoint.
export async function ask(url, body, headers = {}) {
  const options = body === undefined ? { headers } : { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) };
  const answer = await fetch(url, options);
  return { status: answer.status, body: await answer.json() };
}
