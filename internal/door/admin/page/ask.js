// The public JSON API: the page has no other way to know or do anything.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the answer was ${status}`);
    this.status = status;
    this.field = problem.field;
  }
}

async function ask(path, options) {
  const answer = await fetch(path, { ...options, headers: { ...options.headers, Accept: "application/json" } });
  if (answer.status === 401) {
    location.reload(); // to the login form
    return new Promise(() => {}); // nobody waits for the answer any more
  }
  let body;
  try {
    body = await answer.json();
  } catch {
    body = {};
  }
  if (!answer.ok) throw new Refused(answer.status, body);
  return body;
}

export const get = (path, signal) => ask(path, { signal });

export const post = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
