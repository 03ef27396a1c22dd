// Connects as Node programs do, in RESP2 and RESP3, and prints what comes back.
import { createClient } from "redis";

for (const RESP of [2, 3]) {
  const client = createClient({ url: `redis://${process.argv[2]}`, RESP });
  await client.connect();
  const replies = await Promise.all([
    client.sendCommand(["CL.THROTTLE", `node${RESP}`, "15", "30", "60"]),
    client.sendCommand(["CL.THROTTLE", `node${RESP}`, "15", "30", "60", "20"]),
    client.sendCommand(["WEIR.TAKE", `node${RESP}`, "10/min", "COST", "4"]),
    client.ping(),
    client.echo("hello"),
  ]);
  console.log(JSON.stringify(replies));
  await client.close();
}
